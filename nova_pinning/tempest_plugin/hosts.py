# SPDX-License-Identifier: Apache-2.0
"""The compute hosts of a cloud: what they are for, and what is left."""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
from typing import Any

from oslo_config import types

from nova_pinning import cpuset
from nova_pinning.placement import placement_traits


@dataclasses.dataclass(frozen=True, slots=True)
class CpuSets:
    """What nova-compute was given on a host."""

    dedicated: cpuset.CpuSet = cpuset.CpuSet()
    shared: cpuset.CpuSet = cpuset.CpuSet()


class CpuSetsType(types.ConfigType):
    """'compute-1 dedicated=2-7,10-15 shared=0-1', for oslo.config."""

    def __init__(self) -> None:
        super().__init__(type_name='CPU sets of a host')

    def __call__(self, value: Any) -> tuple[str, CpuSets]:
        """Read it.

        :returns: the host's name, and its sets
        :raises ValueError: if it cannot be read
        """
        if isinstance(value, tuple):
            return value
        name, *parts = value.split()
        sets = {}
        for part in parts:
            key, _equals, cpus = part.partition('=')
            if key not in ('dedicated', 'shared') or key in sets:
                raise ValueError(
                    f'{part!r} in {value!r} is not dedicated=CPUS or '
                    f'shared=CPUS, each once at most')
            sets[key] = cpuset.CpuSet.parse(cpus)
        return name, CpuSets(**sets)

    def _formatter(self, value: Any) -> str:
        name, sets = value
        return f'{name} dedicated={sets.dedicated} shared={sets.shared}'


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeHost:
    """A compute host that is up.

    :param name: of its nova-compute service
    :param provider: the UUID of its resource provider in Placement
    :param free: what is left of each resource class, allocation ratio and
        reserved amounts taken into account
    """

    name: str
    provider: str
    sets: CpuSets
    traits: frozenset[str]
    free: Mapping[str, int]

    @property
    def is_dedicated(self) -> bool:
        """Whether it is for dedicated guests.

        By its traits; without one, it is what HostClassFilter takes it for.
        """
        if placement_traits.SHARED in self.traits:
            return False
        return (placement_traits.DEDICATED in self.traits or
                bool(self.sets.dedicated))

    def has_room(self, dedicated: int, shared: int) -> bool:
        """Whether it takes guests of so many dedicated and shared vCPUs.

        A guest with a dedicated vCPU needs a host of that class, one without
        needs one of the other.
        """
        return (self.is_dedicated == bool(dedicated) and
                self.free.get('PCPU', 0) >= dedicated and
                self.free.get('VCPU', 0) >= shared)


def free(
    inventories: Mapping[str, Mapping[str, Any]], used: Mapping[str, int],
) -> dict[str, int]:
    """What is left of each resource class, in Placement's arithmetic."""
    return {
        name: int((inventory['total'] - inventory['reserved'])
                  * inventory['allocation_ratio']) - used.get(name, 0)
        for name, inventory in inventories.items()}


def class_specs(host: ComputeHost, is_dedicated: bool) -> dict[str, str]:
    """The extra specs of a flavor for this very host.

    A trait is only named where the host is marked: Placement refuses names
    that it does not know.
    """
    trait = (placement_traits.DEDICATED if is_dedicated
             else placement_traits.SHARED)
    return {f'trait:{trait}': 'required'} if trait in host.traits else {}


def room(
    hosts: Iterable[ComputeHost], dedicated: int, shared: int,
) -> list[ComputeHost]:
    """Those that have room, the emptiest first."""
    roomy = [host for host in hosts if host.has_room(dedicated, shared)]
    resource = 'PCPU' if dedicated else 'VCPU'
    return sorted(roomy, key=lambda host: (-host.free[resource], host.name))
