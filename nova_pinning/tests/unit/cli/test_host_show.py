# SPDX-License-Identifier: Apache-2.0
"""nova-pinning host show."""

import json
import re
from xml.etree import ElementTree

import ddt
import fixtures
import yaml

from nova_pinning.host import host_loader
from nova_pinning.host import hostfile_writer
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.presentation import plan_drawing
from nova_pinning.presentation import terminal_drawing
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.presentation import test_plan_drawing


@ddt.ddt
class TestShowHost(cli_case.TestCase):

    _DOC = cli_case.ETC.parents[1] / 'doc' / 'source' / 'admin'

    def _show(self, *more, host=cli_case.HOST):
        return self.run_command('host', 'show', host, *more)

    def _plan(self):
        return self.write('plan.yaml',
                          hostfile_writer.dump(test_plan_drawing.planned()))

    @ddt.data(
        *sorted(path.name for path in (cli_case.ETC / 'hosts').iterdir()))
    def test_shipped_hosts(self, name):
        done = self._show(host=str(cli_case.ETC / 'hosts' / name))
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertIn('node 0 (socket 0', done.out)
        for line in done.out.splitlines():
            self.assertLessEqual(len(line), 80, line)

    @ddt.data(40, 64, 160)
    def test_width(self, columns):
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', str(columns)))
        done = self._show(host=self._plan())
        for line in done.out.splitlines():
            self.assertLessEqual(len(line), columns)
            self.assertEqual(line.rstrip(), line)
        # No CPU, size or speed is cut in two.
        shown = ' '.join(done.out.split())
        for text in ('25 Gbit/s', '0000:10:00.0'):
            self.assertIn(text, shown)

    def test_plan(self):
        done = self._show(host=self._plan())
        self.assertEqual((0, ''), (done.status, done.err))
        drawing = [line for line in done.out.splitlines()
                   if line.startswith('  CPUs ') and line[-1] in 'HPSD']
        self.assertEqual(['  CPUs 0-1 H P', '  CPUs 4-5 H P',
                          '  CPUs 2-3 S D', '  CPUs 6-7 S D'], drawing)
        for words in ('planned for dedicated and shared guests',
                      'H host CPUs, no guest runs on them: CPUs 0,4',
                      'NIC: eth0', 'for guests as disk'):
            self.assertIn(words, done.out)

    def test_svg(self):
        done = self._show('-f', 'svg', host=self._plan())
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertEqual(
            terminal_drawing.svg(plan_drawing.draw(
                test_plan_drawing.planned())), done.out)
        ElementTree.fromstring(done.out)

    def test_what_the_documentation_shows(self):
        # doc/source/admin/hosts.rst has the commands. If their output is as
        # it is to be, run them there and take over what they write.
        plan = str(self.dir / 'plan.yaml')
        planned = self.run_command(
            'host', 'plan', str(self._DOC / 'compute-1.yaml'),
            '--for', '8:70,16:30', '--host-cpus', '4',
            '--pci-alias', 'nvme=144d:a80a', '--output', plan)
        shown = self._show(host=plan)
        self.assertEqual((0, 0), (planned.status, shown.status))
        svg = self._show('-f', 'svg', host=plan).out
        drawing, _, _ = shown.out.partition('\n\n')
        for text, name in ((planned.err, 'compute-1-plan.inc'),
                           (drawing, 'compute-1-drawing.inc'),
                           (svg, 'host-plan.svg')):
            self.assertEqual(
                (self._DOC / name).read_text().strip(),
                re.sub('(?m) +$', '', text).strip(), name)

    def test_json(self):
        done = self._show('--format', 'json', host=self._plan())
        shown = json.loads(done.out)
        again = self.write('again.json', json.dumps(shown['host']))
        self.assertEqual(test_plan_drawing.planned(), host_loader.load(again))
        self.assertEqual(
            {'sockets': 2, 'nodes': 2, 'cores': 4, 'cpus': 8,
             'l3_domains': 0, 'memory_mib': 16384}, shown['figures'])
        self.assertEqual({'host': '0,4', 'poll': '1,5', 'shared': '2,6',
                          'dedicated': '3,7'}, shown['cpus'])
        first, second = shown['nodes']
        self.assertEqual({'host': '0,4', 'poll': '1,5'}, first['cpus'])
        self.assertEqual(
            [('shared', 4096), ('poll', 1024), ('dedicated', 3072)],
            [(part['for'], part['mib']) for part in second['memory']])

    def test_bad_input(self):
        wrong = self.write('wrong.yaml', 'version: 1\n')
        for host in (wrong, str(self.dir / 'none.yaml')):
            done = self._show('-f', 'svg', host=host)
            self.assertEqual((2, ''), (done.status, done.out))
            self.assertIn('error: ', done.err)


@ddt.ddt
class TestProviderConfig(cli_case.TestCase):

    _PLAIN = """
version: 1
name: plain
nodes: [{id: 0, cpus: 0-3, memory: 4GiB}]
traits: [%s]
"""

    def _write(self, host):
        return self.run_command('host', 'show', host, '-f', 'provider-config')

    @ddt.data(
        *sorted(path.name for path in (cli_case.ETC / 'hosts').iterdir()))
    def test_shipped_hosts(self, name):
        path = cli_case.ETC / 'hosts' / name
        done = self._write(str(path))
        self.assertEqual((0, ''), (done.status, done.err))
        [provider] = yaml.safe_load(done.out)['providers']
        self.assertEqual(sorted(host_loader.load(path).traits),
                         provider['traits']['additional'])

    def test_class(self):
        done = self._write(self.write('plain.yaml', self._PLAIN % ''))
        self.assertEqual((2, ''), (done.status, done.out))
        for trait in placement_traits.TRAIT_OF.values():
            self.assertIn(trait, done.err)
            told = self._write(self.write('told.yaml', self._PLAIN % trait))
            self.assertEqual(0, told.status)
            self.assertIn(f'- {trait}\n', told.out)
            self.assertIn('note: There is no trait for the L3', told.err)

    def test_divided_cores(self):
        """In each form of what is shown."""
        trait = placement_traits.TRAIT_OF[hostclass.HostClass.DEDICATED]
        host = self.write('host.yaml', (self._PLAIN % trait).replace(
            'nodes:', 'cpu: {threads_per_core: 2}\nnodes:'
        ) + "nova: {dedicated_cpus: '1-2,3'}\n")
        done = self._write(host)
        shown = self.run_command('host', 'show', host, '-f', 'json')
        self.assertEqual((0, 0), (done.status, shown.status))
        text = '1 core divided between uses: of CPUs 0,2,'
        self.assertIn(f'warning: {text}', done.err)
        self.assertIn(text, json.loads(shown.out)['divided_cores'])
        self.assertIn(text, self.run_command('host', 'show', host).out)
