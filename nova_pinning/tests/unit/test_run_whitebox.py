# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/run_whitebox.py and tools/whitebox_adapter.py."""

import csv
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from unittest import mock

from oslotest import base
from tempest.lib import exceptions

from minicloud import hosts
from minicloud import settings
import nova_pinning
from nova_pinning import cpuset

REQUEST = 'req-8bfcd421-6ee8-460b-b11a-f818a26b9362'
_SERVER = '30dfa003-65e7-4e25-abbb-ae7b1d14339f'
LOG = '''\
t 1 DEBUG nova.scheduler.manager [None {request} u p - - d d] Begins
t 1 INFO nova.filters [None {request} u p - - d d] Filter returned 0 hosts
t 1 INFO nova_pinning.scheduler.reasoned [None {request} u p - - d d] No host \
for instance {server}. Too small
t 1 INFO nova.scheduler.manager [None {other} u p - - d d] Another's
'''.format(request=REQUEST, server=_SERVER, other='req-' + _SERVER)

TOOLS = pathlib.Path(nova_pinning.__file__).resolve().parent.parent / 'tools'


def tool(name):
    with mock.patch.object(sys, 'path', [str(TOOLS), *sys.path]):
        return importlib.import_module(name)


class CloudOptionsTest(base.BaseTestCase):
    """What tools/minicloud is told of its directory and ports."""

    def up(self, name, *arguments, **variables):
        """Return the command that brings the cloud up.

        :param name: of the tool
        :param variables: the environment's that have to do with minicloud
        """
        others = {variable: value for variable, value in os.environ.items()
                  if not variable.startswith('MINICLOUD_')}
        refused = subprocess.CalledProcessError(2, 'minicloud')
        with (mock.patch.dict(os.environ, others | variables, clear=True),
              mock.patch.object(sys, 'argv', [name, *arguments]),
              mock.patch('subprocess.run', side_effect=refused) as run):
            end = self.assertRaises(SystemExit, tool(name).main)
        self.assertEqual(2, end.code)
        command, = run.call_args.args
        return command

    def test_without_options(self):
        for name in ('run_tempest', 'run_whitebox'):
            command = self.up(name)
            self.assertEqual(['--state', str(TOOLS.parent / '.minicloud')],
                             command[1:3], name)
            self.assertNotIn('--base-port', command, name)

    def test_the_environment(self):
        """The port that it names is for minicloud itself to read."""
        for name in ('run_tempest', 'run_whitebox'):
            command = self.up(name, MINICLOUD_STATE='/var/tmp/second',
                              MINICLOUD_BASE_PORT='18800')
            self.assertEqual(['--state', '/var/tmp/second'], command[1:3],
                             name)
            self.assertNotIn('--base-port', command, name)

    def test_options_outweigh_it(self):
        for name in ('run_tempest', 'run_whitebox'):
            command = self.up(name, '--state', '/var/tmp/third',
                              '--base-port', '19800',
                              MINICLOUD_STATE='/var/tmp/second',
                              MINICLOUD_BASE_PORT='18800')
            self.assertEqual(['--state', '/var/tmp/third'], command[1:3],
                             name)
            index = command.index('--base-port')
            self.assertEqual('19800', command[index + 1], name)

    def test_hosts(self):
        command = ' '.join(self.up('run_whitebox', '--layout', 'virtual'))
        self.assertIn('--hosts 0 --virtual-host 2x4x2 --virtual-host 2x4x2',
                      command)
        self.assertIn('--huge-pages 0', command)
        self.assertRegex(command, r'--filters \S+,PinnedTopologyFilter\b')
        command = ' '.join(self.up('run_tempest'))
        self.assertIn('--hosts 4', command)
        self.assertNotIn('--filters', command)


class RunWhiteboxTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.tool = tool('run_whitebox')
        self.state = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory()))
        self.cloud = self.tool.run_tempest.Cloud(self.state, '2026.2')

    def test_cpus_of_a_host(self):
        self.assertEqual(
            {'dedicated': cpuset.CpuSet.parse('0-3,8'),
             'shared': cpuset.CpuSet.parse('4,6')},
            self.tool.cloud_options.cpu_sets('dedicated:0-3,8,shared:4,6'))

    def test_each_layout_is_one_that_minicloud_makes(self):
        for name, layout in self.tool.LAYOUTS.items():
            everything = {cpu for cell in layout.cells.values()
                          for cpu in cell}
            for cpus in layout.hosts.values():
                sets = self.tool.cloud_options.cpu_sets(cpus)
                self.assertFalse(sets['dedicated'] & sets['shared'])
                if layout.topology:
                    self.assertLessEqual(
                        set(sets['dedicated']) | set(sets['shared']),
                        everything, name)

    def test_what_a_cell_has_is_what_the_least_one_has(self):
        layout = self.tool.Layout('2x2x2', {
            'a': 'dedicated:0-2,4-5,shared:3,6-7', 'b': 'dedicated:0-7'},
            0, 1)
        self.assertEqual({0: [0, 1, 2, 3], 1: [4, 5, 6, 7]}, layout.cells)
        self.assertEqual(2, layout.per_cell('dedicated'))
        self.assertEqual(0, layout.per_cell('shared'))
        self.assertTrue(layout.has_threads)

    def test_the_virtual_layout_is_large_enough(self):
        layout = self.tool.LAYOUTS['virtual']
        self.assertLessEqual(3, layout.per_cell('dedicated'))
        self.assertLessEqual(1, layout.per_cell('shared'))
        first, second = map(self.tool.cloud_options.cpu_sets,
                            layout.hosts.values())
        self.assertFalse(first['dedicated'] & second['dedicated'])

    def test_ours_is_the_last_filter(self):
        self.assertEqual('PinnedTopologyFilter', self.tool.FILTERS[-1])
        self.assertNotIn('HostClassFilter', self.tool.FILTERS)

    def test_nodes_name_the_files_of_minicloud(self):
        nodes = self.tool.nodes(self.cloud, self.tool.LAYOUTS['machine'])
        # They are written as JSON, which is YAML.
        node = json.loads(json.dumps(nodes))['pinning-1']
        self.assertEqual(('1', '0'), (node['cpu_dedicated_set'],
                                      node['cpu_shared_set']))
        path = pathlib.Path(node['services']['nova-compute']['config_path'])
        host = settings.HostSettings('pinning-1', '1', '0')
        service = hosts.NovaCompute(settings.State(self.state),
                                    settings.Settings((host,)), host)
        self.assertIn(str(path), service.config_files())

    def test_the_table_has_all_that_was_run(self):
        package = 'whitebox_tempest_plugin.api.compute'
        results = self.tool.run_tests.Results(
            failed={f'{package}.test_b.B.test_2[id-1]':
                    f'No valid host. Request ID: {REQUEST}.'},
            skipped={f'setUpClass ({package}.test_c.C)': 'too\n small'})
        causes = ((('virtual',), r'\.test_2', r'Too small$', 'broken'),)
        with mock.patch.object(self.tool, 'CAUSES', causes):
            self.assertEqual(
                [['Test', 'Result', 'Why', 'Seen'],
                 ['test_a.A.test_1', 'passed', '', ''],
                 ['test_b.B.test_2', 'failed', 'broken',
                  'No host for instance. Too small'],
                 ['test_c.C', 'skipped', 'too small', '']],
                list(self.tool.rows('virtual', results, [
                    f'{package}.test_a.A.test_1[id-2]'], LOG)))
            self.assertEqual('', self.tool.cause('machine', '.test_2',
                                                 'Too small'))
            self.assertEqual('', self.tool.cause('virtual', '.test_2',
                                                 'No valid host was found'))

    def _failures(self):
        """Yield those of the tables: layout, test, cause and what was seen."""
        for layout in self.tool.LAYOUTS:
            path = self.tool.TABLES / f'whitebox-{layout}.csv'
            with path.open(newline='') as file:
                for row in csv.DictReader(file):
                    if row['Result'] == 'failed':
                        yield layout, row['Test'], row['Why'], row['Seen']

    def test_the_causes_are_those_of_the_tables(self):
        found = set()
        for layout, test, why, seen in self._failures():
            self.assertEqual(why, self.tool.cause(layout, f'.{test}', seen))
            found.add((layout, why))
        self.assertEqual(
            {(layout, why) for layouts, *_, why in self.tool.CAUSES
             for layout in layouts}, found)

    def test_what_fails_through_another_fault_has_no_cause(self):
        others = {seen for *_, seen in self._failures()} | {
            'No host for instance. PinnedTopologyFilter refused 2 hosts: too '
            'few free CPUs', 'Details: Fault: {}', 'KeyError: 5', ''}
        for layout, test, why, seen in self._failures():
            for other in others - {seen}:
                self.assertEqual('', self.tool.cause(layout, f'.{test}',
                                                     other), why)

    def _status(self, seen):
        """Return main's exit status if a test of 'machine' fails."""
        results = self.tool.run_tests.Results(
            failed={'p.test_cpu_pinning.C.test_threads_isolate': seen})
        results.counts['passed'] = 1
        log = self.state / 'nova-scheduler.log'
        log.write_text(LOG)
        with (mock.patch.object(self.tool.run_tempest, 'Cloud') as cloud,
              mock.patch.object(self.tool, 'run', return_value=(results, [])),
              mock.patch('importlib.metadata.version', return_value='0.1.0'),
              mock.patch.object(sys, 'argv', ['run_whitebox.py', '--layout',
                                              'machine'])):
            cloud.return_value.scheduler_log.return_value = log
            return self.tool.main()

    def test_the_status_tells_whether_all_causes_are_known(self):
        self.assertEqual(0, self._status(
            'Got no allocation candidates from the Placement API.'))
        self.assertEqual(1, self._status('tempest.lib.exceptions.NotFound'))

    def test_rows_of_tests_that_were_not_run_are_kept(self):
        path = self.state / 'table.csv'
        head = ['Test', 'Result', 'Why', 'Seen']
        a, b, c = ([name, 'passed', '', ''] for name in 'abc')
        self.tool.write(path, [head, a, b], False)
        self.tool.write(path, [head, c, ['b', 'failed', 'x', '']], False)
        self.assertEqual(
            ['Test,Result,Why,Seen', 'a,passed,,', 'b,failed,x,',
             'c,passed,,'], path.read_text().splitlines())
        self.tool.write(path, [head, c], True)
        self.assertEqual(['Test,Result,Why,Seen', 'c,passed,,'],
                         path.read_text().splitlines())

    def test_of_other_failures_the_last_line_is_shown(self):
        self.assertEqual('MismatchError: server is unpinned', self.tool.seen(
            LOG, f'Trace\n  MismatchError: server {_SERVER} is unpinned\n'))


class WhiteboxAdapterTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.tool = tool('whitebox_adapter')

    def test_commands_go_to_the_host(self):
        line = self.tool.command_line('/state', 'pinning-1',
                                      'virsh dumpxml guest')
        self.assertEqual(
            ['--state', '/state', 'exec', 'pinning-1', '--', 'sh', '-c',
             'virsh dumpxml guest'], line[1:])

    def test_files_and_services_are_this_machines(self):
        for command in ('crudini --get f s o',
                        self.tool.service_command('stop', 'pinning-1')):
            self.assertEqual(
                ['sh', '-c', command],
                self.tool.command_line('/state', 'pinning-1', command))

    def test_a_command_that_fails(self):
        with (mock.patch.object(self.tool, 'command_line',
                                lambda *_: ['sh', '-c', 'echo no >&2; exit 3']
                                ),
              mock.patch.dict('os.environ', {self.tool.STATE: '/state'})):
            error = self.assertRaises(
                exceptions.SSHExecCommandFailed, self.tool.execute,
                'pinning-1', 'virsh list')
        self.assertIn('no', str(error))

    def test_a_service_is_started_with_the_files_that_are_there(self):
        there = settings.Settings(
            hosts=(settings.HostSettings('pinning-1', '1', '0'),))
        state = settings.State(pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())))
        with mock.patch.object(state, 'load', return_value=there):
            service = self.tool.nova_compute(state, 'pinning-1')
        self.assertEqual('nova-compute-pinning-1', service.name)
        self.assertEqual({}, service.config())
