# SPDX-License-Identifier: Apache-2.0
"""Resources that hosts share: what is counted of each is not there twice.

Disks of a storage that serves several hosts, say: Placement has them in one
provider, which shares with all of these. Each host alone could take guests for
all that is left of it.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from typing import NamedTuple

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy


class SharedDraw(NamedTuple):
    """What each guest of a flavor takes of a provider that shares.

    :param provider: its UUID
    :param amount: for each guest, at least 1
    :param free: that is left for all guests of all hosts together
    """

    provider: str
    resource_class: str
    amount: int
    free: int


def draws(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy,
) -> Iterator[SharedDraw]:
    """What a guest takes from elsewhere wherever it can be on a host.

    What the host has more than one provider for is left out: which of them a
    guest takes it from is open.
    """
    host = occupancy.host
    for index, provider in enumerate(host.children, 1):
        if not provider.is_shared or not provider.uuid:
            continue
        for name, has in provider.inventories:
            amount = min((query.resources.get(name, 0)
                          for query in request.queries), default=0)
            if amount and len(host.offers[name]) == 1:
                yield SharedDraw(
                    provider.uuid, name, amount,
                    has.free(occupancy.used[index].get(name, 0)))


def capped(guests: Mapping[tuple[SharedDraw, ...], int],
           ) -> dict[tuple[SharedDraw, ...], int]:
    """How many of the guests that hosts could take there is enough for.

    :param guests: as counted host by host, by what each takes
    """
    left = dict(guests)
    pools: dict[tuple[str, str], int] = {}
    for taken in left:
        for draw in taken:
            pool = draw.provider, draw.resource_class
            pools[pool] = min(pools.get(pool, draw.free), draw.free)
    for pool, free in pools.items():
        for taken in left:
            for draw in taken:
                if (draw.provider, draw.resource_class) == pool:
                    left[taken] = min(left[taken], max(0, free) // draw.amount)
                    free -= left[taken] * draw.amount
    return left
