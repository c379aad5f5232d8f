# SPDX-License-Identifier: Apache-2.0
"""A plan of one kind of host: which CPUs are for what, and what that sells.

A plan is part of a host's description: the CPUs for guests and the reserved
pages are in its ``nova`` settings, the huge pages in its nodes, its class in
its traits. What nova has no word for is here.
"""

from collections.abc import Mapping
import dataclasses
import enum

from nova_pinning import cpuset
from nova_pinning import fit

#: The first kernel that takes hugepages=NODE:PAGES,NODE:PAGES; those before
#: it take the number of the node for the number of pages.
PAGES_BY_NODE_SINCE = 5, 16


class Purpose(enum.StrEnum):
    """What a host is for."""

    DEDICATED = 'dedicated'
    SHARED = 'shared'
    BOTH = 'both'


@dataclasses.dataclass(frozen=True, slots=True)
class GuestSize:
    """A size of guests that the host is to sell.

    :param weight: how many of them there are to be for each weight's worth
        of the others
    :param cells: NUMA cells that the guest is spread over evenly; 0 where a
        request leaves that to the planner, which takes as few as do
    """

    vcpus: int
    weight: int = 1
    cells: int = 1

    @property
    def size(self) -> fit.Size:
        return fit.Size(self.vcpus // self.cells, cells=self.cells)


@dataclasses.dataclass(frozen=True, slots=True)
class Sale:
    """How many pinned guests of one size fit, as far as CPUs go.

    :param alone: guests, if all are of this size
    :param left_cpus: dedicated CPUs that are left over then
    :param mixed: guests of this size among the most that fit in the mix
    """

    vcpus: int
    cells: int
    alone: int
    left_cpus: int
    mixed: int


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """What can be sold, exactly.

    The mix is filled with guests of all sizes in turn, as evenly as their
    weights allow, until the next one does not fit.

    :param sales: in the order in which the sizes were given
    :param stranded_cpus: dedicated CPUs that are left when the mix is full,
        by node, without nodes that have none
    :param shared_vcpus: vCPUs of floating guests, by the allocation ratio
    """

    sales: tuple[Sale, ...]
    stranded_cpus: Mapping[int, int]
    shared_vcpus: int = 0

    @property
    def figures(self) -> tuple[int, ...]:
        """Guests of the mix, and then of each size alone."""
        return (sum(sale.mixed for sale in self.sales),
                *(sale.alone for sale in self.sales))


@dataclasses.dataclass(frozen=True, slots=True)
class Interrupts:
    """Where the interrupts of a device that serves the host go.

    :param name: of its first interface or disk, else its address
    :param cpus: some of those for the host, near the device
    """

    address: str
    name: str
    cpus: cpuset.CpuSet


@dataclasses.dataclass(frozen=True, slots=True)
class PlanReason:
    """Why something was chosen.

    :param subject: the key it is about: 'host_cpus', 'huge_pages'
    """

    subject: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class PlanWarning:
    """What is doubtful about a host or a plan.

    :param code: 'smt-off', 'no-iommu': never used for anything else
    """

    code: str
    message: str
    advice: str


@dataclasses.dataclass(frozen=True, slots=True)
class CpuChoice:
    """CPUs for each use; together all that are online."""

    host_cpus: cpuset.CpuSet = cpuset.CpuSet()
    poll_cpus: cpuset.CpuSet = cpuset.CpuSet()
    shared_cpus: cpuset.CpuSet = cpuset.CpuSet()
    dedicated_cpus: cpuset.CpuSet = cpuset.CpuSet()


@dataclasses.dataclass(frozen=True, slots=True)
class PlanAlternative(CpuChoice):
    """A choice that was not taken.

    :param difference: what it would be better and worse at, in a sentence
    """

    offer: Offer = dataclasses.field(kw_only=True)
    difference: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class HostPlan:
    """What becomes of a host's CPUs.

    :param sizes: the guests that it is planned for
    :param page_size_kib: of the huge pages for guests, 0 for none
    :param memory_kept_mib: memory by node that is not in huge pages for
        guests: for the host itself, for OVS-DPDK, and for guests without huge
        pages
    :param poll_pages: huge pages of page_size_kib by node that are for
        OVS-DPDK
    :param levers: what to tell the kernel while it runs, by the names of
        :mod:`nova_pinning.host.levers`
    :param alternatives: the best first
    :param choice: which of all choices it is, 1 for the best
    """

    purpose: Purpose
    host_cpus: cpuset.CpuSet
    poll_cpus: cpuset.CpuSet = cpuset.CpuSet()
    sizes: tuple[GuestSize, ...] = ()
    page_size_kib: int = 0
    memory_kept_mib: Mapping[int, int] = dataclasses.field(
        default_factory=dict)
    poll_pages: Mapping[int, int] = dataclasses.field(default_factory=dict)
    offer: Offer = dataclasses.field(kw_only=True)
    interrupts: tuple[Interrupts, ...] = ()
    levers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    reasons: tuple[PlanReason, ...] = ()
    warnings: tuple[PlanWarning, ...] = ()
    alternatives: tuple[PlanAlternative, ...] = ()
    choice: int = 1
