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

"""What a choice of CPUs sells."""

from collections.abc import Collection
from collections.abc import Sequence

from nova_pinning.fit import capacity
from nova_pinning.host import model as host_model
from nova_pinning.host.plan import model
from nova_pinning.host.plan import search


def offer(description: host_model.HostDescription, choice: search.Choice,
          sizes: Sequence[model.GuestSize], ratio: float,
          selling: Collection[int]) -> model.Offer:
    """What can be sold; pinned guests by their CPUs alone.

    :param ratio: vCPUs of shared guests for each shared CPU; 0 if there are
        to be no shared guests
    :param selling: the nodes that have memory for pinned guests
    """
    dedicated = {node.id: len(node.cpus & choice.dedicated_cpus)
                 for node in description.nodes}
    rooms = tuple(capacity.Room(dedicated[node.id])
                  for node in description.nodes if node.id in selling)
    wanted = tuple(capacity.Size(size.vcpus, size.cells) for size in sizes)
    mixed = capacity.mix(rooms, wanted, [size.weight for size in sizes])
    sales = []
    for size, count in zip(wanted, mixed):
        alone = capacity.guests(rooms, size)
        sales.append(model.Sale(
            size.vcpus, size.cells, alone,
            sum(dedicated.values()) - alone * size.vcpus, count))
    return model.Offer(
        tuple(sales), _stranded(selling, dedicated, wanted, mixed),
        int(len(choice.shared_cpus) * ratio))


def _stranded(
    selling: Collection[int], dedicated: dict[int, int],
    sizes: Sequence[capacity.Size], counts: Sequence[int],
) -> dict[int, int]:
    """Dedicated CPUs by node that are left when the mix is full."""
    sellable = [number for number in dedicated if number in selling]
    taken = capacity.packing(
        [capacity.Room(dedicated[number]) for number in sellable], sizes,
        counts)
    assert taken is not None
    left = dict(dedicated)
    for number, cells in zip(sellable, taken):
        left[number] -= sum(count * size.cell_vcpus
                            for count, size in zip(cells, sizes))
    return {number: cpus for number, cpus in left.items() if cpus}
