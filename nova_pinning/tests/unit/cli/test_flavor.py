#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

import json
import pathlib

import ddt

from nova_pinning.flavors import catalogue
from nova_pinning.tests.unit.cli import base


class TestShow(base.TestCase):

    def test_table(self):
        done = self.run_command('flavor', 'show', base.CATALOGUE)
        self.assertEqual((0, ''), (done.status, done.err))
        for flavor in catalogue.load(base.CATALOGUE).flavors:
            size = flavor.name.partition('.')[2]
            self.assertIn(f' {size} ', done.out)
        self.assertIn('enterprise: 6 flavors, enterprise.*', done.out)
        self.assertIn('hw:cpu_thread_policy', done.out)

    def test_fits_the_terminal(self):
        for line in self.run_command(
                'flavor', 'show', base.CATALOGUE).out.splitlines():
            self.assertLessEqual(len(line), 80, line)

    def test_some(self):
        done = self.run_command(
            'flavor', 'show', base.CATALOGUE, 'shared', 'latency.large')
        self.assertIn('shared: 6 flavors', done.out)
        self.assertIn('latency: 1 flavor\n', done.out)
        self.assertNotIn('enterprise', done.out)

    def test_names_may_stand_after_options(self):
        self.assertEqual(
            self.run_command('flavor', 'show', base.CATALOGUE, 'shared',
                             '--commands'),
            self.run_command('flavor', 'show', base.CATALOGUE, '--commands',
                             'shared'))

    def test_unknown_name(self):
        done = self.run_command(
            'flavor', 'show', base.CATALOGUE, 'enterprize')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn("'enterprize'", done.err)
        self.assertIn('there are enterprise', done.err)

    def test_json(self):
        done = self.run_command(
            'flavor', 'show', base.CATALOGUE, '--format', 'json')
        shown = json.loads(done.out)
        self.assertEqual((1, 'default'),
                         (shown['version'], shown['catalogue']))
        self.assertEqual(
            [(one.name, one.id, one.extra_specs)
             for one in catalogue.load(base.CATALOGUE).flavors],
            [(one['name'], one['id'], one['extra_specs'])
             for one in shown['flavors']])

    def test_commands(self):
        done = self.run_command(
            'flavor', 'show', base.CATALOGUE, '--commands')
        self.assertEqual(
            len(catalogue.load(base.CATALOGUE).flavors),
            done.out.count('openstack flavor create'))


@ddt.ddt
class TestDiff(base.TestCase):

    def setUp(self):
        super().setUp()
        self.text = pathlib.Path(base.CATALOGUE).read_text()

    def _diff(self, *changes, form='text'):
        text = self.text
        for before, after in changes:
            self.assertIn(before, text)
            text = text.replace(before, after)
        return self.run_command(
            'flavor', 'diff', base.CATALOGUE, self.write('new.yaml', text),
            '--format', form)

    def test_none(self):
        self.assertEqual(
            (0, '0 changed, 22 unchanged\n'),
            (self._diff().status, self._diff().out))

    def test_update(self):
        done = self._diff(('max 40000', 'max 30000'))
        self.assertEqual(1, done.status)
        self.assertEqual(
            'update enterprise.8xlarge\n'
            '  - quota:disk_total_iops_sec: 32000\n'
            '  + quota:disk_total_iops_sec: 30000\n'
            'update enterprise.16xlarge\n'
            '  - quota:disk_total_iops_sec: 40000\n'
            '  + quota:disk_total_iops_sec: 30000\n'
            '2 changed, 20 unchanged\n', done.out)

    @ddt.data(
        ('  local-nvme:\n', '  fast-nvme:\n', {'create', 'retire'}),
        ('vcpus: 2, memory: 8GiB', 'vcpus: 2, memory: 9GiB', {'replace'}),
    )
    @ddt.unpack
    def test_actions(self, before, after, actions):
        done = self._diff((before, after), form='json')
        self.assertEqual(1, done.status)
        self.assertEqual(
            actions,
            {one['action'] for one in json.loads(done.out)['changes']})


@ddt.ddt
class TestBadInput(base.TestCase):

    def test_only_the_first_are_told(self):
        head = 'version: 1\nname: a\nfamilies:\n'
        # Some are found by the schema, others only when flavors are made.
        wrongs = (
            '  f{}: {{class: apple, sizes: {{s: {{vcpus: 1, memory: 1}}}}}}\n',
            '  f{}: {{sizes: {{s: {{vcpus: 1, memory: 1 apple}}}}}}\n')
        for wrong in wrongs:
            self._check_cut(head, wrong)

    def _check_cut(self, head, wrong):
        for count, is_cut in ((20, False), (21, True)):
            path = self.write('bad.yaml', head + ''.join(
                wrong.format(number) for number in range(count)))
            told = self.run_command('flavor', 'show', path).err.splitlines()
            self.assertEqual(20 + is_cut, len(told))
            self.assertEqual(is_cut, told[-1] == (
                'error: there are more than these 20'))

    @ddt.data('show', 'check', 'diff')
    def test_every_command_says_where(self, command):
        path = self.write('bad.yaml', 'version: 1\nname: a\nfamilys: {}\n')
        paths = [path] * (2 if command == 'diff' else 1)
        done = self.run_command('flavor', command, *paths)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(f'error: {path}:3:1: familys', done.err)
        self.assertIn('families', done.err)
