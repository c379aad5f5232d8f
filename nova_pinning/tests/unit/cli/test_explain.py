# SPDX-License-Identifier: Apache-2.0

import dataclasses
import json
import pathlib
import re

import ddt
import fixtures

from nova_pinning.admission import offered_host
from nova_pinning.bridge.importer import request_specs
from nova_pinning.fleet import document
from nova_pinning.fleet import generate
from nova_pinning.fleet import snapshot
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.explain import explain_cases

PAGE = (pathlib.Path(__file__).parents[4] / 'doc' / 'source' / 'admin'
        / 'explain.rst')
_DEDICATED = 'vcpus=8 ram=16GiB hw:cpu_policy=dedicated'


@ddt.ddt
class TestExplain(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        self.fleet = generate.generate_fleet(
            6, 'two-socket-80', 3, filled=0.95,
            shared=0.3, churn=1.0)
        self.names = [host.name for host in self.fleet.hosts]

    def _explain(self, *argv, fleet=None):
        path = str(self.dir / 'fleet.json')
        document.write(path, fleet or self.fleet)
        return self.run_command('explain', path, *argv)

    def _explain_json(self, *argv, **values):
        done = self._explain('-f', 'json', *argv, **values)
        return done.status, json.loads(done.out)

    def test_fits(self):
        done = self._explain('--flavor', 'dedicated-2')
        self.assertEqual(0, done.status, done.err)
        self.assertEqual('', done.err)
        self.assertIn('It fits\n  on ', done.out)
        self.assertNotIn('What would make it fit', done.out)

    def test_fits_nowhere(self):
        done = self._explain('--flavor', 'dedicated-32')
        self.assertEqual(1, done.status, done.err)
        self.assertIn('6 hosts: ', done.out)
        self.assertIn('are shared hosts', done.out)
        self.assertIn('PCPU left', done.out)
        self.assertIn('What would make it fit, each tried', done.out)
        for line in done.out.splitlines():
            self.assertLessEqual(len(line), 80)

    def test_filters_of_the_snapshot(self):
        """Where classes are not kept apart, no host is of the wrong one."""
        _status, found = self._explain_json(
            '--flavor', 'dedicated-32', fleet=dataclasses.replace(
                self.fleet, enabled_filters=('NUMATopologyFilter',)))
        self.assertNotIn('class', [one['layer'] for one in found['hosts']])

    def test_json(self):
        status, found = self._explain_json('--flavor', 'dedicated-32')
        self.assertEqual(1, status)
        self.assertEqual(1, found['version'])
        self.assertEqual(self.names, [one['name'] for one in found['hosts']])
        self.assertEqual(6, found['hosts_fitting'] + sum(
            one['count'] for one in found['causes']))
        self.assertEqual({'PCPU': 32, 'MEMORY_MB': 131072},
                         found['placement']['queries'][0]['resources'])
        shared = found['hosts'][-1]
        self.assertEqual('class', shared['layer'])
        full = next(one for one in found['hosts'] if one['layer'] == 'fit')
        self.assertEqual('free-cpus', full['fit']['reason'])
        self.assertEqual(2, len(full['fit']['shortages']))
        self.assertTrue(found['helps']['smaller'])

    def test_all_hosts(self):
        done = self._explain('--flavor', 'dedicated-2', '--per-host')
        for name in self.names:
            self.assertIn(f'\n{name}', done.out)

    def test_one_host(self):
        name = self.names[1]
        done = self._explain('--flavor', 'dedicated-32', '--host', name,
                             '--host', name)
        self.assertEqual(1, done.status)
        self.assertIn('1 host: 1 has too few', done.out)
        self.assertEqual(1, done.out.count('layer by layer'))
        self.assertIn('PinnedTopologyFilter  refuses it: cell 0', done.out)
        self.assertIn('whole cores', done.out)

    def test_one_host_that_fits(self):
        name = self._explain_json('--flavor', 'dedicated-2')[1]
        name = next(one['name'] for one in name['hosts'] if one['fits'])
        done = self._explain('--flavor', 'dedicated-2', '--host', name)
        self.assertEqual(0, done.status)
        self.assertIn('guest cell 0 on host cell', done.out)
        self.assertIn('vCPU->CPU: 0->', done.out)

    def test_disabled_and_unknown(self):
        cell = builders.host_cell(0, range(16), memory_mib=65536)
        hosts = (
            explain_cases.host(cell, name='off', is_enabled=False,
                               disabled_reason='new disk', host_class=None),
            explain_cases.host(name='bare', host_class=None))
        fleet = snapshot.Fleet(hosts=hosts)
        done = self._explain(
            '--flavor', _DEDICATED + ' trait:CUSTOM_A=required', '--host',
            'off', '--host', 'bare', fleet=fleet)
        self.assertEqual(1, done.status, done.err)
        for text in ('is disabled: new disk',
                     'refuses it: is a shared host by its guests, and the '
                     'guest is dedicated',
                     '- enable host off, which is disabled (new disk)',
                     '1 is a shared host'):
            self.assertIn(text, ' '.join(done.out.split()))

    def test_zone(self):
        hosts = tuple(dataclasses.replace(host, aggregates=('a',))
                      for host in self.fleet.hosts)
        fleet = dataclasses.replace(
            self.fleet, hosts=(*hosts[:1], *self.fleet.hosts[1:]),
            aggregates=(offered_host.Aggregate('a', 'az1'),))
        _status, found = self._explain_json(
            '--flavor', 'dedicated-2', '--availability-zone', 'az1',
            fleet=fleet)
        self.assertEqual({'kind': 'availability-zone', 'name': 'az1',
                          'count': 5}, next(
            one for one in found['placement']['excluded_for']
            if one['kind'] == 'availability-zone'))

    def test_isolated(self):
        fleet = dataclasses.replace(
            self.fleet, enabled_filters=(
                'AggregateMultiTenancyIsolation', 'PinnedTopologyFilter'),
            aggregates=(offered_host.Aggregate(
                'a', None, {'trait:CUSTOM_A': 'required',
                            'filter_tenant_id': 'acme'}),),
            hosts=tuple(dataclasses.replace(host, aggregates=('a',))
                        for host in self.fleet.hosts))
        isolates = self.write('nova.conf', (
            '[scheduler]\nenable_isolated_aggregate_filtering = true\n'))
        for argv in (('--config-file', isolates), ('--project', 'other')):
            status, found = self._explain_json(
                '--flavor', 'dedicated-2', *argv, fleet=fleet)
            self.assertEqual((1, 0), (status, found['hosts_fitting']))
        self.assertEqual(0, self._explain(
            '--flavor', 'dedicated-2', '--project', 'acme',
            fleet=fleet).status)
        # Whose guest it is nobody says.
        self.assertEqual(1, self._explain(
            '--flavor', 'dedicated-2', fleet=fleet).status)

    @ddt.data(
        (('--flavor', 'dedicated-3'), 'there are dedicated-32'),
        (('--flavor', 'dedicated-2', '--host', 'dedicated-0001'),
         'there are dedicated-0000'),
        (('--flavor', 'dedicated-2', '--availability-zone', 'az9'),
         'there is nova'),
        (('--flavor', 'unlike'), 'dedicated-32, shared-1, shared-2, shared-4, '
                                 '...\n'),
        (('--flavor', 'vcpus=1 ram=1GiB hw:cpu_policy=x'),
         'error: --flavor: CPU policy'),
        (('--flavor', 'vcpus=7 ram=7GiB hw:cpu_policy=dedicated '
                      'hw:numa_nodes=2'), 'evenly'),
        (('--flavor', 'dedicated-2', '--image-property', 'x'), 'key'),
        ((), 'required'),
        (('--flavor', ''), "no flavor called ''"),
        (('--flavor', 'a', '--server', 'b'), 'not allowed'))
    @ddt.unpack
    def test_bad_input(self, argv, text):
        done = self._explain(*argv)
        self.assertEqual(2, done.status)
        self.assertIn(text, done.err)
        self.assertEqual('', done.out)

    def test_no_hosts(self):
        done = self._explain('--flavor', _DEDICATED,
                             fleet=snapshot.Fleet(hosts=()))
        self.assertEqual(2, done.status)
        self.assertIn('has no hosts', done.err)

    def test_of_a_request(self):
        asked = []

        def stored(*values):
            asked.append(values)
            return request_specs.StoredRequest(
                server=self.fleet.guests[0].uuid,
                flavor=explain_cases.flavor(2),
                image_properties={'hw_cpu_policy': 'dedicated'},
                availability_zone='nova', project_id='acme',
                fault='No valid host was found', notes=('it asks a lot',))

        self.useFixture(fixtures.MonkeyPatch(
            'nova_pinning.bridge.importer.request_specs.stored_request',
            stored))
        done = self._explain('--server', 'uuid')
        self.assertEqual(0, done.status, done.err)
        for text in ('Note: nova said of server', ': No valid host was found',
                     'Note: it asks a lot', 'Note: the hosts are those of',
                     'is in the snapshot, on host'):
            self.assertIn(text, ' '.join(done.out.split()))
        path = self.write('nova.conf', '')
        _status, found = self._explain_json(
            '--server', 'req-1', '--config-file', str(self.dir),
            '--config-file', path)
        self.assertEqual(4, len(found['remarks']))
        self.assertEqual([
            ('uuid', []), ('req-1', [
                '--config-dir', str(self.dir), '--config-file', path])],
            asked)


class TestPage(cli_case.TestCase):
    """What the page shows is what the commands print."""

    def test_examples(self):
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', '80'))
        blocks = re.findall(
            r'^\.\. code-block:: console\n\n((?:   .*\n|\n)+)',
            PAGE.read_text(), re.MULTILINE)
        ran = 0
        for block in blocks:
            lines = [line[3:] for line in block.rstrip().splitlines()]
            prompt = '$ nova-pinning '
            while lines and lines[0].startswith(prompt):
                line = lines.pop(0)
                while line.endswith('\\'):
                    line = line[:-1] + lines.pop(0).strip()
                expected = []
                while lines and not lines[0].startswith('$ '):
                    expected.append(lines.pop(0))
                ran += self._run(line.removeprefix(prompt), expected)
        self.assertGreater(ran, 2)

    def _run(self, line, expected):
        argv = [part.strip("'") for part in re.findall(
            r"'[^']*'|[^ ]+", line)]
        if 'fleet.json.zst' not in argv or 'import' in argv:
            return 0
        argv = [str(self.dir / part) if part == 'fleet.json.zst' else part
                for part in argv]
        done = self.run_command(*argv)
        shown = [text.rstrip() for text in done.out.strip().splitlines()]
        if expected:
            self.assertEqual(
                [text.rstrip() for text in expected], shown, line)
        self.assertIn(done.status, (0, 1), done.err)
        return 1
