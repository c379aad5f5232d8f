# SPDX-License-Identifier: Apache-2.0
"""Which CPUs and nodes of a host a guest is on, as libvirt is told."""

from collections.abc import Mapping
import dataclasses

from nova_pinning import cpuset


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GuestAffinity:
    """The CPU and memory affinity of one guest, and its PCI devices.

    See https://libvirt.org/formatdomain.html#cpu-tuning: vcpupin,
    emulatorpin and memnode.

    :param vcpu_cpus: the host CPUs that each vCPU may run on: one if it is
        pinned, more if it floats. None given for a vCPU means that it floats
        over all shared CPUs.
    :param emulator_cpus: the host CPUs that its emulator threads may run on
    :param memory_nodes: the host node that each cell of the guest has its
        memory on; empty for guests without a NUMA topology
    :param devices: the addresses, on the host, of PCI devices that it has
    :param name: what the guest, or its flavor, is called
    :param refusal: why the guest is not on the host, '' if it is
    """

    vcpu_cpus: Mapping[int, cpuset.CpuSet]
    emulator_cpus: cpuset.CpuSet = cpuset.CpuSet()
    memory_nodes: Mapping[int, int] = dataclasses.field(default_factory=dict)
    devices: frozenset[str] = frozenset()
    name: str = ''
    refusal: str = ''
