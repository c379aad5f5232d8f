# SPDX-License-Identifier: Apache-2.0
"""What came out of the demo's story. Pure: no nova, no terminal."""

import dataclasses

from nova_pinning import cpuset
from nova_pinning.host import domain_xml
from nova_pinning.host import host_model


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

    :param dedicated: its CPUs for vCPUs that are pinned
    :param shared: its CPUs for vCPUs that float
    :param ratio: how many vCPUs may float over each of these
    """

    description: host_model.HostDescription
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
