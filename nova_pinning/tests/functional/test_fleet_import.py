# SPDX-License-Identifier: Apache-2.0
"""A snapshot from MariaDB, in tables that nova-manage made, and of nova.

What is read of running services is compared with what nova's own resource
tracker has counted.
"""

import contextlib
import io
import json
import pathlib

import fixtures
from nova.db.main import models
from oslotest import base
import sqlalchemy as sa
from sqlalchemy import exc as sa_exception

from demo import cloud
from demo import hosts
from nova_pinning.admission import offered_host
from nova_pinning.bridge.importer import fleet_import
from nova_pinning.bridge.importer import nova_database
from nova_pinning.bridge import topology
from nova_pinning.cli import shell
from nova_pinning.fleet import document
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.rebalance import move_rules
from nova_pinning.tests.functional import functional_base
from nova_pinning.tests.functional import marked_cloud
from nova_pinning.tests.functional import stored_fleet
from nova_pinning.tests import mariadb
from nova_pinning.tests import novadatabase
from nova_pinning.tests.unit.fleet import fleet_samples

HOSTS, GUESTS = 30, 10


class MariaDBTestCase(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        trouble = mariadb.missing()
        if trouble:
            self.skipTest(trouble)
        self.server = self.useFixture(mariadb.MariaDB())
        self.nova = mariadb.nova_on_mariadb(self.server)
        self.addCleanup(self.nova.close)
        self.nova.fill(HOSTS, GUESTS)
        self.fleet = str(self.server.directory / 'fleet.json.zst')

    def test_import(self):
        """One cloud for all of it, since to make one takes long."""
        self.server.give_to_reader(self.nova)
        self.check_command()
        self.check_transactions()
        self.check_cannot_write()
        self.check_server_that_dies()

    def check_command(self):
        status, out, err = self.run_command()
        self.assertEqual((0, '', f'wrote {self.fleet}\n'), (status, out, err))
        fleet = document.read(self.fleet)
        self.assertEqual(HOSTS, len(fleet.hosts))
        self.assertEqual(HOSTS * GUESTS, len(fleet.guests))
        pinned = {cpu for guest in fleet.guests if guest.host == 'cmp-3'
                  for cell in guest.fit.cells for _vcpu, cpu in cell.pins}
        self.assertEqual(4 * GUESTS, len(pinned))

    def check_transactions(self):
        """Nobody else has to wait, and nothing is written."""
        rows = 20
        open_ones = []

        def tell(done, total):
            open_ones.append(self.server.execute(
                'SELECT trx_mysql_thread_id FROM information_schema.innodb_trx'
                ))

        with nova_database.opened(self.conf()) as database:
            fleet_import.read(database, now=novadatabase.NOW, tell=tell,
                              page_rows=rows)
        self.assertEqual(HOSTS * GUESTS / rows, len(open_ones))
        self.assertEqual([()], list(set(map(tuple, open_ones))))
        found = self.server.transactions('reader')
        self.assertEqual(0, found.writing)
        # A query for guests and one for migrations for each page.
        self.assertLess(2 * HOSTS * GUESTS / rows, found.count)
        self.assertLess(found.longest_seconds, 5)

    def check_cannot_write(self):
        """Not even where the user of nova.conf may."""
        self.server.execute("GRANT ALL ON *.* TO 'reader'@'localhost'")
        with nova_database.opened(self.conf()) as database:
            cell, = database.cells
            error = self.assertRaises(
                sa_exception.OperationalError, nova_database.select,
                cell.context,
                sa.delete(models.Service))
        self.assertIn('READ ONLY transaction', str(error))

    def check_server_that_dies(self):
        before = document.read(self.fleet)

        def tell(done, total):
            self.server.stop()

        with nova_database.opened(self.conf()) as database:
            error = self.assertRaises(
                nova_database.DatabaseError, fleet_import.read, database,
                tell=tell, page_rows=20)
        self.assertIn('cell north: it cannot be read: ', str(error))
        status, out, err = self.run_command()
        self.assertEqual((2, ''), (status, out))
        self.assertIn('error: the API database: it cannot be read: ', err)
        self.assertNotIn('secret', err)
        self.assertEqual(before, document.read(self.fleet))

    def conf(self):
        return nova_database.load_conf(['--config-file', str(self.nova.conf)])

    def run_command(self):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = shell.main([
                'fleet', 'import', 'nova', '--config-file',
                str(self.nova.conf), '--output', self.fleet])
        return status, out.getvalue(), err.getvalue()


class NovaTestCase(marked_cloud.SegregationTestCase):
    """Hosts of both classes with guests, under nova's own services."""

    def setUp(self):
        super().setUp()
        for name in ('d1', 'd2'):
            self.nova.start_host(name, hosts.HostShape(
                sockets=2, cores_per_cell=4,
                memory_mib=64 * functional_base.GIB, dedicated='1-15'))
        self.nova.start_host('s1', functional_base.small_host(
            dedicated='', shared='0-7'))
        self.set_traits('s1', placement_traits.SHARED)
        self.nova.create_aggregate('dedicated', ['d1', 'd2'],
                                   {'pinning:class': 'dedicated'})
        self.small = self.nova.create_flavor(
            'small', 2, functional_base.GIB, {'hw:cpu_policy': 'dedicated'})
        self.large = self.nova.create_flavor(
            'large', 4, 2 * functional_base.GIB, {
                'hw:cpu_policy': 'dedicated', 'hw:numa_nodes': '2'})
        self.shared = self.nova.create_flavor(
            'shared', 4, functional_base.GIB)
        self.servers = [
            self.nova.boot('a', self.small, 'd1'),
            self.nova.boot('b', self.large, 'd1'),
            self.nova.boot('c', self.large, 'd2'),
            self.nova.boot('d', self.shared, 's1')]
        self.assert_active(self.servers)

    def set_traits(self, host, *names):
        for name in names:
            self.nova.stage._create_trait(name)
        self.nova.change_traits(host, names)

    def test_moves(self):
        """One cloud for all of it: to start one takes longest."""
        self.check_both_ways()
        self.check_moves_that_are_not_confirmed()
        self.check_moves_under_anti_affinity()
        self.check_what_limits_moves()

    def check_both_ways(self):
        stored = self.stored()
        self.check_counted(stored)
        path = str(self.create_tempfiles([('fleet', '')], '.json')[0])
        _out, err = self.call_command('fleet', 'import', '-o', path)
        self.assertIn('3 hosts without a host file', err)
        shown = document.read(path)
        ours = {guest.uuid: guest for guest in stored.guests}
        self.assertEqual(4, len(shown.guests))
        for guest in shown.guests:
            self.assertEqual(ours[guest.uuid], guest)
        self.assertCountEqual(stored.flavors, shown.flavors)
        self.assertEqual(stored.aggregates, shown.aggregates)
        for host in (stored, shown):
            self.assertEqual(
                {'d1': hostclass.HostClass.DEDICATED,
                 'd2': hostclass.HostClass.DEDICATED,
                 's1': hostclass.HostClass.SHARED},
                {one.name: one.host_class for one in host.hosts})

        self.check_file_of_a_host_that_has_changed()

    def test_counts_through_the_api(self):
        """What is said to fit without host files is never less than boots.

        For guests that float it is what boots, with Placement's own word.
        """
        [path] = self.create_tempfiles([('fleet', '')], '.json')
        self.call_command('fleet', 'import', '-o', path)
        status, told = self.capacity(path)
        self.assertEqual(1, status)
        flavors = {one['name']: one for one in told['flavors']}
        # Of 15 CPUs each, 6 and 4 are taken; of 8 vCPUs 4.
        self.assertEqual((9, True, ['cells']), self.counted(flavors['small']))
        self.assertEqual((4, True, ['cells']), self.counted(flavors['large']))
        self.assertEqual((1, False, []), self.counted(flavors['shared']))
        document.write(path, self.stored())
        _status, told = self.capacity(path, '--flavor', 'small')
        exact, = told['flavors']
        self.assertFalse(exact['is_bound'])
        self.assertLessEqual(exact['fits'], 9)
        booted = [self.nova.boot(f'more-{number}', self.shared)
                  for number in range(2)]
        self.assertEqual(['ACTIVE', 'ERROR'],
                         [server.status for server in booted])
        self.assertEqual(0, self.imported('shared')['fits'])
        more = []
        while not more or more[-1].status == 'ACTIVE':
            more.append(self.nova.boot(f'small-{len(more)}', self.small))
        self.assertEqual(exact['fits'], len(more) - 1)
        self.assertLess(self.imported('small')['fits'], 9)

    def check_file_of_a_host_that_has_changed(self):
        """A host file outlives the host; Placement does not."""
        directory = self.useFixture(fixtures.TempDir()).path
        pathlib.Path(directory, 's1.yaml').write_text(
            'version: 1\nname: s1\nnodes:\n'
            '- {id: 0, cpus: "0-7", memory: 64GiB}\n'
            'nova: {dedicated_cpus: "2-7"}\n')
        small = self.imported('small', '--host-files', directory)
        only = self.imported('small')
        self.assertEqual(only['fits'], small['fits'])
        [path] = self.create_tempfiles([('fleet', '')], '.json')
        _out, err = self.call_command(
            'fleet', 'import', '--host-files', directory, '-o', path)
        self.assertIn('F108', err)
        self.assertIn('6 dedicated CPUs where Placement has no PCPU', err)

    def imported(self, flavor, *arguments):
        """What capacity says of a flavor after an import."""
        [path] = self.create_tempfiles([('fleet', '')], '.json')
        self.call_command('fleet', 'import', *arguments, '-o', path)
        _status, told = self.capacity(path, '--flavor', flavor)
        return told['flavors'][0]

    @staticmethod
    def counted(flavor):
        return flavor['fits'], flavor['is_bound'], sorted({
            doubt['kind'] for doubt in flavor['doubts']})

    def capacity(self, path, *arguments):
        out = io.StringIO()
        with (contextlib.redirect_stdout(out),
              contextlib.redirect_stderr(io.StringIO())):
            status = shell.main(['capacity', path, '--format', 'json',
                                 *arguments])
        return status, json.loads(out.getvalue())

    def check_what_limits_moves(self):
        """Both imports tell, and nova does as the rules say."""
        for name in ('e1', 'e2'):
            self.nova.start_host(name, functional_base.small_host())
        self.nova.create_aggregate('east', ['e1', 'e2'],
                                   {'availability_zone': 'east'})
        server = self.boot_grouped('affinity', availability_zone='east')
        path = str(self.create_tempfiles([('fleet', '')], '.json')[0])
        self.call_command('fleet', 'import', '-o', path)
        # Through the API nothing tells of the hosts' CPUs.
        for fleet, doubt in ((self.stored(), ''), (
                document.read(path), 'HostClassFilter: it is not known of '
                'which class the host is')):
            guest = next(one for one in fleet.guests if one.uuid == server.id)
            self.assertEqual(('active', 'east'), (
                guest.vm_state, guest.availability_zone))
            group, = fleet.server_groups
            self.assertEqual(
                (group.id, offered_host.GroupPolicy.AFFINITY),
                (guest.server_group, group.policy))
            rules = move_rules.MoveRules(fleet)
            other, = {'e1', 'e2'} - {server.host}
            target = next(one for one in fleet.hosts if one.name == other)
            self.assertEqual(doubt, rules.host_refusal(guest, target))
            # Alone in its group, it cannot be moved all the same.
            self.assertTrue(rules.group_refusal(guest, ()))
        for move in (self.nova.migrate, self.nova.migrate_live):
            try:
                self.assertEqual(server.host, move(server).host)
            except cloud.RefusedError as error:
                self.assertRegex(str(error), 'No ?[Vv]alid ?[Hh]ost')

    def check_moves_under_anti_affinity(self):
        server = self.boot_grouped('anti-affinity')
        guest = next(one for one in self.stored().guests
                     if one.uuid == server.id)
        rules = move_rules.MoveRules(self.stored())
        other, = {'d1', 'd2'} - {server.host}
        self.assertEqual('', rules.group_refusal(guest, ()))
        self.assertEqual(other, self.nova.migrate(server).host)
        self.nova.delete(server)
        self.nova.stage.api.api_delete(
            f'/os-server-groups/{guest.server_group}')

    def boot_grouped(self, policy, **values):
        """A server that is alone in a server group."""
        stage = self.nova.stage
        group = stage.api.post_server_groups({
            'name': 'group', 'policy': policy})
        body = stage._build_server(
            'grouped', flavor_id=self.small, networks='none')
        posted = stage.api.post_server({
            'server': {**body, **values},
            'os:scheduler_hints': {'group': group['id']}})
        server = self.nova.settle(posted['id'], 'ACTIVE', 'ERROR')
        self.assert_active([server])
        return server

    def check_moves_that_are_not_confirmed(self):
        """What a migration holds on its other host is not free."""
        before = self.imported('large')['fits']
        moved = self.nova.migrate(self.servers[1], confirm=False)
        self.assertEqual('d2', moved.host)
        fleet = self.stored()
        self.check_counted(fleet)
        self.assertEqual(5, len(fleet.guests))
        self.assertEqual(before - 1, self.imported('large')['fits'])
        self.nova.confirm(moved)
        fleet = self.stored()
        self.check_counted(fleet)
        self.assertEqual(4, len(fleet.guests))
        self.assertEqual(before, self.imported('large')['fits'])

        moved = self.nova.resize(self.servers[0], self.large, confirm=False)
        self.check_counted(self.stored())
        self.nova.revert(moved)
        self.check_counted(self.stored())

    def stored(self):
        """The fleet from the databases that nova's services use here."""
        return stored_fleet.read(self)

    def check_counted(self, fleet):
        """Each cell is as nova's resource tracker has counted it."""
        for name, host in fleet_samples.engine_hosts(fleet).items():
            theirs = topology.host_from_nova(self.nova.host_topology(name))
            for ours, nova in zip(host.cells, theirs.cells, strict=True):
                for what in ('id', 'memory_mib', 'memory_used_mib',
                             'shared_count', 'shared_used', 'dedicated_count',
                             'free_count', 'free_cores', 'pages'):
                    self.assertEqual(getattr(nova, what), getattr(ours, what),
                                     (name, what))
