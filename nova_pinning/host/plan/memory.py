# SPDX-License-Identifier: Apache-2.0
"""A host's memory: for the host, in huge pages, and for shared guests."""

from collections.abc import Mapping
import dataclasses
import math

from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning.host import host_model
from nova_pinning.host.plan import plan_request
from nova_pinning.host import plan_model

#: Memory on each node with CPUs for polling that OVS-DPDK takes: enough for
#: frames of 9000 bytes.
_POLL_MIB = 4096
#: What no host of guests does without: kernel, services, nova-compute.
_LEAST_HOST_MIB = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What becomes of a host's memory; all by node.

    :param page_size_kib: 0 if there are no huge pages
    :param guest_pages: huge pages for guests
    :param poll_pages: huge pages for OVS-DPDK
    :param guest_mib: what pinned guests can have, in such pages if there are
        any; 0 where there is none
    :param kept_mib: what is not in huge pages for guests
    :param reserved_mib: what no guest gets, all nodes together
    """

    page_size_kib: int
    guest_pages: Mapping[int, int]
    poll_pages: Mapping[int, int]
    guest_mib: Mapping[int, int]
    kept_mib: Mapping[int, int]
    reserved_mib: int

    @property
    def in_pages(self) -> str:
        """' in pages of 1 GiB', '' without huge pages."""
        if not self.page_size_kib:
            return ''
        size = quantities.shown_page_size(self.page_size_kib)
        return f' in pages of {size}'


def without_gpu_memory(
    description: host_model.HostDescription,
) -> host_model.HostDescription:
    """The host as it is while guests have its GPUs.

    The maker's driver makes their memory a part of the host's; VFIO gives it
    to the guest (drivers/vfio/pci/nvgrace-gpu/main.c of the kernel).
    """
    given = {device.address for device in description.pci_devices
             if device.alias}
    return dataclasses.replace(description, nodes=tuple(
        dataclasses.replace(node, memory_mib=0, huge_pages=dict.fromkeys(
            node.huge_pages, 0)) if node.gpu in given else node
        for node in description.nodes))


def share(description: host_model.HostDescription,
          request: plan_request.PlanOptions,
          choice: plan_model.CpuChoice) -> MemoryPlan:
    """Share out the memory.

    Half of what the host has comes from all nodes with CPUs alike, for the
    kernel and for QEMU, the other half from those with CPUs for the host. Of
    the rest, guests have what is on nodes with CPUs for them; where dedicated
    and shared guests are on one node, dedicated ones have as much of it as
    they have of the CPUs. Dedicated guests are in huge pages, and with
    OVS-DPDK all guests are. Shared guests that are not have memory of any
    node, but none of a GPU's, whose driver may want it back.

    :raises errors.InputError: if there is not so much memory
    """
    page_size_kib = plan_request.page_size_kib(description, request)
    host_mib = _host_memory(description, request, choice)
    poll_pages: dict[int, int] = {}
    guest_pages: dict[int, int] = {}
    guest_mib: dict[int, int] = {}
    kept_mib: dict[int, int] = {}
    reserved_mib = 0
    for node in description.nodes:
        left_mib = max(0, node.memory_mib - host_mib[node.id])
        if node.cpus & choice.poll_cpus:
            pages = _pages(min(_POLL_MIB, left_mib), page_size_kib)
            if pages:
                poll_pages[node.id] = pages
            left_mib -= _mib(pages, page_size_kib)
        for_pages_mib, floating_mib = _shares(
            node, request, choice, left_mib, bool(page_size_kib))
        pages = _pages(for_pages_mib, page_size_kib)
        if pages:
            guest_pages[node.id] = pages
        in_pages_mib = _mib(pages, page_size_kib)
        guest_mib[node.id] = in_pages_mib if page_size_kib else floating_mib
        kept_mib[node.id] = node.memory_mib - in_pages_mib
        reserved_mib += kept_mib[node.id] - floating_mib
    return MemoryPlan(page_size_kib, guest_pages, poll_pages, guest_mib,
                      kept_mib, reserved_mib)


def _shares(
    node: host_model.NumaNode, request: plan_request.PlanOptions,
    choice: plan_model.CpuChoice, memory_mib: int, has_pages: bool,
) -> tuple[int, int]:
    """What of a node's memory is to be in pages, and what for shared guests.

    :param memory_mib: that guests can have
    """
    dedicated = len(node.cpus & choice.dedicated_cpus)
    may_float = request.purpose is not plan_model.Purpose.DEDICATED
    floating = len(node.cpus & choice.shared_cpus) if may_float else 0
    if node.gpu or not dedicated and not may_float:
        return 0, 0
    if not has_pages:
        return 0, memory_mib
    # OVS-DPDK reaches into the memory of all guests.
    if request.poll_cpus or request.purpose is not plan_model.Purpose.BOTH:
        return memory_mib if dedicated or floating else 0, 0
    # Shared guests' memory may come from a node without CPUs for them too.
    in_pages_mib = memory_mib * dedicated // max(1, dedicated + floating)
    return in_pages_mib, memory_mib - in_pages_mib


def _host_memory(
    description: host_model.HostDescription, request: plan_request.PlanOptions,
    choice: plan_model.CpuChoice,
) -> Mapping[int, int]:
    """Memory for the host by node, in MiB."""
    total_mib = sum(node.memory_mib for node in description.nodes)
    kept_mib = request.host_memory_mib
    if kept_mib is None:
        kept_mib = plan_request.default_host_memory_mib(
            description, request.purpose)
    elif kept_mib < (least_mib := min(_LEAST_HOST_MIB, total_mib // 4)):
        raise errors.InputError(
            f'{quantities.shown_memory(kept_mib)} for the host is too '
            'little to boot with',
            errors.Location('--host-memory'), 'take at least '
            f'{quantities.shown_memory(least_mib)}')
    elif kept_mib >= total_mib:
        raise errors.InputError(
            f'{quantities.shown_memory(kept_mib)} for the host leave '
            f'nothing of the {quantities.shown_memory(total_mib)} that it has',
            errors.Location('--host-memory'))
    own = choice.host_cpus | choice.poll_cpus
    cpus = {node.id: len(node.cpus & own) for node in description.nodes
            if node.memory_mib}
    if not any(cpus.values()):
        cpus = dict.fromkeys(cpus, 1)
    by_node = dict.fromkeys([node.id for node in description.nodes], 0)
    # The kernel takes that of nodes without CPUs when there is no other.
    nodes = [node for node in description.nodes if node.cores]
    if sum(node.memory_mib for node in nodes) < kept_mib:
        nodes = list(description.nodes)
    there_mib = sum(node.memory_mib for node in nodes)
    left_mib = kept_mib
    for node in nodes:
        by_memory = kept_mib * node.memory_mib / max(1, there_mib) / 2
        by_cpus = (kept_mib * cpus.get(node.id, 0)
                   / max(1, sum(cpus.values())) / 2)
        by_node[node.id] = min(node.memory_mib, round(by_memory + by_cpus))
        left_mib -= by_node[node.id]
    # What rounding has left, or a node that is too small for its part: all
    # others share it by what they have, so that none loses everything.
    missing_mib, room_mib = left_mib, there_mib - kept_mib + left_mib
    for node in nodes:
        room = node.memory_mib - by_node[node.id]
        part_mib = math.ceil(missing_mib * room / max(1, room_mib))
        more = max(-by_node[node.id], min(left_mib, room, part_mib))
        by_node[node.id] += more
        left_mib -= more
    return by_node


def _pages(memory_mib: int, page_size_kib: int) -> int:
    return memory_mib * 1024 // page_size_kib if page_size_kib else 0


def _mib(pages: int, page_size_kib: int) -> int:
    return pages * page_size_kib // 1024
