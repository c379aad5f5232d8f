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

"""What nova-compute would claim, asked for a guest of a fleet."""

from nova import objects
from nova.virt import hardware
from oslo_config import cfg
import testtools

from nova_pinning.bridge import claim
from nova_pinning.bridge import foresight
from nova_pinning.bridge import nova_objects
from nova_pinning import fit
from nova_pinning.fleet import devices
from nova_pinning.fleet.simulate import configuration
from nova_pinning.fleet.simulate import fast
from nova_pinning.fleet.simulate import ledger as ledgers
from nova_pinning import model
from nova_pinning.tests.unit.fleet.simulate import scenes

_PACKING = 'packing_host_numa_cells_allocation_strategy'


class TestForesee(testtools.TestCase):

    def setUp(self):
        super().setUp()
        objects.register_all()

    def _attempts(self, packs_cells):
        """Guests on half full hosts, in other cells than the first ones."""
        for seed in range(16):
            fleet = scenes.fleet(seed)
            ledger = ledgers.of_fleet(fleet, range(len(fleet.hosts)))
            engine = fast.Engine(ledger, configuration.NAMED['nova-default'])
            for arrival in scenes.load(seed, 20).arrivals(seed):
                engine.place(arrival.id, arrival.wanted)
            for place, host in enumerate(ledger.hosts):
                for wanted in scenes.KINDS.values():
                    if wanted.topology is None:
                        continue
                    check = devices.check(
                        host.pci_pools, ledger.uses[place], wanted.devices,
                        host.cells)
                    choice = fit.choose_cells(
                        ledger.engine(place), wanted.topology,
                        pack=packs_cells, pci=check)
                    if isinstance(choice, fit.Choice) and not choice.is_first:
                        yield (ledger.engine(place), wanted, choice, check,
                               devices.free(host.pci_pools,
                                            ledger.uses[place]))

    def test_is_what_nova_answers(self):
        asked = 0
        for packs_cells in (False, True):
            for host, wanted, choice, check, free in self._attempts(
                    packs_cells):
                before = cfg.CONF.compute[_PACKING]
                answer = foresight.foresee(
                    host, wanted.topology, choice, check, free, 1000,
                    packs_cells)
                self.assertEqual(before, cfg.CONF.compute[_PACKING])
                if free or wanted.devices:
                    # Then the order of cells is that of their devices.
                    continue
                found = self._nova(host, wanted, packs_cells)
                if isinstance(answer, model.Fit):
                    asked += 1
                    self.assertEqual(found, answer)
                elif answer is None:
                    self.assertEqual(
                        found, fit.pin(wanted.topology, choice.cells))
        self.assertGreater(asked, 0)

    def _nova(self, host, wanted, packs_cells):
        cfg.CONF.set_override(_PACKING, packs_cells, 'compute')
        self.addCleanup(cfg.CONF.clear_override, _PACKING, 'compute')
        answer = hardware.numa_fit_instance_to_host(
            nova_objects.host_topology(host),
            nova_objects.instance_topology(wanted.topology), None,
            limits=objects.NUMATopologyLimits(
                cpu_allocation_ratio=host.cpu_allocation_ratio,
                ram_allocation_ratio=host.ram_allocation_ratio))
        cfg.CONF.clear_override(_PACKING, 'compute')
        return answer and claim.fit_from_nova(answer)

    def test_too_many_permutations(self):
        for host, wanted, choice, check, free in self._attempts(False):
            answer = foresight.foresee(
                host, wanted.topology, choice, check, free, 1, False)
            self.assertEqual(model.Reason.NOVA_SLOW, answer.reason)
