# SPDX-License-Identifier: Apache-2.0
"""The exporter on databases that nova writes, and on one that goes away."""

import pathlib
import urllib.request
import weakref

import fixtures
from nova import context as nova_context
from nova import objects
from oslo_config import cfg
from oslotest import base

from demo import hosts
from nova_pinning.bridge.importer import fleet_import
from nova_pinning.bridge.importer import nova_database
from nova_pinning.conf import exporter
from nova_pinning.exporter import exporter_service
from nova_pinning.exporter import fleet_sources
from nova_pinning.exporter import fleet_watch
from nova_pinning.tests.functional import functional_base
from nova_pinning.tests.functional import marked_cloud
from nova_pinning.tests import mariadb
from nova_pinning.tests import novadatabase
from nova_pinning.tests import runner
from nova_pinning.tests.unit.exporter import test_fleet_tally

_GUESTS = 'nova_pinning_cloud_guests'
_FITS = 'nova_pinning_capacity_guests'


def _conf():
    """The options, as they are by default."""
    conf = cfg.ConfigOpts()
    exporter.register_opts(conf)
    conf([])
    return conf


def _source(test, nova, conf):
    """What reads nova's databases; closed when the test ends."""
    source = fleet_sources.DatabaseSource(
        [str(nova.conf)], conf.pinning_exporter, {})
    test.addCleanup(source.close)
    return source


class MariaDBTestCase(base.BaseTestCase):
    """All of it, with a user who may only read."""

    def setUp(self):
        super().setUp()
        trouble = mariadb.missing()
        if trouble:
            self.skipTest(trouble)
        runner.freeze(self)
        self.log = self.useFixture(fixtures.FakeLogger())
        self.server = self.useFixture(mariadb.MariaDB())
        self.nova = mariadb.nova_on_mariadb(
            self.server, is_migrated=False)
        self.addCleanup(self.nova.close)
        self.nova.fill(10, 4)
        self.server.give_to_reader(self.nova)
        conf = _conf()
        source = _source(self, self.nova, conf)
        conf.set_override('listen_port', 0, 'pinning_exporter')
        self.addCleanup(conf.clear_override, 'listen_port',
                        'pinning_exporter')
        self.service = exporter_service.ExporterService(
            conf.pinning_exporter, source)
        # The test reads itself, when it wants to.
        self.service._threads.clear()
        self.url = self.service.start()
        self.addCleanup(self.service.stop)

    def scrape(self, refresh=True):
        """What Prometheus gets."""
        if refresh:
            self.service.watch.refresh()
        with urllib.request.urlopen(f'{self.url}metrics',
                                    timeout=60) as answer:
            return answer.read().decode()

    def guests(self, text):
        return sum(value for (name, _labels), value
                   in test_fleet_tally.series(text).items()
                   if name == _GUESTS)

    def test_database_goes_away(self):
        """One server for all of it, since to start one takes long."""
        text = self.scrape()
        self.assertEqual(40, self.guests(text))
        self.nova.execute('north', novadatabase.sa.update(
            novadatabase.models.Instance).where(
                novadatabase.models.Instance.uuid
                == novadatabase.uuid('cmp-1-0')).values(deleted=1))
        self.assertEqual(39, self.guests(self.scrape()))
        found = self.server.transactions('reader')
        self.assertEqual(0, found.writing)
        before = test_fleet_tally.series(self.scrape())
        self.nova.close()
        self.server.stop()
        for _time in range(2):
            text = self.scrape()
        after = test_fleet_tally.series(text)
        # The last figures, with the time that they are of.
        for key in before:
            if key[0].startswith(('nova_pinning_cloud_',
                                  'nova_pinning_capacity_')):
                self.assertEqual(before[key], after[key])
        self.assertEqual(2, after[
            'nova_pinning_exporter_errors_total', (('task', 'read'),)])
        self.assertNotIn('secret', text + self.log.output)
        self.assertIn('read failed', self.log.output)
        self.server.start()
        self.nova.add_guest('new', 'cmp-2')
        text = self.scrape()
        self.assertEqual(40, self.guests(text))
        self.assertIn('read works again', self.log.output)


class FullReadingTestCase(base.BaseTestCase):
    """Databases that are opened again and again."""

    def test_those_before_are_not_kept(self):
        runner.freeze(self)
        nova = novadatabase.NovaDatabase(pathlib.Path(
            self.useFixture(fixtures.TempDir()).path))
        self.addCleanup(nova.close)
        nova.create_tables()
        nova.add_mappings()
        nova.fill(2, 2)
        source = _source(self, nova, _conf())
        watch = fleet_watch.FleetWatch(source)
        watch.refresh()
        opened = [weakref.ref(cell.context.db_connection)
                  for cell in source._database.cells]
        source.close()
        watch.refresh()
        self.assertEqual([None], [one() for one in opened])
        self.assertEqual(4, len(watch.fleet.guests))


class NovaTestCase(marked_cloud.SegregationTestCase):
    """Guests come, move and go under nova's own services."""

    def setUp(self):
        super().setUp()
        runner.freeze(self)
        for name in ('d1', 'd2'):
            self.nova.start_host(name, hosts.HostShape(
                sockets=2, cores_per_cell=4,
                memory_mib=64 * functional_base.GIB, dedicated='1-15'))
        self.nova.create_aggregate('dedicated', ['d1', 'd2'],
                                   {'pinning:class': 'dedicated'})
        self.small = self.nova.create_flavor(
            'small', 2, functional_base.GIB, {'hw:cpu_policy': 'dedicated'})
        self.large = self.nova.create_flavor(
            'large', 4, 2 * functional_base.GIB, {
                'hw:cpu_policy': 'dedicated', 'hw:numa_nodes': '2'})
        self.reader = fleet_import.FleetReader()
        self.watch = fleet_watch.FleetWatch(self)
        self.whole = None

    def read(self):
        """What the exporter reads: the databases that nova uses here."""
        self.nova.update_resources()
        context = nova_context.get_admin_context()
        mapping = next(one for one
                       in objects.CellMappingList.get_all(context)
                       if not one.is_cell0())
        [path] = self.create_tempfiles([('nova', '')], '.conf')
        with nova_context.target_cell(context, mapping) as targeted:
            database = nova_database.NovaDatabases(
                nova_database.load_conf(['--config-file', path]), context,
                (nova_database.CellDatabase('cell1', mapping.uuid,
                                            targeted),))
            fleet = self.reader.read(database)
            self.whole = fleet_import.read(database).fleet
        return fleet

    def figures(self):
        """Guests, and further ones, of each flavor."""
        self.watch.refresh()
        fleet = self.watch.fleet
        self.assertEqual(self.whole.hosts, fleet.hosts)
        self.assertCountEqual(self.whole.guests, fleet.guests)
        found = test_fleet_tally.series(self.watch.text())
        return tuple(
            (found['nova_pinning_cloud_flavor_guests', (('flavor', name),)],
             found[_FITS, (('class', 'dedicated'), ('flavor', name))])
            for name in ('small', 'large'))

    def test_boots_moves_and_deletes(self):
        self.assertEqual(((0, 14), (0, 6)), self.figures())
        server = self.nova.boot('a', self.small, 'd1')
        self.assert_active([server])
        (guests, fits), _large = self.figures()
        self.assertEqual((1, 13), (guests, fits))
        moved = self.nova.migrate(server, confirm=False)
        # It holds room on both hosts.
        (guests, fits), _large = self.figures()
        self.assertEqual((2, 12), (guests, fits))
        self.nova.confirm(moved)
        (guests, fits), _large = self.figures()
        self.assertEqual((1, 13), (guests, fits))
        resized = self.nova.resize(moved, self.large, confirm=False)
        self.figures()
        self.nova.revert(resized)
        self.assertEqual((1, 13), self.figures()[0])
        self.nova.migrate_live(server)
        self.assertEqual((1, 13), self.figures()[0])
        self.nova.delete(server)
        self.assertEqual(((0, 14), (0, 6)), self.figures())
