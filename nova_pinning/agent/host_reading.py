# SPDX-License-Identifier: Apache-2.0
"""The host as the agent sees it, from its plan and the kernel."""

from collections.abc import Iterable
from collections.abc import Iterator
import gzip
import re

from nova_pinning.agent import agent_model
from nova_pinning.agent import kernel_files
from nova_pinning import cpuset
from nova_pinning.host import host_model

_CPUS = '/sys/devices/system/cpu'
_NODES = '/sys/devices/system/node'
_DEVICES = '/sys/bus/pci/devices'
_NET = '/sys/class/net'
_CPU = re.compile(r'cpu(\d+)')
_NODE = re.compile(r'node(\d+)')
_QUEUE = re.compile(r'[rt]x-(\d+)')
# 'eth0-TxRx-3', 'mlx5_comp3@pci:0000:3b:00.0', 'virtio0-input.3', but not
# 'mlx5_async@pci:...' or 'virtio0-config'.
_OF_QUEUE = re.compile(
    r'(?i)(?:.*[^a-z])?(?:tx|rx|txrx|comp|input|output|fp|q|queue)'
    r'[-_.]?\d+(?:@.*)?')


def l3_domains(
        files: kernel_files.KernelFiles) -> dict[int, cpuset.CpuSet]:
    """CPUs by the id of their L3 cache, as resctrl has it too."""
    domains: dict[int, cpuset.CpuSet] = {}
    for match in filter(None, map(_CPU.fullmatch, files.names(_CPUS))):
        for index in files.names(f'{_CPUS}/{match[0]}/cache'):
            path = f'{_CPUS}/{match[0]}/cache/{index}'
            if (index.startswith('index')
                    and files.text(f'{path}/level') == '3'):
                text = files.text(f'{path}/id') or ''
                if text.isdecimal():
                    domains[int(text)] = domains.get(
                        int(text), cpuset.CpuSet()) | cpuset.CpuSet(
                            [int(match[1])])
    return domains


def _l3_by_cpus(
        files: kernel_files.KernelFiles) -> dict[int, cpuset.CpuSet]:
    """CPUs of each L3 cache where the kernel gives caches no ids.

    As on many Arm machines; they are numbered by their first CPUs then.
    """
    found = set()
    for match in filter(None, map(_CPU.fullmatch, files.names(_CPUS))):
        for index in files.names(f'{_CPUS}/{match[0]}/cache'):
            path = f'{_CPUS}/{match[0]}/cache/{index}'
            if (index.startswith('index')
                    and files.text(f'{path}/level') == '3'):
                try:
                    found.add(cpuset.CpuSet.parse(
                        files.text(f'{path}/shared_cpu_list') or ''))
                except ValueError:
                    continue
    return dict(enumerate(sorted(filter(None, found), key=min)))


def read(files: kernel_files.KernelFiles,
         planned: host_model.HostDescription) -> agent_model.AgentHost:
    """The host; what devices guests have is not known yet.

    :param planned: has a plan
    """
    assert planned.plan is not None
    return agent_model.AgentHost(
        l3_domains(files) or _l3_by_cpus(files), dict(_nodes(files)),
        planned.plan.host_cpus,
        planned.nova.shared_cpus or agent_model.NO_CPUS,
        planned.nova.dedicated_cpus or agent_model.NO_CPUS,
        tuple(_nics(files, planned)))


def device_interrupts(
    files: kernel_files.KernelFiles, addresses: Iterable[str],
) -> dict[str, tuple[int, ...]]:
    """The interrupts of PCI devices that can be placed, by their address."""
    return {address: tuple(_interrupts(files, address))
            for address in sorted(set(addresses))}


def is_of_queue(name: str) -> bool:
    """Whether an interrupt with this name is of a queue of a NIC."""
    return _OF_QUEUE.fullmatch(name) is not None


def knows_caches(files: kernel_files.KernelFiles) -> bool:
    """Whether the kernel keeps threads of a process in one L3 by itself.

    Linux 7.2 does with CONFIG_SCHED_CACHE, unless that is switched off.
    """
    release = files.text('/proc/sys/kernel/osrelease') or ''
    configuration = files.text(f'/boot/config-{release}')
    if configuration is None:
        packed = files.text('/proc/config.gz')
        try:
            configuration = gzip.decompress(
                (packed or '').encode(errors='surrogateescape')).decode()
        except (OSError, EOFError, UnicodeError):
            return False
    if 'CONFIG_SCHED_CACHE=y' not in configuration.splitlines():
        return False
    features = (files.text('/sys/kernel/debug/sched/features') or '').split()
    return 'NO_SCHED_CACHE' not in features and files.text(
        '/sys/kernel/debug/sched/llc_balancing/enabled') not in ('0', 'N')


def _nodes(
    files: kernel_files.KernelFiles,
) -> Iterator[tuple[int, cpuset.CpuSet]]:
    for match in filter(None, map(_NODE.fullmatch, files.names(_NODES))):
        try:
            yield int(match[1]), cpuset.CpuSet.parse(
                files.text(f'{_NODES}/{match[0]}/cpulist') or '')
        except ValueError:
            continue


def _nics(
    files: kernel_files.KernelFiles, planned: host_model.HostDescription,
) -> Iterator[agent_model.ServingNic]:
    """Network cards whose interrupts the plan places."""
    assert planned.plan is not None
    names = {device.address: device.names for device in planned.pci_devices}
    for planned_device in planned.plan.interrupts:
        address = planned_device.address
        interfaces = tuple(
            name for name in names.get(address, ())
            if files.exists(f'{_NET}/{name}'))
        interrupts = tuple(
            number for number in _interrupts(files, address)
            if any(map(is_of_queue, (files.text(
                f'/sys/kernel/irq/{number}/actions') or '').split(','))))
        if interfaces and interrupts:
            yield agent_model.ServingNic(
                address, interfaces, interrupts,
                dict(_queues(files, interfaces)))


def _queues(files: kernel_files.KernelFiles,
            interfaces: Iterable[str]) -> Iterator[tuple[str, int]]:
    for name in interfaces:
        for match in filter(None, map(
                _QUEUE.fullmatch, files.names(f'{_NET}/{name}/queues'))):
            kind = 'xps_cpus' if match[0].startswith('t') else 'rps_cpus'
            yield f'{name}/queues/{match[0]}/{kind}', int(match[1])


def _interrupts(files: kernel_files.KernelFiles,
                address: str) -> Iterator[int]:
    for name in files.names(f'{_DEVICES}/{address}/msi_irqs'):
        if name.isdecimal() and not files.is_read_only(
                f'/proc/irq/{name}/smp_affinity_list'):
            yield int(name)
