#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What each CPU of a host is used for, with one guest on it.

Both drawings, for the terminal and as SVG, say what stands here.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import enum

from nova_pinning import cpuset
from nova_pinning.drawing import topology
from nova_pinning.host import engine
from nova_pinning.host import model


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a guest is on its host, as libvirt is told.

    :param vcpu_cpus: the host CPUs that each vCPU may run on: one if it is
        pinned, more if it floats. None given for a vCPU means that it floats
        over all shared CPUs.
    :param emulator_cpus: the host CPUs that its emulator threads may run on
    :param memory_nodes: the host node that each cell of the guest has its
        memory on; empty for guests without a NUMA topology
    :param name: what the guest, or its flavor, is called
    :param refusal: why the guest is not on the host, '' if it is
    """

    vcpu_cpus: Mapping[int, cpuset.CpuSet]
    emulator_cpus: cpuset.CpuSet = cpuset.CpuSet()
    memory_nodes: Mapping[int, int] = dataclasses.field(default_factory=dict)
    name: str = ''
    refusal: str = ''


class Kind(enum.StrEnum):
    """What a CPU is used for. The first that applies goes."""

    PINNED = 'pinned'
    EMULATOR = 'emulator'
    FLOATING = 'floating'
    TAKEN = 'taken'
    FREE = 'free'
    SHARED = 'shared'
    KEPT = 'kept'


@dataclasses.dataclass(frozen=True, slots=True)
class Use:
    """What one CPU is used for.

    :param vcpus: the guest's vCPUs that may run on it, ascending
    :param emulator: whether the guest's emulator threads may run on it
    :param guest_cell: the guest's cell here, None if it has none
    """

    kind: Kind
    vcpus: tuple[int, ...] = ()
    emulator: bool = False
    guest_cell: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A host with what each of its CPUs is used for.

    :param uses: by CPU id, all CPUs of the host
    :param l3_numbers: the L3 domain of each CPU, counted through the host;
        CPUs whose domain is not known are left out
    """

    description: model.HostDescription
    placement: Placement
    uses: Mapping[int, Use]
    l3_numbers: Mapping[int, int]

    def cpus_of(self, kind: Kind) -> cpuset.CpuSet:
        return cpuset.CpuSet(
            cpu for cpu, use in self.uses.items() if use.kind is kind)

    def guest_cells(self, node: model.Node) -> tuple[int, ...]:
        """The cells of the guest that have their memory on a node."""
        return tuple(sorted(
            cell for cell, where in self.placement.memory_nodes.items()
            if where == node.id))

    def domains(
        self, node: model.Node,
    ) -> tuple[tuple[int | None, tuple[tuple[int, ...], ...]], ...]:
        """As :func:`topology.domains`."""
        return topology.domains(node, self.l3_numbers)

    def guest_on(self, node: model.Node) -> str:
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
            pinned = any(use.kind is Kind.PINNED for use in uses)
            parts.append(vcpus_text(vcpus) + ('' if pinned else ' float'))
        return ': '.join(parts)


def plan(
    description: model.HostDescription,
    used: cpuset.CpuSet,
    placement: Placement | None,
) -> Plan:
    """Work out what each CPU is used for.

    :param used: CPUs that other guests are pinned to
    :param placement: None for the host on its own
    """
    placement = placement or Placement(vcpu_cpus={})
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
                kind = Kind.PINNED
            elif vcpus[cpu]:
                kind = Kind.FLOATING
            elif emulator:
                kind = Kind.EMULATOR
            elif cpu in used:
                kind = Kind.TAKEN
            elif cpu in dedicated:
                kind = Kind.FREE
            else:
                kind = Kind.SHARED if cpu in shared else Kind.KEPT
            uses[cpu] = Use(kind, tuple(vcpus[cpu]), emulator, cell)
    return Plan(description, placement, uses, topology.l3_numbers(description))


def title(found: Plan) -> str:
    """What is drawn: 'enterprise.large on compute-1'."""
    host = topology.printable(found.description.name)
    guest = topology.printable(found.placement.name)
    if found.placement.refusal:
        return f'{guest or "a guest"} does not fit on {host}'
    if not found.placement.vcpu_cpus:
        return host
    return f'{guest or "a guest"} on {host}'


def legend(found: Plan) -> Iterator[tuple[Kind, int, str]]:
    """What each kind that occurs means here, with figures.

    :returns: the kind, a CPU to show it on, and what it means
    """
    for kind in Kind:
        cpus = found.cpus_of(kind)
        if cpus:
            sample = min(cpus, key=lambda cpu: found.uses[cpu].vcpus)
            yield kind, sample, _MEANINGS[kind].format(
                cpus=topology.cpus_text(cpus))


_MEANINGS = {
    Kind.PINNED: 'vCPU of this guest, by number, pinned',
    Kind.EMULATOR: "this guest's emulator threads: {cpus}",
    Kind.FLOATING: "this guest's vCPUs float here: {cpus}",
    Kind.TAKEN: 'taken by another guest: {cpus}',
    Kind.FREE: 'free: {cpus}',
    Kind.SHARED: 'shared by floating guests: {cpus}',
    Kind.KEPT: 'kept for the host: {cpus}',
}


def remarks(found: Plan) -> Iterator[str]:
    """The guest in sentences: where its vCPUs and emulator threads run."""
    placement = found.placement
    if placement.refusal:
        yield topology.printable(placement.refusal)
    if not placement.vcpu_cpus:
        return
    pinned = found.cpus_of(Kind.PINNED)
    fixed = [vcpu for vcpu, cpus in placement.vcpu_cpus.items()
             if cpus and cpus.issubset(pinned)]
    if fixed:
        yield f'{vcpus_text(fixed)} pinned to {topology.cpus_text(pinned)}'
    ranges: dict[cpuset.CpuSet, list[int]] = {}
    for vcpu, cpus in placement.vcpu_cpus.items():
        if not cpus.issubset(pinned) or not cpus:
            ranges.setdefault(
                cpus or engine.shared_cpus(found.description), []).append(vcpu)
    for cpus, vcpus in ranges.items():
        yield f'{vcpus_text(vcpus)} floating over {topology.cpus_text(cpus)}'
    emulator = placement.emulator_cpus
    if emulator and emulator == cpuset.union(placement.vcpu_cpus.values()):
        yield 'emulator threads on the same CPUs'
    elif emulator:
        yield f'emulator threads on {topology.cpus_text(emulator)}'


def vcpus_text(vcpus: Iterable[int]) -> str:
    """'vCPUs 0-3,6', from vCPU numbers."""
    numbers = cpuset.CpuSet(vcpus)
    return f'vCPU{"s" if len(numbers) > 1 else ""} {numbers}'
