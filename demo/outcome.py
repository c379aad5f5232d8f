# SPDX-License-Identifier: Apache-2.0
"""What came out of the demo's story. Pure: no nova, no terminal."""

from collections.abc import Mapping
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
class Refused:
    """A guest that no host would take.

    :param asks: what it asked for, in words
    :param fault: what nova tells its owner
    :param reasons: why, by who says so
    """

    name: str
    asks: str
    fault: str
    reasons: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """All there is to tell.

    :param checks: whether what the story promised held, by the promise
    """

    hosts: tuple[host_model.HostDescription, ...]
    guests: tuple[Guest, ...]
    refused: tuple[Refused, ...]
    checks: Mapping[str, bool]
