# SPDX-License-Identifier: Apache-2.0
"""How nova-scheduler is set up in a simulation."""

from collections.abc import Mapping
import dataclasses
import types
from typing import Any

from nova_pinning.model import weighers
from nova_pinning.simulation import rebalance_policy

#: Of simulations only: the host whose cells are left with the fewest CPUs.
BEST_FIT = 'BestFitWeigher'

#: In the order in which their weights are added up: nova's by the names of
#: their classes (nova itself takes the order of its directory, which differs
#: from machine to machine), then the others. Nova's other weighers weigh all
#: hosts of a simulation alike, which adds nothing.
ORDER = (*weighers.NOVA_MULTIPLIERS, *weighers.OWN_WEIGHERS,
         BEST_FIT)

_NO_NOVA = {name: 0.0 for name in weighers.NOVA_MULTIPLIERS}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfiguration:
    """nova-scheduler's options, as far as they count in a simulation.

    :param multipliers: by class name; nova's weighers have their defaults
        unless they are here, others are not loaded unless they are here
    :param packs_cells: nova's packing_host_numa_cells_allocation_strategy
    :param pinning: options of group [pinning] that are not the defaults
    :param enabled_filters: nova's; None if they are not known
    :param rebalance: the moves that are made beside the scheduler, None for
        none
    :param keeps_reserve: whether hosts are kept for guests of lost hosts, as
        aggregates say
    """

    name: str
    multipliers: Mapping[str, float] = dataclasses.field(default_factory=dict)
    packs_cells: bool = False
    pinning: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    enabled_filters: tuple[str, ...] | None = None
    rebalance: rebalance_policy.RebalancePolicy | None = None
    keeps_reserve: bool = True

    def without_reserve(self) -> 'SchedulerConfiguration':
        """The same, as if no host was kept."""
        return dataclasses.replace(
            self, name=f'{self.name}-reserve', keeps_reserve=False)

    def with_moves(
        self, policy: rebalance_policy.RebalancePolicy,
    ) -> 'SchedulerConfiguration':
        """The same, with guests moved beside it."""
        return dataclasses.replace(
            self, name=f'{self.name}+moves', rebalance=policy)

    @property
    def weighers(self) -> tuple[tuple[str, float], ...]:
        """The weighers with their multipliers, in order."""
        all_of_them = {**weighers.NOVA_MULTIPLIERS,
                       **self.multipliers}
        return tuple((name, float(all_of_them[name])) for name in ORDER
                     if name in all_of_them)


NAMED: Mapping[str, SchedulerConfiguration] = types.MappingProxyType({
    configuration.name: configuration for configuration in (
        SchedulerConfiguration(name='nova-default'),
        SchedulerConfiguration(
            name='nova-packing', packs_cells=True,
            multipliers={'CPUWeigher': -1.0, 'RAMWeigher': -1.0}),
        SchedulerConfiguration(
            name='best-fit', packs_cells=True,
            multipliers={**_NO_NOVA, BEST_FIT: 1.0}),
        # As doc/source/admin/scheduling-study.rst says to set it up.
        SchedulerConfiguration(
            name='pinning', packs_cells=True,
            multipliers={**_NO_NOVA, 'PCIWeigher': 20.0,
                         weighers.FRAGMENTATION: 8.0,
                         weighers.CACHE_LOCALITY: 4.0}),
    )})
