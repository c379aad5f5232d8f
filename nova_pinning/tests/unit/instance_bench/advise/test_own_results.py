# SPDX-License-Identifier: Apache-2.0

import collections
import dataclasses
import re

import ddt

from nova_pinning.instance_bench.advise import advisor
from nova_pinning.instance_bench.advise import own_results
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import statistics
from nova_pinning.tests.unit.instance_bench.advise import advise_scenes
from nova_pinning.tests.unit.instance_bench.report import report_scenes
from nova_pinning.tests.unit import unit_base

LOCKS = bench_model.WorkloadClass.SYNCHRONISATION


def _advise(*runs, load='cpu', stretch=1.0, conditions=None, **question):
    """:param runs: scenes"""
    return advisor.advise(
        advise_scenes.ask(load, **question), summaries=[
            run.summary(stretch, **conditions or {}) for run in runs])


@ddt.ddt
class OwnResultsTest(unit_base.TestCase):

    def check(self, advice, topic, expected):
        """:param expected: '' if they do not decide"""
        line = advise_scenes.line(advice, topic)
        self.assertEqual(bool(expected), line.strength == 'own results')
        if expected:
            self.assertEqual((expected, ()), (str(line), line.sources))
        return line

    @ddt.data(
        (0.8, 'higher', 'dedicated'), (1.25, 'lower', 'dedicated'),
        (1.0, 'higher', 'shared'), (1.25, 'higher', 'shared'),
        (0.8, 'lower', 'shared'),
        # Nobody buys a CPU for that.
        (1 / 1.03, 'higher', 'shared'), (1 / 1.08, 'higher', 'dedicated'))
    @ddt.unpack
    def test_class(self, slow, better, expected):
        self.check(_advise(report_scenes.isolation(slow, better=better)),
                   'class', expected)

    def test_they_override_rules(self):
        run = report_scenes.isolation(1.0)
        self.check(_advise(run, load='io'), 'class', 'shared')
        # What follows from the class, follows from this one.
        for topic, expected in (('emulator', 'on-vcpus'),
                                ('threads', 'prefer')):
            self.assertEqual(expected, str(advise_scenes.line(
                _advise(run, load='io'), topic)))

    @ddt.data({'spread': 0.3}, {'rounds': 1}, {'stretch': 60})
    def test_wide_intervals_do_not_decide(self, changes):
        stretch = changes.get('stretch', 1.0)
        run = report_scenes.isolation(0.96, **{
            key: value for key, value in changes.items() if key != 'stretch'})
        line = self.check(_advise(run, stretch=stretch), 'class', '')
        self.assertEqual('measured', line.strength)
        self.assertIn('own results do not decide: dedicated is 1.',
                      line.remark)
        self.assertIn('an-experiment-of-levels on 16 CPUs', line.remark)

    def test_all_have_to_agree(self):
        gains, more, none = map(report_scenes.isolation, (0.8, 0.6, 1.0))
        line = self.check(_advise(more, gains), 'class', 'dedicated')
        self.assertIn('dedicated is 1.25 times', line.why)
        self.assertIn('the least clear of 2 comparisons', line.why)
        line = self.check(_advise(gains, none), 'class', '')
        self.assertRegex(line.remark, 'own results do not decide: dedicated '
                         r'is (1|0\.999|1\.00) times .*least clear of 2')
        line = self.check(_advise(report_scenes.isolation(1.1), none),
                          'class', 'shared')
        self.assertRegex(line.why, r'is (1|0\.999|1\.00) times')

    def test_steadiness_is_no_level(self):
        line = self.check(_advise(report_scenes.isolation(1.0),
                                  is_steady=True), 'class', '')
        self.assertEqual(('dedicated', ''), (str(line), line.remark))

    def test_only_at_the_same_density(self):
        """What floats over CPUs sold three times is not pinning's gain."""
        crowd = report_scenes.isolation(0.3, times=3)
        self.assertEqual('', self.check(
            _advise(crowd), 'class', '').remark)
        self.check(_advise(crowd, report_scenes.isolation(1.0)), 'class',
                   'shared')

    def test_one_cpu_to_float_on(self):
        """It is pinned in all but name."""
        self.assertEqual('', self.check(
            _advise(report_scenes.one_cpu()), 'class', '').remark)

    def test_alone_on_the_host(self):
        """A size that fills the host has a CPU for each vCPU either way."""
        run = report_scenes.overhead(platform=0.5)
        line = self.check(_advise(run), 'class', 'dedicated')
        self.assertIn('vm / pinned / 16', line.why)
        run.keep(lambda factors: factors['size'] != '16')
        self.assertEqual('', self.check(_advise(run), 'class', '').remark)

    @ddt.data(
        ({'emulated': True}, 'guests that were emulated'),
        ({'virtualised': 'kvm'}, 'a host that is a guest itself'))
    @ddt.unpack
    def test_where(self, changes, expected):
        line = self.check(_advise(
            report_scenes.isolation(name='run'), conditions=changes),
            'class', 'dedicated')
        self.assertEqual(f'run on 16 CPUs, {expected}', line.holds)

    def test_conditions_that_are_not_known(self):
        results = dataclasses.replace(
            report_scenes.isolation(name='run').results(), conditions=())
        line = self.check(advisor.advise(
            advise_scenes.ask(), summaries=[statistics.summarise(results)]),
            'class', 'dedicated')
        self.assertEqual('run', line.holds)

    @ddt.data(
        # A server of nova is a guest of libvirt, a class has workloads.
        ({'platform': 'nova'}, True), ({'platform': 'vm'}, True),
        ({'platform': 'vm', 'workload': 'sysbench-cpu'}, True),
        ({'platform': 'cn'}, False), ({'platform': 'vmcn'}, False),
        ({'workload': 'others'}, False),
        ({'workload_class': bench_model.WorkloadClass.MEMORY}, False))
    @ddt.unpack
    def test_what_counts(self, question, counts):
        line = advise_scenes.line(_advise(report_scenes.isolation(),
                                          **question), 'class')
        self.assertEqual(counts, line.strength == 'own results')
        self.assertEqual('', line.remark)

    @ddt.data((40.0, 'higher', 'isolate'), (24.0, 'higher', 'share'),
              (24.0, 'lower', 'isolate'), (31.1, 'higher', ''))
    @ddt.unpack
    def test_emulator(self, isolate, better, expected):
        """As it is where the baseline has all the rest."""
        line = self.check(_advise(report_scenes.network(isolate, better),
                                  load='network'), 'emulator', expected)
        self.assertEqual(not expected, 'do not decide' in line.remark)

    def test_emulator_on_vcpus(self):
        run = report_scenes.network().keep(
            lambda factors: factors['network_cpus'] == 'vcpus')
        line = self.check(_advise(run, load='network'), 'emulator', 'share')
        self.assertIn('share is 1.1', line.why)
        self.assertIn('as good as on-vcpus', line.why)

    def test_shared_guests_have_no_policy(self):
        advice = _advise(report_scenes.isolation(1.0),
                         report_scenes.network(40.0), load='network')
        self.check(advice, 'class', 'shared')
        self.assertEqual('on-vcpus', str(self.check(advice, 'emulator', '')))

    def test_size(self):
        """Of 1.2 (0.6 / vCPUs) on top 5% are left to the largest's 1.045."""
        run = report_scenes.overhead(platform=0.0, spread=0.001)
        line = self.check(_advise(run), 'size', '8 or more vCPUs')
        self.assertIn('with 8 vCPUs it takes 1.09', line.why)

    @ddt.data('xeon-80-dedicated', 'epyc-256-nps1')
    def test_size_of_another_machine(self, host):
        run = report_scenes.overhead(platform=0.0, spread=0.001)
        line = self.check(_advise(run, host=host), 'size', '')
        self.assertEqual('as large as it needs', str(line))
        self.assertIn('own results do not decide: with 8 vCPUs', line.remark)
        cpus = len(advise_scenes.HOSTS[host].cpus)
        self.check(_advise(run, host=host, conditions={'cpus': cpus}),
                   'size', '8 or more vCPUs')

    @ddt.data((0.001, 15), (0.01, 0), (0.1, 0), (0.5, 0))
    @ddt.unpack
    def test_size_is_right_or_undecided(self, spread, least):
        """Of 15 made-up runs in which 8 vCPUs are right."""
        answers = collections.Counter()
        for seed in range(15):
            answers[self._size(
                spread=spread, rounds=5, seed=seed).low] += 1
        self.assertEqual(15, answers[8] + answers[None], answers)
        self.assertGreaterEqual(answers[8], least, answers)

    def test_size_says_how_many_rounds_would_do(self):
        line = self._size(rounds=5, spread=0.003)
        self.assertIsNone(line.low)
        more, = re.findall(r'about (\d+) more rounds would', line.why)
        line = self._size(rounds=2 * (5 + int(more)), spread=0.003)
        self.assertEqual(8, line.low)

    def _size(self, **options):
        """Of guests beside the host, in as many cases as that takes."""
        run = report_scenes.overhead(platform=0.0, **options)
        run.keep(lambda factors: factors['platform'] != 'cn'
                 and factors['provisioning'] == 'vanilla')
        return own_results.findings(
            [run.summary()], advise_scenes.ask())['size']

    def test_one_size_says_nothing(self):
        run = report_scenes.overhead().keep(
            lambda factors: factors['size'] == '2')
        self.assertEqual('', self.check(_advise(run), 'size', '').remark)

    @ddt.data((20.0, 60.0, '1 vCPU'), (60.0, 20.0, '2 vCPUs'))
    @ddt.unpack
    def test_lock_bound(self, on_one, on_two, expected):
        for workload in ('handover', ''):
            self.check(_advise(
                report_scenes.two_processors(on_one, on_two, spread=0.001),
                load='lock-bound', workload=workload, workload_class=LOCKS),
                'size', expected)

    @ddt.data((20.0, 0.1), (20.2, 0.001))
    @ddt.unpack
    def test_lock_bound_is_not_decided(self, on_two, spread):
        line = self.check(_advise(
            report_scenes.two_processors(20.0, on_two, spread=spread),
            load='lock-bound', workload_class=LOCKS), 'size', '')
        self.assertEqual('1 vCPU, otherwise 2', str(line))
        self.assertIn('own results do not decide: 1 is', line.remark)
