# SPDX-License-Identifier: Apache-2.0
"""Caches as the kernel divides them: ways, groups and what guests want.

Masks are integers; bit n is a *way* of an L3 cache. See the kernel's
Documentation/filesystems/resctrl.rst.
"""

from collections.abc import Mapping
import dataclasses
import functools

from nova_pinning import cpuset
from nova_pinning.host import cache_masks


@dataclasses.dataclass(frozen=True, slots=True)
class CacheLimits:
    """What masks may look like, the same in all L3 domains.

    :param ways: how many ways each cache has
    :param min_ways: the least that a mask may have (min_cbm_bits)
    :param shareable: the mask of ways that devices use too (shareable_bits)
    :param kept_ways: what no guest gets for itself, at the least
    """

    ways: int
    min_ways: int = 1
    shareable: int = 0
    kept_ways: int = 1

    @property
    def full(self) -> int:
        """The mask of all ways."""
        return (1 << self.ways) - 1

    @property
    def kept(self) -> int:
        """The ways that everybody else always has: one run of bits."""
        return cache_masks.kept(
            self.ways, max(self.kept_ways, self.min_ways), self.shareable)


@dataclasses.dataclass(frozen=True, slots=True)
class BandwidthLimits:
    """What may be said of memory bandwidth.

    :param least: min_bandwidth
    :param step: bandwidth_gran
    :param in_mbps: whether values are MiB/s, as mount option mba_MBps makes
        them, instead of per cent
    :param is_absolute: whether values are steps of 1/8 GB/s, as AMD has them
    """

    least: int
    step: int
    in_mbps: bool = False
    is_absolute: bool = False

    def rounded(self, value: int) -> int:
        """What the kernel makes of a value, or the nearest it takes.

        It rounds up to a multiple of the step, whatever the least is
        (bw_validate() of fs/resctrl/ctrlmondata.c).
        """
        if self.in_mbps:
            return value
        step = max(1, self.step)
        return min(100, -(-max(value, self.least) // step) * step)


@dataclasses.dataclass(frozen=True, slots=True)
class GroupState:
    """A control group of resctrl as it is.

    :param bandwidth: by domain; empty if the host has no such control
    :param tasks: thread ids; those of the default group are not looked at
    """

    masks: Mapping[cache_masks.Slot, int]
    bandwidth: Mapping[int, int] = dataclasses.field(default_factory=dict)
    tasks: frozenset[int] = frozenset()

    def ways(self, domain: int) -> int:
        """The mask of all ways that it uses in a domain."""
        return functools.reduce(int.__or__, (
            mask for slot, mask in self.masks.items()
            if slot.domain == domain), 0)


@dataclasses.dataclass(frozen=True, slots=True)
class ResctrlState:
    """All of resctrl, as far as it is about L3 caches and bandwidth.

    :param limits: None if L3 caches cannot be divided
    :param bandwidth: None if bandwidth cannot be limited
    :param groups_limit: how many control groups there can be (num_closids),
        the default one among them
    :param domains: CPUs by L3 domain
    :param default: the default group
    :param groups: all others that have a schemata, by name
    """

    limits: CacheLimits | None
    bandwidth: BandwidthLimits | None
    groups_limit: int
    domains: Mapping[int, cpuset.CpuSet]
    default: GroupState
    groups: Mapping[str, GroupState]


@dataclasses.dataclass(frozen=True, slots=True)
class CacheRequest:
    """What a guest asks for.

    :param guest: the name of its group
    :param ways: 0 for none of its own
    :param domains: those that its vCPUs run in
    :param bandwidth: in per cent or MiB/s, 0 for no limit
    :param tasks: its threads
    """

    guest: str
    ways: int
    domains: frozenset[int]
    bandwidth: int = 0
    tasks: frozenset[int] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class CacheLayout:
    """Who is to have which ways.

    :param exclusive: masks by guest and domain, for guests with ways of
        their own in the domains that they run in
    :param groups: all guests that get a group, those above among them
    :param shared: the ways of everybody else
    :param refused: why a guest gets no group, by guest
    """

    exclusive: Mapping[str, Mapping[int, int]]
    groups: frozenset[str]
    shared: Mapping[cache_masks.Slot, int]
    refused: Mapping[str, str]

    def masks(self, guest: str) -> dict[cache_masks.Slot, int]:
        """All masks of a guest's group.

        Where it does not run it shares with everybody else.
        """
        own = self.exclusive.get(guest, {})
        return {slot: own.get(slot.domain, mask)
                for slot, mask in self.shared.items()}
