# SPDX-License-Identifier: Apache-2.0
"""Which sizes of a guest fit on a host: the largest ones, exactly.

A guest that fits on a host fits there with fewer vCPUs and with less memory
as well, as long as it is of the same kind. So a few sizes tell of all others:
the largest that fit, and the smallest that do not. Each of them was decided
by the engine; nothing is calculated from what is free.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import functools
from typing import NamedTuple

from nova_pinning.admission import gaps
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning import errors
from nova_pinning.explain import flavor_alternatives
from nova_pinning.explain import host_verdicts
from nova_pinning.flavors import flavor_model
from nova_pinning import units

#: Larger sizes are not looked at.
MOST_VCPUS = 1024
MOST_GIB = 32768
# No architecture's usual pages are larger.
_MAX_SMALL_PAGE_KIB = 64


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SizePolicy:
    """A kind of guests, of any size.

    :param text: what it is, for people
    :param vcpu_step: of which their vCPUs are a multiple, as well as their
        memory in GiB of ``gib_step``; nova would refuse other sizes, or take
        them for another kind
    :param cells: of NUMA that a guest has
    """

    text: str
    extra_specs: Mapping[str, str]
    vcpu_step: int = 1
    gib_step: int = 1
    cells: int = 1


_PINNED = {'hw:cpu_policy': 'dedicated'}
SHARED = SizePolicy(text='shared: vCPUs float', extra_specs={})
PINNED = SizePolicy(
    text='dedicated: a CPU for each vCPU', extra_specs=_PINNED)
WHOLE_CORES = SizePolicy(
    text='dedicated, whole cores', vcpu_step=2,
    extra_specs={**_PINNED, 'hw:cpu_thread_policy': 'require'})
TWO_CELLS = SizePolicy(
    text='dedicated, over two NUMA cells', vcpu_step=2, gib_step=2,
    cells=2,
    extra_specs={**_PINNED, 'hw:numa_nodes': '2'})
LARGE_PAGES = SizePolicy(
    text='dedicated, large pages',
    extra_specs={**_PINNED, 'hw:mem_page_size': 'large'})


class RefusedSize(NamedTuple):
    """A size that does not fit, and why.

    :param cause: None if nova would accept no such flavor
    """

    vcpus: int
    gib: int
    cause: host_verdicts.RefusalCause | None


@dataclasses.dataclass(frozen=True, slots=True)
class SizeLimits:
    """Which sizes of one policy fit on one host.

    :param fitting: (vCPUs, GiB) of the largest, the more vCPUs the less
        memory; a size fits if and only if it is no larger than one of them
    :param refused: the smallest; each size that does not fit is as large as
        one of them
    :param is_bound: whether too little is known of the host to be certain
        that what is said to fit does
    """

    fitting: tuple[tuple[int, int], ...]
    refused: tuple[RefusedSize, ...]
    is_bound: bool = False

    def fits(self, vcpus: int, gib: int) -> bool:
        """Whether a guest of this size fits."""
        return any(vcpus <= most_vcpus and gib <= most_gib
                   for most_vcpus, most_gib in self.fitting)


def policies(
    hosts: Iterable[offered_host.OfferedHost],
) -> tuple[SizePolicy, ...]:
    """Those that make a difference on some of the hosts."""
    cells = {id(host.cells): host.cells for host in hosts}.values()
    found = [SHARED, PINNED]
    if any(size > 1 for layout in cells for cell in layout
           for size in cell.core_sizes):
        found.append(WHOLE_CORES)
    if any(len(layout) > 1 for layout in cells):
        found.append(TWO_CELLS)
    if any(pool.size_kib > _MAX_SMALL_PAGE_KIB and pool.total
           for layout in cells for cell in layout for pool in cell.pages):
        found.append(LARGE_PAGES)
    return tuple(found)


class SizeFinder:
    """Finds the sizes that fit on hosts, and remembers guests.

    :param read: what makes a guest of a flavor; it has nova do it
    """

    def __init__(self, judge: host_verdicts.HostJudge,
                 read: flavor_alternatives.Reader) -> None:
        self._judge = judge
        self._read = read
        self._requests: dict[
            tuple[str, int, int], guest_request.GuestRequest | None] = {}

    def limits(self, occupancy: host_occupancy.HostOccupancy,
               policy: SizePolicy) -> SizeLimits:
        """Which sizes of a policy fit on a host."""
        steps = _Steps(
            lambda vcpus, gib: self._fits(occupancy, policy, vcpus, gib),
            policy, occupancy)
        fitting, refused = steps.walk()
        smallest = self.request(policy, policy.vcpu_step, policy.gib_step)
        return SizeLimits(fitting, tuple(
            RefusedSize(vcpus, gib, self._cause(occupancy, policy, vcpus, gib))
            for vcpus, gib in refused), smallest is not None and bool(
                gaps.relevant(occupancy.host, smallest)))

    def request(self, policy: SizePolicy, vcpus: int,
                gib: int) -> guest_request.GuestRequest | None:
        """One guest of a size, None if nova would accept no such flavor."""
        key = policy.text, vcpus, gib
        if key not in self._requests:
            try:
                self._requests[key] = self._read(flavor_model.Flavor(
                    name=f'{vcpus} vCPUs, {gib} GiB', vcpus=vcpus,
                    memory_mib=gib * units.MIB_PER_GIB, disk_gib=0,
                    extra_specs=dict(policy.extra_specs)), {})
            except errors.InputError:
                self._requests[key] = None
        return self._requests[key]

    def _fits(self, occupancy: host_occupancy.HostOccupancy,
              policy: SizePolicy, vcpus: int, gib: int) -> bool:
        request = self.request(policy, vcpus, gib)
        if request is None:
            return False
        if occupancy.host.gaps:
            return self._judge.verdict(occupancy, request).fits
        # The same, and faster.
        return self._judge.fits(occupancy, request)

    def _cause(
        self, occupancy: host_occupancy.HostOccupancy, policy: SizePolicy,
        vcpus: int, gib: int,
    ) -> host_verdicts.RefusalCause | None:
        request = self.request(policy, vcpus, gib)
        if request is None:
            return None
        return self._judge.verdict(occupancy, request).cause


class _Steps:
    """Walks along the edge between what fits and what does not.

    :param fits: tells of vCPUs and GiB
    """

    def __init__(self, fits: Callable[[int, int], bool], policy: SizePolicy,
                 occupancy: host_occupancy.HostOccupancy) -> None:
        self._fits = fits
        self._vcpu_step, self._gib_step = policy.vcpu_step, policy.gib_step
        cells = occupancy.host.cells
        # Nothing so large can fit, unless nobody knows what the host has. In
        # steps, as all that follows.
        self._too_many, self._too_much = (
            MOST_VCPUS // self._vcpu_step + 1, MOST_GIB // self._gib_step + 1)
        if cells:
            self._too_many = min(self._too_many, 2 + int(
                max(1.0, occupancy.host.cpu_allocation_ratio) * sum(
                    len(cell.dedicated_cpus | cell.shared_cpus)
                    for cell in cells)) // self._vcpu_step)
            self._too_much = min(self._too_much, 2 + int(
                max(1.0, occupancy.host.ram_allocation_ratio)
                * occupancy.host.memory_mib)
                // units.MIB_PER_GIB // self._gib_step)
        # Where the edge is likely to be, which saves most of the search.
        self._cells = policy.cells
        self._hints = [
            (cell.free_count, max(0, cell.memory_mib - cell.memory_used_mib)
             // units.MIB_PER_GIB) for cell in occupancy.engine.cells]

    def walk(self) -> tuple[tuple[tuple[int, int], ...],
                            tuple[tuple[int, int], ...]]:
        """The largest sizes that fit, and the smallest that do not."""
        fitting: list[tuple[int, int]] = []
        refused: list[tuple[int, int]] = []
        vcpus = 1
        while vcpus < self._too_many:
            gib = flavor_alternatives.largest(
                functools.partial(self._both, vcpus), self._too_much,
                self._hinted_gib(vcpus))
            if gib + 1 < self._too_much or not self._both(vcpus, gib + 1):
                refused.append(self._size(vcpus, gib + 1))
            if not gib:
                break
            vcpus = flavor_alternatives.largest(
                lambda vcpus, gib=gib: self._both(  # type: ignore[misc]
                    vcpus, gib), self._too_many, self._hinted_vcpus(gib))
            fitting.append(self._size(vcpus, gib))
            vcpus += 1
        return tuple(fitting), tuple(refused)

    def _both(self, vcpus: int, gib: int) -> bool:
        return self._fits(*self._size(vcpus, gib))

    def _size(self, vcpus: int, gib: int) -> tuple[int, int]:
        return vcpus * self._vcpu_step, gib * self._gib_step

    def _hinted_gib(self, vcpus: int) -> int:
        return self._hinted(
            gib for free, gib in self._hints
            if free * self._cells >= vcpus * self._vcpu_step
        ) // self._gib_step

    def _hinted_vcpus(self, gib: int) -> int:
        return self._hinted(
            free for free, most in self._hints
            if most * self._cells >= gib * self._gib_step
        ) // self._vcpu_step

    def _hinted(self, amounts: Iterable[int]) -> int:
        """What equal cells of a guest have on the cells with the most."""
        most = sorted(amounts, reverse=True)[:self._cells]
        return most[-1] * self._cells if len(most) == self._cells else 0
