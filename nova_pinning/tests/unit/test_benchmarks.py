# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

import dataclasses
import gc
import json
import random
import sys
from unittest import mock
import urllib.parse

from nova import objects
from oslotest import base

from benchmarks import audit
from benchmarks import bars
from benchmarks import commands
from benchmarks import hosts
from benchmarks import measure
from benchmarks import report
from benchmarks import scenes
from benchmarks import stubcloud
from nova_pinning import fit
from nova_pinning.flavors import catalogue

PLAN = measure.Plan(processes=1, rounds=1, passes=2, request_rounds=1,
                    time_limit=1)


def _samples(nova_us, ours_us, passed=2, differ=()):
    """Return samples of one process that measured two hosts.

    In a round's first pass both sides took 10 microseconds more.
    """
    nova_ns, ours_ns = (
        [[int(2000 * (value + 10)), int(2000 * value)] for value in values]
        for values in (nova_us, ours_us))
    return measure.Samples(
        2, [0.5, 0.5], nova_ns, ours_ns, passed, passed, list(differ))


class TestHosts(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        objects.register_all()

    def test_fill(self):
        record = hosts.fill(hosts.TWO_SOCKETS, 0.5, 'test')
        again = hosts.fill(hosts.TWO_SOCKETS, 0.5, 'test')
        self.assertEqual(json.loads(record.numa_topology),
                         json.loads(again.numa_topology))
        self.assertTrue(0.2 < record.used <= 0.5, record.used)
        cells = hosts.host_state(record).numa_topology.cells
        self.assertEqual(record.free,
                         tuple(cell.avail_pcpus for cell in cells))
        kept = set(hosts.TWO_SOCKETS.kept)
        self.assertFalse(kept & cells[0].pcpuset)
        self.assertIn({2, 42}, cells[0].siblings)

    def test_fill_cells(self):
        rng = random.Random(0)
        free = [rng.randint(0, 16) for _ in range(16)]
        record = hosts.fill_cells(hosts.SIXTEEN_CELLS, free, 'test')
        self.assertEqual(tuple(free), record.free)

    def test_host_states_share_nothing(self):
        record = hosts.fill(hosts.TWO_SOCKETS, 0.5, 'test')
        one, two = (hosts.host_state(record) for _ in range(2))
        self.assertIsNot(one.numa_topology, two.numa_topology)
        self.assertIsNot(one.numa_topology.cells[0].pcpuset,
                         two.numa_topology.cells[0].pcpuset)


class TestCases(base.BaseTestCase):
    """Every case builds, and both sides give the same answer."""

    def setUp(self):
        super().setUp()
        objects.register_all()
        self.addCleanup(gc.unfreeze)
        for name, value in (('HOSTS', 1), ('COPIES', 2), ('FLEET', 24),
                            ('FLEET_FILLINGS', 12)):
            original = getattr(scenes, name)
            setattr(scenes, name, value)
            self.addCleanup(setattr, scenes, name, original)

    def test_names(self):
        self.assertEqual([case.name for case in bars.CASES],
                         list(scenes.BUILDERS))

    def test_answers(self):
        for case in bars.CASES:
            samples = measure.measure(case, 0, PLAN, lambda: None)
            limited = measure.Limited(1, False) if case.endless else None
            row = report.summarise(case, [samples], limited)
            self.assertEqual((), row.problems, case.name)
            self.assertGreater(row.ours_us, 0)
            self.assertEqual(
                1 if case.whole_request else 2, len(samples.ours_ns[0]))

    def test_every_pass_fits_again(self):
        # A fit that was kept for an earlier pass would make ours look fast.
        case = next(case for case in bars.CASES if case.name == 'two-cells')
        plan = dataclasses.replace(PLAN, passes=3, warm_up=0)
        with mock.patch.object(
                fit, 'choose_cells', wraps=fit.choose_cells) as choose:
            samples = measure.measure(case, 0, plan, lambda: None)
            self.assertEqual(3, len(samples.ours_ns[0]))
            self.assertEqual(3 * samples.hosts, choose.call_count)
            # With one spec it would be kept, so it is the new one that counts.
            choose.reset_mock()
            scene = scenes.build(case, 0)
            states, spec = scene.states(), scene.request.spec()
            _nova, ours = scene.sides(False)
            for _ in range(2):
                ours(states, spec)
            self.assertEqual(samples.hosts, choose.call_count)

    def test_renew(self):
        for name in ('one-cell', 'request'):
            case = next(case for case in bars.CASES if case.name == name)
            scene = scenes.build(case, 0)
            for side in scene.sides(False):
                fresh, states = scene.states(), scene.states()
                side(states, scene.request.spec())
                self.assertTrue(any(state.limits for state in states))
                scene.renew(states)
                for one, other in zip(fresh, states, strict=True):
                    self.assertEqual(
                        self._contents(one), self._contents(other))

    @staticmethod
    def _contents(state):
        """Return what a filter could have changed on a HostState."""
        return (state.limits, state.allocation_candidates,
                state.numa_topology.obj_to_primitive())


class TestReport(base.BaseTestCase):

    case = bars.Case('x', 'a case', ratio=20)

    def test_ratio(self):
        row = report.summarise(
            self.case, [_samples([100, 300, 200], [10, 10, 10]),
                        _samples([200, 600, 400], [10, 10, 10])], None)
        self.assertEqual((300, 10, 30),
                         (row.nova_us, row.ours_us, row.ratio))
        low, high = row.interval
        self.assertTrue(15 <= low <= 30 <= high <= 45)
        self.assertEqual('met', row.verdict)
        self.assertEqual('4/4', row.fits)
        self.assertEqual((310, 20, 15.5), (
            row.nova_first_us, row.ours_first_us, row.first_ratio))

    def test_whole_request(self):
        case = bars.Case('x', 'a case', ratio=5, whole_request=True)
        samples = measure.Samples(1000, [], [[6000], [8000]], [[1000], [1000]])
        row = report.summarise(case, [samples], None)
        self.assertEqual((7, 7), (row.ratio, row.first_ratio))

    def test_missed(self):
        row = report.summarise(
            self.case, [_samples([100], [10])], None)
        self.assertEqual('MISSED', row.verdict)

    def test_first_pass_is_not_judged(self):
        row = report.summarise(
            self.case, [_samples([200, 200], [10, 10])], None)
        self.assertLess(row.first_ratio, self.case.ratio)
        self.assertEqual('met', row.verdict)

    def test_wrong(self):
        row = report.summarise(
            self.case, [_samples([1000], [10], differ=['host1'])], None)
        self.assertEqual('WRONG', row.verdict)
        self.assertFalse(row.met)

    def test_expected_answer(self):
        case = bars.Case('x', 'a case', limit_us=2000,
                         expect=bars.Expect.REFUSE)
        row = report.summarise(case, [_samples([], [10])], None)
        self.assertEqual('WRONG', row.verdict)

    def test_lower_bound(self):
        case = bars.Case('x', 'a case', limit_us=2000, endless=True)
        row = report.summarise(case, [_samples([], [30])],
                               measure.Limited(10, False))
        self.assertEqual(
            ('a case', '> 10 s', '30 us', '> 330,000', '-', '< 2 ms', 'met'),
            report.cells(row))

    def test_table_fits(self):
        rows = [
            report.summarise(
                case,
                [_samples([] if case.endless else [4000], [30], 1)],
                measure.Limited(10, False) if case.endless else None)
            for case in bars.CASES]
        lines = report.table(rows)
        self.assertLessEqual(max(map(len, lines)), 80)
        for case in bars.CASES:
            self.assertIn(case.title, '\n'.join(lines))


class TestCommands(base.BaseTestCase):

    def _command(self, program, limit_s=100, statuses=(0,)):
        return commands.Command('c', 'a command', limit_s,
                                (sys.executable, '-c', program), statuses)

    def test_big_catalogue(self):
        sold = catalogue.parse(commands.big_catalogue(), 'big.yaml')
        self.assertEqual(1000, len(sold.flavors))

    def test_measure(self):
        done = []
        timing, = commands.measure([self._command('')], 2, done.append)
        self.assertEqual(['c'] * 3, done)
        self.assertEqual(2, len(timing.seconds))
        self.assertEqual('met', timing.verdict)

    def test_bar(self):
        for limit_s, verdict in ((2, 'MISSED'), (2.5, 'met'), (None, '-')):
            timing = commands.Timing(
                self._command('', limit_s), (1.0, 2.0, 9.0))
            self.assertEqual(verdict, timing.verdict)
            self.assertIn(verdict, commands.table([timing])[3])

    def test_failure(self):
        error = self.assertRaises(
            commands.CommandFailed, commands.measure,
            [self._command('raise SystemExit("oh")')], 1, lambda name: None)
        self.assertIn('oh', str(error))
        commands.measure([self._command('raise SystemExit("oh")',
                                        statuses=(0, 1))], 1,
                         lambda name: None)


class TestAudits(base.BaseTestCase):

    def _case(self, servers=200, limit_s=600):
        return audit.Case('a', 'a cloud', 20, servers, limit_s)

    def test_measure(self):
        done = []
        small, large = audit.run(
            [self._case(), self._case(4000)], done.append)
        self.assertEqual(['a', 'a'], done)
        for outcome in (small, large):
            self.assertEqual('met', outcome.verdict)
            self.assertEqual(audit.MISPLACED, outcome.findings)
            self.assertGreater(outcome.memory_mib, 20)
        self.assertTrue(audit.is_flat([small, large]))

    def test_failure(self):
        self.assertRaises(commands.CommandFailed, audit.measure,
                          self._case(), 'no-such-host')

    def test_bar(self):
        for limit_s, findings, verdict in (
                (9, audit.MISPLACED, 'MISSED'), (9.5, audit.MISPLACED, 'met'),
                (9.5, 1, 'WRONG'), (None, audit.MISPLACED, '-')):
            outcome = audit.Outcome(
                self._case(limit_s=limit_s), 9.0, 100.0, findings)
            self.assertEqual(verdict, outcome.verdict)
            self.assertEqual(verdict in ('met', '-'), outcome.met)
            self.assertIn(verdict, audit.table([outcome])[3])

    def test_is_flat(self):
        for used, is_flat in ((), True), ((100, 125), True), ((126, 100),
                                                              False):
            self.assertEqual(is_flat, audit.is_flat([
                audit.Outcome(self._case(), 1.0, one, 0) for one in used]))

    def test_table_fits(self):
        lines = audit.as_rst([audit.Outcome(case, 1000.0, 1000.0, 0)
                              for case in audit.CASES])
        self.assertLessEqual(max(map(len, lines)), 80)


class TestStubCloud(base.BaseTestCase):

    def _get(self, path, **query):
        return json.loads(self.cloud.answer(path, query))

    def setUp(self):
        super().setUp()
        self.cloud = stubcloud.StubCloud(6, 2500, misplaced=3)

    def test_servers_by_host_are_all_servers(self):
        whole, by_host = {}, {}
        query = {}
        while query is not None:
            page = self._get('/v2.1/servers/detail', **query)
            self.assertLessEqual(len(page['servers']), stubcloud.PAGE)
            whole.update((one['id'], one) for one in page['servers'])
            [href] = [one['href'] for one in page.get(
                'servers_links', [{'href': ''}])]
            query = dict(urllib.parse.parse_qsl(
                urllib.parse.urlsplit(href).query)) or None
        for host in range(6):
            by_host.update(
                (one['id'], one) for one in self._get(
                    '/v2.1/servers/detail', host=f'cmp-{host:05}')['servers'])
        self.assertEqual(2500, len(whole))
        self.assertEqual(whole, by_host)

    def test_misplaced(self):
        wrong = [number for number in range(2500)
                 if self.cloud.home(number) % 2 != number % 2]
        self.assertEqual([0, 1, 2], wrong)

    def test_what_there_is_not(self):
        for path in ('/', '/v2.1/images', '/v2.1/servers/x',
                     '/placement/resource_providers/x/inventories'):
            self.assertIsNone(self.cloud.answer(path, {}))
        self.assertEqual([], self._get('/v2.1/servers/detail',
                                       host='x')['servers'])
