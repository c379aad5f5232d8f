# SPDX-License-Identifier: Apache-2.0
"""A guest as the engine sees it: what each NUMA cell of it asks for."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from nova_pinning import compat

#: Page sizes that a guest may ask for besides a number of KiB, with the
#: values that nova stores for them (nova.virt.hardware.MEMPAGES_*).
PAGES_SMALL = -1
PAGES_LARGE = -2
PAGES_ANY = -3
#: As hw:mem_page_size has them.
PAGE_WORDS = {'small': PAGES_SMALL, 'large': PAGES_LARGE, 'any': PAGES_ANY}


class CpuPolicy(compat.StrEnum):
    """hw:cpu_policy."""

    SHARED = 'shared'
    DEDICATED = 'dedicated'
    MIXED = 'mixed'


class ThreadPolicy(compat.StrEnum):
    """hw:cpu_thread_policy; PREFER is what nova does when none is given."""

    PREFER = 'prefer'
    REQUIRE = 'require'
    ISOLATE = 'isolate'


@compat.dataclass(frozen=True, slots=True)
class GuestCell:
    """One NUMA cell of a guest.

    :param dedicated_vcpus: vCPU numbers to be pinned, ascending
    :param shared_vcpus: vCPU numbers that float, ascending
    :param page_size_kib: a size, PAGES_SMALL, PAGES_LARGE, PAGES_ANY, or
        None where the guest does not ask
    """

    dedicated_vcpus: tuple[int, ...]
    shared_vcpus: tuple[int, ...]
    memory_mib: int
    page_size_kib: int | None = None


class Demand(NamedTuple):
    """What one guest cell asks of the host cell it is put on.

    Guest cells with equal demands fit the same host cells. It is a key for
    each host that is tried, and no dataclass hashes as fast as a tuple.

    :param dedicated: vCPUs to be pinned
    :param shared: vCPUs that float
    :param emulator: host CPUs set aside for emulator threads, 0 or 1
    """

    dedicated: int
    shared: int
    emulator: int
    memory_mib: int
    page_size_kib: int | None


@compat.dataclass(frozen=True, slots=True)
class Guest:
    """The NUMA topology that a guest asks for.

    :param cells: at least one; which host cell each gets is for the engine
    :param emulator_isolated: whether emulator threads get a host CPU of
        their own (hw:emulator_threads_policy=isolate); it comes from the
        host cell of the guest's first cell
    :param physnets: physical networks that the guest attaches to
    :param tunneled: whether it attaches to a tunneled network
    """

    cells: tuple[GuestCell, ...]
    cpu_policy: CpuPolicy = CpuPolicy.SHARED
    thread_policy: ThreadPolicy = ThreadPolicy.PREFER
    emulator_isolated: bool = False
    physnets: frozenset[str] = frozenset()
    tunneled: bool = False
    demands: tuple[Demand, ...] = dataclasses.field(
        init=False, compare=False, repr=False)
    is_pinned: bool = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Worked out once here: the engine reads both for every host.
        object.__setattr__(
            self, 'is_pinned', self.cpu_policy is not CpuPolicy.SHARED)
        object.__setattr__(self, 'demands', tuple(
            Demand(
                dedicated=len(cell.dedicated_vcpus),
                shared=len(cell.shared_vcpus),
                emulator=int(self.emulator_isolated and not index),
                memory_mib=cell.memory_mib,
                page_size_kib=cell.page_size_kib)
            for index, cell in enumerate(self.cells)))
