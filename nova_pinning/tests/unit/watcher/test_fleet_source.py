# SPDX-License-Identifier: Apache-2.0

import datetime
import pathlib
import tempfile
from unittest import mock

from oslo_config import cfg

from nova_pinning.admission import offered_host
from nova_pinning.cli import fleet_import_nova
from nova_pinning import errors
from nova_pinning.fleet import document
from nova_pinning.fleet import snapshot
from nova_pinning.tests.unit.importers import test_compute_api
from nova_pinning.tests.unit.segregation import test_segregation_cloud
from nova_pinning.tests.unit.watcher import test_indicators
from nova_pinning.watcher import fleet_source
from nova_pinning.watcher import nova_process
from nova_pinning.watcher import watcher_options

NOW = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
HOST_FILE = """
version: 1
name: h
nodes:
  - {id: 0, cpus: 0-3, memory: 1GiB}
nova:
  dedicated_cpus: 1-3
"""


class TestFleetSource(test_segregation_cloud.CloudTestCase):

    def setUp(self):
        super().setUp()
        url, placement = (test_segregation_cloud.URL,
                          test_segregation_cloud.PLACEMENT)
        for path, answer in (
                ('os-hypervisors/detail',
                 {'hypervisors': [test_compute_api.hypervisor()]}),
                ('os-aggregates', {'aggregates': []}),
                ('os-availability-zone/detail', {'availabilityZoneInfo': []}),
                ('servers/detail', {'servers': []}),
                ('flavors/detail', {'flavors': []}),
                ('os-server-groups', {'server_groups': []})):
            self.http.get(f'{url}/{path}', json=answer)
        self.http.get(
            f'{placement}/resource_providers', json={
                'resource_providers': [{
                    'uuid': 'rp-h', 'name': 'h', 'generation': 1,
                    'parent_provider_uuid': None}]})
        self.http.get(
            f'{placement}/resource_providers?required='
            'MISC_SHARES_VIA_AGGREGATE', json={'resource_providers': []})
        for path, answer in (('traits', {'traits': []}),
                             ('inventories', {'inventories': {'PCPU': {
                                 'total': 3, 'reserved': 0,
                                 'allocation_ratio': 1.0}}}),
                             ('allocations', {'allocations': {}})):
            self.http.get(
                f'{placement}/resource_providers/rp-h/{path}',
                json={'resource_provider_generation': 1, **answer})
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.conf = cfg.ConfigOpts()
        watcher_options.register_opts(self.conf)
        self.conf([])
        self.told = []

    def source(self, connect=None, **values):
        for name, value in values.items():
            self.conf.set_override(name, value, 'pinning_watcher')
            # It is kept with the group, which is one for all tests.
            self.addCleanup(self.conf.clear_override, name, 'pinning_watcher')
        return fleet_source.read_fleet(
            self.conf.pinning_watcher, connect or self.fail,
            self.told.append, NOW)

    def connect(self):
        return self.cloud()._connection

    def keep(self, taken_at):
        path = str(self.directory / 'fleet.json')
        document.write(path, snapshot.Fleet(
            hosts=(offered_host.OfferedHost(name='kept', cells=()),),
            taken_at=taken_at))
        return path

    def test_options_can_be_registered_again(self):
        watcher_options.register_opts(self.conf)

    def test_cloud_without_host_files(self):
        fleet = self.source(self.connect)
        self.assertEqual(['h'], [host.name for host in fleet.hosts])
        self.assertEqual('2026-11-21T12:00:00Z', fleet.taken_at)
        told, = self.told
        self.assertIn('1 host without a host file', told)

    def test_cloud_with_host_files(self):
        (self.directory / 'h.yaml').write_text(HOST_FILE)
        fleet = self.source(self.connect, host_files=str(self.directory))
        host, = fleet.hosts
        self.assertEqual('1-3', str(host.dedicated_cpus))
        self.assertEqual([], self.told)

    def test_snapshot(self):
        path = self.keep('2026-11-21T11:50:00Z')
        host, = self.source(snapshot=path).hosts
        self.assertEqual('kept', host.name)

    def test_snapshot_that_is_too_old(self):
        path = self.keep('2026-11-21T11:50:00Z')
        error = self.assertRaises(
            errors.InputError, self.source, snapshot=path,
            snapshot_max_age_seconds=599)
        self.assertIn('is 600 seconds old', str(error))
        self.assertIn(path, str(error))

    def test_snapshot_of_no_time(self):
        error = self.assertRaises(errors.InputError, self.source,
                                  snapshot=self.keep(''))
        self.assertIn('does not say when', str(error))

    def test_databases(self):
        def call(_process, *arguments):
            self.arguments = arguments
            return snapshot.Fleet(hosts=(
                offered_host.OfferedHost(name='db', cells=()),
                offered_host.OfferedHost(name='', cells=()))), ['first']

        with mock.patch.object(nova_process.NovaProcess, 'call', call):
            host, = self.source(nova_conf=['/a', '/b'],
                                host_files='/hosts').hosts
        self.assertEqual('db', host.name)
        first, second = self.told
        self.assertEqual('first', first)
        self.assertIn('is left out', second)
        self.assertEqual(
            (fleet_import_nova.read,
             ['--config-file', '/a', '--config-file', '/b'], '/hosts'),
            self.arguments)

    def test_databases_that_cannot_be_read(self):
        """What reads them says what is wrong."""
        error = self.assertRaises(errors.InputError, self.source,
                                  nova_conf=['/not/there'])
        self.assertIn('/not/there', str(error))

    def test_scope(self):
        fleet = fleet_source.in_scope(test_indicators.fleet(
            {'x': 'a', 'y': 'a', 'z': 'b'}, a={}, b={}, c={}),
            {'a', 'c', 'gone'}, {'x', 'z'})
        self.assertEqual(['a', 'c'], [host.name for host in fleet.hosts])
        self.assertEqual([('x', True), ('y', False)], [
            (guest.uuid, guest.is_movable) for guest in fleet.guests])
