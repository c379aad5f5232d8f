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

import dataclasses

import hypothesis

from nova_pinning import cpuset
from nova_pinning.drawing import guest as guest_drawing
from nova_pinning.drawing import plan as drawing_plan
from nova_pinning.fleet.explain import picture
from nova_pinning.fleet import standing
from nova_pinning import model
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.fleet.explain import cases


class TestPicture(base.TestCase):

    def test_host(self):
        host = cases.host(
            builders.host_cell(1, (4, 5, 6), 2, socket=3),
            builders.host_cell(0, (0, 1), 2, shared_cpus=(2, 3)),
            l3_domains=(cpuset.CpuSet((0, 1, 2, 3)),
                        cpuset.CpuSet((4, 5, 6))))
        found = picture.description(host)
        self.assertEqual([0, 1], [node.id for node in found.nodes])
        self.assertEqual([0, 3], [node.socket for node in found.nodes])
        # CPUs that no list of siblings names are cores of their own.
        self.assertEqual(((0, 1), (2,), (3,)), found.nodes[0].cores)
        self.assertEqual(((4, 5), (6,)), found.nodes[1].cores)
        self.assertEqual((cpuset.CpuSet((4, 5, 6)),),
                         found.nodes[1].l3_domains)
        self.assertEqual(cpuset.CpuSet((2, 3)), found.nova.shared_cpus)

    def test_refused(self):
        found = picture.placement(
            cases.wanted(), model.Refusal(model.Reason.PCI))
        self.assertIn('PCI devices', found.refusal)
        self.assertEqual({}, found.vcpu_cpus)

    @hypothesis.given(cases.FLEETS, cases.FLAVORS)
    @hypothesis.settings(max_examples=15, deadline=None)
    def test_any(self, fleet, flavor):
        one = cases.read(flavor)
        for where in standing.of_fleet(fleet).values():
            outcome = standing.fit_on(where, one)
            described = picture.description(where.host)
            pinned = cpuset.union(
                cell.pinned_cpus for cell in where.engine.cells)
            placement = picture.placement(one, outcome)
            lines = guest_drawing.draw(described, pinned, placement, 80)
            for line in lines:
                self.assertLessEqual(sum(len(span.text) for span in line), 80)
            uses = drawing_plan.plan(described, pinned, placement).uses
            shown = {cpu for cpu, use in uses.items()
                     if use.kind is drawing_plan.Kind.PINNED}
            cpus = set()
            if isinstance(outcome, model.Fit):
                cpus = {cpu for cell in outcome.cells
                        for _vcpu, cpu in cell.pins}
            self.assertEqual(cpus, shown)

    def test_bare(self):
        host = dataclasses.replace(cases.host(), cells=())
        self.assertEqual((), picture.description(host).nodes)
