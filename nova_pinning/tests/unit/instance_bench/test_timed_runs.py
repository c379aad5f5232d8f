# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import subprocess
import time

import ddt
import fixtures
import hypothesis
from hypothesis import strategies as st

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import instance_clock
from nova_pinning.instance_bench import timed_runs
from nova_pinning.tests.unit.instance_bench import bench_fakes
from nova_pinning.tests.unit import unit_base


def runs(*times):
    return tuple(
        timed_runs.TimedRun(began, ended, '') for began, ended in times)


def counted(*instances, is_race=False):
    """Of instances that are called 0, 1, and so on."""
    found = timed_runs.counted({
        str(number): own for number, own in enumerate(instances)}, is_race)
    return list(found.values())


def reading(time, offset, uncertainty):
    return instance_clock.ClockReading(
        before=time - uncertainty, inside=time + offset,
        after=time + uncertainty)


class TestScript(unit_base.TestCase):
    """With the shell that runs it."""

    def run_it(self, command, **options):
        return subprocess.run(
            ['/bin/sh', '-c', timed_runs.script(command, **options)],
            capture_output=True, text=True, timeout=60, check=False)

    def test_once(self):
        before = time.time()
        done = self.run_it('echo a\necho "b c" # with a comment')
        run, = timed_runs.parse(done.stdout)
        self.assertEqual((0, 'a\nb c\n'), (done.returncode, run.stdout))
        self.assertTrue(before <= run.started < run.ended <= time.time())

    def set_clock(self, step):
        """Let time go by only when somebody asks for it.

        :param step: how much then, in nanoseconds
        """
        programs = self.useFixture(fixtures.TempDir())
        clock = programs.join('clock')
        date = programs.join('date')
        pathlib.Path(clock).write_text('0')
        pathlib.Path(date).write_text(
            '#!/bin/sh\n'
            f'now=$(($(cat {clock}) + {step}))\n'
            f'echo $now | tee {clock}\n')
        os.chmod(date, 0o755)
        self.useFixture(fixtures.EnvironmentVariable(
            'PATH', f'{programs.path}:{os.environ["PATH"]}'))

    def test_over_and_over(self):
        self.set_clock(10_000_000)
        done = self.run_it('echo a; exit 0', seconds=0.1)
        found = timed_runs.parse(done.stdout)
        self.assertEqual({'a\n'}, {run.stdout for run in found})
        self.assertEqual(4, len(found))
        for one, other in zip(found, found[1:]):
            self.assertLessEqual(one.ended, other.started)
        self.assertEqual('\n'.join('a' * len(found)),
                         timed_runs.without_times(done.stdout))

    def test_starts_when_it_is_told(self):
        """At once if that is past."""
        for later in 0.2, -5:
            before = time.time()
            run, = timed_runs.parse(self.run_it(
                ':', start=before + later).stdout)
            self.assertGreaterEqual(run.started, before + max(later, 0) - 1e-6)

    def test_a_command_that_fails(self):
        done = self.run_it('echo a; exit 7', seconds=60)
        self.assertEqual(7, done.returncode)
        self.assertEqual(1, done.stdout.count('a\n'))

    def test_a_command_that_goes_elsewhere(self):
        """What it does to its shell is forgotten."""
        done = self.run_it('test "$x" && exit 3; x=1; cd /', seconds=0.05)
        self.assertEqual(0, done.returncode)


class TestParse(unit_base.TestCase):

    def test_what_is_not_right(self):
        for text, said in (
                ('', 'a run has no end'),
                ('\x1e1\nhalf', 'a run has no end'),
                ('\x1e1\nx\x1e2\n\x1e3\n', 'a run has no end'),
                ('\x1e2000\nx\x1e1000\n', 'was set back'),
                ('\x1e1000\nx\x1e1000\n', 'was set back'),
                ('\x1e17 %N\nx\x1e18 %N\n', "says '17 %N'")):
            with self.subTest(text):
                error = self.assertRaises(bench_errors.WorkloadError,
                                          timed_runs.parse, text)
                self.assertIn(said, str(error))


@ddt.ddt
class TestClockLine(unit_base.TestCase):

    @ddt.data(
        # What handshakes leave open is not corrected.
        ((0, 7, 1), (100, 8, 1), [50], [42.5], 0),
        ((0, 0, 1), (100, 0.5, 5), [0, 100], [0, 100], 0),
        # It gained 20 s, give or take 2.
        ((0, 10, 1), (100, 30, 1), [11, 70, 129], [0, 50, 100], 18),
        ((0, 10, 1), (100, -30, 1), [9, 40, 71], [0, 50, 100], -38))
    @ddt.unpack
    def test_by_the_clock_of_the_controller(self, first, last, inside,
                                            outside, gained):
        line = timed_runs.ClockLine(reading(*first), reading(*last))
        for shown, expected in zip(inside, outside):
            self.assertAlmostEqual(expected, line.outside(shown))
        self.assertAlmostEqual(gained, line.gained_seconds)

    def test_set_back(self):
        error = self.assertRaises(
            bench_errors.WorkloadError, timed_runs.ClockLine(
                reading(0, 0, 1), reading(100, -102, 1)).outside, 5)
        self.assertIn('was set back', str(error))

    @unit_base.settings(200)
    @hypothesis.given(*(st.floats(-10, 10), st.floats(0, 3)) * 2,
                      st.floats(0, 1))
    def test_what_handshakes_leave_open(self, first, uncertain, last,
                                        uncertain_too, part):
        """No line that they leave open is closer to the clock outside."""
        line = timed_runs.ClockLine(reading(0, first, uncertain),
                                    reading(100, last, uncertain_too))
        time = 100 * part + first + (last - first) * part
        at = line.outside(time)
        self.assertLessEqual(
            abs(at - 100 * part),
            1.4 * max(uncertain, uncertain_too) + 1e-6)
        if abs(first - last) <= uncertain + uncertain_too:
            self.assertAlmostEqual(0, line.gained_seconds)
            self.assertAlmostEqual(1, line.outside(time + 1) - at)


@ddt.ddt
class TestCounted(unit_base.TestCase):

    def test_while_all_run(self):
        one = runs((0, 4), (4, 8), (8, 12))
        other = runs((1, 3), (3, 5), (5, 7), (7, 9), (9, 11))
        found = counted(one, other)
        # From 1, when the other has begun, to 11, when it is done.
        self.assertEqual([[4], [1, 3, 5, 7, 9]],
                         [[run.started for run in own] for own in found])

    @ddt.data(
        (runs((0, 2), (2, 4), (4, 6), (6, 8)), 4),
        # A hair too late.
        (runs((0.01, 4.01), (4.01, 8.01)), 2))
    @ddt.unpack
    def test_all_count(self, other, count):
        one = runs((0, 4), (4, 8))
        self.assertEqual([2, count],
                         [len(own) for own in counted(one, other)])

    def test_all_of_a_race(self):
        found = counted(runs((0, 3)), runs((0, 5)), is_race=True)
        self.assertEqual([3, 5], [own[0].seconds for own in found])

    def test_none_that_counts(self):
        error = self.assertRaises(
            bench_errors.WorkloadError, counted, runs((0, 9)),
            runs((1, 2), (2, 3)))
        self.assertIn('0: no run of its command lies within the 2.0 s',
                      str(error))
        self.assertIn('--window', error.advice)

    @unit_base.settings(200)
    @hypothesis.given(st.lists(st.tuples(
        st.integers(0, 50), st.lists(st.integers(1, 30), min_size=1,
                                     max_size=12)),
        min_size=1, max_size=4))
    def test_what_counts(self, drawn):
        """Each counted run has all others at work, up to a hundredth."""
        instances = []
        for first, lengths in drawn:
            times, at = [], float(first)
            for length in lengths:
                times.append((at, at + length))
                at += length
            instances.append(runs(*times))
        try:
            found = counted(*instances)
        except bench_errors.WorkloadError:
            found = ()
        for own in found:
            self.assertTrue(own)
            for run in own:
                for other in instances:
                    alone = (max(other[0].started - run.started, 0)
                             + max(run.ended - other[-1].ended, 0))
                    self.assertLessEqual(alone, 0.011 * run.seconds)


class TestMeanFigures(unit_base.TestCase):

    def test_rates_by_time_and_times_plainly(self):
        found = timed_runs.mean_figures(bench_fakes.WORKLOAD, [
            timed_runs.TimedRun(0.0, 1.0, 'turns: 10\n'),
            timed_runs.TimedRun(1.0, 4.0, 'turns: 30\n')])
        # 10 in the first second and 90 in the three after it.
        self.assertEqual({'turns': 25.0, 'seconds': 2.0}, found)
