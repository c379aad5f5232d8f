# SPDX-License-Identifier: Apache-2.0
"""What a plan comes to, in the words of those who are to obey it."""

import dataclasses

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import host_model
from nova_pinning.host import plan_model


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedHost:
    """A planned host, and who its CPUs are for.

    :param quiet_cpus: those that should see nothing of the host: for
        dedicated guests, and for threads that poll
    """

    host: host_model.HostDescription
    plan: plan_model.HostPlan
    host_cpus: cpuset.CpuSet
    shared_cpus: cpuset.CpuSet
    dedicated_cpus: cpuset.CpuSet
    poll_cpus: cpuset.CpuSet
    quiet_cpus: cpuset.CpuSet

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def devices(self) -> tuple[host_model.PciDevice, ...]:
        """The devices for guests."""
        return tuple(pci_device for pci_device in self.host.pci_devices
                     if pci_device.alias)

    @property
    def kernel(self) -> tuple[int, int] | None:
        """Version of the kernel that was found, None if it is not known."""
        return self.host.system.version

    def huge_pages(self, size_kib: int) -> dict[int, int]:
        """Pages by the id of each node that has memory."""
        return {node.id: node.huge_pages.get(size_kib, 0)
                for node in self.host.nodes if node.memory_mib}

    @property
    def page_sizes_kib(self) -> tuple[int, ...]:
        """Sizes of which there are to be huge pages, largest first."""
        return tuple(sorted({
            size for node in self.host.nodes
            for size, count in node.huge_pages.items() if count},
            reverse=True))


def planned_host_of(host: host_model.HostDescription) -> PlannedHost:
    """What the files are made from.

    :param host: has a plan
    :raises errors.InputError: if that leaves no CPUs to the host
    """
    plan = host.plan
    assert plan is not None
    if not plan.host_cpus:
        raise errors.InputError('the plan leaves no CPUs to the host',
                                host.where)
    dedicated = host.nova.dedicated_cpus or cpuset.CpuSet()
    return PlannedHost(
        host=host, plan=plan, host_cpus=plan.host_cpus,
        shared_cpus=host.nova.shared_cpus or cpuset.CpuSet(),
        dedicated_cpus=dedicated, poll_cpus=plan.poll_cpus,
        quiet_cpus=dedicated | plan.poll_cpus)
