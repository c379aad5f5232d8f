# SPDX-License-Identifier: Apache-2.0
"""What each CPU of a host is used for, with one guest on it.

Both drawings, for the terminal and as SVG, say what stands here.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import enum

from nova_pinning import cpuset
from nova_pinning.host import engine
from nova_pinning.host import guest_affinity
from nova_pinning.host import host_model
from nova_pinning.presentation import host_structure
from nova_pinning import spelling


class CpuUseKind(enum.StrEnum):
    """What a CPU is used for. The first that applies goes."""

    PINNED = 'pinned'
    EMULATOR = 'emulator'
    FLOATING = 'floating'
    TAKEN = 'taken'
    FREE = 'free'
    SHARED = 'shared'
    KEPT = 'kept'


@dataclasses.dataclass(frozen=True, slots=True)
class CpuUse:
    """What one CPU is used for.

    :param vcpus: the guest's vCPUs that may run on it, ascending
    :param emulator: whether the guest's emulator threads may run on it
    :param guest_cell: the guest's cell here, None if it has none
    """

    kind: CpuUseKind
    vcpus: tuple[int, ...] = ()
    emulator: bool = False
    guest_cell: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class HostCpuUse:
    """A host with what each of its CPUs is used for.

    :param uses: by CPU id, all CPUs of the host
    :param l3_numbers: the L3 domain of each CPU, counted through the host;
        CPUs whose domain is not choose from left out
    """

    description: host_model.HostDescription
    placement: guest_affinity.GuestAffinity
    uses: Mapping[int, CpuUse]
    l3_numbers: Mapping[int, int]

    def cpus_of(self, kind: CpuUseKind) -> cpuset.CpuSet:
        return cpuset.CpuSet(
            cpu for cpu, use in self.uses.items() if use.kind is kind)

    def guest_cells(self, node: host_model.NumaNode) -> tuple[int, ...]:
        """The cells of the guest that have their memory on a node."""
        return tuple(sorted(
            cell for cell, where in self.placement.memory_nodes.items()
            if where == node.id))

    def domains(
        self, node: host_model.NumaNode,
    ) -> tuple[tuple[int | None, tuple[tuple[int, ...], ...]], ...]:
        """As :func:`host_structure.domains`."""
        return host_structure.domains(node, self.l3_numbers)

    def guest_on(self, node: host_model.NumaNode) -> str:
        """What of the guest is on a node; '' if nothing is.

        Such as 'guest cell 0: vCPUs 0-7'.
        """
        uses = [self.uses[cpu] for cpu in node.cpus]
        vcpus = {vcpu for use in uses for vcpu in use.vcpus}
        parts = []
        cells = self.guest_cells(node)
        if cells:
            name = 'cell' if len(cells) == 1 else 'cells'
            parts.append(f'guest {name} {", ".join(map(str, cells))}')
        if vcpus:
            pinned = any(use.kind is CpuUseKind.PINNED for use in uses)
            parts.append(vcpus_text(vcpus) + ('' if pinned else ' float'))
        return ': '.join(parts)


def cpu_use_of(
    description: host_model.HostDescription,
    used: cpuset.CpuSet,
    placement: guest_affinity.GuestAffinity | None,
) -> HostCpuUse:
    """Work out what each CPU is used for.

    :param used: CPUs that other guests are pinned to
    :param placement: None for the host on its own
    """
    placement = placement or guest_affinity.GuestAffinity(vcpu_cpus={})
    shared = engine.shared_cpus(description)
    dedicated = engine.dedicated_cpus(description)
    vcpus: dict[int, list[int]] = {cpu: [] for cpu in description.cpus}
    pinned: set[int] = set()
    for vcpu, cpus in sorted(placement.vcpu_cpus.items()):
        # A vCPU that floats over a single shared CPU is not pinned to it.
        if len(cpus) == 1 and not cpus.issubset(shared - dedicated):
            pinned.update(cpus)
        for cpu in (cpus or shared) & description.cpus:
            vcpus[cpu].append(vcpu)
    uses = {}
    for node in description.nodes:
        cells = [cell for cell, where in placement.memory_nodes.items()
                 if where == node.id]
        cell = min(cells, default=None)
        for cpu in node.cpus:
            emulator = cpu in placement.emulator_cpus
            if cpu in pinned:
                kind = CpuUseKind.PINNED
            elif vcpus[cpu]:
                kind = CpuUseKind.FLOATING
            elif emulator:
                kind = CpuUseKind.EMULATOR
            elif cpu in used:
                kind = CpuUseKind.TAKEN
            elif cpu in dedicated:
                kind = CpuUseKind.FREE
            else:
                kind = CpuUseKind.SHARED if cpu in shared else CpuUseKind.KEPT
            uses[cpu] = CpuUse(kind, tuple(vcpus[cpu]), emulator, cell)
    return HostCpuUse(description, placement, uses,
                      host_structure.l3_numbers(description))


def title(host_use: HostCpuUse) -> str:
    """What is drawn: 'enterprise.large on compute-1'."""
    host = spelling.printable(host_use.description.name)
    guest = spelling.printable(host_use.placement.name)
    if host_use.placement.refusal:
        return f'{guest or "a guest"} does not fit on {host}'
    if not host_use.placement.vcpu_cpus:
        return host
    return f'{guest or "a guest"} on {host}'


def legend(host_use: HostCpuUse) -> Iterator[tuple[CpuUseKind, int, str]]:
    """What each kind that occurs means here, with figures.

    :returns: the kind, a CPU to show it on, and what it means
    """
    for kind in CpuUseKind:
        cpus = host_use.cpus_of(kind)
        if cpus:
            sample = min(cpus, key=lambda cpu: host_use.uses[cpu].vcpus)
            yield kind, sample, _MEANINGS[kind].format(
                cpus=host_structure.cpus_text(cpus))


_MEANINGS = {
    CpuUseKind.PINNED: 'vCPU of this guest, by number, pinned',
    CpuUseKind.EMULATOR: "this guest's emulator threads: {cpus}",
    CpuUseKind.FLOATING: "this guest's vCPUs float here: {cpus}",
    CpuUseKind.TAKEN: 'taken by another guest: {cpus}',
    CpuUseKind.FREE: 'free: {cpus}',
    CpuUseKind.SHARED: 'shared by floating guests: {cpus}',
    CpuUseKind.KEPT: 'kept for the host: {cpus}',
}


def remarks(host_use: HostCpuUse) -> Iterator[str]:
    """The guest in sentences: where its vCPUs and emulator threads run."""
    placement = host_use.placement
    if placement.refusal:
        yield spelling.printable(placement.refusal)
    if not placement.vcpu_cpus:
        return
    pinned = host_use.cpus_of(CpuUseKind.PINNED)
    fixed = [vcpu for vcpu, cpus in placement.vcpu_cpus.items()
             if cpus and cpus.issubset(pinned)]
    if fixed:
        yield (f'{vcpus_text(fixed)} pinned to '
               f'{host_structure.cpus_text(pinned)}')
    ranges: dict[cpuset.CpuSet, list[int]] = {}
    for vcpu, cpus in placement.vcpu_cpus.items():
        if not cpus.issubset(pinned) or not cpus:
            ranges.setdefault(cpus or engine.shared_cpus(host_use.description),
                              []).append(vcpu)
    for cpus, vcpus in ranges.items():
        yield (f'{vcpus_text(vcpus)} floating over '
               f'{host_structure.cpus_text(cpus)}')
    emulator = placement.emulator_cpus
    if emulator and emulator == cpuset.union(placement.vcpu_cpus.values()):
        yield 'emulator threads on the same CPUs'
    elif emulator:
        yield f'emulator threads on {host_structure.cpus_text(emulator)}'


def vcpus_text(vcpus: Iterable[int]) -> str:
    """'vCPUs 0-3,6', from vCPU numbers."""
    numbers = cpuset.CpuSet(vcpus)
    return f'vCPU{"s" if len(numbers) > 1 else ""} {numbers}'
