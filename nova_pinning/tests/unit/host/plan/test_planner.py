# SPDX-License-Identifier: Apache-2.0


import dataclasses
import itertools

import ddt
import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning import fit
from nova_pinning.host import engine
from nova_pinning.host import hardware
from nova_pinning.host import host_loader
from nova_pinning.host import host_model
from nova_pinning.host import hostfile
from nova_pinning.host import hostfile_writer
from nova_pinning.host.plan import devices
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import planner
from nova_pinning.host import plan_model
from nova_pinning import model
from nova_pinning.placement import placement_traits
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit.host.plan import sample_hosts
from nova_pinning.tests.unit import unit_base

HOSTS = cli_case.ETC / 'hosts'
GIB = 1024


def xeon(**values):
    """80 CPUs in two sockets, threads 0 and 40 in one core."""
    return dataclasses.replace(
        host_loader.load(HOSTS / 'xeon-80-dedicated.yaml'), **values)


def nic(number, node, speed_mbps=25000, **values):
    return host_model.PciDevice(
        f'0000:{number:02x}:00.0', '15b3', '1017', node,
        names=(f'eth{number}',), speed_mbps=speed_mbps,
        **{'kind': hardware.PciKind.NIC} | values)


def sizes(*sizes):
    return tuple(
        plan_model.GuestSize(
            vcpus, *more[:1], cells=more[1] if more[1:] else 0)
        for vcpus, *more in sizes)


def codes(planned):
    return [warning.code for warning in planned.plan.warnings]


@strategies.composite
def requests(draw):
    some = strategies.integers(1, 4)
    purpose = draw(strategies.sampled_from(plan_model.Purpose))
    return plan_request.PlanOptions(
        purpose=purpose,
        sizes=() if purpose is plan_model.Purpose.SHARED else draw(
            strategies.lists(strategies.builds(
                plan_model.GuestSize, some, some, strategies.just(0)),
                max_size=2, unique_by=lambda one: one.vcpus).map(tuple)),
        host_cpus=draw(strategies.none() | some),
        shared_cpus=draw(strategies.none() | strategies.integers(0, 3)),
        poll_cpus=draw(strategies.sampled_from([0, 0, 1, 2])))


def _guest(size):
    return builders.guest(*(
        (size.vcpus // size.cells, 1) for _cell in range(size.cells)))


def _with_memory(cells, planned):
    """A host without the cells that have no pages for guests."""
    plan = planned.plan
    selling = {node.id for node in planned.nodes
               if node.huge_pages.get(plan.page_size_kib, 0)
               > plan.poll_pages.get(node.id, 0)}
    return model.Host(tuple(cell for cell in cells if cell.id in selling))


def _pin(host, found):
    """The host with a guest on it."""
    taken = {cell.host_cell: [cpu for _vcpu, cpu in cell.pins]
             for cell in found.cells}
    return model.Host(tuple(
        dataclasses.replace(cell, pinned_cpus=cell.pinned_cpus
                            | cpuset.CpuSet(taken.get(cell.id, ())))
        for cell in host.cells))


def _places(host, wanted):
    """Whether the engine gets all guests on the host, somehow."""
    if not wanted:
        return True
    guest = _guest(wanted[0])
    for some in itertools.combinations(host.cells, wanted[0].cells):
        found = fit.fit_guest(model.Host(some), guest)
        if isinstance(found, model.Fit):
            if _places(_pin(host, found), wanted[1:]):
                return True
    return False


@ddt.ddt
class TestPlan(oslotest.BaseTestCase):

    @unit_base.settings(max_examples=80)
    @hypothesis.given(sample_hosts.any_host(), requests())
    def test_each_core_has_one_use(self, description, wanted):
        try:
            planned = planner.plan(description, wanted)
        except errors.InputError:
            return
        self.assertEqual(planned, hostfile.read(
            source.parse(hostfile_writer.dump(planned), 'plan.yaml')))
        plan = planned.plan
        sample_hosts.check_uses(self, planned)
        self.assertEqual(description.cpus, planned.cpus)
        self.assertGreaterEqual(len(plan.host_cpus), wanted.host_cpus or 1)
        self.assertGreaterEqual(len(plan.poll_cpus), wanted.poll_cpus)
        self._check_memory(description, planned)

    def _check_memory(self, description, planned):
        plan = planned.plan
        guest_mib = 0
        for before, node in zip(description.nodes, planned.nodes):
            self.assertEqual(before.memory_mib, node.memory_mib)
            pages = node.huge_pages.get(plan.page_size_kib, 0)
            self.assertEqual(pages, sum(node.huge_pages.values()))
            in_pages = (pages - plan.poll_pages.get(node.id, 0)) * (
                plan.page_size_kib // 1024)
            guest_mib += in_pages
            self.assertEqual(node.memory_mib - in_pages,
                             plan.memory_kept_mib[node.id])
        total = sum(node.memory_mib for node in planned.nodes)
        self.assertLessEqual(planned.nova.reserved_memory_mib,
                             total - guest_mib)
        # Pinned guests have memory where their CPUs are, and nobody has that
        # of GPUs.
        own = planned.nova.dedicated_cpus or cpuset.CpuSet()
        floats = plan.purpose is not plan_model.Purpose.DEDICATED
        self.assertLessEqual(
            total - planned.nova.reserved_memory_mib,
            sum(node.memory_mib for node in planned.nodes
                if not node.gpu and (floats or node.cpus & own)))

    @unit_base.settings(max_examples=60)
    @hypothesis.given(sample_hosts.any_host(max_cores=5), requests())
    def test_what_is_offered_is_what_the_engine_places(
            self, description, wanted):
        hypothesis.assume(wanted.purpose is not plan_model.Purpose.SHARED)
        try:
            planned = planner.plan(description, wanted)
        except errors.InputError:
            return
        plan = planned.plan
        host = _with_memory(engine.engine_cells(planned), planned)
        left = len(planned.nova.dedicated_cpus)
        mixed = []
        for size, sale in zip(plan.sizes, plan.offer.sales):
            self.assertGreater(sale.alone, 0)
            self.assertTrue(_places(host, [size] * sale.alone))
            self.assertFalse(_places(host, [size] * (sale.alone + 1)))
            self.assertEqual(left - sale.alone * size.vcpus, sale.left_cpus)
            mixed += [size] * sale.mixed
        self.assertTrue(_places(host, mixed))
        self.assertEqual(
            left - sum(size.vcpus for size in mixed),
            sum(plan.offer.stranded_cpus.values()))

    def test_two_cores_of_one_socket(self):
        """The example that all of this is about: nine guests, not eight."""
        planned = planner.plan(xeon(), plan_request.PlanOptions(
            host_cpus=4, sizes=sizes((8,))))
        plan = planned.plan
        self.assertEqual('0-1,40-41', str(plan.host_cpus))
        self.assertEqual('2-39,42-79', str(planned.nova.dedicated_cpus))
        self.assertEqual((plan_model.Sale(8, 1, 9, 4, 9),), plan.offer.sales)
        self.assertEqual({0: 4}, plan.offer.stranded_cpus)
        self.assertEqual(
            [('20-21,60-61', 9), ('0,20,40,60', 8)],
            [(str(other.host_cpus), other.offer.sales[0].alone)
             for other in plan.alternatives])
        self.assertIn('8 guests of 8 vCPUs instead of 9',
                      plan.alternatives[1].difference)
        self.assertIn('8 guests of 8 vCPUs instead of 9', ' '.join(
            reason.text for reason in plan.reasons))

    def test_other_choices_are_of_other_kinds(self):
        """Not the same on one of the fourteen other nodes that are alike."""
        planned = planner.plan(
            host_loader.load(HOSTS / 'epyc-256-l3-numa.yaml'),
            plan_request.PlanOptions(host_cpus=10,
                                     sizes=sizes((4,), (8,), (16,))))
        spreads = [
            sorted((len(node.cpus & cpus) for node in planned.nodes),
                   reverse=True)[:5]
            for cpus in (planned.plan.host_cpus, *(
                other.host_cpus for other in planned.plan.alternatives))]
        self.assertEqual([[10, 0, 0, 0, 0], [10, 0, 0, 0, 0],
                          [8, 2, 0, 0, 0], [4, 4, 2, 0, 0]], spreads)
        self.assertIn('CPU 0 is not for the host',
                      planned.plan.alternatives[0].difference)

    def test_the_nic_decides_where_sales_are_equal(self):
        for node, cpus in ((0, '0-1,40-41'), (1, '20-21,60-61')):
            planned = planner.plan(
                xeon(pci_devices=(nic(1, node),)),
                plan_request.PlanOptions(host_cpus=4, sizes=sizes((8,))))
            self.assertEqual(cpus, str(planned.plan.host_cpus))
            self.assertEqual(
                (plan_model.Interrupts('0000:01:00.0', 'eth1',
                                       planned.plan.host_cpus),),
                planned.plan.interrupts)

    def test_a_nic_without_host_cpus_near(self):
        planned = planner.plan(
            xeon(pci_devices=(nic(1, 0), nic(2, 1))),
            plan_request.PlanOptions(host_cpus=4, sizes=sizes((8,))))
        self.assertIn('no-host-cpu-on-device-node', codes(planned))
        self.assertEqual({'0-1,40-41'}, {
            str(interrupt.cpus) for interrupt in planned.plan.interrupts})
        other = planner.plan(
            xeon(pci_devices=(nic(1, 0), nic(2, 1))),
            plan_request.PlanOptions(host_cpus=4, sizes=sizes((8,)),
                                     choice=3))
        self.assertNotIn('no-host-cpu-on-device-node', codes(other))
        self.assertEqual(['0,40', '20,60'], [
            str(interrupt.cpus) for interrupt in other.plan.interrupts])

    def test_devices_in_use_before_idle_ones(self):
        """Several idle drives do not outweigh what the host works with."""
        idle = tuple(nic(number, 1, 0, kind=hardware.PciKind.NVME)
                     for number in range(4, 8))
        wanted = plan_request.PlanOptions(host_cpus=4, sizes=sizes((8,)))
        for used in (nic(1, 0), nic(1, 0, 0, in_use='in bond0'),
                     nic(1, 0, 0, kind=hardware.PciKind.NVME,
                         in_use='mounted on /')):
            planned = planner.plan(
                xeon(pci_devices=(*idle, used)), wanted)
            self.assertEqual('0-1,40-41', str(planned.plan.host_cpus))
            # Idle ones alone are not worth a warning.
            self.assertNotIn('no-host-cpu-on-device-node', codes(planned))
            texts = [reason.text for reason in planned.plan.reasons]
            self.assertIn('NICs and drives in use with CPUs for the host on '
                          'their node: 1 of 1', texts)
            self.assertIn('idle NICs and drives with CPUs for the host on '
                          'their node: 0 of 4', texts)
            other = planned.plan.alternatives[0]
            self.assertEqual('20-21,60-61', str(other.host_cpus))
            self.assertIn('in use with CPUs for the host on their node: 0 '
                          'instead of 1; idle NICs and drives with CPUs for '
                          'the host on their node: 4 instead of 0',
                          other.difference)
        # Without devices in use idle ones still count.
        planned = planner.plan(xeon(pci_devices=idle), wanted)
        self.assertEqual('20-21,60-61', str(planned.plan.host_cpus))
        # A link makes a drive no busier, and those in use are named first.
        planned = planner.plan(xeon(pci_devices=(
            *idle, nic(1, 0), nic(2, 0), nic(3, 1))), wanted)
        [message] = [warning.message for warning in planned.plan.warnings
                     if warning.code == 'no-host-cpu-on-device-node']
        self.assertIn('on the node of eth3 (node 1), eth4 (node 1, idle), ',
                      message)

    @ddt.data((2, '1'), (0, '0'), (None, '0-1'))
    @ddt.unpack
    def test_the_nearest_cpus_for_interrupts(self, node, cpus):
        nodes = tuple(
            host_model.NumaNode(
                number, 0, ((number,),), GIB, distances=distances)
            for number, distances in enumerate(
                ((10, 20, 30), (20, 10, 12), (30, 12, 10))))
        [(found, _reason)] = devices.interrupts(
            host_model.HostDescription(
                'a', nodes, pci_devices=(nic(1, node),)),
            cpuset.CpuSet([0, 1]))
        self.assertEqual(cpus, str(found.cpus))

    def test_devices_of_which_the_same_is_said(self):
        nodes = (host_model.NumaNode(0, 0, tuple((cpu,) for cpu in range(8)),
                                     16 * GIB),)
        planned = planner.plan(
            host_model.HostDescription('a', nodes, pci_devices=(
                nic(1, 0), nic(2, None), nic(3, 0))),
            plan_request.PlanOptions(host_cpus=1, sizes=sizes((4,))))
        names = [interrupt.name for interrupt in planned.plan.interrupts]
        self.assertEqual(
            [f'{names[0]} and {names[2]}: on node 0, with CPU 0 for the host',
             f'{names[1]}: of no node, so that all CPUs for the host will '
             'do'],
            [reason.text for reason in planned.plan.reasons
             if reason.subject == 'interrupts'])

    def test_a_guest_has_no_more_vcpus_than_cpus_are_shared(self):
        """Placement has their number as max_unit, whatever the ratio."""
        planned = planner.plan(xeon(), plan_request.PlanOptions(
            plan_model.Purpose.SHARED, host_cpus=4, cpu_allocation_ratio=2.0))
        [reason] = [reason.text for reason in planned.plan.reasons
                    if reason.subject == 'shared_cpus']
        self.assertIn('152 vCPUs together and at most 76 for each', reason)

    def test_order_of_nodes(self):
        """It is no matter of the plan, so what the host file says stays."""
        for said in (None, True, False):
            planned = planner.plan(xeon(nova=host_model.NovaSettings(
                packs_cells=said)), plan_request.PlanOptions())
            self.assertIs(said, planned.nova.packs_cells)

    def test_too_few_cpus_for_both_classes(self):
        def plan(cores):
            node = host_model.NumaNode(
                0, 0, tuple((cpu,) for cpu in range(cores)), 16 * GIB)
            return planner.plan(
                host_model.HostDescription('a', (node,)),
                plan_request.PlanOptions(plan_model.Purpose.BOTH))

        self.assertRaises(errors.InputError, plan, 2)
        self.assertEqual((1, 1), tuple(map(len, (
            plan(3).nova.shared_cpus, plan(3).nova.dedicated_cpus))))

    def test_a_whole_l3_domain_for_the_host(self):
        description = host_loader.load(HOSTS / 'epyc-256-nps1.yaml')
        planned = planner.plan(description, plan_request.PlanOptions(
            host_cpus=16, sizes=sizes((16,))))
        self.assertEqual('0-7,128-135', str(planned.plan.host_cpus))

    def test_efficient_cores_for_the_host(self):
        cores = ((0, 1), (2, 3), (4,), (5,), (6,), (7,))
        planned = planner.plan(host_model.HostDescription(
            'hybrid', (host_model.NumaNode(0, 0, cores, 16 * GIB),),
            core_kinds=(
                hardware.CoreKind('performance', cpuset.CpuSet(range(4))),
                hardware.CoreKind('efficient', cpuset.CpuSet(range(4, 8))))),
            plan_request.PlanOptions(host_cpus=2, sizes=sizes((2,))))
        self.assertEqual('4-5', str(planned.plan.host_cpus))
        self.assertIn('cpu0-sold', codes(planned))
        self.assertIn('hybrid', codes(planned))

    def test_polling_near_the_nics(self):
        planned = planner.plan(
            xeon(pci_devices=(nic(1, 1),)),
            plan_request.PlanOptions(host_cpus=2, poll_cpus=4,
                                     sizes=sizes((8,)),
                                     host_memory_mib=40 * GIB))
        plan = planned.plan
        self.assertEqual(4, len(plan.poll_cpus))
        self.assertTrue(plan.poll_cpus.issubset(planned.nodes[1].cpus))
        self.assertEqual({1: 4}, plan.poll_pages)
        self.assertEqual({(1, host_samples.GIB_PAGES): 4},
                         planned.nova.reserved_huge_pages)
        # Beside what the host itself has.
        self.assertEqual({0: 10 * GIB, 1: 34 * GIB}, plan.memory_kept_mib)
        self.assertEqual(44 * GIB, planned.nova.reserved_memory_mib)

    def test_polling_on_both_nodes(self):
        planned = planner.plan(
            xeon(pci_devices=(nic(1, 1), nic(2, 0))),
            plan_request.PlanOptions(poll_cpus=3))
        self.assertEqual([2, 2], [
            len(node.cpus & planned.plan.poll_cpus)
            for node in planned.nodes])
        self.assertNotIn('few-poll-cpus', codes(planned))
        planned = planner.plan(
            xeon(pci_devices=(nic(1, 1), nic(2, 0))),
            plan_request.PlanOptions(poll_cpus=2))
        self.assertIn('few-poll-cpus', codes(planned))

    @ddt.data(*plan_model.Purpose)
    def test_polling_takes_huge_pages_for_all(self, purpose):
        planned = planner.plan(xeon(), plan_request.PlanOptions(
            purpose, poll_cpus=4, host_memory_mib=40 * GIB))
        self.assertEqual({0: 4, 1: 4}, planned.plan.poll_pages)
        self.assertEqual(48 * GIB, sum(
            planned.plan.memory_kept_mib.values()))

    def test_emulator_threads_near_guests(self):
        """Not only on one node, where that costs nothing."""
        planned = planner.plan(xeon(), plan_request.PlanOptions(
            host_cpus=2, shared_cpus=6, sizes=sizes((4,))))
        self.assertEqual(6, len(planned.nova.shared_cpus))
        for node in planned.nodes:
            self.assertTrue(node.cpus & planned.nova.shared_cpus)
        self.assertNotIn('no-emulator-cpus', codes(planned))

    @ddt.data((plan_model.Purpose.DEDICATED, {placement_traits.DEDICATED}),
              (plan_model.Purpose.SHARED, {placement_traits.SHARED}),
              (plan_model.Purpose.BOTH, set()))
    @ddt.unpack
    def test_classes(self, purpose, marks):
        planned = planner.plan(
            xeon(traits=frozenset({placement_traits.DEDICATED, 'CUSTOM_A'})),
            plan_request.PlanOptions(purpose))
        self.assertEqual(marks | {'CUSTOM_A'}, planned.traits)
        nova = planned.nova
        self.assertEqual(purpose is not plan_model.Purpose.SHARED,
                         bool(nova.dedicated_cpus))
        self.assertEqual(purpose is not plan_model.Purpose.DEDICATED,
                         bool(nova.shared_cpus))
        self.assertEqual(purpose is plan_model.Purpose.BOTH,
                         'both-classes' in codes(planned))
        expected = 0 if purpose is plan_model.Purpose.DEDICATED else 4 * len(
            nova.shared_cpus)
        self.assertEqual(expected, planned.plan.offer.shared_vcpus)

    def test_a_plan_is_planned_again(self):
        first = planner.plan(xeon(), plan_request.PlanOptions(
            plan_model.Purpose.BOTH, poll_cpus=2))
        again = planner.plan(first, plan_request.PlanOptions())
        self.assertEqual(planner.plan(xeon(), plan_request.PlanOptions()),
                         again)

    def test_memory(self):
        planned = planner.plan(xeon(), plan_request.PlanOptions(
            host_cpus=4, host_memory_mib=40 * GIB, sizes=sizes((8,))))
        # Half from both nodes alike, half from where the host's CPUs are.
        self.assertEqual({0: 30 * GIB, 1: 10 * GIB},
                         planned.plan.memory_kept_mib)
        self.assertEqual([354, 374], [
            node.huge_pages[host_samples.GIB_PAGES] for node in planned.nodes])
        self.assertEqual(40 * GIB, planned.nova.reserved_memory_mib)

    def test_memory_of_both_classes(self):
        planned = planner.plan(xeon(), plan_request.PlanOptions(
            plan_model.Purpose.BOTH, host_cpus=4, host_memory_mib=40 * GIB,
            shared_cpus=18, sizes=sizes((8,))))
        pages = sum(node.huge_pages.get(host_samples.GIB_PAGES, 0)
                    for node in planned.nodes)
        cpus = len(planned.nova.dedicated_cpus)
        self.assertEqual(58, cpus)
        self.assertLess(abs(pages - 728 * 58 / 76), 40)
        self.assertEqual(40 * GIB, planned.nova.reserved_memory_mib)

    @ddt.data(
        (4, GIB, host_samples.MIB_PAGES),
        (4, 64 * GIB, host_samples.GIB_PAGES))
    @ddt.unpack
    def test_page_size(self, cores, memory_mib, size_kib):
        node = host_model.NumaNode(
            0, 0, tuple((cpu,) for cpu in range(cores)), memory_mib)
        planned = planner.plan(host_model.HostDescription('a', (node,)),
                               plan_request.PlanOptions())
        self.assertEqual(size_kib, planned.plan.page_size_kib)

    @ddt.data(
        ('s390x', 4, {}, 1024), ('ppc64le', 64, {}, host_samples.GIB_PAGES),
        ('ppc64le', 64, {16384: 0, 16777216: 0}, 16384),
        ('aarch64', 64, {2048: 0, 524288: 3, 16777216: 0}, 524288),
        ('aarch64', 16, {}, host_samples.GIB_PAGES),
        ('riscv64', 4, {}, host_samples.GIB_PAGES),
        ('x86_64', 4, {2048: 0}, 2048), ('x86_64', 4, {1048576: 3}, 1048576))
    @ddt.unpack
    def test_pages_that_the_host_has(self, arch, small_kib, found, expected):
        node = host_model.NumaNode(0, 0, tuple(
            (cpu,) for cpu in range(8)), 64 * GIB, found)
        host = host_model.HostDescription(
            'a', (node,), cpu_model=host_model.CpuModel(arch),
            system=hardware.System(page_size_kib=small_kib))
        planned = planner.plan(host, plan_request.PlanOptions())
        [node] = planned.nodes
        self.assertEqual(expected, planned.plan.page_size_kib)
        self.assertEqual({expected, *found}, set(node.huge_pages))
        self.assertGreater(node.huge_pages[expected], 0)
        # It is planned again with those that it has, and no others.
        for size_kib in {*found, expected}:
            again = planner.plan(planned, plan_request.PlanOptions(
                page_size_kib=size_kib, host_memory_mib=4096))
            self.assertEqual(size_kib, again.plan.page_size_kib)
        error = self.assertRaises(
            errors.InputError, planner.plan, planned,
            plan_request.PlanOptions(page_size_kib=8192))
        self.assertIn('--page-size: the host has no huge pages of 8 MiB',
                      str(error))

    def test_as_few_cells_as_it_takes(self):
        planned = planner.plan(xeon(), plan_request.PlanOptions(
            host_cpus=4, sizes=sizes((40,), (48,), (30, 1, 2))))
        self.assertEqual([1, 2, 2],
                         [size.cells for size in planned.plan.sizes])
        # Where it would fit on the bare host only, it gets more of them.
        planned = planner.plan(
            xeon(pci_devices=(nic(1, 0), nic(2, 1))),
            plan_request.PlanOptions(host_cpus=2, sizes=sizes((40,)),
                                     poll_cpus=4))
        self.assertEqual([2], [size.cells for size in planned.plan.sizes])
        self.assertEqual([1], [
            sale.alone for sale in planned.plan.offer.sales])

    @ddt.data((8, plan_model.Purpose.BOTH, [4]),
              (2, plan_model.Purpose.DEDICATED, [1]),
              (8, plan_model.Purpose.DEDICATED, [4, 8]))
    @ddt.unpack
    def test_usual_sizes_that_fit(self, cores, purpose, expected):
        """They are left out where nothing but the host's CPUs is too much."""
        node = host_model.NumaNode(0, 0, tuple(
            (core, core + cores) for core in range(cores)), 64 * GIB)
        planned = planner.plan(host_model.HostDescription('a', (node,)),
                               plan_request.PlanOptions(purpose))
        self.assertEqual(expected, [
            size.vcpus for size in planned.plan.sizes])

    @ddt.data(
        (dict(sizes=sizes((81,))), '--for.*81 vCPUs.*node, 0, has 40 CPUs'),
        (dict(sizes=sizes((41, 1, 1))), '--for.*in 1 cell '),
        (dict(sizes=sizes((80,))), '--for.*80 vCPUs'),
        (dict(sizes=sizes((8,), (8, 1, 1))), '--for.*twice'),
        # In as many cells as it takes beside CPUs for polling.
        (dict(sizes=sizes((40,), (40, 1, 2)), poll_cpus=4), '--for.*twice'),
        (dict(purpose=plan_model.Purpose.BOTH, shared_cpus=0),
         '--shared-cpus'),
        (dict(host_memory_mib=100), '--host-memory'),
        (dict(host_cpus=79), 'too few'),
        (dict(host_cpus=40, shared_cpus=40), 'too few'),
        (dict(poll_cpus=90), '--poll-cpus'),
        (dict(choice=9), '--choice.*9'),
        (dict(host_memory_mib=10 ** 9), '--host-memory'),
        (dict(poll_cpus=2, page_size_kib=0), '--page-size'),
        (dict(pci_aliases=(('a', 'nvme'),)), '--pci-alias.*nvme'))
    @ddt.unpack
    def test_what_cannot_be_had(self, values, message):
        error = self.assertRaises(errors.InputError, planner.plan, xeon(),
                                  plan_request.PlanOptions(**values))
        self.assertRegex(str(error), message)

    def test_aliases(self):
        description = xeon(pci_devices=(
            nic(1, 0), nic(2, 0, in_use='up, has a route'),
            nic(3, 1, kind=hardware.PciKind.GPU),
            nic(4, 1, kind=hardware.PciKind.NVME)),
            system=hardware.System(has_iommu=False))
        planned = planner.plan(description, plan_request.PlanOptions(
            pci_aliases=(('net', 'nic'), ('gpu', '0000:03:00.0'))))
        self.assertEqual(['net', '', 'gpu', ''], [
            device.alias for device in planned.pci_devices])
        self.assertEqual(['eth2', 'eth4'], [
            interrupt.name for interrupt in planned.plan.interrupts])
        self.assertLess({'no-iommu', 'device-in-use'}, set(codes(planned)))
        for aliases in ((('net', '02:00.0'),),
                        (('net', '01:00.0'), ('other', '15b3:1017'))):
            self.assertRaises(errors.InputError, planner.plan, description,
                              plan_request.PlanOptions(pci_aliases=aliases))

    def test_a_device_whose_virtual_function_the_host_uses(self):
        """It would be gone for the host with the device."""
        error = self.assertRaises(
            errors.InputError, planner.plan, xeon(pci_devices=(
                nic(1, 0), nic(2, 0, physical_function='0000:01:00.0',
                               in_use='up, has a route'))),
            plan_request.PlanOptions(pci_aliases=(('net', '01:00.0'),)))
        self.assertIn(
            '(0000:01:00.0) is the physical function of 0000:02:00.0, which '
            'is up, has a route', str(error))

    @ddt.data('nic', '15b3:1017')
    def test_virtual_functions(self, what):
        """They are what guests get; the NIC itself stays with the host."""
        planned = planner.plan(
            xeon(pci_devices=(
                nic(1, 0), nic(2, 0, physical_function='0000:01:00.0'))),
            plan_request.PlanOptions(pci_aliases=(('net', what),)))
        self.assertEqual(['', 'net'], [
            device.alias for device in planned.pci_devices])
        self.assertEqual(['eth1'], [
            interrupt.name for interrupt in planned.plan.interrupts])

    def test_many_nodes(self):
        """What would take ages if equal nodes were told apart."""
        nodes = tuple(
            host_model.NumaNode(number, number // 12, tuple(
                (first, first + 192)
                for first in range(8 * number, 8 * number + 8)), 64 * GIB)
            for number in range(24))
        planned = planner.plan(
            host_model.HostDescription('a', nodes), plan_request.PlanOptions(
                host_cpus=32, shared_cpus=32,
                sizes=sizes((4,), (8,), (16,))))
        self.assertEqual('0-15,192-207', str(planned.plan.host_cpus))

    @ddt.data(
        ('smt-off', dict(system=hardware.System(smt='off'))),
        ('offline-cpus', dict(offline_cpus=cpuset.CpuSet([80]))),
        ('mitigations-off', dict(system=hardware.System(
            command_line='quiet mitigations=off'))),
        ('vulnerable', dict(system=hardware.System(
            mitigations={'mds': 'Vulnerable: no microcode'}))),
        ('vulnerable', dict(system=hardware.System(
            mitigations={'itlb_multihit': 'KVM: Vulnerable'}))),
        ('smt-vulnerable', dict(system=hardware.System(
            smt='on', mitigations={
                'mds': 'Mitigation: Clear CPU buffers; SMT vulnerable'}))),
        ('isolated-others', dict(system=hardware.System(
            isolated_cpus=cpuset.CpuSet([0, 5])))),
        ('isolated-part', dict(system=hardware.System(
            isolated_cpus=cpuset.CpuSet([5])))),
        ('few-host-cpus', dict(pci_devices=(nic(1, 0, 100000),))))
    @ddt.unpack
    def test_warnings(self, code, values):
        wanted = plan_request.PlanOptions(host_cpus=4, sizes=sizes((4,)))
        self.assertIn(code, codes(planner.plan(xeon(**values), wanted)))
        self.assertEqual(['no-emulator-cpus'],
                         codes(planner.plan(xeon(), wanted)))

    def test_what_helps_nics(self):
        """No host has a CPU for each 10 Gbit/s of eight fast NICs."""
        for number, is_told in ((1, True), (8, False)):
            planned = planner.plan(
                xeon(pci_devices=tuple(nic(bus, 0, 200000)
                                       for bus in range(1, number + 1))),
                plan_request.PlanOptions(host_cpus=4, sizes=sizes((4,))))
            told, = (one.advice for one in planned.plan.warnings
                     if one.code == 'few-host-cpus')
            self.assertEqual(is_told, 'have 20 with --host-cpus' in told)
            self.assertEqual(is_told, '--host-cpus' in told)
            self.assertIn('bypass the kernel', told)

    def test_small_nodes(self):
        nodes = xeon().nodes
        planned = planner.plan(xeon(nodes=(
            nodes[0], dataclasses.replace(nodes[1], memory_mib=0))),
            plan_request.PlanOptions(host_cpus=4, sizes=sizes((8,))))
        self.assertIn('no-memory-node', codes(planned))
        # What cannot be sold is what the host gets.
        self.assertEqual('20-21,60-61', str(planned.plan.host_cpus))
        planned = planner.plan(xeon(nodes=(
            nodes[0], dataclasses.replace(nodes[1], memory_mib=GIB))),
            plan_request.PlanOptions())
        self.assertIn('memory-too-small', codes(planned))

    def test_nodes_without_memory_for_guests(self):
        """They sell nothing, whatever CPUs they have."""
        nodes = xeon().nodes
        small = (nodes[0], dataclasses.replace(nodes[1], memory_mib=GIB))
        wanted = plan_request.PlanOptions(host_cpus=4, sizes=sizes((8,)),
                                          host_memory_mib=100 * GIB)
        # What cannot be sold is what the host gets.
        taken = dataclasses.replace(wanted,
                                    page_size_kib=host_samples.GIB_PAGES)
        # There some is left, if the host's CPUs are elsewhere.
        other = dataclasses.replace(wanted, page_size_kib=0, choice=2)
        for one, pages in ((taken, ' in pages of 1 GiB'), (other, '')):
            planned = planner.plan(xeon(nodes=small), one)
            self.assertEqual('20-21,60-61', str(planned.plan.host_cpus))
            self.assertEqual((plan_model.Sale(8, 1, 5, 36, 5),),
                             planned.plan.offer.sales)
            self.assertEqual({1: 36}, planned.plan.offer.stranded_cpus)
            self.assertEqual([
                f'node 1 is left without memory for guests{pages}, so that '
                'CPUs 22-39,62-79 there cannot be sold'],
                [warning.message for warning in planned.plan.warnings
                 if warning.code == 'no-guest-memory'])
            self.assertNotIn('memory-too-small', codes(planned))
            texts = [reason.text for reason in planned.plan.reasons]
            self.assertIn(
                'all that is left is dedicated, 76 CPUs; 36 of them are on '
                'nodes without memory for guests; left when the mix is full: '
                '36 CPUs', texts)
            self.assertEqual(
                {4} if one is taken else {9, 4}, {
                    other.offer.sales[0].alone
                    for other in planned.plan.alternatives})

    def test_a_choice_that_only_memory_makes_better(self):
        """By CPUs alone it would not be among those that are compared."""
        nodes = tuple(host_model.NumaNode(
            number, number, tuple((4 * number + cpu,) for cpu in range(4)),
            memory_mib) for number, memory_mib in enumerate(
                (64 * GIB, 64 * GIB, GIB)))
        planned = planner.plan(
            host_model.HostDescription('a', nodes), plan_request.PlanOptions(
                host_cpus=2, sizes=sizes((1,)),
                page_size_kib=host_samples.GIB_PAGES))
        self.assertEqual('8-9', str(planned.plan.host_cpus))
        self.assertEqual((plan_model.Sale(1, 1, 8, 2, 8),),
                         planned.plan.offer.sales)
        self.assertLess(max(other.offer.sales[0].alone
                            for other in planned.plan.alternatives), 8)

    def test_no_memory_for_guests_at_all(self):
        node = host_model.NumaNode(
            0, 0, tuple((cpu,) for cpu in range(8)), GIB)
        error = self.assertRaises(
            errors.InputError, planner.plan,
            host_model.HostDescription('a', (node,)),
            plan_request.PlanOptions(page_size_kib=host_samples.GIB_PAGES))
        self.assertRegex(str(error), 'no node has memory left for guests in '
                         'pages of 1 GiB.*--host-memory')

    def test_what_a_small_node_lacks_comes_from_all_others(self):
        """None of them loses all that it has."""
        nodes = tuple(host_model.NumaNode(
            number, number, tuple((4 * number + cpu,) for cpu in range(4)),
            250) for number in range(16))
        planned = planner.plan(
            host_model.HostDescription('a', nodes), plan_request.PlanOptions())
        self.assertEqual(1000, sum(
            planned.plan.memory_kept_mib.values()) // 100 * 100)
        self.assertEqual(250, planned.plan.memory_kept_mib[0])
        others = [planned.plan.memory_kept_mib[number]
                  for number in range(1, 16)]
        self.assertLess(max(others) - min(others), 4)
        self.assertEqual(60, planned.plan.offer.sales[0].alone)

    @ddt.data((1, '1 MiB'), (1023, '1023 MiB'))
    @ddt.unpack
    def test_too_little_host_memory(self, memory_mib, shown):
        error = self.assertRaises(
            errors.InputError, planner.plan, xeon(),
            plan_request.PlanOptions(host_memory_mib=memory_mib))
        self.assertIn(f'{shown} for the host is too little', str(error))
        self.assertIn('take at least 1 GiB', str(error))
        # A small host is held to less, and told so.
        node = host_model.NumaNode(
            0, 0, tuple((cpu,) for cpu in range(4)), 2 * GIB)
        error = self.assertRaises(
            errors.InputError, planner.plan,
            host_model.HostDescription('a', (node,)),
            plan_request.PlanOptions(host_memory_mib=1))
        self.assertIn('take at least 512 MiB', str(error))

    @ddt.data((80, 0, 4), (80, 50000, 5), (80, 200000, 8), (256, 0, 9),
              (256, 100000, 10), (8, 0, 2), (2, 0, 1), (8, 400000, 2))
    @ddt.unpack
    def test_host_cpus_where_nobody_says(self, cpus, mbps, expected):
        node = host_model.NumaNode(
            0, 0, tuple((cpu,) for cpu in range(cpus)), 64 * GIB)
        description = host_model.HostDescription(
            'a', (node,), pci_devices=(nic(1, 0, mbps),))
        self.assertEqual(
            expected, plan_request.default_host_cpus(description, False))

    @ddt.data(('8', [(8, 1, 0)]),
              ('8:70, 16:30', [(8, 70, 0), (16, 30, 0)]),
              ('48x2:3', [(48, 3, 2)]))
    @ddt.unpack
    def test_sizes(self, text, expected):
        found = plan_request.parse_sizes(text, errors.Location('--for'))
        self.assertEqual(expected, [dataclasses.astuple(one)
                                    for one in found])

    @ddt.data('', '8,', 'a', '0', '8:0', '8x0', '9x2', '8:1:2', '8,8:2',
              '-8', '8x2x2')
    def test_bad_sizes(self, text):
        self.assertRaises(errors.InputError, plan_request.parse_sizes, text,
                          errors.Location('--for'))
