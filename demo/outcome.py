# SPDX-License-Identifier: Apache-2.0
"""What came out of the demo's story. Pure: no nova, no terminal."""

import dataclasses
from typing import Any

from demo import hosts
from nova_pinning import cpuset
from nova_pinning.host import domain_xml


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """A guest that runs.

    :param kind: dedicated or shared
    :param xml: its XML as nova gave it to libvirt
    """

    name: str
    kind: str
    host: str
    xml: str

    @property
    def placed(self) -> domain_xml.DomainXml:
        """Where its vCPUs and memory are, according to its XML."""
        return domain_xml.parse(self.xml)

    @property
    def cpus(self) -> cpuset.CpuSet:
        """All host CPUs that its vCPUs are pinned to."""
        return cpuset.union(self.placed.vcpu_pins.values())

    @property
    def host_cells(self) -> list[int]:
        """The host cells that its memory must come from."""
        return sorted(cpuset.union(
            cell.host_nodes for cell in self.placed.cells))


@dataclasses.dataclass(frozen=True, slots=True)
class Why:
    """One reason why a guest was refused.

    :param source: who says so
    """

    source: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """A guest that no host would take.

    :param asks: what it asked for, in words
    :param fault: what nova tells its owner
    """

    name: str
    asks: str
    fault: str
    reasons: tuple[Why, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """A host.

    :param kind: dedicated or shared
    :param dedicated: its CPUs for vCPUs that are pinned
    :param shared: its CPUs for vCPUs that float
    :param ratio: how many vCPUs may float over each of these
    """

    name: str
    kind: str
    cells: tuple[hosts.CellShape, ...]
    dedicated: cpuset.CpuSet
    shared: cpuset.CpuSet
    ratio: float


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """Something the story promised."""

    text: str
    held: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """All there is to tell."""

    hosts: tuple[Host, ...]
    guests: tuple[Guest, ...]
    refused: tuple[Refused, ...]
    checks: tuple[Check, ...]

    @property
    def as_told(self) -> bool:
        """Whether everything came out as promised."""
        return all(check.held for check in self.checks)

    def guests_on(self, host: str) -> list[Guest]:
        return [guest for guest in self.guests if guest.host == host]


def to_json(outcome: Outcome) -> dict[str, Any]:
    """The outcome as plain data; CPU sets in the kernel's list syntax."""
    return {
        'version': 1,
        'as_told': outcome.as_told,
        'checks': list(map(dataclasses.asdict, outcome.checks)),
        'hosts': [{
            'name': host.name,
            'class': host.kind,
            'dedicated_cpus': str(host.dedicated),
            'shared_cpus': str(host.shared),
            'cpu_allocation_ratio': host.ratio,
            'cells': list(map(dataclasses.asdict, host.cells)),
        } for host in outcome.hosts],
        'guests': [_guest_to_json(guest) for guest in outcome.guests],
        'refused': list(map(dataclasses.asdict, outcome.refused))}


def _guest_to_json(guest: Guest) -> dict[str, Any]:
    placed = guest.placed
    return {
        'name': guest.name,
        'class': guest.kind,
        'host': guest.host,
        'vcpus': placed.vcpus,
        'host_cells': guest.host_cells,
        'pins': {str(vcpu): str(cpus)
                 for vcpu, cpus in sorted(placed.vcpu_pins.items())},
        'floats_over': str(placed.floats_over),
        'emulator_cpus': str(placed.emulator_pin or '')}
