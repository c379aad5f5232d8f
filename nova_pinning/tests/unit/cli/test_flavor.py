# SPDX-License-Identifier: Apache-2.0

import json

import ddt

from nova_pinning.flavors import catalogue
from nova_pinning.tests.unit.cli import cli_case


class TestShow(cli_case.TestCase):

    def test_table(self):
        done = self.run_command('flavor', 'show', cli_case.CATALOGUE)
        self.assertEqual((0, ''), (done.status, done.err))
        for flavor in catalogue.load(cli_case.CATALOGUE).flavors:
            size = flavor.name.partition('.')[2]
            self.assertIn(size, done.out.split())
        self.assertIn('enterprise: 6 flavors, enterprise.*', done.out)
        self.assertIn('hw:cpu_thread_policy', done.out)

    def test_fits_the_terminal(self):
        for line in self.run_command(
                'flavor', 'show', cli_case.CATALOGUE).out.splitlines():
            self.assertLessEqual(len(line), 80, line)

    def test_some(self):
        done = self.run_command(
            'flavor', 'show', cli_case.CATALOGUE, 'shared', 'latency.large')
        self.assertIn('shared: 6 flavors', done.out)
        self.assertIn('latency: 1 flavor\n', done.out)
        self.assertNotIn('enterprise', done.out)

    def test_names_may_stand_after_options(self):
        self.assertEqual(
            self.run_command('flavor', 'show', cli_case.CATALOGUE, 'shared',
                             '--format', 'commands'),
            self.run_command('flavor', 'show', cli_case.CATALOGUE,
                             '--format', 'commands', 'shared'))

    def test_unknown_name(self):
        done = self.run_command(
            'flavor', 'show', cli_case.CATALOGUE, 'enterprize')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn("'enterprize'", done.err)
        self.assertIn('there are enterprise', done.err)

    def test_json(self):
        done = self.run_command(
            'flavor', 'show', cli_case.CATALOGUE, '--format', 'json')
        shown = json.loads(done.out)
        self.assertEqual((1, 'default'),
                         (shown['version'], shown['catalogue']))
        self.assertEqual(
            [(flavor.name, flavor.id, flavor.extra_specs)
             for flavor in catalogue.load(cli_case.CATALOGUE).flavors],
            [(one['name'], one['id'], one['extra_specs'])
             for one in shown['flavors']])

    def test_commands(self):
        done = self.run_command(
            'flavor', 'show', cli_case.CATALOGUE, '-f', 'commands')
        self.assertEqual(
            len(catalogue.load(cli_case.CATALOGUE).flavors),
            done.out.count('openstack flavor create'))


@ddt.ddt
class TestConvert(cli_case.TestCase):

    @ddt.data(('terraform', 'flavors.tf'), ('ansible', 'flavors.yaml'))
    @ddt.unpack
    def test_there_and_back(self, form, name):
        """A catalogue can be had again of what another tool is given."""
        text = self.run_command('flavor', 'show', cli_case.CATALOGUE,
                                '--format', form).out
        done = self.run_command('flavor', 'show', self.write(name, text),
                                '-f', 'catalogue', '--name', 'north')
        again = catalogue.load_own(self.write('again.yaml', done.out))
        self.assertEqual('north', again.name)
        ours = ('pinning:catalogue', 'pinning:family')
        self.assertEqual(*([
            (flavor.name, flavor.vcpus, flavor.memory_mib, {
                key: value for key, value in flavor.extra_specs.items()
                if key not in ours})
            for flavor in sorted(flavors, key=lambda flavor: flavor.name)]
            for flavors in (catalogue.load(cli_case.CATALOGUE).flavors,
                            again.flavors)))

    def test_some(self):
        done = self.run_command('flavor', 'show', cli_case.CATALOGUE,
                                'shared.large', '--format', 'list')
        self.assertEqual(1, done.out.count('vcpus:'))

    def test_a_name_that_the_other_tool_has_no_place_for(self):
        done = self.run_command('flavor', 'show', cli_case.CATALOGUE,
                                '--format', 'heat', '--name', 'x')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('--name: does not go with --format heat', done.err)


@ddt.ddt
class TestBadInput(cli_case.TestCase):

    def test_only_the_first_are_told(self):
        head = 'version: 2\nname: a\nfamilies:\n'
        # Some are found by the schema, others only when flavors are made.
        wrongs = (
            '  f{}: {{class: no, sizes: {{s: {{vcpus: 1, memory: 1M}}}}}}\n',
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

    @ddt.data('show', 'check')
    def test_every_command_says_where(self, command):
        path = self.write('bad.yaml', 'version: 2\nname: a\nfamilys: {}\n')
        done = self.run_command('flavor', command, path)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(f'error: {path}:3:1: familys', done.err)
        self.assertIn('families', done.err)
