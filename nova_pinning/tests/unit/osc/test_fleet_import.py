# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import pathlib
import types
from unittest import mock

import fixtures
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.fleet import document
from nova_pinning.importers import compute_api
from nova_pinning.osc import fleet_import
from nova_pinning.placement import client
from nova_pinning.placement import inventory
from nova_pinning.placement import provider_reader
from nova_pinning.tests.unit.segregation import test_segregation_cloud


class FakeCloud:
    """A cloud of one host and one server that floats."""

    name = 'north'

    def aggregates(self):
        return ()

    flavors = aggregates
    server_groups = aggregates

    def zones(self):
        return {}

    def hypervisors(self):
        return (compute_api.ListedHypervisor('h', 'rp-h', ''),)

    @property
    def placement(self):
        """One that has the provider of the host and no other."""
        return mock.Mock(
            providers=lambda required='': () if required else (
                provider_reader.ResourceProvider('rp-h', 'h', 1),),
            traits=lambda _provider: client.ProviderTraits(
                frozenset({'CUSTOM_X'}), 1),
            inventories=lambda _provider: {
                'VCPU': inventory.Inventory(4),
                'MEMORY_MB': inventory.Inventory(1024)},
            allocations=lambda _provider: {
                'id-s': {'VCPU': 1, 'MEMORY_MB': 1, 'DISK_GB': 1}})

    def listed_servers(self):
        return (compute_api.ListedServer('id-s',
                                         test_segregation_cloud.server()),)

    def topology(self, server):
        raise AssertionError('nobody needs to know')


class ImportFleetTestCase(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        app = mock.Mock()
        app.client_manager.pinning = types.SimpleNamespace(name='north')
        self.command = fleet_import.ImportFleet(app, None)
        self.cloud = FakeCloud()
        # In place of the cached one, which asks a real cloud.
        self.command.__dict__['fleet_cloud'] = self.cloud
        self.directory = pathlib.Path(self.useFixture(
            fixtures.TempDir()).path)
        self.path = self.directory / 'fleet.json'

    def run_command(self, *arguments):
        parser = self.command.get_parser('import')
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = self.command.run(parser.parse_args(
                ['-o', str(self.path), *arguments]))
        return status, out.getvalue(), err.getvalue()

    def write_host(self, name):
        directory = self.directory / 'hosts'
        directory.mkdir(exist_ok=True)
        (directory / f'{name}.yaml').write_text(
            f'version: 1\nname: {name}\nnodes:\n'
            '- {id: 0, cpus: "0-3", memory: 1GiB}\n')
        return '--host-files', str(directory)

    def test_import(self):
        self.assertEqual((0, '', f'wrote {self.path}\n'),
                         self.run_command(*self.write_host('h')))
        fleet = document.read(self.path)
        host, = fleet.hosts
        self.assertEqual(1, len(host.cells))
        guest, = fleet.guests
        self.assertEqual(('id-s', 'h'), (guest.uuid, guest.host))

    def test_warnings(self):
        arguments = self.write_host('other')
        status, _out, err = self.run_command(*arguments)
        self.assertEqual(0, status)
        self.assertIn('warning: 1 host without a host file', err)
        self.assertIn('warning: there is a file for host other', err)

    def test_cloud_fails(self):
        self.path.write_text('as before')

        def fail():
            raise errors.CloudError('it is gone')

        self.cloud.hypervisors = fail
        status, out, err = self.run_command()
        self.assertEqual((1, ''), (status, out))
        self.assertEqual('error: cloud north: it is gone\n', err)
        self.assertEqual('as before', self.path.read_text())
