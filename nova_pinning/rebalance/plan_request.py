# SPDX-License-Identifier: Apache-2.0
"""What a plan of moves is asked for with.

It goes into the plan's document, so that the plan can be looked at, and made
anew, by the same wishes. Names that a fleet does not have (any more) mean
nothing; a command tells of those before it asks.
"""

import dataclasses
from typing import Annotated

from nova_pinning.admission import outcome
from nova_pinning.document import codec
from nova_pinning.document import terms
from nova_pinning.rebalance import slot_size


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MakeRoom:
    """The goal that more guests fit.

    :param sizes: of these guests; for ``until`` the first counts
    :param until: so many in all, by as few moves as will do; None for as many
        as can be
    """

    sizes: tuple[slot_size.SlotSize, ...]
    until: terms.Count | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DrainHosts:
    """The goal that hosts have no guests.

    :param hosts: their names
    """

    hosts: tuple[terms.HostName, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings:
    """What the operator decides of the rules.

    :param allows_cold: whether guests that cannot move live are moved cold,
        which stops them meanwhile; without, they stay
    :param moves_devices: whether guests with PCI devices are moved cold, too;
        without, those stay that do not move live
    :param release: the nova, such as 2026.1, of hosts of which nothing tells
        it; '' if that is not known
    :param is_restarted: whether all guests were restarted since the last
        upgrade of nova, so that no defect of those that were not hits them
    :param fixed_tags: guests with one of these server tags stay
    :param least_age_days: guests that nova built later stay
    :param most_age_days: guests that nova built earlier stay
    :param crosses_zones: whether guests that were asked for in no
        availability zone may leave that of their host, as nova lets them
    :param default_zone: of hosts that no aggregate puts in a zone, where it
        is another than the fleet's; '' for the fleet's
    :param isolates: [scheduler] enable_isolated_aggregate_filtering, where
        the fleet does not tell it
    :param assumes: kinds of things that are not known and are taken to be as
        a move needs them; others refuse it
    """

    allows_cold: bool = True
    moves_devices: bool = True
    release: terms.Line = ''
    is_restarted: bool = False
    fixed_tags: frozenset[terms.Word] = frozenset()
    least_age_days: terms.Duration | None = None
    most_age_days: terms.Duration | None = None
    crosses_zones: bool = False
    default_zone: terms.Line = ''
    isolates: bool = False
    assumes: frozenset[outcome.DoubtKind] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CostSettings:
    """What the time that moves take is reckoned with.

    :param bandwidth_mib: per second, of one migration; 1,000 MiB/s are a
        link of 10 Gbit/s that has nothing else to do
    :param parallel: migrations at once at most
    :param window_seconds: in which moves may be made at a time, None for any
    :param shared_storage: whether disks are where both hosts reach them, so
        that none is copied
    :param post_copy: whether nova may switch a guest over before all its
        memory has come ([libvirt] live_migration_permit_post_copy)
    :param auto_converge: whether QEMU slows a guest down that writes faster
        than is copied ([libvirt] live_migration_permit_auto_converge)
    :param downtime_seconds: that a guest may stand still at the end
        ([libvirt] live_migration_downtime)
    :param overhead_seconds: of each migration, beside what is copied
    :param stop_seconds: that a guest takes to stop before it moves cold; at
        most nova's shutdown_timeout
    """

    bandwidth_mib: terms.Positive = 1000.0
    parallel: terms.Count = 1
    window_seconds: terms.Positive | None = None
    shared_storage: bool = True
    post_copy: bool = False
    auto_converge: bool = False
    downtime_seconds: terms.Duration = 0.5
    overhead_seconds: terms.Duration = 10.0
    stop_seconds: terms.Duration = 60.0

    @property
    def dirty_limit_mib(self) -> float | None:
        """From what dirty rate on live migrations do not end; None if all do.
        """
        if self.post_copy or self.auto_converge:
            return None
        return self.bandwidth_mib


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """All that a plan follows from, beside the fleet.

    :param moves: at most, None for as many as gain something
    :param share_percent: of the fleet's guests that move at most
    :param memory_mib: to copy at most
    :param fixed: guests that stay, by UUID or name
    :param excluded: hosts that no guest leaves or comes to
    :param seconds: after which the best plan so far is taken
    """

    goal: MakeRoom | DrainHosts
    moves: terms.Count | None = None
    share_percent: Annotated[float, codec.Limit(
        title='a share of at most 100', exclusiveMinimum=0,
        maximum=100)] | None = None
    memory_mib: terms.Count | None = None
    fixed: tuple[terms.Word, ...] = ()
    excluded: tuple[terms.HostName, ...] = ()
    rules: RuleSettings = RuleSettings()
    cost: CostSettings = CostSettings()
    seconds: terms.Positive = 60.0
