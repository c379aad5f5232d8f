# SPDX-License-Identifier: Apache-2.0

import dataclasses

import hypothesis

from nova_pinning import cpuset
from nova_pinning.fleet import occupied
from nova_pinning import model
from nova_pinning.presentation import drawing
from nova_pinning.presentation import fleet_host_picture
from nova_pinning.presentation import guest_drawing
from nova_pinning.tests.unit.admission import placing
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.explain import explain_cases
from nova_pinning.tests.unit.presentation import drawings
from nova_pinning.tests.unit import unit_base


class TestPicture(unit_base.TestCase):

    def test_host(self):
        host = explain_cases.host(
            builders.host_cell(1, (4, 5, 6), 2, socket=3),
            builders.host_cell(0, (0, 1), 2, shared_cpus=(2, 3)),
            l3_domains=(cpuset.CpuSet((0, 1, 2, 3)),
                        cpuset.CpuSet((4, 5, 6))))
        found = fleet_host_picture.fleet_host_description(host)
        self.assertEqual([0, 1], [node.id for node in found.nodes])
        self.assertEqual([0, 3], [node.socket for node in found.nodes])
        # CPUs that no list of siblings names are cores of their own.
        self.assertEqual(((0, 1), (2,), (3,)), found.nodes[0].cores)
        self.assertEqual(((4, 5), (6,)), found.nodes[1].cores)
        self.assertEqual((cpuset.CpuSet((4, 5, 6)),),
                         found.nodes[1].l3_domains)
        self.assertEqual(cpuset.CpuSet((2, 3)), found.nova.shared_cpus)

    def test_refused(self):
        found = fleet_host_picture.guest_placement(
            explain_cases.wanted(), model.Refusal(model.Reason.PCI))
        self.assertIn('PCI devices', found.refusal)
        self.assertEqual({}, found.vcpu_cpus)

    @hypothesis.given(explain_cases.FLEETS, explain_cases.FLAVORS)
    @unit_base.settings(24)
    def test_any(self, fleet, flavor):
        one = explain_cases.read(flavor)
        for where in occupied.of_fleet(fleet).values():
            outcome = placing.fit_on(where, one)
            described = fleet_host_picture.fleet_host_description(where.host)
            pinned = cpuset.union(
                cell.pinned_cpus for cell in where.engine.cells)
            placement = fleet_host_picture.guest_placement(one, outcome)
            drawn = guest_drawing.draw(described, pinned, placement)
            for line in drawings.plain(drawn):
                self.assertLessEqual(len(line), 80)
            shown = {cpu for cpu, tile in drawings.tiles(drawn).items()
                     if tile.style is drawing.TileStyle.PINNED}
            cpus = set()
            if isinstance(outcome, model.Fit):
                cpus = {cpu for cell in outcome.cells
                        for _vcpu, cpu in cell.pins}
            self.assertEqual(cpus, shown)

    def test_bare(self):
        host = dataclasses.replace(explain_cases.host(), cells=())
        self.assertEqual((),
                         fleet_host_picture.fleet_host_description(host).nodes)
