# SPDX-License-Identifier: Apache-2.0


import itertools

import ddt
import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning import fit
from nova_pinning.fit import capacity
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host.plan import allocatable_cores
from nova_pinning.host.plan import cpu_search
from nova_pinning.host import plan_model
from nova_pinning.tests.unit.host.plan import sample_hosts
from nova_pinning.tests.unit import unit_base

_USES = ('host', 'poll', 'shared', 'dedicated')


def _all_choices(description, demand):
    """Every way to give each core a use, as many CPUs of each as demanded."""
    cores = [core for node in description.nodes for core in node.cores]
    wanted_poll = {node.id: demand.poll_cpus.get(node.id, 0)
                   for node in description.nodes}
    uses = _USES if any(wanted_poll.values()) else ('host', 'shared',
                                                    'dedicated')
    for given in itertools.product(uses, repeat=len(cores)):
        cpus = {use: cpuset.CpuSet(
            cpu for core, its in zip(cores, given) if its == use
            for cpu in core) for use in _USES}
        if len(cpus['host']) != demand.host_cpus:
            continue
        if demand.shared_cpus is None:
            if cpus['dedicated']:
                continue
        elif len(cpus['shared']) != demand.shared_cpus:
            continue
        if all(len(cpus['poll'] & node.cpus) == wanted_poll[node.id]
               for node in description.nodes):
            yield plan_model.CpuChoice(*(cpus[use] for use in _USES))


def _merit(description, demand, choice):
    """How good a choice is, worked out the long way: larger is better."""
    rooms = [fit.Room(len(node.cpus & choice.dedicated_cpus))
             for node in description.nodes if node.memory_mib]
    alone = [capacity.guests(rooms, size) for size in demand.sizes]
    far = in_use = idle = near_gpus = fast = 0
    host_l3 = shared_l3 = 0
    taken = choice.host_cpus | choice.poll_cpus
    guests = choice.dedicated_cpus
    if demand.purpose is not plan_model.Purpose.DEDICATED:
        guests |= choice.shared_cpus
    for node in description.nodes:
        if (demand.purpose is plan_model.Purpose.DEDICATED
                and demand.shared_cpus and not node.cpus & choice.shared_cpus):
            far += len(node.cpus & choice.dedicated_cpus)
        if not node.cpus & choice.host_cpus and node.cores:
            for device in description.pci_devices:
                is_nic = device.kind is hardware.PciKind.NIC
                if device.numa_node != node.id or not (
                        is_nic or device.kind is hardware.PciKind.NVME):
                    continue
                if device.in_use or is_nic and device.speed_mbps:
                    in_use += 1
                else:
                    idle += 1
        if any(device.kind is hardware.PciKind.GPU and device.alias
               and device.numa_node == node.id
               for device in description.pci_devices):
            near_gpus += len(node.cpus & choice.host_cpus)
            if demand.shared_cpus is not None:
                near_gpus += len(node.cpus & choice.shared_cpus)
        for domain in node.l3_domains or (node.cpus,):
            # One of several nodes counts once, by all that is in it.
            is_wide = len(domain) > len(node.cpus)
            if is_wide and node != next(
                    one for one in description.nodes if one.cpus & domain):
                continue
            if domain & taken:
                host_l3 += len(domain - taken if is_wide else domain & guests)
            if domain & choice.shared_cpus:
                shared_l3 += len(domain - choice.shared_cpus if is_wide
                                 else domain & choice.dedicated_cpus)
    sockets = sorted({node.socket for node in description.nodes
                      if node.cpus & choice.host_cpus})
    away = sum(min(
        node.distances[index] for node in description.nodes
        for index, other in enumerate(description.nodes)
        if (node.socket, other.socket) == (socket, sockets[0]))
        for socket in sockets[1:])
    for kind in description.core_kinds:
        if kind.name == 'performance':
            fast = len(choice.host_cpus & kind.cpus)
    return (
        sum(capacity.mix(rooms, demand.sizes, demand.weights)),
        sum(count * size.guest_vcpus * weight for count, size, weight
            in zip(alone, demand.sizes, demand.weights)),
        alone, -far, -in_use, -idle, -near_gpus, -host_l3, -shared_l3,
        -len(sockets), -away, -fast,
        [[-cpu for cpu in cpus] for cpus in (
            choice.host_cpus, choice.poll_cpus, choice.shared_cpus)])


@strategies.composite
def _demands(draw, description):
    purpose = draw(strategies.sampled_from(plan_model.Purpose))
    online = len(description.cpus)
    host = draw(strategies.integers(1, max(1, online // 2)))
    shared = draw(strategies.integers(0, (online - host) // 2))
    poll = {}
    if draw(strategies.integers(0, 3)) == 0:
        node = draw(strategies.sampled_from(
            [node for node in description.nodes if node.cores]))
        poll = {node.id: len(node.cores[-1])}
    sizes, weights = (), ()
    if purpose is plan_model.Purpose.SHARED:
        shared = None
    else:
        sizes = tuple(draw(strategies.lists(strategies.sampled_from([
            fit.Size(1), fit.Size(2), fit.Size(3), fit.Size(4),
            fit.Size(1, cells=2), fit.Size(3, cells=2)]),
            min_size=1, max_size=3, unique=True)))
        weights = tuple(draw(strategies.integers(1, 3)) for _size in sizes)
    return cpu_search.CpuDemand(purpose, host, shared, poll, sizes, weights)


@ddt.ddt
class TestSearch(oslotest.BaseTestCase):

    @unit_base.settings(max_examples=50)
    @hypothesis.given(strategies.data())
    def test_the_best_of_all(self, data):
        description = data.draw(sample_hosts.any_host())
        demand = data.draw(_demands(description))
        found = cpu_search.search(
            allocatable_cores.allocatable_nodes(description), demand, 4)
        best = max(_all_choices(description, demand), default=None,
                   key=lambda one: _merit(description, demand, one))
        self.assertEqual(best, found[0] if found else None)
        merits = [_merit(description, demand, one) for one in found]
        self.assertEqual(sorted(merits, reverse=True), merits)
        self.assertEqual(len(set(found)), len(found))

    @ddt.data(0, 24)
    def test_sub_numa_clustering(self, wide):
        """The host's CPUs are in one socket, beside fewer guests."""
        nodes = tuple(host_model.NumaNode(
            number, number // 2, tuple(
                (cpu, cpu + 48) for cpu in range(12 * number,
                                                 12 * number + 12)),
            65536, l3_domains=(cpus_of(
                wide * (number // 2), wide * (number // 2) + wide),)
            if wide else ()) for number in range(4))
        found, *_others = cpu_search.search(
            allocatable_cores.allocatable_nodes(
                host_model.HostDescription('snc', nodes)),
            cpu_search.CpuDemand(plan_model.Purpose.DEDICATED, 8, 0, {},
                                 (fit.Size(20),), (1,)))
        self.assertEqual({0}, {
            node.socket for node in nodes if node.cpus & found.host_cpus})
        self.assertEqual(2, sum(
            bool(node.cpus & found.host_cpus) for node in nodes))

    def test_distance(self):
        """The host's CPUs are in two sockets that are near each other.

        A node without CPUs is in no socket, whatever its file says.
        """
        nodes = tuple(host_model.NumaNode(
            number, number % 4, tuple((cpu,) for cpu in range(
                10 * number, 10 * number + 10) if number < 4), 65536,
            distances=(distances)) for number, distances in enumerate((
                (10, 31, 21, 31, 11), (31, 10, 31, 21, 11),
                (21, 31, 10, 31, 31), (31, 21, 31, 10, 11),
                (11, 11, 31, 11, 10))))
        found, *_others = cpu_search.search(
            allocatable_cores.allocatable_nodes(
                host_model.HostDescription('ring', nodes)),
            cpu_search.CpuDemand(plan_model.Purpose.DEDICATED, 4, 0, {},
                                 (fit.Size(4),), (1,)))
        self.assertEqual(cpuset.CpuSet([0, 1, 20, 21]), found.host_cpus)


def cpus_of(first, end):
    return cpuset.CpuSet([*range(first, end), *range(48 + first, 48 + end)])
