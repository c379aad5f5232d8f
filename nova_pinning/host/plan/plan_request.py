# SPDX-License-Identifier: Apache-2.0
"""What is asked of a plan, and what is taken where nothing is said."""

from collections.abc import Mapping
import dataclasses
import math

from nova_pinning.document import quantities
from nova_pinning.document import size_mix
from nova_pinning import errors
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host.plan import allocatable_cores
from nova_pinning.host.plan import device_groups
from nova_pinning.host import plan_model
from nova_pinning import units

#: What one CPU of the host can be trusted to move, through the kernel's
#: network stack. A rule of thumb: how much it is depends on packet sizes.
MBPS_PER_CPU = 10000
#: The host has one CPU for so many that are online, besides two.
_CPUS_PER_HOST_CPU = 40
#: What the host has of the memory: a part that all hosts need, and one that
#: grows with the guests, since each one's QEMU takes some beside the memory
#: of the guest. Rules of thumb, on the safe side.
_HOST_MEMORY_MIB = 8192
_HOST_MEMORY_PERCENT = 4
#: Huge pages in KiB where a host file tells of none, by architecture and
#: smallest pages: POWER's of 2 MiB and 1 GiB come with its radix tree.
_HUGE_PAGES_KIB = {
    ('s390x', 4): (1024,),
    ('aarch64', 16): (2048, 32768, units.KIB_PER_GIB),
    ('aarch64', 64): (2048, 524288, 16777216),
    ('ppc64le', 64): (2048, 16384, units.KIB_PER_GIB, 16777216)}
_OTHER_HUGE_PAGES_KIB = 2048, units.KIB_PER_GIB
#: Those to take where nobody says, if each node has memory for so many.
_USUAL_HUGE_PAGES_KIB = units.KIB_PER_GIB, 524288, 16384, 2048
_LEAST_PAGES = 16
#: Sizes to plan for if none are given, as far as they fit.
_USUAL_VCPUS = (4, 8, 16)
#: What nova has where its allocation ratio is not set.
_SHARED_RATIO = 4.0


@dataclasses.dataclass(frozen=True, slots=True)
class PlanOptions:
    """What a plan is to be like; None where a rule decides.

    :param sizes: guests it is for, () for the usual ones
    :param host_cpus: CPUs for the host, rounded up to whole cores
    :param shared_cpus: CPUs for emulator threads and shared guests
    :param poll_cpus: CPUs for the threads of OVS-DPDK that poll NICs
    :param page_size_kib: of the huge pages for guests, 0 for none
    :param host_memory_mib: memory for the host itself
    :param pci_aliases: (alias, what it names) in order: 'nvme', 'gpu',
        'nic', 'VENDOR:PRODUCT' or an address
    :param pci_groups: what makes groups of the devices of an alias
    :param mdev_types: (type of mediated devices, devices that are divided
        into it), which are named as for aliases
    :param cpu_allocation_ratio: vCPUs of shared guests for each CPU
    :param wake_us: microseconds in which idle CPUs of guests are to wake up,
        0 for no idle states at all; None to leave that alone
    :param without_levers: names of :mod:`nova_pinning.host.levers` to leave
        alone
    :param choice: which of the best choices to take, 1 for the best
    """

    purpose: plan_model.Purpose = plan_model.Purpose.DEDICATED
    sizes: tuple[plan_model.GuestSize, ...] = ()
    host_cpus: int | None = None
    shared_cpus: int | None = None
    poll_cpus: int = 0
    page_size_kib: int | None = None
    host_memory_mib: int | None = None
    pci_aliases: tuple[tuple[str, str], ...] = ()
    pci_groups: Mapping[str, device_groups.GroupBy] = dataclasses.field(
        default_factory=dict)
    mdev_types: tuple[tuple[str, str], ...] = ()
    cpu_allocation_ratio: float | None = None
    wake_us: int | None = None
    without_levers: frozenset[str] = frozenset()
    choice: int = 1


def parse_sizes(
    text: str, where: errors.Location,
) -> tuple[plan_model.GuestSize, ...]:
    """The sizes of a mix as people write it.

    :raises errors.InputError: if that is not what the text has
    """
    shares = size_mix.parse(text, where, takes_flavors=False)
    return tuple(
        plan_model.GuestSize(share.vcpus, weight, share.cells)
        for share, weight in zip(shares, size_mix.whole_weights(shares)))


def parse_page_size(text: str, where: errors.Location) -> int:
    """A page size in KiB as people write it; 0 for 'none'.

    :raises errors.InputError: if it is no amount
    """
    if text.lower() == 'none':
        return 0
    return quantities.page_size_kib(text, where)


def huge_page_sizes_kib(
        description: host_model.HostDescription) -> tuple[int, ...]:
    """The sizes of huge pages that a host has, ascending.

    Those of which its nodes tell, be it that there are none yet. Else what
    kernels of its architecture have, of which x86 has 2 MiB always.
    """
    known = {size for node in description.nodes for size in node.huge_pages}
    system = description.cpu_model.arch, description.system.page_size_kib
    if system[0] == 'x86_64' and known:
        known.add(_OTHER_HUGE_PAGES_KIB[0])
    return tuple(sorted(
        known or _HUGE_PAGES_KIB.get(system, _OTHER_HUGE_PAGES_KIB)))


def nic_mbps(description: host_model.HostDescription) -> int:
    """How fast the NICs are together that serve the host."""
    return sum(device.speed_mbps for device in description.pci_devices
               if device.kind is hardware.PciKind.NIC
               and allocatable_cores.serves_host(device))


def cpus_for_nics(mbps: int) -> int:
    """CPUs that the kernel's network stack needs to keep up."""
    return math.ceil(mbps / MBPS_PER_CPU)


def default_host_cpus(description: host_model.HostDescription,
                      has_poll_cpus: bool) -> int:
    """CPUs for the host where nobody says how many.

    Two and one for each 40 online CPUs, or as many as the NICs need if those
    are more, but not above twice that, since hardly any NIC is busy all the
    time, nor above a quarter of them all. OVS-DPDK does without the kernel's
    network stack.
    """
    online = len(description.cpus)
    usual = 2 + math.ceil(online / _CPUS_PER_HOST_CPU)
    for_nics = 0 if has_poll_cpus else cpus_for_nics(nic_mbps(description))
    needed = max(usual, min(for_nics, 2 * usual))
    return max(1, min(needed, online // 4))


def default_host_memory_mib(description: host_model.HostDescription,
                            purpose: plan_model.Purpose) -> int:
    """Memory for the host where nobody says how much.

    8 GiB and 4 % of all memory that guests might have, but not above a
    quarter of it.
    """
    memory_mib = sum(
        node.memory_mib for node in description.nodes if node.cores
        or purpose is not plan_model.Purpose.DEDICATED and not node.gpu)
    return min(memory_mib // 4,
               _HOST_MEMORY_MIB + memory_mib * _HOST_MEMORY_PERCENT // 100)


def page_size_kib(description: host_model.HostDescription,
                  request: PlanOptions) -> int:
    """The size of huge pages for guests.

    Where nobody says so none if all guests are shared, unless OVS-DPDK
    reaches into their memory. Else 1 GiB, or the largest below of which
    nodes hold 16, as far as the host has such pages.

    :raises errors.InputError: if it has none of the size that is asked for,
        or needs huge pages and is to have none
    """
    sizes = huge_page_sizes_kib(description)
    asked = request.page_size_kib
    if asked is None:
        if request.purpose is plan_model.Purpose.SHARED and (
                not request.poll_cpus):
            return 0
        least_mib = min(
            (node.memory_mib for node in description.nodes
             if node.cores and node.memory_mib), default=0)
        return next(
            (size for size in _USUAL_HUGE_PAGES_KIB if size in sizes
             and least_mib * units.KIB_PER_MIB >= _LEAST_PAGES * size),
            sizes[0])
    listed = ' or '.join(map(quantities.page_size_text, sizes))
    if request.poll_cpus and not asked:
        raise errors.InputError(
            'OVS-DPDK needs huge pages, and so do its guests',
            errors.Location('--page-size'), f'take {listed}')
    if asked and asked not in sizes:
        raise errors.InputError(
            'the host has no huge pages of '
            f'{quantities.shown_page_size(asked)}',
            errors.Location('--page-size'),
            f'take {listed}, or none; where it has others, huge_pages of its '
            'nodes name them, with 0 if there are none yet')
    return asked


def default_sizes(
    description: host_model.HostDescription,
) -> tuple[plan_model.GuestSize, ...]:
    """The usual sizes that take up to half of the largest node's CPUs.

    Where not even the smallest does, guests of one vCPU.
    """
    largest = max(len(node.cpus) for node in description.nodes)
    return tuple(plan_model.GuestSize(vcpus) for vcpus in _USUAL_VCPUS
                 if vcpus <= largest // 2) or (plan_model.GuestSize(1),)


def shared_ratio(description: host_model.HostDescription,
                 request: PlanOptions) -> float:
    """vCPUs of shared guests for each CPU.

    What is asked for. Else 1 where there are to be no shared guests, or what
    the host file says if that is not 1, or what nova begins with.
    """
    if request.cpu_allocation_ratio is not None:
        return request.cpu_allocation_ratio
    if request.purpose is plan_model.Purpose.DEDICATED:
        return 1.0
    ratio = description.nova.cpu_allocation_ratio
    return _SHARED_RATIO if ratio == 1.0 else ratio
