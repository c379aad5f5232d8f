# SPDX-License-Identifier: Apache-2.0
"""Hosts that are kept for guests of lost hosts.

Aggregates name them, by ``pinning:reserve``: nova-scheduler has the aggregates
of a host at hand, and so has whoever reads the cloud.
"""

from __future__ import annotations

from collections.abc import Iterable

from nova_pinning import compat
from nova_pinning.model import hostclass


class ReserveUse(compat.StrEnum):
    """Who gets a host that is kept, besides guests of lost hosts.

    EVACUATIONS: nobody. LAST: pinned guests that find no other host.
    """

    EVACUATIONS = 'evacuations'
    LAST = 'last'


def use_of(
        aggregates: Iterable[hostclass.NamedMetadata]) -> ReserveUse | None:
    """What a host in these aggregates is kept for, None if it is not kept.

    Words that are neither count as EVACUATIONS, so that no slip spends a
    reserve.
    """
    words = {aggregate.metadata[hostclass.RESERVE_KEY]
             for aggregate in aggregates
             if hostclass.RESERVE_KEY in aggregate.metadata}
    if not words:
        return None
    return (ReserveUse.LAST if words == {ReserveUse.LAST.value}
            else ReserveUse.EVACUATIONS)
