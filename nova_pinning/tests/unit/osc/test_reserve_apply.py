# SPDX-License-Identifier: Apache-2.0

import dataclasses
import io
import json
import types
from unittest import mock

from keystoneauth1 import session

from nova_pinning.fleet import generate
from nova_pinning.fleet import snapshot
from nova_pinning.osc import reserve_apply
from nova_pinning.segregation import segregation_model
from nova_pinning.tests.unit.cli import cli_case

FILE = 'version: 1\nreserves: {spare: {losses: host}}'


class FakeCloud:
    """Aggregates in memory, and hosts with servers."""

    def __init__(self, **aggregates):
        self.kept = {name: {'hosts': set(hosts), 'metadata': metadata}
                     for name, (hosts, metadata) in aggregates.items()}
        self.calls = []
        self.with_servers = ()

    def aggregates(self):
        return tuple(
            segregation_model.HostAggregate(
                id=number, uuid=name, name=name,
                hosts=frozenset(one['hosts']), metadata=one['metadata'])
            for number, (name, one) in enumerate(self.kept.items()))

    def create_aggregate(self, name):
        self.kept.setdefault(name, {'hosts': set(), 'metadata': {}})
        return types.SimpleNamespace(name=name)

    def set_metadata(self, live, metadata):
        self.calls.append(dict(metadata))
        self.kept[live.name]['metadata'] |= metadata

    def add_host(self, live, host):
        self.calls.append(f'+{host}')
        self.kept[live.name]['hosts'].add(host)

    def remove_host(self, live, host):
        self.calls.append(f'-{host}')
        self.kept[live.name]['hosts'].discard(host)

    def servers(self, host):
        return iter([1] if host in self.with_servers else [])


class TestReserveApply(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        made = generate.generate_fleet(4, 'two-socket-80', 1)
        self.fleet = snapshot.Fleet(hosts=made.hosts, guests=())
        self.file = self.dir / 'reserve.yaml'
        self.file.write_text(FILE)
        self.cloud = FakeCloud()

    def apply(self, *options):
        app = mock.Mock(stdout=io.StringIO())
        app.client_manager.pinning = types.SimpleNamespace(name='north')
        app.client_manager.sdk_connection.session = session.Session()
        command = reserve_apply.ApplyReserve(app, None)
        command.__dict__['host_cloud'] = self.cloud

        def program(argv):
            status = command.run(
                command.get_parser('apply').parse_args(list(argv)))
            print(app.stdout.getvalue(), end='')
            return status

        with mock.patch.object(reserve_apply.ApplyReserve, 'read_source',
                               return_value=(self.fleet, ())):
            return self.run_command(str(self.file), *options, program=program)

    def test_dry_run(self):
        done = self.apply('--dry-run')
        self.assertEqual((1, []), (done.status, self.cloud.calls))
        self.assertIn('spare (evacuations): dedicated-00001', done.out)
        self.assertIn('\n+ dedicated-00001', done.out)

    def test_apply(self):
        done = self.apply('--yes', '-f', 'json')
        self.assertEqual(0, done.status, done.err)
        self.assertEqual([{'pinning:reserve': 'evacuations'},
                          '+dedicated-00001'], self.cloud.calls)
        self.assertEqual('dedicated-00001',
                         json.loads(done.out)['reserves'][0]['joins'])

    def test_nothing_to_do(self):
        self.fleet = snapshot.Fleet(hosts=tuple(
            dataclasses.replace(
                host, aggregates=('spare',)) if not number else host
            for number, host in enumerate(self.fleet.hosts)), guests=())
        self.cloud = FakeCloud(spare=(
            [self.fleet.hosts[0].name], {'pinning:reserve': 'evacuations'}))
        for option in ('--dry-run', '--yes'):
            done = self.apply(option)
            self.assertEqual((0, []), (done.status, self.cloud.calls))

    def test_guest_that_came_meanwhile(self):
        self.cloud.with_servers = ('dedicated-00001',)
        done = self.apply('--yes')
        self.assertEqual(1, done.status)
        self.assertIn('has got a guest meanwhile', done.out)
        self.assertEqual(set(), self.cloud.kept['spare']['hosts'])

    def test_nobody_to_ask(self):
        done = self.apply()
        self.assertEqual((2, []), (done.status, self.cloud.calls))
        self.assertIn('--yes', done.err)

    def test_bad_file(self):
        self.file.write_text('version: 1\nreserves: {a: {losses: x}}')
        done = self.apply('--yes')
        self.assertEqual((2, []), (done.status, self.cloud.calls))
        self.assertIn('has no aggregate with x', done.err)
