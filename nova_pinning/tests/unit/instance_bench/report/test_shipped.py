# SPDX-License-Identifier: Apache-2.0
"""The project's own experiments, as they are reported."""

import dataclasses

import ddt

from nova_pinning import cpuset
from nova_pinning.instance_bench import cpu_layout
from nova_pinning.instance_bench import experiment_file
from nova_pinning.instance_bench.report import report_part
from nova_pinning.instance_bench.report import run_claims
from nova_pinning.instance_bench.report import study_tables
from nova_pinning.instance_bench.workloads import workload_catalogue
from nova_pinning.tests.unit.host.check import fact_samples
from nova_pinning.tests.unit.instance_bench.report import report_scenes
from nova_pinning.tests.unit import unit_base

_GENERAL = ['affinities', 'clocks', 'complete']
#: Claims that each has besides.
_OWN = {
    'cpu-priority': ['finish-ratio'],
    'cpu-weights': ['finish-ratio'],
    'enterprise-vs-shared': ['level', 'spread'],
    'hardware-latency': [],
    'latency': [],
    'memory-placement': [],
    'mine': [],
    'multitask': [],
    'neighbours': ['slowdown'],
    'network-cache': ['agent'],
    'network-placement': ['placement'],
    'network-queues': [],
    'overhead-ladder': ['bare-metal'],
    'platform-overhead': ['bare-metal'],
    'self-test': ['self-test', 'sensitivity'],
    'siblings': [],
    'smp-mutex': ['handover'],
}
#: Those of which there are published figures.
_PUBLISHED = (
    'cpu-priority', 'cpu-weights', 'enterprise-vs-shared', 'memory-placement',
    'network-cache', 'network-placement', 'network-queues',
    'overhead-ladder', 'platform-overhead', 'smp-mutex')


def _layout(threads=1):
    parse = cpuset.CpuSet.parse
    return cpu_layout.CpuLayout(
        host=parse('0-1'), shared=parse('2-7'), dedicated=parse('8-15'),
        cores=tuple(cpuset.CpuSet(range(cpu, cpu + threads))
                    for cpu in range(0, 16, threads)),
        l3_domains=(parse('0-7'), parse('8-15')),
        nodes=(parse('0-7'), parse('8-15')),
        memory_mib=131072,
        # Without it there are no cases with the agent.
        planned=fact_samples.planned())


def _run(name):
    layout = _layout(2 if name == 'siblings' else 1)
    if name == 'cpu-weights':
        # It is of one CPU, which a plan has other things to say about.
        layout = dataclasses.replace(layout, planned=None)
    prepared = experiment_file.read(
        name, layout, workload_catalogue.shipped())
    found = prepared.experiment
    run = report_scenes.Run(found.table, prepared.workloads.values(),
                            name=name,
                            rounds=3, baseline=found.baseline)
    for case in found.cases:
        run.add(case, {tenant.name: 100.0 for tenant in case.tenants
                       if tenant.role == 'measured'}, spread=0.02)
    return run


@ddt.ddt
class ShippedTest(unit_base.TestCase):

    def test_all_are_here(self):
        self.assertEqual(sorted(_OWN), sorted(experiment_file.shipped()))

    @ddt.data(*_OWN)
    def test_reported(self, name):
        summary = _run(name).summary()
        found = study_tables.tables(summary)
        self.assertTrue(found)
        self.assertEqual({*_GENERAL, *_OWN[name]},
                         {claim.name for claim in run_claims.claims(summary)})
        self.assertEqual(name in _PUBLISHED, bool(
            report_part.Part('x', summary).published))
        # A baseline that matches nothing would go unnoticed.
        self.assertEqual(bool(summary.experiment.baseline),
                         any(row.overhead for row in summary.rows))
