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


import itertools

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.fit import capacity
from nova_pinning.host import hardware
from nova_pinning.host.plan import ground
from nova_pinning.host.plan import model
from nova_pinning.host.plan import search
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.host.plan import hosts

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
            yield search.Choice(*(cpus[use] for use in _USES))


def _merit(description, demand, choice):
    """How good a choice is, worked out the long way: larger is better."""
    rooms = [capacity.Room(len(node.cpus & choice.dedicated_cpus))
             for node in description.nodes if node.memory_mib]
    alone = [capacity.guests(rooms, size) for size in demand.sizes]
    far = in_use = idle = fast = 0
    host_l3 = shared_l3 = 0
    taken = choice.host_cpus | choice.poll_cpus
    guests = choice.dedicated_cpus
    if demand.purpose is not model.Purpose.DEDICATED:
        guests |= choice.shared_cpus
    for node in description.nodes:
        if (demand.purpose is model.Purpose.DEDICATED and demand.shared_cpus
                and not node.cpus & choice.shared_cpus):
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
        for domain in node.l3_domains or (node.cpus,):
            if domain & taken:
                host_l3 += len(domain & guests)
            if domain & choice.shared_cpus:
                shared_l3 += len(domain & choice.dedicated_cpus)
    for kind in description.core_kinds:
        if kind.name == 'performance':
            fast = len(choice.host_cpus & kind.cpus)
    return (
        sum(capacity.mix(rooms, demand.sizes, demand.weights)),
        sum(count * size.vcpus * weight for count, size, weight
            in zip(alone, demand.sizes, demand.weights)),
        alone, -far, -in_use, -idle, -host_l3, -shared_l3, -fast,
        [[-cpu for cpu in cpus] for cpus in (
            choice.host_cpus, choice.poll_cpus, choice.shared_cpus)])


@strategies.composite
def _demands(draw, description):
    purpose = draw(strategies.sampled_from(model.Purpose))
    online = len(description.cpus)
    host = draw(strategies.integers(1, max(1, online // 2)))
    shared = draw(strategies.integers(0, (online - host) // 2))
    poll = {}
    if draw(strategies.integers(0, 3)) == 0:
        node = draw(strategies.sampled_from(
            [node for node in description.nodes if node.cores]))
        poll = {node.id: len(node.cores[-1])}
    sizes, weights = (), ()
    if purpose is model.Purpose.SHARED:
        shared = None
    else:
        sizes = tuple(draw(strategies.lists(strategies.sampled_from([
            capacity.Size(1), capacity.Size(2), capacity.Size(3),
            capacity.Size(4), capacity.Size(2, 2), capacity.Size(6, 2)]),
            min_size=1, max_size=3, unique=True)))
        weights = tuple(draw(strategies.integers(1, 3)) for _size in sizes)
    return search.Demand(purpose, host, shared, poll, sizes, weights)


class TestSearch(oslotest.BaseTestCase):

    @base.settings(max_examples=50)
    @hypothesis.given(strategies.data())
    def test_the_best_of_all(self, data):
        description = data.draw(hosts.any_host())
        demand = data.draw(_demands(description))
        found = search.search(ground.grounds(description), demand, 4)
        best = max(_all_choices(description, demand), default=None,
                   key=lambda one: _merit(description, demand, one))
        self.assertEqual(best, found[0] if found else None)
        merits = [_merit(description, demand, one) for one in found]
        self.assertEqual(sorted(merits, reverse=True), merits)
        self.assertEqual(len(set(found)), len(found))
