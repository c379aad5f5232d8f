# SPDX-License-Identifier: Apache-2.0
"""Warnings about a host, or about what was requested of it."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from nova_pinning import cpuset
from nova_pinning.host import host_model
from nova_pinning.host.plan import allocatable_cores
from nova_pinning.host.plan import cpu_search
from nova_pinning.host.plan import devices
from nova_pinning.host.plan import memory
from nova_pinning.host.plan import plan_request
from nova_pinning.host import plan_model
from nova_pinning.host import words

#: Memory for each dedicated CPU under which hardly any flavor is sold.
_LEAST_MIB_PER_CPU = 512


def warnings(
    description: host_model.HostDescription,
    request: plan_request.PlanRequest,
    choice: cpu_search.CpuChoice,
    shared_out: memory.MemoryPlan,
    used_devices: Sequence[host_model.PciDevice],
) -> tuple[plan_model.PlanWarning, ...]:
    """All that is doubtful and that somebody can do something about.

    :param description: with the aliases that were asked for
    :param used_devices: those that an alias names but the host uses
    """
    return (*_of_machine(description, choice),
            *_of_cpus(description, request, choice),
            *_of_devices(description, request, choice, used_devices),
            *_of_memory(description, request, choice, shared_out))


def _of_machine(
    description: host_model.HostDescription, choice: cpu_search.CpuChoice,
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
    guests = choice.dedicated_cpus | choice.shared_cpus
    kinds = [kind for kind in description.core_kinds if kind.cpus & guests]
    if len(kinds) > 1:
        yield plan_model.PlanWarning(
            'hybrid', 'guests get cores of several kinds: ' + ', '.join(
                f'{kind.name} {kind.cpus & guests}' for kind in kinds)
            + '; nova cannot tell them apart',
            'keep one kind for the host with --host-cpus, or switch it off')


def _of_cpus(
    description: host_model.HostDescription, request: plan_request.PlanRequest,
    choice: cpu_search.CpuChoice,
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
    if (request.purpose is plan_model.Purpose.DEDICATED
            and not choice.shared_cpus):
        yield plan_model.PlanWarning(
            'no-emulator-cpus', "emulator threads, and vhost threads with "
            "them, run on the guests' own CPUs",
            'have CPUs for them with --shared-cpus, and flavors with '
            'hw:emulator_threads_policy=share')
    if request.purpose is plan_model.Purpose.BOTH:
        yield plan_model.PlanWarning(
            'both-classes', 'dedicated and shared guests are to be on this '
            'host; it has the trait of neither class, and HostClassFilter '
            'takes it for a dedicated one; nova sells memory to shared guests '
            'without regard to how much of it is in huge pages',
            'do without HostClassFilter, and have flavors without class '
            'traits for it, or keep the classes on different hosts')


def _of_devices(
    description: host_model.HostDescription, request: plan_request.PlanRequest,
    choice: cpu_search.CpuChoice, used_devices: Sequence[host_model.PciDevice],
) -> Iterator[plan_model.PlanWarning]:
    aliases = sorted({device.alias for device in description.pci_devices
                      if device.alias})
    if aliases and description.system.has_iommu is False:
        yield plan_model.PlanWarning(
            'no-iommu', f'guests are to get {", ".join(aliases)}, but no '
            'device is in an IOMMU group',
            'switch the IOMMU on in the firmware, and on the kernel command '
            "line (iommu=pt, and intel_iommu=on for Intel's)")
    if used_devices:
        yield plan_model.PlanWarning(
            'device-in-use', 'the host keeps what it uses itself: '
            + ', '.join(f'{devices.name(device)} ({device.address}) is '
                        f'{device.in_use}' for device in used_devices),
            'free it and plan again, or leave it to the host')
    mbps = plan_request.nic_mbps(description)
    needed = plan_request.cpus_for_nics(mbps)
    if not choice.poll_cpus and len(choice.host_cpus) < needed:
        yield plan_model.PlanWarning(
            'few-host-cpus', f'{words.count(len(choice.host_cpus), "CPU")} '
            'for the host may not keep up with NICs of '
            f'{mbps / 1000:g} Gbit/s; by a rule of '
            'thumb it takes one for each '
            f'{plan_request.MBPS_PER_CPU // 1000} Gbit/s',
            f'have {needed} with --host-cpus, or let traffic bypass the '
            'kernel: --poll-cpus for OVS-DPDK, or virtual functions for '
            'guests')
    polled = {node.id for node in description.nodes
              if node.cpus & choice.poll_cpus}
    unpolled = [device for device in devices.nics(description)
                if polled and device.numa_node not in {None, *polled}]
    if unpolled:
        yield plan_model.PlanWarning(
            'few-poll-cpus', 'there are no CPUs for polling on the node of '
            + _listed(f'{devices.name(device)} (node {device.numa_node})'
                      for device in unpolled),
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
            'the node of ' + _listed(
                f'{devices.name(device)} (node {device.numa_node}'
                f'{"" if allocatable_cores.is_in_use(device) else ", idle"})'
                for device in far),
            'take a choice that has some there (--choice), if what these '
            'devices do matters more than what such a choice costs')


def _of_memory(
    description: host_model.HostDescription, request: plan_request.PlanRequest,
    choice: cpu_search.CpuChoice, shared_out: memory.MemoryPlan,
) -> Iterator[plan_model.PlanWarning]:
    without = [node.id for node in description.nodes
               if node.cores and not node.memory_mib]
    if without:
        yield plan_model.PlanWarning(
            'no-memory-node', f'{_nodes(without)} without memory, so that '
            'no pinned guest fits there',
            'put memory into its slots, or make one node of each socket in '
            'the firmware')
    empty, small = [], []
    for node in description.nodes:
        dedicated = len(node.cpus & choice.dedicated_cpus)
        if not dedicated or not node.memory_mib:
            continue
        memory_mib = shared_out.guest_mib[node.id]
        if not memory_mib:
            empty.append(node)
        elif memory_mib < dedicated * _LEAST_MIB_PER_CPU:
            small.append(node.id)
    advice = ('keep less for the host with --host-memory, or take smaller '
              'pages with --page-size')
    if empty:
        unsold = choice.dedicated_cpus & cpuset.union(
            node.cpus for node in empty)
        yield plan_model.PlanWarning(
            'no-guest-memory',
            f'{_nodes([node.id for node in empty])} left without memory for '
            f'guests{shared_out.in_pages}, so that {words.cpus(unsold)} there '
            'cannot be sold', advice)
    if small:
        yield plan_model.PlanWarning(
            'memory-too-small', f'{_nodes(small)} left with less than '
            f'{_LEAST_MIB_PER_CPU} MiB{shared_out.in_pages} for each '
            'dedicated CPU', advice)


def _nodes(numbers: Sequence[int]) -> str:
    listed = ', '.join(map(str, numbers))
    return f'nodes {listed} are' if len(numbers) > 1 else f'node {listed} is'


def _listed(items: Iterable[str], most: int = 6) -> str:
    """Items for people, not more than they want to read."""
    several = list(items)
    more = len(several) - most
    shown = ', '.join(several[:most])
    return f'{shown} and {more} more' if more > 0 else shown
