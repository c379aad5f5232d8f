# SPDX-License-Identifier: Apache-2.0

import dataclasses
import itertools

import ddt

from nova_pinning import cpuset
from nova_pinning.instance_bench.advise import advice_model
from nova_pinning.instance_bench.advise import advisor
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import published
from nova_pinning.tests.unit.instance_bench.advise import advise_scenes
from nova_pinning.tests.unit import unit_base


def _of_cores(cores):
    """A host whose nodes have each these cores."""
    host = advise_scenes.HOSTS['xeon-80-dedicated']
    return dataclasses.replace(host, nodes=tuple(
        dataclasses.replace(node, cores=tuple(
            (node.id * 100 + cpu,) for cpu in range(cores)))
        for node in host.nodes))


def _size(*question, **more):
    return advise_scenes.line(
        advisor.advise(advise_scenes.ask(*question, **more)), 'size')


@ddt.ddt
class RulesTest(unit_base.TestCase):

    def test_each_is_reached(self):
        """A rule behind another that is always met first is none."""
        reached = set()
        for load, platform, steady, host, workload in itertools.product(
                advice_model.WorkloadBound, ('cn', *advise_scenes.GUESTS),
                (False, True), (None, _of_cores(40), *advise_scenes.HOSTS),
                ('', 'redis', 'etcd', 'dpdk')):
            found = advisor.advise(advise_scenes.ask(
                load, platform, steady, host, workload))
            reached |= {(one.topic, one.why.partition('; 0.')[0])
                        for one in found.lines}
            # No ratio of containers for guests, ever.
            if platform != 'cn':
                self.assertNotIn('CHR', str(found))
        self.assertEqual({
            (topic, line.why) for topic, rules in advisor.rules().items()
            for line in rules}, reached)

    def test_each_says_how_strong_it_is_and_why(self):
        for topic, rules in advisor.rules().items():
            for line in rules:
                self.assertIn(line.strength, (
                    'documented', 'measured', 'our reading'))
                self.assertTrue(line.why and line.sources, line)
                self.assertEqual(topic != 'size', bool(line.answers), line)

    @ddt.data(*itertools.product(advice_model.WorkloadBound,
                                 advise_scenes.GUESTS))
    @ddt.unpack
    def test_guests_have_an_answer_on_each_topic(self, load, platform):
        advice = advisor.advise(advise_scenes.ask(load, platform))
        self.assertEqual(tuple(advice_model.TOPICS),
                         tuple(one.topic for one in advice.lines))

    @ddt.data((40, '6 to 11 vCPUs'), (8, '2 vCPUs'), (2, '1 vCPU'))
    @ddt.unpack
    def test_ratio_of_a_host(self, cores, expected):
        self.assertEqual(expected, str(_size('cpu', 'cn',
                                             host=_of_cores(cores))))

    @ddt.data(*bench_model.WorkloadClass)
    def test_each_class_is_bound_by_something(self, workload_class):
        self.assertIn(advice_model.usual_load(workload_class),
                      advice_model.WorkloadBound)

    def test_ratio_without_a_host(self):
        self.assertEqual('0.07 to 0.14 CHR', str(_size('cpu', 'cn')))

    def test_no_more_than_the_host_has(self):
        host = advise_scenes.HOSTS['xeon-80-dedicated']
        for cpus, expected in ((9, '6 to 9 vCPUs'), (6, '6 vCPUs')):
            some = dataclasses.replace(host, nova=dataclasses.replace(
                host.nova, dedicated_cpus=cpuset.CpuSet(range(cpus))))
            self.assertEqual(expected, str(_size('cpu', 'cn', host=some)))

    def test_host_without_such_cpus(self):
        self.assertEqual(
            'xeon-80-shared has 0 dedicated CPUs, fewer than that',
            _size('cpu', 'cn', host='xeon-80-shared').remark)

    def test_no_two_have_a_name(self):
        known = advisor.known_workloads()
        every = {one.name: one for one in known.values()}.values()
        self.assertEqual(
            sorted(known), sorted(name for one in every
                                  for name in (one.name, *one.also)))
        self.assertGreaterEqual(len(every), 18)

    def test_what_is_known_has_a_source(self):
        for one in advisor.known_workloads().values():
            self.assertEqual(bool(one.says), bool(one.sources), one.name)
            self.assertTrue(one.says or not one.figure, one.name)
            self.assertLessEqual({*one.sources}, {*published.sources()})

    @ddt.data('cn', *advise_scenes.GUESTS)
    def test_redis_is_small_wherever(self, platform):
        self.assertEqual('2 to 4 vCPUs', str(_size(
            'very-io', platform, workload='redis')))
