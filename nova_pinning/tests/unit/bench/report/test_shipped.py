#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The project's own experiments, as they are reported."""

import ddt

from nova_pinning.bench import experiment
from nova_pinning.bench import layout
from nova_pinning.bench.report import claims
from nova_pinning.bench.report import tables
from nova_pinning.bench import statistics
from nova_pinning.bench.workloads import catalogue
from nova_pinning import cpuset
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.bench.report import scenes

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
    return layout.Layout(
        host=parse('0-1'), shared=parse('2-7'), dedicated=parse('8-15'),
        cores=tuple(cpuset.CpuSet([cpu]) for cpu in range(16)),
        l3_domains=(parse('0-7'), parse('8-15')), nodes=(parse('0-15'),),
        memory_mib=131072)


def _run(name):
    prepared = experiment.read(name, _layout(), catalogue.shipped())
    found = prepared.experiment
    run = scenes.Run(found.table, prepared.workloads.values(), name=name,
                     repetitions=3, baseline=found.baseline)
    for case in found.cases:
        run.add(case, {one.name: 100.0 for one in case.tenants
                       if one.role == 'measured'}, spread=0.02)
    return run


@ddt.ddt
class ShippedTest(base.TestCase):

    def test_all_are_here(self):
        self.assertEqual(sorted(_OWN), sorted(experiment.shipped()))

    @ddt.data(*_OWN)
    def test_reported(self, name):
        summary = statistics.summarise(_run(name).results())
        self.assertTrue(tables.tables(summary))
        self.assertEqual({*_GENERAL, *_OWN[name]},
                         {one.name for one in claims.claims(summary)})
        # A baseline that matches nothing would go unnoticed.
        self.assertTrue(any(row.overhead for row in summary.rows))
