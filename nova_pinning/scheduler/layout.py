# SPDX-License-Identifier: Apache-2.0
"""How a host's CPUs share L3 caches, as far as anything tells."""

from __future__ import annotations

from typing import Any

from oslo_log import log as logging

from nova_pinning.placement import placement_traits
from nova_pinning.scheduler import traits_reader

LOG = logging.getLogger(__name__)


def l3_cpus(host_state: Any, view: traits_reader.TraitsView) -> int | None:
    """The host CPUs in each L3 domain, None if nothing tells.

    What aggregates say outweighs the traits of the host's provider: those
    come with the host, aggregates are for whoever knows better.

    :param host_state: nova.scheduler.host_manager.HostState
    """
    named = l3_cpus_from_aggregates(host_state)
    if named is not None:
        return named
    marks = view.marks.get(host_state.uuid)
    return marks.l3_cpus if marks else None


def l3_cpus_from_aggregates(host_state: Any) -> int | None:
    """What the host's aggregates say under ``pinning:l3_cpus``.

    The smallest number if several say so; what is not a positive number counts
    as not said, since a weigher has no way to refuse.
    """
    sizes = []
    for aggregate in host_state.aggregates:
        text = aggregate.metadata.get(placement_traits.L3_KEY)
        if text is None:
            continue
        said = placement_traits.parse_l3_cpus(text)
        if said is not None:
            sizes.append(said)
        else:
            LOG.debug('%s of aggregate %s is %r, which is not a number of '
                      'CPUs',
                      placement_traits.L3_KEY, aggregate.name, text)
    return min(sizes, default=None)


def packs_cells(host_state: Any, default: bool) -> bool:
    """Whether nova-compute fills the host cells that are used most first.

    What the host's aggregates say under
    ``pinning:packing_host_numa_cells_allocation_strategy``; the default where
    they say nothing, nonsense, or both.

    :param host_state: nova.scheduler.host_manager.HostState
    :param default: as nova-scheduler itself is configured
    """
    if not host_state.aggregates:
        return default
    values = {
        placement_traits.parse_packing(
            aggregate.metadata[placement_traits.PACKING_KEY])
        for aggregate in host_state.aggregates
        if placement_traits.PACKING_KEY in aggregate.metadata}
    values.discard(None)
    return bool(values.pop()) if len(values) == 1 else default
