# SPDX-License-Identifier: Apache-2.0
"""What a choice of CPUs sells."""

from collections.abc import Collection
from collections.abc import Sequence

from nova_pinning import fit
from nova_pinning.fit import capacity
from nova_pinning.host import host_model
from nova_pinning.host import plan_model


def offer_of(description: host_model.HostDescription,
             choice: plan_model.CpuChoice,
             sizes: Sequence[plan_model.GuestSize], ratio: float,
             selling: Collection[int]) -> plan_model.Offer:
    """What can be sold; pinned guests by their CPUs alone.

    :param ratio: vCPUs of shared guests for each shared CPU; 0 if there are
        to be no shared guests
    :param selling: the nodes that have memory for pinned guests
    """
    dedicated = {node.id: len(node.cpus & choice.dedicated_cpus)
                 for node in description.nodes}
    rooms = [fit.Room(dedicated[node.id])
             for node in description.nodes if node.id in selling]
    plain_sizes = tuple(size.size for size in sizes)
    mixed = capacity.mix(rooms, plain_sizes, [size.weight for size in sizes])
    sales = []
    for size, count in zip(sizes, mixed):
        alone = capacity.guests(rooms, size.size)
        sales.append(plan_model.Sale(
            size.vcpus, size.cells, alone,
            sum(dedicated.values()) - alone * size.vcpus, count))
    # Dedicated CPUs that are left when the mix is full.
    taken = capacity.find_packing(rooms, plain_sizes, mixed)
    assert taken is not None
    left = dict(dedicated)
    sellable = (number for number in dedicated if number in selling)
    for number, cells in zip(sellable, taken):
        left[number] -= sum(count * size.vcpus
                            for count, size in zip(cells, plain_sizes))
    return plan_model.Offer(
        tuple(sales), {number: cpus for number, cpus in left.items() if cpus},
        int(len(choice.shared_cpus) * ratio))
