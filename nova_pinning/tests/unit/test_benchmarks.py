# SPDX-License-Identifier: Apache-2.0

import contextlib
import dataclasses
import gc
import io
import json
import math
import os
import pathlib
import random
import re
import sys
from unittest import mock

import fixtures
from nova import objects
from oslotest import base

from benchmarks import judging
from benchmarks import requests
from benchmarks import runner
from benchmarks.speed import __main__
from benchmarks.speed import bars
from benchmarks.speed import commands
from benchmarks.speed import hosts
from benchmarks.speed import measure
from benchmarks.speed import report
from benchmarks.speed import scenes
from benchmarks.speed import tiers
from nova_pinning.cli import shell
from nova_pinning.fit import _cells
from nova_pinning.flavors import catalogue
from nova_pinning.host import host_loader
from nova_pinning.tests import command_lines
from nova_pinning.tests import forms

PLAN = measure.Plan(processes=1, rounds=1, passes=2, few_rounds=1,
                    command_rounds=1, time_limit=0.1)


def _samples(nova_us, ours_us, passed=2, differ=(), limited=None):
    """Return samples of one process that measured two hosts.

    In a round's first pass both sides took 10 microseconds more.
    """
    nova_ns, ours_ns = (
        [[int(2000 * (value + 10)), int(2000 * value)] for value in values]
        for values in (nova_us, ours_us))
    return measure.Samples(
        2, nova_ns, ours_ns, passed, list(differ),
        limited=limited)


def _options(*words):
    """The options of a command line."""
    with mock.patch.object(runner, 'run') as run:
        __main__.main(words)
    return run.call_args.args[0]


class TestHosts(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        objects.register_all()

    def test_fill(self):
        record = hosts.fill(hosts.TWO_SOCKETS, 0.5, 'test')
        again = hosts.fill(hosts.TWO_SOCKETS, 0.5, 'test')
        self.assertEqual(json.loads(record.numa_topology),
                         json.loads(again.numa_topology))
        self.assertTrue(0.5 <= sum(record.free) / record.sold < 0.8)
        cells = hosts.host_state(record).numa_topology.cells
        self.assertEqual(record.free,
                         tuple(cell.avail_pcpus for cell in cells))
        self.assertFalse({0, 1, 40, 41} & cells[0].pcpuset)
        self.assertIn({2, 42}, cells[0].siblings)

    def test_fill_cells(self):
        rng = random.Random(0)
        free = [rng.randint(0, 16) for _ in range(16)]
        record = hosts.fill_cells(hosts.SIXTEEN_CELLS, free, 'test')
        self.assertEqual(tuple(free), record.free)

    def test_no_memory(self):
        for layout in (hosts.SIXTEEN_CELLS, hosts.SIXTEEN_CELLS_HUGE):
            record = hosts.fill_cells(layout, [15] * 2 + [8] * 14, 'test', [1])
            self.assertEqual((15, 15, 8), record.free[:3])
            cells = hosts.host_state(record).numa_topology.cells
            room = [cell.mempages[1].free if layout.huge_mib
                    else cell.avail_memory for cell in cells]
            self.assertEqual(0, room[1])
            self.assertTrue(all(room[:1] + room[2:]))

    def test_devices(self):
        record = hosts.fill(hosts.TWO_SOCKETS, 0.5, 'test')
        self.assertEqual([], hosts.host_state(record).pci_stats.pools)
        state = hosts.host_state(hosts.with_devices(record, [('20b5', 1, 3)]))
        pool, = state.pci_stats.pools
        self.assertEqual(('20b5', 1, 3), (
            pool['product_id'], pool['numa_node'], pool['count']))

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
        # What is measured has all garbage collected each time.
        gc.freeze()
        self.addCleanup(gc.unfreeze)
        for name, value in (('HOSTS', 2), ('COPIES', 2), ('FEW', 1),
                            ('FLEET', 24), ('FLEET_FILLINGS', 12)):
            self._set(scenes, name, value)

    def _set(self, module, name, value):
        self.addCleanup(setattr, module, name, getattr(module, name))
        setattr(module, name, value)

    def _shrink(self):
        """Fewer cells, with which nova comes to an end."""
        for name, cells in (('THIRTY_TWO_CELLS', 8),
                            ('TWENTY_FOUR_CELLS', 14)):
            self._set(hosts, name, dataclasses.replace(
                getattr(hosts, name), cells_per_socket=cells // 2))

    @staticmethod
    def _case(name):
        return next(case for case in bars.CASES if case.name == name)

    def test_names(self):
        self.assertEqual([case.name for case in bars.CASES],
                         list(scenes.BUILDERS))

    def test_answers(self):
        self._shrink()
        # Those of uneven guests are made alike.
        cases = [case for case in bars.CASES if case not in bars.UNEVEN[2:]]
        for case in cases[::6 if forms.SHORT else 1]:
            if case.name == 'pci-near-full':
                case = dataclasses.replace(case, endless=False)
            samples = measure.measure(case, 0, PLAN)
            row = report.summarise(case, [samples])
            self.assertEqual([], row.problems, case.name)
            self.assertEqual(case.endless, row.details['nova_is_lower_bound'])
            self.assertEqual(
                1 if case.whole_request else 2, len(samples.ours_ns[0]))

    def test_wrong_answers_are_noticed(self):
        # Ours must leave out just the hosts on which a claim goes wrong.
        case = self._case('second-tier-2')
        for tier in (frozenset(), frozenset({'some other host'})):
            with mock.patch.object(
                    scenes, '_tiered', lambda request, records, found:
                    scenes.Scene(request, records, first_tier=tier)):
                samples = measure.measure(case, 0, PLAN)
            self.assertTrue(samples.differ)

    def _first_cells(self, name):
        """A host of a scene in full size, and its cells in nova's order."""
        scene = scenes.build(self._case(name), 0)
        state = scene.states()[0]
        devices = {pool['numa_node']: pool['count']
                   for pool in state.pci_stats.pools}
        return state, sorted(
            state.numa_topology.cells, reverse=True,
            key=lambda cell: (devices.get(cell.id, 0), len(cell.free_pcpus),
                              cell.avail_memory))

    def test_leading_cells_are_full(self):
        for name, cells, full in (
                ('32-cells-late', 32, 1), ('pages-two-full', 16, 2),
                ('pages-five-full', 16, 5)):
            _state, ordered = self._first_cells(name)
            self.assertEqual(cells, len(ordered))
            if name.startswith('pages'):
                room = [cell.mempages[1].free_kb // 1024 for cell in ordered]
            else:
                room = [cell.avail_memory for cell in ordered]
            self.assertEqual([0] * full, room[:full])
            self.assertGreater(min(room[full:]), 8 * hosts.MIB_PER_VCPU)
            self.assertGreaterEqual(
                min(len(cell.free_pcpus) for cell in ordered), 8)

    def test_devices_are_near_the_last_cells(self):
        for name, cells, is_full in (
                ('pci-fits', 32, False), ('pci-near-full', 32, True),
                ('pci-24', 24, True)):
            state, ordered = self._first_cells(name)
            near = {pool['numa_node'] for pool in state.pci_stats.pools
                    if pool['product_id'] == requests.WANTED_PRODUCT}
            self.assertEqual(cells, len(ordered))
            self.assertEqual(near, {cell.id for cell in ordered[-2:]})
            for cell in ordered:
                self.assertEqual(is_full and cell.id in near,
                                 len(cell.free_pcpus) < 8)

    def test_tiers(self):
        for name in ('uneven-8x3', 'uneven-8x4-pages', 'second-tier-2',
                     'second-tier-4'):
            scene = scenes.build(self._case(name), 0)
            found = [tiers.of_host(record, scene.request)
                     for record in scene.records]
            self.assertEqual(scene.first_tier, {
                record.name for record, tier in zip(scene.records, found)
                if tier is tiers.Tier.FIRST})
            self.assertTrue(scene.first_tier)
            if not name.startswith('uneven'):
                self.assertEqual([tiers.Tier.FIRST, tiers.Tier.SECOND],
                                 sorted(set(found), key=str))
                self.assertEqual(len(found), 2 * len(scene.first_tier))

    def test_every_pass_fits_again(self):
        # A fit that was kept for an earlier pass would make ours look fast.
        case = self._case('two-cells')
        plan = dataclasses.replace(PLAN, passes=3, warm_up=0)
        with mock.patch.object(
                _cells, 'choose_cells',
                wraps=_cells.choose_cells) as choose:
            samples = measure.measure(case, 0, plan)
            self.assertEqual(3, len(samples.ours_ns[0]))
            self.assertEqual(3 * samples.hosts, choose.call_count)
            # With one spec it would be kept, so it is the new one that counts.
            choose.reset_mock()
            scene = scenes.build(case, 0)
            states, spec = scene.states(), scene.request.spec()
            _nova, ours = scene.sides()
            for _ in range(2):
                ours(states, spec)
            self.assertEqual(samples.hosts, choose.call_count)

    def test_renew(self):
        scene = scenes.build(self._case('one-cell'), 0)
        for side in scene.sides():
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


class TestJudging(base.BaseTestCase):

    def test_at_least(self):
        for interval, verdict in (
                ((20, 25), 'met'), ((20.1, math.inf), 'met'),
                ((19.9, 20), 'inconclusive'), ((0.5, math.inf),
                                               'inconclusive'),
                ((15, 19.9), 'MISSED')):
            self.assertEqual(
                verdict, judging.at_least(interval, 20, str).verdict)
        self.assertEqual(
            ('>=20', '0.5 or more'),
            judging.at_least((0.5, math.inf), 20, str)[:2])

    def test_below(self):
        for interval, verdict in (
                ((15, 19.9), 'met'), ((19.9, 20), 'inconclusive'),
                ((15, 25), 'inconclusive'), ((20, 25), 'MISSED')):
            self.assertEqual(
                verdict, judging.below(interval, 20, str).verdict)

    def test_worst(self):
        verdicts = judging.Verdict
        for one, other, expected in (
                (verdicts.MET, verdicts.INCONCLUSIVE, 'inconclusive'),
                (verdicts.MISSED, verdicts.INCONCLUSIVE, 'MISSED'),
                (verdicts.MISSED, verdicts.WRONG, 'WRONG'),
                (verdicts.MET, verdicts.MET, 'met')):
            self.assertEqual(expected, judging.worst([one, other]))
            self.assertEqual(expected, judging.worst([other, one]))
        self.assertEqual('-', judging.worst([]))

    def test_failures(self):
        self.assertEqual(['MISSED', 'WRONG'], [
            verdict for verdict in judging.Verdict if verdict.is_failure])

    def test_bootstrap(self):
        # The mean of so many draws of 0 and 1 has a known spread.
        low, high = judging.bootstrap(
            lambda rng: sum(rng.choices((0, 1), k=100)) / 100)
        self.assertAlmostEqual(0.5 - 1.96 * 0.05, low, delta=0.02)
        self.assertAlmostEqual(0.5 + 1.96 * 0.05, high, delta=0.02)


class TestReport(base.BaseTestCase):

    case = bars.Case('x', ratio=20)

    def test_ratio(self):
        row = report.summarise(
            self.case, [_samples([100, 300, 200], [10, 10, 10]),
                        _samples([200, 600, 400], [10, 10, 10])])
        self.assertEqual(('x', '300 us', '10 us', '30', '15.5'), row.cells)
        low, high = row.details['ratio_95']
        self.assertTrue(10 <= low <= 20 < 40 <= high <= 60)
        self.assertEqual('inconclusive', row.verdict)

    def test_whole_request(self):
        case = bars.Case('x', ratio=5, whole_request=True)
        samples = measure.Samples(1000, [[6000], [8000]], [[1000], [1000]])
        row = report.summarise(case, [samples])
        self.assertEqual(('7', '7'), row.cells[-2:])

    def test_missed(self):
        row = report.summarise(
            self.case, [_samples([100], [10])])
        self.assertEqual('MISSED', row.verdict)

    def _both_bars(self, nova_us, ours_us):
        """The row of a case that must take a tenth, and less than 50 us."""
        return report.summarise(
            bars.Case('x', ratio=10, limit_us=50),
            [_samples(nova_us, ours_us)])

    def test_inconclusive(self):
        """29.7 of 30, give or take a half, is not a miss."""
        case = bars.Case('x', ratio=30)
        row = report.summarise(
            case, [_samples([200, 297, 400], [10, 10, 10])])
        self.assertLess(row.details['ratio'], 30)
        self.assertEqual('inconclusive', row.verdict)
        table = report.GROUP.table([row], _options())
        self.assertIn('inconclusive', table[3])
        text = ' '.join(table)
        self.assertIn('not a failure: the bar >=30x of x lies inside', text)
        self.assertIn('20x to 40x', text)

    def test_both_bars(self):
        for nova_us, ours_us, verdict, each in (
                ([600] * 2, [40] * 2, 'met', ['met', 'met']),
                ([300] * 2, [40] * 2, 'MISSED', ['MISSED', 'met']),
                ([600] * 2, [55] * 2, 'MISSED', ['met', 'MISSED']),
                ([450, 350], [40] * 2, 'inconclusive',
                 ['inconclusive', 'met']),
                ([600] * 2, [45, 55], 'inconclusive',
                 ['met', 'inconclusive']),
                ([300] * 2, [45, 55], 'MISSED',
                 ['MISSED', 'inconclusive'])):
            row = self._both_bars(nova_us, ours_us)
            self.assertEqual(['>=10x', '<50 us'],
                             [bar.bar for bar in row.bars])
            self.assertEqual(each, [one.verdict for one in row.bars])
            self.assertEqual(verdict, row.verdict)

    def test_processes_that_differ(self):
        """One slow process of two is chance, not a sure miss."""
        row = report.summarise(
            self.case, [_samples([150] * 5, [10] * 5),
                        _samples([230] * 5, [10] * 5)])
        self.assertLess(row.details['ratio'], 20)
        self.assertEqual('inconclusive', row.verdict)

    def test_first_pass_is_not_judged(self):
        row = report.summarise(
            self.case, [_samples([200, 200], [10, 10])])
        self.assertLess(float(row.cells[-1]), self.case.ratio)
        self.assertEqual('met', row.verdict)

    def test_wrong(self):
        row = report.summarise(
            self.case, [_samples([1000], [10], differ=['host1'])])
        self.assertEqual('WRONG', row.verdict)

    def test_expected_answer(self):
        case = bars.Case('x', limit_us=2000, expect=bars.Expect.REFUSE)
        row = report.summarise(case, [_samples([], [10])])
        self.assertEqual('WRONG', row.verdict)

    def test_lower_bound(self):
        case = bars.Case('x', limit_us=2000, endless=True)
        row = report.summarise(case, [_samples(
            [], [30], limited=measure.Limited(10, False))])
        table = report.GROUP.table([row], _options())
        self.assertEqual(
            ['x', '> 10 s', '30 us', '> 330,000', '-', '<2 ms', 'met'],
            re.split('  +', table[3]))

    def test_bar_for_a_lower_bound(self):
        case = bars.Case('x', ratio=1, endless=True)
        for seconds, ended, verdict in (
                (2, False, 'met'), (1, False, 'inconclusive'),
                (1, True, 'MISSED'), (2, True, 'met')):
            row = report.summarise(case, [_samples(
                [], [1.5e6], limited=measure.Limited(seconds, ended))])
            self.assertEqual(verdict, row.verdict)
        row = report.summarise(case, [_samples(
            [], [1.5e6], limited=measure.Limited(1, False))])
        table = report.GROUP.table([row], _options())
        self.assertIn('interval, 0.667x or more.', ' '.join(table))

    def test_table_fits(self):
        rows = [
            report.summarise(case, [_samples(
                [] if case.endless else [4000], [30], 1,
                limited=measure.Limited(10, False) if case.endless
                else None)])
            for case in bars.CASES]
        lines = report.GROUP.table(rows, _options())
        self.assertLessEqual(max(map(len, lines)), 80)
        for case in bars.CASES:
            self.assertIn(case.name, '\n'.join(lines))


class TestMain(base.BaseTestCase):

    def test_repeated_case(self):
        expected = ['one-cell', 'two-cells', 'help']
        for words in (['--case', *expected],
                      ['--case', *expected[:2], '--case', 'help'],
                      [word for name in expected
                       for word in ('--case', name)]):
            self.assertEqual(expected, _options(*words).case)

    def _main(self, nova_us):
        """Exit status, and what was written about a case with 20x."""
        samples = _samples(nova_us, [10] * len(nova_us))
        group = dataclasses.replace(
            report.GROUP, cases=[TestReport.case],
            measure=lambda cases, _options, _step: [
                report.summarise(case, [samples]) for case in cases])
        path = pathlib.Path(self.create_tempfiles([('out', '')])[0])
        with mock.patch.object(__main__, 'GROUPS', [group]):
            status = __main__.main(
                ['--case', 'x', '--rst', str(path)])
        row, = (line for line in path.read_text().splitlines()
                if line.startswith('x '))
        return status, row.split()[-1]

    def test_status(self):
        for nova_us, status, verdict in (
                ([250, 300], 0, 'met'), ([150, 250], 0, 'inconclusive'),
                ([150, 180], 1, 'MISSED')):
            self.assertEqual((status, verdict), self._main(nova_us))


class TestCommands(base.BaseTestCase):

    def _command(self, program, limit_s=100, statuses=(0,)):
        return commands.Command('c', 'a command', limit_s,
                                (sys.executable, '-c', program), statuses)

    def test_big_catalogue(self):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        sold = catalogue.load(commands.big_catalogue(directory))
        self.assertEqual(1000, len(sold.flavors))

    def test_files(self):
        """They are as large as the titles of the commands say."""
        directory = pathlib.Path(commands.__file__).parent
        self.assertEqual(40, len(catalogue.load(
            directory / 'flavors.yaml').flavors))
        self.assertEqual(2048, len(host_loader.load(
            str(directory / 'host.yaml')).cpus))

    def test_options(self):
        """Each command line is one that our programs take."""
        parsers = dict(command_lines.parsers())
        ours = len(commands._PROGRAM)
        for command in commands.COMMANDS:
            words = ['nova-pinning', *command.arguments[ours:]]
            if (command.arguments[:ours] == commands._PROGRAM
                    and '--help' not in words):
                name = command_lines.name_of(words, parsers)
                parsers[name].parse_args(words[len(name.split()):])

    def _runs(self, *seconds):
        return [commands.ProcessRun(one, 100.0) for one in seconds]

    def test_memory(self):
        for limit_mib, verdict in ((100, 'MISSED'), (101, 'met')):
            outcome = commands.summarise(dataclasses.replace(
                self._command(''), limit_mib=limit_mib), self._runs(1.0, 1.0))
            self.assertEqual(verdict, outcome.verdict)
            self.assertEqual(['<100 s', f'<{limit_mib} MiB'],
                             [bar.bar for bar in outcome.bars])

    def test_nova_databases(self):
        """Commands read them, and find what is in them."""
        self.enterContext(mock.patch.multiple(
            commands, _NOVA_HOSTS=3, _NOVA_GUESTS=2))
        reading = [command for command in commands.COMMANDS
                   if 'NOVA_CONF' in command.arguments]
        self.assertEqual(2, len(reading))
        with commands._files(reading) as files:
            ours = len(commands._PROGRAM)
            for command in reading:
                self.assertEqual(commands._PROGRAM, command.arguments[:ours])
                with (contextlib.redirect_stdout(io.StringIO()),
                      contextlib.redirect_stderr(io.StringIO()) as error):
                    status = shell.main([files.get(word, word) for word
                                         in command.arguments[ours:]])
                self.assertIn(status, command.statuses, error.getvalue())
            self.assertTrue(os.path.getsize(files['OUTPUT']))

    def _measure(self, command, rounds=1):
        """The outcome of one command, and the steps."""
        steps = []
        with mock.patch.object(commands, 'rounds', return_value=rounds):
            outcome, = commands.measure([command], _options(), steps.append)
        return outcome, steps

    def test_upgrade_check(self):
        """It runs, through a fleet of which it finds something."""
        self.enterContext(mock.patch.dict(
            commands._FLEETS, {'SMALL_FLEET': 30}))
        command, = (command for command in commands.COMMANDS
                    if command.name == 'upgrade-check')
        self.assertEqual((1,), command.statuses)
        outcome, _steps = self._measure(command)
        self.assertEqual(['<10 s'], [bar.bar for bar in outcome.bars])

    def test_measure(self):
        outcome, steps = self._measure(self._command(''), 2)
        self.assertEqual(['c'] * 3, steps)
        self.assertEqual('met', outcome.verdict)

    def test_bar(self):
        for limit_s, verdict in ((2, 'MISSED'), (2.5, 'met'), (None, '-')):
            outcome = commands.summarise(
                self._command('', limit_s), self._runs(2.0, 2.0, 2.1))
            table = commands.GROUP.table([outcome], _options())
            self.assertEqual(verdict, table[3].split()[-1])

    def test_inconclusive(self):
        outcome = commands.summarise(
            self._command('', 2), self._runs(1.0, 1.9, 9.0))
        table = commands.GROUP.table([outcome], _options())
        self.assertIn('Inconclusive, which is not a failure: the bar <2 s of '
                      'c', ' '.join(table))

    def test_failure(self):
        error = self.assertRaises(
            runner.BenchmarkError, self._measure,
            self._command('raise SystemExit("oh")'))
        self.assertIn('oh', str(error))
        self._measure(self._command('raise SystemExit("oh")',
                                    statuses=(0, 1)))
