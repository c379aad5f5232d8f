# SPDX-License-Identifier: Apache-2.0
"""The project's own experiments, as they are reported."""

import ddt

from nova_pinning import cpuset
from nova_pinning.instance_bench import cpu_layout
from nova_pinning.instance_bench import experiment_file
from nova_pinning.instance_bench.report import run_claims
from nova_pinning.instance_bench.report import run_tables
from nova_pinning.instance_bench import statistics
from nova_pinning.instance_bench.workloads import workload_catalogue
from nova_pinning.tests.unit.instance_bench.report import report_scenes
from nova_pinning.tests.unit import unit_base

_GENERAL = ['affinities', 'clocks', 'complete']
#: Claims that each has besides.
_OWN = {
    'cpu-priority': ['finish-ratio'],
    'enterprise-vs-shared': ['level', 'spread'],
    'multitask': [],
    'network-cache': [],
    'overhead-ladder': ['bare-metal'],
    'platform-overhead': ['bare-metal'],
    'smp-mutex': ['mutex'],
}


def _layout():
    parse = cpuset.CpuSet.parse
    return cpu_layout.CpuLayout(
        host=parse('0-1'), shared=parse('2-7'), dedicated=parse('8-15'),
        cores=tuple(cpuset.CpuSet([cpu]) for cpu in range(16)),
        l3_domains=(parse('0-7'), parse('8-15')), nodes=(parse('0-15'),),
        memory_mib=131072)


def _run(name):
    prepared = experiment_file.read(name, _layout(),
                                    workload_catalogue.shipped())
    found = prepared.experiment
    run = report_scenes.Run(found.table, prepared.workloads.values(),
                            name=name,
                            repetitions=3, baseline=found.baseline)
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
        summary = statistics.summarise(_run(name).results())
        self.assertTrue(run_tables.tables(summary))
        self.assertEqual({*_GENERAL, *_OWN[name]},
                         {claim.name for claim in run_claims.claims(summary)})
        # A baseline that matches nothing would go unnoticed.
        self.assertTrue(any(row.overhead for row in summary.rows))
