# SPDX-License-Identifier: Apache-2.0
"""The host as the agent sees it, from its plan and the kernel."""

from collections.abc import Iterable
from collections.abc import Iterator
import gzip
import re

from nova_pinning.agent import agent_model
from nova_pinning.agent import kernel_files
from nova_pinning import cpuset
from nova_pinning.host.discover import numa
from nova_pinning.host.discover import processors
from nova_pinning.host.discover import resctrl
from nova_pinning.host import host_model

_DEVICES = '/sys/bus/pci/devices'
_NET = '/sys/class/net'
_QUEUE = re.compile(r'[rt]x-(\d+)')
# 'eth0-TxRx-3', 'mlx5_comp3@pci:0000:3b:00.0', 'virtio0-input.3', but not
# 'mlx5_async@pci:...' or 'virtio0-config'.
_OF_QUEUE = re.compile(
    r'(?i)(?:.*[^a-z])?(?:tx|rx|txrx|comp|input|output|fp|q|queue)'
    r'[-_.]?\d+(?:@.*)?')


def l3_domains(
        files: kernel_files.WritableTree) -> dict[int, cpuset.CpuSet]:
    """CPUs by the id of their L3 cache.

    Many Arm machines give caches no ids; those are counted.
    """
    online = processors.read(files).online
    return resctrl.l3_domains(files, online) or dict(enumerate(
        domain for caches in processors.caches(files, online)
        if caches.level == 3 for domain in caches.domains))


def read(files: kernel_files.WritableTree,
         planned: host_model.HostDescription) -> agent_model.AgentHost:
    """The host; what devices guests have is not known yet.

    :param planned: has a plan
    """
    assert planned.plan is not None
    return agent_model.AgentHost(
        l3_domains(files), {
            node: numa.node_cpus(files, node)
            for node in numa.node_numbers(files)},
        planned.plan.host_cpus,
        planned.nova.shared_cpus or agent_model.NO_CPUS,
        planned.nova.dedicated_cpus or agent_model.NO_CPUS,
        tuple(_nics(files, planned)))


def device_interrupts(
    files: kernel_files.WritableTree, addresses: Iterable[str],
) -> dict[str, tuple[int, ...]]:
    """The interrupts of PCI devices that can be placed, by their address."""
    return {address: tuple(_interrupts(files, address))
            for address in sorted(set(addresses))}


def is_of_queue(name: str) -> bool:
    """Whether an interrupt with this name is of a queue of a NIC."""
    return _OF_QUEUE.fullmatch(name) is not None


def knows_caches(files: kernel_files.WritableTree) -> bool:
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


def _nics(
    files: kernel_files.WritableTree, planned: host_model.HostDescription,
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


def _queues(files: kernel_files.WritableTree,
            interfaces: Iterable[str]) -> Iterator[tuple[str, int]]:
    for name in interfaces:
        for match in filter(None, map(
                _QUEUE.fullmatch, files.names(f'{_NET}/{name}/queues'))):
            kind = 'xps_cpus' if match[0].startswith('t') else 'rps_cpus'
            yield f'{name}/queues/{match[0]}/{kind}', int(match[1])


def _interrupts(files: kernel_files.WritableTree,
                address: str) -> Iterator[int]:
    for name in files.names(f'{_DEVICES}/{address}/msi_irqs'):
        if name.isdecimal() and not files.is_read_only(
                f'/proc/irq/{name}/smp_affinity_list'):
            yield int(name)
