# SPDX-License-Identifier: Apache-2.0
"""A whole machine, from its files."""

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host.discover import devices
from nova_pinning.host.discover import numa
from nova_pinning.host.discover import pci_tree
from nova_pinning.host.discover import processors
from nova_pinning.host.discover import resctrl
from nova_pinning.host.discover import system
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import machine_files
from nova_pinning.host import problems


def discover_host(tree: machine_files.Tree,
                  name: str = '') -> host_model.HostDescription:
    """The host that a machine's /sys and /proc describe.

    What the files do not tell is left out. What nova.conf says is not looked
    at, so nova's settings are all unset.

    :param name: the host's; '' for the machine's host name
    :raises errors.InputError: if these are not the files of a machine, if
        one of them makes no sense, or if they contradict one another
    """
    where = errors.Location(str(tree.root))
    if not tree.names(processors.CPU):
        raise errors.InputError(
            "is not a machine's root directory: there is no "
            f'{processors.CPU.lstrip("/")} in it', where,
            'give the directory that has its sys and proc')
    machine = processors.read(tree)
    caches = processors.caches(tree, machine.online)
    numa_nodes = numa.read(tree, machine, caches)
    info = system.cpu_info(tree)
    cpu_model = system.cpu_model(tree, info)
    small_page_kib, assumed = system.small_page_kib(tree), ''
    if small_page_kib is None:
        small_page_kib, assumed = hardware.small_page_kib(cpu_model.arch, {
            size for node in numa_nodes.nodes for size in node.huge_pages})
    pci_devices = devices.read(tree)
    description = host_model.HostDescription(
        name=name or system.name(tree),
        nodes=numa_nodes.nodes,
        pci_devices=pci_devices,
        pci_bridges=pci_tree.bridges(
            tree, [device.address for device in pci_devices]),
        cpu_model=cpu_model,
        description='; '.join(filter(None, (
            _strays(numa_nodes.stray), assumed))),
        offline_cpus=machine.offline,
        dies=processors.dies(
            machine, always=_has_wide_node(numa_nodes.nodes, machine)),
        caches=caches,
        core_kinds=processors.core_kinds(tree, machine.online),
        resctrl=resctrl.read(tree, machine.online),
        system=system.read(tree, machine, info, small_page_kib),
        where=where)
    # What follows from nonsense is not worth telling.
    wrong = tuple(errors.InputError(
        f'{path} makes no sense: it {text}', where,
        'report it to whoever made the kernel or the firmware, and describe '
        'the host in a host file by hand')
        for path, text in tree.nonsense.items()) or tuple(
            errors.InputError(problem.message, where)
            for problem in problems.inconsistencies(description))
    if wrong:
        raise errors.InputErrors(wrong)
    return description


def _has_wide_node(nodes: tuple[host_model.NumaNode, ...],
                   machine: processors.Processors) -> bool:
    """Whether a node has CPUs of several sockets, and so does not tell."""
    return any(len({machine.sockets[cpu] for cpu in node.cpus}) > 1
               for node in nodes)


def _strays(cpus: cpuset.CpuSet) -> str:
    if not cpus:
        return ''
    return (f'CPUs {cpus} are in no NUMA node that the kernel has online; '
            'here they are in one without memory')
