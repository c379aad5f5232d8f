# SPDX-License-Identifier: Apache-2.0
"""Interrupts and where they go, from /sys/kernel/irq and /proc/irq."""

from collections.abc import Iterable
from collections.abc import Iterator
import re

from nova_pinning import cpuset
from nova_pinning.host.check import facts
from nova_pinning.host import machine_files

_DEVICES = '/sys/bus/pci/devices'
# Drivers of disks that leave it to the kernel which CPU each queue's
# interrupt goes to. Linux 6.11 and later tell by making the file read-only.
_MANAGED = re.compile(
    r'nvme\d+q[1-9]\d*|virtio\d+-(?:req\.\d+|request)|'
    r'(?:mpt\d+sas|megasas)\S*')
_BANNED_LIST = 'IRQBALANCE_BANNED_CPULIST'
_BANNED_MASK = 'IRQBALANCE_BANNED_CPUS'


def interrupts(tree: machine_files.Tree) -> Iterator[facts.Interrupt]:
    """All interrupts that somebody handles."""
    devices = dict(_devices(tree))
    for number in filter(str.isdecimal, tree.names('/sys/kernel/irq')):
        actions = tree.text(f'/sys/kernel/irq/{number}/actions')
        allowed = tree.cpus(f'/proc/irq/{number}/smp_affinity_list')
        if not actions or allowed is None:
            continue
        names = tuple(actions.split(','))
        effective = tree.cpus(f'/proc/irq/{number}/effective_affinity_list')
        yield facts.Interrupt(
            int(number), names, devices.get(int(number), ''), allowed,
            effective or cpuset.CpuSet(),
            tree.is_read_only(f'/proc/irq/{number}/smp_affinity_list') or
            any(map(_MANAGED.fullmatch, names)))


def _devices(tree: machine_files.Tree) -> Iterator[tuple[int, str]]:
    """PCI addresses by the number of their interrupts."""
    for address in tree.names(_DEVICES):
        numbers = tree.names(f'{_DEVICES}/{address}/msi_irqs')
        # Without message-signalled interrupts a line may have several
        # devices; the last one is as good as any.
        for number in numbers or [
                tree.text(f'{_DEVICES}/{address}/irq') or '0']:
            if number != '0' and number.isdecimal():
                yield int(number), address


def default_cpus(tree: machine_files.Tree) -> cpuset.CpuSet | None:
    """Where new interrupts are allowed."""
    return tree.mask('/proc/irq/default_smp_affinity')


def irqbalance(
    tree: machine_files.Tree, processes: Iterable[facts.HostProcess],
) -> facts.Irqbalance | None:
    """The irqbalance that runs, if any does and its settings may be read."""
    for process in processes:
        if process.name != 'irqbalance' or process.of_kernel:
            continue
        environment = tree.text(f'/proc/{process.pid}/environ')
        if environment is None:
            continue
        settings = dict(
            setting.partition('=')[::2] for setting in environment.split('\0'))
        return facts.Irqbalance(process.pid, _banned(settings))
    return None


def _banned(settings: dict[str, str]) -> cpuset.CpuSet | None:
    """As irqbalance's setup_banned_cpus() has it: a list before a mask."""
    for variable, parse in ((_BANNED_LIST, cpuset.CpuSet.parse),
                            (_BANNED_MASK, cpuset.CpuSet.parse_mask)):
        if settings.get(variable):
            try:
                return parse(settings[variable])
            except ValueError:
                # It takes what it cannot read for no CPUs.
                return cpuset.CpuSet()
    return None


def workqueue_cpus(tree: machine_files.Tree) -> cpuset.CpuSet | None:
    """Where the kernel's unbound work runs."""
    return tree.mask('/sys/devices/virtual/workqueue/cpumask')
