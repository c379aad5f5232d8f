# SPDX-License-Identifier: Apache-2.0
"""Warnings about a host, or about what was requested of it."""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.host import host_model
from nova_pinning.host.plan import allocatable_cores
from nova_pinning.host.plan import devices
from nova_pinning.host.plan import explain
from nova_pinning.host.plan import memory
from nova_pinning.host.plan import plan_request
from nova_pinning.host import plan_model
from nova_pinning.host import words

#: Memory for each dedicated CPU under which hardly any flavor is sold.
_LEAST_MIB_PER_CPU = 512


@dataclasses.dataclass(frozen=True, slots=True)
class SpareCpus:
    """CPUs that stay unsold, and what they could be for instead.

    :param stranded: how many there are, on nodes with memory for guests
    :param guests: how many the mix has, with them or without
    :param shared_cpus: the --shared-cpus that sells as much, None if none
        does
    :param host_cpus: the same of --host-cpus
    """

    stranded: int
    guests: int
    shared_cpus: int | None = None
    host_cpus: int | None = None


def warnings(
    description: host_model.HostDescription,
    request: plan_request.PlanOptions,
    taken: explain.PricedChoice,
    used_devices: Sequence[host_model.PciDevice],
    spare: SpareCpus,
    interrupts: Sequence[plan_model.Interrupts],
) -> tuple[plan_model.PlanWarning, ...]:
    """All that is doubtful and that somebody can do something about.

    What has one remedy is one warning.

    :param description: with the aliases that were asked for
    :param used_devices: those that an alias names but the host uses
    """
    choice = taken.choice
    has_few = _few_host_cpus(description, choice)
    on_guests = '' if choice.shared_cpus else (
        'emulator threads, and vhost threads with them, run on the guests\' '
        'own CPUs')
    return (*_of_machine(description, choice),
            *_of_cpus(description, request, choice),
            *_of_numbers(description, choice, spare, on_guests, has_few),
            *_of_devices(description, choice, used_devices),
            *_of_ports(description, interrupts, has_few),
            *_of_memory(description, taken, request.purpose),
            *_of_pages(description, taken.memory))


def _of_machine(
    description: host_model.HostDescription, choice: plan_model.CpuChoice,
) -> Iterator[plan_model.PlanWarning]:
    system = description.system
    if system.smt in ('off', 'forceoff'):
        yield plan_model.PlanWarning(
            'smt-off', f'sibling threads are switched off (SMT is '
            f'{system.smt})',
            'if that is not on purpose, switch them on (take nosmt off the '
            'kernel command line, or change the setting of the firmware) and '
            'plan again')
    elif description.offline_cpus:
        yield plan_model.PlanWarning(
            'offline-cpus', 'some CPUs are offline, and not part of this plan '
            f': {description.offline_cpus}',
            'if that is not on purpose, switch them on and plan again')
    vulnerable = system.vulnerable_to
    if 'mitigations=off' in system.command_line.split():
        yield plan_model.PlanWarning(
            'mitigations-off', 'the kernel runs with mitigations=off, so that '
            'guests can read what is not theirs',
            'take it off the kernel command line where guests belong to '
            'different people')
    elif vulnerable:
        yield plan_model.PlanWarning(
            'vulnerable', 'the kernel calls the CPUs vulnerable to '
            f'{", ".join(vulnerable)}',
            'update microcode and kernel, or accept the risk')
    exposed = system.vulnerable_by_smt
    if exposed:
        yield plan_model.PlanWarning(
            'smt-vulnerable', 'the kernel calls sibling threads vulnerable to '
            f'{", ".join(exposed)}: whoever runs on one thread of a core can '
            'read what is used on the other',
            "have the kernel keep threads of different guests off one core's "
            'siblings (core scheduling: sched_core = "vcpus" in '
            '/etc/libvirt/qemu.conf, with libvirt 8.9 and Linux 5.14), '
            'which costs a guest that is alone on a core nothing; or do '
            'without sibling threads (nosmt), which costs a part of the '
            'throughput; or accept the risk')
    guests = choice.dedicated_cpus | choice.shared_cpus
    kinds = [kind for kind in description.core_kinds if kind.cpus & guests]
    if len(kinds) > 1:
        yield plan_model.PlanWarning(
            'hybrid', 'guests get cores of several kinds: ' + ', '.join(
                f'{kind.name} {kind.cpus & guests}' for kind in kinds)
            + '; nova cannot tell them apart',
            'keep one kind for the host with --host-cpus, or switch it off')


def _of_cpus(
    description: host_model.HostDescription, request: plan_request.PlanOptions,
    choice: plan_model.CpuChoice,
) -> Iterator[plan_model.PlanWarning]:
    guests = choice.dedicated_cpus | choice.shared_cpus
    if 0 in guests:
        yield plan_model.PlanWarning(
            'cpu0-sold', 'CPU 0 is for guests; the kernel does some work '
            'there whatever it is told',
            'take a choice that has it for the host (--choice)')
    isolated = description.system.isolated_cpus
    taken = choice.dedicated_cpus | choice.poll_cpus
    wrong = isolated - taken
    if wrong:
        yield plan_model.PlanWarning(
            'isolated-others', f'the kernel isolates {wrong} (isolcpus=), '
            'which are not dedicated in this plan: threads there are not '
            'moved from a busy CPU to an idle one',
            "boot with this plan's kernel command line, or without isolcpus")
    elif isolated and isolated != taken:
        yield plan_model.PlanWarning(
            'isolated-part', f'the kernel isolates {isolated} (isolcpus=), '
            f'but not {taken - isolated}, which are dedicated as well',
            "boot with this plan's kernel command line, or without isolcpus")
    if request.purpose is plan_model.Purpose.BOTH:
        yield plan_model.PlanWarning(
            'both-classes', 'dedicated and shared guests are to be on this '
            'host; it has the trait of neither class, and HostClassFilter '
            'takes it for a dedicated one; nova sells memory to shared guests '
            'without regard to how much of it is in huge pages',
            'do without HostClassFilter, and have flavors without class '
            'traits for it, or keep the classes on different hosts')


def _few_host_cpus(description: host_model.HostDescription,
                   choice: plan_model.CpuChoice) -> str:
    """That the CPUs for the host are too few for its NICs; '' if not."""
    mbps = plan_request.nic_mbps(description)
    if choice.poll_cpus or len(choice.host_cpus) >= (
            plan_request.cpus_for_nics(mbps)):
        return ''
    return (f'{words.count(len(choice.host_cpus), "CPU")} for the host may '
            f'not keep up with NICs of {mbps / 1000:g} Gbit/s')


def _of_numbers(
    description: host_model.HostDescription, choice: plan_model.CpuChoice,
    spare: SpareCpus, on_guests: str, has_few: str,
) -> Iterator[plan_model.PlanWarning]:
    """Too few CPUs of one kind, and CPUs that nobody has.

    :param on_guests: that emulator threads have none, '' if they have
    :param has_few: that the host has too few, '' if it has enough
    """
    needed = plan_request.cpus_for_nics(plan_request.nic_mbps(description))
    options = []
    if spare.shared_cpus is not None:
        options.append(f'--shared-cpus {spare.shared_cpus} has emulator '
                       'threads on them (with flavors that have '
                       'hw:emulator_threads_policy=share)')
    if spare.host_cpus is not None:
        options.append(f'--host-cpus {spare.host_cpus} has them for the host')
    if options:
        lacks = ', and '.join(filter(None, (
            on_guests if spare.shared_cpus is not None else '',
            has_few if (spare.host_cpus or 0) >= needed else '')))
        guests = words.count(spare.guests, 'guest')
        yield plan_model.PlanWarning(
            'stranded-cpus', f'{words.count(spare.stranded, "CPU")} '
            f'{"stay" if spare.stranded > 1 else "stays"} unsold when the mix '
            f'is full{lacks and f", while {lacks}"}', ', or '.join(options)
            + f'; {"either" if len(options) > 1 else "it"} sells the same '
            f'{guests}')
    if on_guests and spare.shared_cpus is None:
        yield plan_model.PlanWarning(
            'no-emulator-cpus', on_guests,
            'have CPUs for them with --shared-cpus, and flavors with '
            'hw:emulator_threads_policy=share')
    if has_few and (spare.host_cpus or 0) < needed:
        yield plan_model.PlanWarning(
            'few-host-cpus', f'{has_few}; by a rule of thumb it takes one for '
            f'each {plan_request.MBPS_PER_CPU // 1000} Gbit/s',
            (f'have {needed} with --host-cpus, or '
             if needed <= len(description.cpus) // 2 else '')
            + 'let traffic bypass the kernel, as RDMA does: --poll-cpus for '
            'OVS-DPDK, or NICs and virtual functions for guests')


def _of_devices(
    description: host_model.HostDescription,
    choice: plan_model.CpuChoice, used_devices: Sequence[host_model.PciDevice],
) -> Iterator[plan_model.PlanWarning]:
    aliases = sorted({device.alias for device in description.pci_devices
                      if device.alias})
    if aliases and description.system.has_iommu is False:
        yield plan_model.PlanWarning(
            'no-iommu', f'guests are to get {", ".join(aliases)}, but no '
            'device is in an IOMMU group',
            'switch the IOMMU on in the firmware, and on the kernel command '
            "line (iommu=pt, and intel_iommu=on for Intel's)")
    if aliases and description.system.posted_interrupts is False:
        yield plan_model.PlanWarning(
            'no-posted-interrupts', 'each interrupt of a device that a guest '
            f'gets ({", ".join(aliases)}) is handled by a CPU of the host '
            'first, and takes the vCPU out of the guest: the CPUs or KVM do '
            'without posted interrupts',
            'switch interrupt remapping on in the firmware, and load '
            'kvm_intel with enable_apicv=1 or kvm_amd with avic=1; leave AVIC '
            'off where guests run guests of their own, which it slows down')
    if used_devices:
        yield plan_model.PlanWarning(
            'device-in-use', 'the host keeps what it uses itself: '
            + devices.uses(used_devices),
            'free it and plan again, or leave it to the host')
    polled = {node.id for node in description.nodes
              if node.cpus & choice.poll_cpus}
    unpolled = [device for device in devices.nics(description)
                if polled and device.numa_node not in {None, *polled}]
    if unpolled:
        yield plan_model.PlanWarning(
            'few-poll-cpus', 'there are no CPUs for polling on the node of '
            + devices.listed([
                f'{devices.name(device)} (node {device.numa_node})'
                for device in unpolled]),
            'have more with --poll-cpus if OVS-DPDK is to serve them')
    near = {node.id for node in description.nodes
            if node.cpus & choice.host_cpus}
    far = [
        device for device in description.pci_devices
        if allocatable_cores.serves_host(device)
        and device.numa_node is not None and device.numa_node not in near]
    if any(map(allocatable_cores.is_in_use, far)):
        far.sort(key=allocatable_cores.is_in_use, reverse=True)
        yield plan_model.PlanWarning(
            'no-host-cpu-on-device-node', 'there are no CPUs for the host on '
            'the node of ' + devices.listed([
                f'{devices.name(device)} (node {device.numa_node}'
                f'{"" if allocatable_cores.is_in_use(device) else ", idle"})'
                for device in far]),
            'take a choice that has some there (--choice), if what these '
            'devices do matters more than what such a choice costs')


def _of_ports(
    description: host_model.HostDescription,
    interrupts: Sequence[plan_model.Interrupts], has_few: str,
) -> Iterator[plan_model.PlanWarning]:
    """NICs whose queues do not go with the CPUs of their interrupts.

    :param has_few: as in :func:`_of_numbers`
    """
    cpus_of = {interrupt.address: interrupt.cpus for interrupt in interrupts}
    ports = [(device, cpus_of[device.address])
             for device in devices.nics(description)
             if device.address in cpus_of]
    many = [(device, cpus) for device, cpus in ports
            if device.names and device.queues > len(cpus)]
    if many:
        targets = sorted({len(cpus) for _device, cpus in many})
        shown = '-'.join(map(str, targets[:1] + targets[1:][-1:]))
        yield plan_model.PlanWarning(
            'many-queues', 'of ' + words.listed(
                [f'{devices.name(device)} ({device.queues} queues)'
                 for device, _cpus in many]) + ' the interrupts of several '
            f'queues share a CPU: they go to {shown} '
            f'CPU{"" if targets == [1] else "s"} of the host; more '
            'queues than CPUs only cost memory and wake-ups',
            'give each CPU one queue: ' + '; '.join(
                f'ethtool -L {name} combined {len(cpus)}'
                for device, cpus in many for name in device.names)
            + ' (the link is down for a moment); not where a bypass of the '
            'kernel, such as AF_XDP, has queues of its own')
    if has_few:
        return
    by_cpus: dict[cpuset.CpuSet, list[host_model.PciDevice]] = {}
    for device, cpus in ports:
        by_cpus.setdefault(cpus, []).append(device)
    for cpus, nics in by_cpus.items():
        mbps = sum(nic.speed_mbps for nic in nics)
        needed = plan_request.cpus_for_nics(mbps)
        if len(cpus) < needed:
            yield plan_model.PlanWarning(
                'few-cpus-near-port', 'all queues of '
                f'{words.listed([devices.name(nic) for nic in nics])}, '
                f'{mbps / 1000:g} Gbit/s, are handled by {words.cpus(cpus)}, '
                f'the nearest of the host; by a rule of thumb it takes '
                f'{needed}',
                'have more for the host near them (--choice, --host-cpus), '
                'or let traffic bypass the kernel: --poll-cpus for OVS-DPDK, '
                'or virtual functions for guests')


def _of_pages(description: host_model.HostDescription,
              shared_out: memory.MemoryPlan) -> Iterator[
                  plan_model.PlanWarning]:
    """Huge pages that an old kernel cannot be told of when it boots."""
    version = description.system.version
    pages = {node.id: shared_out.guest_pages.get(node.id, 0)
             + shared_out.poll_pages.get(node.id, 0)
             for node in description.nodes if node.memory_mib}
    if version is None or version >= plan_model.PAGES_BY_NODE_SINCE or (
            len(set(pages.values())) < 2):
        return
    listed = ', '.join(f'{count} on node {node}'
                       for node, count in pages.items())
    yield plan_model.PlanWarning(
        'uneven-pages', f'Linux {version[0]}.{version[1]} cannot be told on '
        f'its command line to have {listed}; systemd-tmpfiles sets the pages '
        'aside once it has booted, when some memory may be in pieces',
        f'boot Linux {".".join(map(str, plan_model.PAGES_BY_NODE_SINCE))} or '
        'later')


def _of_memory(
    description: host_model.HostDescription, taken: explain.PricedChoice,
    purpose: plan_model.Purpose,
) -> Iterator[plan_model.PlanWarning]:
    without = [node.id for node in description.nodes
               if node.cores and not node.memory_mib]
    if without:
        yield plan_model.PlanWarning(
            'no-memory-node', f'{_nodes(without)} without memory, so that '
            'no pinned guest fits there',
            'put memory into its slots, or make one node of each socket in '
            'the firmware')
    yield from _without_cpus(description, purpose)
    empty = {number: cpus
             for number, cpus in taken.unsold(description).items()
             if number not in without}
    small = [node.id for node in description.nodes
             if 0 < taken.memory.guest_mib[node.id] < _LEAST_MIB_PER_CPU
             * len(node.cpus & taken.choice.dedicated_cpus)]
    advice = ('keep less for the host with --host-memory, or take smaller '
              'pages with --page-size')
    if empty:
        yield plan_model.PlanWarning(
            'no-guest-memory', f'{_nodes(list(empty))} left without memory '
            f'for guests{taken.memory.in_pages}, so that '
            f'{words.cpus(cpuset.union(empty.values()))} there cannot be sold',
            advice)
    if small:
        yield plan_model.PlanWarning(
            'memory-too-small', f'{_nodes(small)} left with less than '
            f'{_LEAST_MIB_PER_CPU} MiB{taken.memory.in_pages} for each '
            'dedicated CPU', advice)


def _without_cpus(
    description: host_model.HostDescription, purpose: plan_model.Purpose,
) -> Iterator[plan_model.PlanWarning]:
    """Memory on nodes without CPUs: of GPUs, HBM, behind CXL."""
    for kind, is_gpu in (("GPUs' memory", True), ('memory', False)):
        nodes = [node for node in description.nodes if node.memory_mib
                 and not node.cores and bool(node.gpu) is is_gpu]
        if not nodes:
            continue
        is_sold = not is_gpu and purpose is not plan_model.Purpose.DEDICATED
        size = quantities.shown_memory(sum(node.memory_mib for node in nodes))
        yield plan_model.PlanWarning(
            'memory-without-cpus', f'{size} are {kind} on nodes without CPUs '
            f'({cpuset.CpuSet(node.id for node in nodes)}): nova has it in '
            'MEMORY_MB and gives none of it to guests with NUMA cells; '
            + ('the kernel gives it to others where it has nothing nearer'
               if is_sold else 'the plan keeps it from all guests'),
            'keep as much more for the host (--host-memory) if it is too slow '
            'for guests' if is_sold else
            'give guests the GPUs (--pci-alias), and it goes with them'
            if is_gpu else
            'have shared guests on this host, if they are to have it')


def _nodes(numbers: Sequence[int]) -> str:
    listed = ', '.join(map(str, numbers))
    return f'nodes {listed} are' if len(numbers) > 1 else f'node {listed} is'
