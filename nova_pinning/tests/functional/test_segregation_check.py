# SPDX-License-Identifier: Apache-2.0
"""openstack pinning segregation check on a cloud that violates each rule.

Every violation is there for real, in nova and Placement; the commands that
the audit gives are run as they are printed, and then it is gone.
"""

import json
import os
import pathlib
import shlex
import socketserver
import subprocess
import sys
import threading

import fixtures
from nova import context
from nova import objects

from demo import hosts
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.segregation.audit import audit_run
from nova_pinning.segregation.audit import audited
from nova_pinning.tests.functional import functional_base
from nova_pinning.tests.functional import marked_cloud

KEY = f'trait:{placement_traits.DEDICATED}'
ISOLATED = {KEY: 'required'}

OPENSTACK = """#!{python} -IS
import json, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({socket!r})
    server.sendall(json.dumps(sys.argv[1:]).encode() + b'\\n')
    print(*json.load(server.makefile()), end='')
"""


def shared_host():
    return hosts.HostShape(cores_per_cell=4,
                           memory_mib=64 * functional_base.GIB,
                           shared='0-7')


def mixed_host():
    return functional_base.small_host(dedicated='0-5', shared='6-7')


class CheckTestCase(marked_cloud.SegregationTestCase):
    """A cloud with two hosts and a flavor of each class, all in order."""

    @classmethod
    def start(cls, nova):
        for name in ('d1', 'd2'):
            nova.start_host(name, functional_base.small_host())
            nova.change_traits(name, [placement_traits.DEDICATED])
        for name in ('s1', 's2'):
            nova.start_host(name, shared_host())
            nova.change_traits(name, [placement_traits.SHARED])
        return {
            'pinned': nova.create_flavor(
                'pinned', 2, functional_base.GIB, {
                    'hw:cpu_policy': 'dedicated', KEY: 'required'}),
            'plain': nova.create_flavor(
                'plain', 1, functional_base.GIB, {KEY: 'forbidden'})}

    def check(self, *codes, options=()):
        """Check the cloud, and that nothing but these codes is found.

        :returns: the findings, by code
        """
        output, error = self.call_command(
            'segregation', 'check', '--format', 'json', '--fail-on', 'note',
            *options, status=int(bool(codes)))
        self.assertEqual('', error)
        found = {}
        for load in json.loads(output)['findings']:
            found.setdefault(load['code'], []).append(load)
        self.assertEqual(sorted(codes), sorted(found), found)
        return found

    def mend(self, findings):
        """Run the commands of some findings, as people do who copy them."""
        for finding in findings:
            self.assertNotEqual([], finding['commands'], finding)
            for command in finding['commands']:
                program, *arguments = shlex.split(command)
                if program == 'openstack' and '$' not in command:
                    self.call_openstack(*arguments)
                else:
                    self.run_in_shell(command)

    def run_in_shell(self, command):
        """Have bash run a command, whose openstack is this process.

        A process of its own would take two seconds to start.
        """
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        with socketserver.UnixStreamServer(
                str(path / 'socket'), self.handler()) as server:
            program = path / 'openstack'
            program.write_text(OPENSTACK.format(
                python=sys.executable, socket=server.server_address))
            program.chmod(0o755)
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                self.bash(command, path)
            finally:
                server.shutdown()
                thread.join()

    def handler(self):
        """What runs the commands of openstack that bash has to run."""
        call = self.call_openstack

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                # If it fails, there is no answer, and the program fails, too.
                output, _error = call(*json.loads(self.rfile.readline()))
                self.wfile.write(json.dumps([output]).encode())

        return Handler

    def bash(self, command, path):
        environment = self.environment()
        environment['PATH'] = os.pathsep.join([str(path), environment['PATH']])
        done = subprocess.run(
            ['bash', '-c', command], env=environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=120)
        self.assertEqual(0, done.returncode,
                         f'{command}\n{done.stdout}\n{done.stderr}')


class OutputCases:

    def test_nothing_is_wrong(self):
        self.nova.boot('a', self.pinned)
        self.nova.boot('b', self.plain)
        output, error = self.run_command('segregation', 'check')
        self.assertEqual(
            'nothing found in 4 hosts, 2 servers, 2 flavors, 0 aggregates\n',
            output)
        self.assertEqual('', error)
        self.assertEqual({'GET'}, {
            method for method, _path in self.api.requests[-20:]})

    def test_formats(self):
        self.set_traits('d1')
        output, _error = self.call_command('segregation', 'check', status=1)
        self.assertIn('S302 warning: host of no class (1)\n', output)
        self.assertIn(
            '\n      openstack pinning host set --class dedicated d1\n',
            output)
        metrics, _error = self.call_command(
            'segregation', 'check', '--fail-on', 'error', '--format',
            'prometheus')
        self.assertIn('nova_pinning_segregation_violations{code="S302",'
                      'severity="warning"} 1.0\n', metrics)
        self.assertIn('nova_pinning_segregation_hosts{host_class="none"} '
                      '1.0\n', metrics)
        output, error = self.call_command(
            'segregation', 'check', 'nobody', status=2)
        self.assertIn('there is no host nobody', error)
        self.assertEqual('', output)

        # Some hosts only.
        self.set_traits('d2')
        self.nova.create_flavor('bare', 1, functional_base.GIB)
        found = self.check('S302', options=['d2'])
        self.assertEqual(['d2'], [one['name'] for one in found['S302']])


class ServerCases:

    def test_dedicated_server_on_a_shared_host(self):
        server = self.nova.boot('a', self.pinned, host='d1')
        self.set_traits('d1', placement_traits.SHARED)

        found = self.check('S102', 'S502')
        self.assertEqual([server.id],
                         [one['id'] for one in found['S102']])
        self.mend(found['S102'])

        self.assertEqual('d2', self.nova.show(server).host)
        self.mend(self.check('S502')['S502'])
        self.check()


class TestServers(CheckTestCase):

    def test_shared_server_on_a_dedicated_host(self):
        self.nova.start_host('m', mixed_host())
        self.set_traits('m', placement_traits.SHARED)
        running = self.nova.boot('running', self.plain, host='m')
        stopped = self.nova.boot('stopped', self.plain, host='m')
        self.assert_active([running, stopped], 'm')
        self.nova.stage.api.post_server_action(
            stopped.id, {'os-stop': None})
        self.nova.settle(stopped.id, 'SHUTOFF')
        self.set_traits('m', placement_traits.DEDICATED)

        # It offers VCPU, too, which no flavor's emulator threads need.
        found = self.check('S101', 'S504')
        self.assertEqual({'running', 'stopped'},
                         {one['name'] for one in found['S101']})
        self.mend(found['S101'])

        self.check('S504')
        for server in (running, stopped):
            self.assertIn(self.nova.show(server).host, ('s1', 's2'))


class FlavorCases:

    def test_flavors(self):
        policy = {'hw:cpu_policy': 'dedicated'}
        for name, specs in {
                'S201': policy,
                'S202': {},
                "S202's twin": {'hw:mem_page_size': 'large'},
                'S203': {**policy, KEY: 'required',
                         f'trait:{placement_traits.SHARED}': 'required'},
                'S203 too': {**policy, KEY: 'forbidden'},
                'S204': {**policy, KEY: 'required',
                         'pinning:class': 'shared'}}.items():
            self.nova.create_flavor(name, 2, functional_base.GIB, specs)
        flavor = objects.Flavor.get_by_flavor_id(
            context.get_admin_context(),
            self.nova.create_flavor('S205', 2, functional_base.GIB,
                                    {KEY: 'forbidden'}))
        # Nova's API does not take it where this project is installed.
        flavor.extra_specs = {**flavor.extra_specs, 'pinning:class': 'x'}
        flavor.save()

        found = self.check('S201', 'S202', 'S203', 'S204', 'S205')
        self.assertEqual(
            {('S201', 'S201'), ('S202', 'S202'), ('S202', "S202's twin"),
             ('S203', 'S203'), ('S203', 'S203 too'), ('S204', 'S204'),
             ('S205', 'S205')},
            {(code, one['name']) for code, ones in found.items()
             for one in ones})
        for ones in found.values():
            self.mend(ones)
        self.check()
        self.check_a_trait_that_placement_does_not_know()

    def check_a_trait_that_placement_does_not_know(self):
        flavor = self.nova.create_flavor('S206', 2, functional_base.GIB, {
            KEY: 'forbidden', 'trait:CUSTOM_OF_NOBODY': 'forbidden'})
        self.assertEqual('ERROR', self.nova.boot('a', flavor).status)

        self.mend(self.check('S206')['S206'])

        self.assert_active([self.nova.boot('b', flavor)])
        self.check()


class TestHosts(CheckTestCase):

    def test_marks(self):
        l3 = [placement_traits.l3_trait(8), placement_traits.l3_trait(16)]
        self.set_traits('d1', placement_traits.DEDICATED,
                        placement_traits.SHARED)
        self.set_traits('d2', placement_traits.DEDICATED, *l3)
        self.set_traits('s1')
        self.nova.create_aggregate('a', ['s2'], {'pinning:class': 'dedicated'})

        found = self.check('S301', 'S302', 'S305')
        self.assertEqual(
            {'S301': ['d1', 's2'], 'S302': ['s1'], 'S305': ['d2']},
            {code: [one['host'] for one in ones]
             for code, ones in found.items()})
        for ones in found.values():
            self.mend(ones)

        self.check()
        self.assertEqual({placement_traits.DEDICATED}, self.traits('d1'))
        self.assertEqual({placement_traits.DEDICATED, l3[0]},
                         self.traits('d2'))
        self.assertEqual({placement_traits.SHARED}, self.traits('s1'))
        self.assertEqual(set(), self.aggregates('s2'))
        self.check_no_provider()

    def check_no_provider(self):
        self.nova.stage.placement.delete(
            f'/resource_providers/{self.provider("s2")}')
        [one] = self.check('S303')['S303']
        self.assertEqual('s2', one['name'])


class AggregateCases:

    def test_metadata(self):
        self.nova.create_aggregate('a', ['d1', 'd2'],
                                   {'pinning:class': 'dedicatd'})
        found = self.check('S401')
        self.mend(found['S401'])
        self.check()

    def test_members(self):
        self.nova.create_aggregate('an aggregate', ['d1'], ISOLATED)
        self.mend(self.check('S403')['S403'])
        self.check()
        self.assertEqual({'an aggregate'}, self.aggregates('d2'))

        self.set_traits('d1')
        self.mend(self.check('S402')['S402'])
        self.check()

    def test_placement(self):
        self.nova.create_aggregate('a', ['d1', 'd2'], ISOLATED)
        other = self.nova.create_aggregate('b', ['d1', 's1'], {})
        uuids = {one['name']: one['uuid'] for one in
                 self.nova.stage.admin_api.api_get('/os-aggregates')
                 .body['aggregates']}
        self.set_members('d1', uuids['b'])
        self.set_members('s1', uuids['b'], uuids['a'])
        self.assertNotEqual(0, other)

        found = self.check('S404', 'S405')
        self.mend(found['S404'] + found['S405'])

        self.check()
        self.assertEqual(set(uuids.values()), self.members('d1'))
        self.assertEqual({uuids['b']}, self.members('s1'))

    def members(self, host):
        return set(self.nova.stage.placement.get(
            f'/resource_providers/{self.provider(host)}/aggregates',
            version='1.18').body['aggregates'])

    def set_members(self, host, *aggregates):
        self.nova.stage.placement.put(
            f'/resource_providers/{self.provider(host)}/aggregates',
            list(aggregates), version='1.18')

    def test_flavors_that_isolation_holds_off(self):
        self.nova.create_flavor('bare', 1, functional_base.GIB)
        [one] = self.check('S202')['S202']
        self.assertEqual('warning', one['severity'])
        self.nova.create_aggregate('a', ['d1', 'd2'], ISOLATED)
        [one] = self.check('S202')['S202']
        self.assertEqual('note', one['severity'])


class TestInventories(CheckTestCase):

    def test_all_of_them(self):
        self.check_no_cpus_for_the_class()
        self.check_cpus_for_the_other_class()
        self.check_allocation_ratios()

    def check_no_cpus_for_the_class(self):
        self.set_traits('s1', placement_traits.DEDICATED)
        self.set_traits('d1', placement_traits.SHARED)
        found = self.check('S501', 'S502')
        self.mend(found['S501'] + found['S502'])
        self.check()

    def check_cpus_for_the_other_class(self):
        self.nova.start_host('m', mixed_host())
        self.set_traits('m', placement_traits.SHARED)
        self.check('S503')
        self.set_traits('m', placement_traits.DEDICATED)
        self.check('S504')
        self.nova.create_flavor('emulator', 2, functional_base.GIB, {
            'hw:cpu_policy': 'dedicated', KEY: 'required',
            'hw:emulator_threads_policy': 'share'})
        self.check()
        self.check('S504', options=['--emulator-cpus', '1'])

    def check_allocation_ratios(self):
        for name in ('PCPU', 'VCPU', 'MEMORY_MB'):
            path = (f'/resource_providers/{self.provider("m")}/inventories/'
                    f'{name}')
            inventory = self.nova.stage.placement.get(path).body
            self.nova.stage.placement.put(
                path, {**inventory, 'allocation_ratio': 2.0})
        options = ['--emulator-cpus', '2']

        found = self.check('S505', 'S506', 'S507', options=options)
        for ones in found.values():
            self.mend(ones)

        self.check(options=options)
        self.assertEqual(
            {1.0}, {inventory['allocation_ratio']
                    for inventory in self.nova.inventories('m').values()})
        self.assertEqual(6, self.nova.inventories('m')['PCPU']['total'])


class OrderOfCellsCases:

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)

    def write(self, host, packs_cells):
        """A host file, as little of one as is needed."""
        (self.directory / f'{host}.yaml').write_text(
            f'{{version: 1, name: {host}, nova: {{packs_cells: '
            f'{packs_cells}}}, nodes: [{{id: 0, cpus: 0-7, memory: 64GiB}}]}}')
        return ['--host-files', str(self.directory)]

    def test_metadata(self):
        key = placement_traits.PACKING_KEY
        self.nova.create_aggregate('a', ['d1', 'd2'], {key: 'pack'})
        self.mend(self.check('S701')['S701'])
        self.check()

        self.nova.create_aggregate('b', ['d1', 's1'], {key: 'True'})
        self.nova.create_aggregate('c', ['d1', 'd2'], {key: '0'})
        [one] = self.check('S702')['S702']
        self.assertEqual('d1', one['host'])

    def test_nova_scheduler(self):
        """Its own option counts where no aggregate says otherwise."""
        self.nova.create_aggregate('a', ['d1'],
                                   {placement_traits.PACKING_KEY: 'on'})
        conf = self.directory / 'nova.conf'
        conf.write_text('[compute]\n'
                        'packing_host_numa_cells_allocation_strategy = no\n')
        self.write('d1', 'true')
        options = self.write('d2', 'true')
        self.check(options=options)

        options += ['--config-file', str(conf)]
        [one] = self.check('S703', options=options)['S703']
        self.assertEqual('d2', one['host'])
        self.write('d2', 'false')
        self.check(options=options)
        self.write('d1', 'false')
        [one] = self.check('S703', options=options)['S703']
        self.assertIn('true by aggregate a', one['message'])


class TestFindings(OutputCases, ServerCases, FlavorCases, AggregateCases,
                   OrderOfCellsCases, functional_base.OneCloud,
                   CheckTestCase):
    """All that leaves the hosts as they were."""


class TestChangingCloud(CheckTestCase):
    """What is no more so at the second look is not told."""

    def test_a_server_that_moves_on(self):
        self.nova.start_host('m', mixed_host())
        self.set_traits('m', placement_traits.SHARED)
        server = self.nova.boot('a', self.plain, host='m')
        self.set_traits('m', placement_traits.DEDICATED)
        cloud = self.cloud()
        looks = []

        def progress(seen, total):
            yield from seen
            if not looks:
                self.nova.migrate(self.nova.show(server))
            looks.append(total)

        audit = audit_run.run_audit(cloud, audited.AuditSettings(), progress)

        self.assertEqual([5, 1], looks)
        self.assertEqual({'S504'},
                         {finding.code
                          for finding in audit.findings})
        self.assertEqual(3, audit.hosts[hostclass.HostClass.DEDICATED])
