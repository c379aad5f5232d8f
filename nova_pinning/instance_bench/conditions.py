# SPDX-License-Identifier: Apache-2.0
"""What the host was like when it was measured.

Nothing is changed, and all is read through files under one root, so that the
files of another machine do as well.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import platform

from nova_pinning.checks import check_rule
from nova_pinning.host.check import facts
from nova_pinning.host.check import gathering
from nova_pinning.host.check import host_check_run
from nova_pinning.host import discover
from nova_pinning.host.discover import system
from nova_pinning.host import host_model
from nova_pinning.host import machine_files
from nova_pinning.host import words
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import cpu_layout
from nova_pinning.presentation import host_structure

_DMI = '/sys/class/dmi/id'
_CLOCKS = '/sys/devices/system/clocksource/clocksource0/available_clocksource'
# By a part of the name that their clock has in the kernel.
_HYPERVISORS = {'kvm-clock': 'KVM', 'hyperv': 'Hyper-V', 'xen': 'Xen'}
# What DMI says of machines that are none.
_VIRTUAL = ('QEMU', 'KVM', 'VMware', 'VirtualBox', 'Xen', 'OpenStack',
            'Virtual Machine')
# What /proc/cpuinfo calls the model on x86, POWER, s390 and old ARM.
_MODEL_KEYS = ('model name', 'cpu', 'processor 0', 'Processor')


def gather(layout: cpu_layout.CpuLayout,
           root: str = '/') -> bench_model.Conditions:
    """Look at the host; of versions only nova-pinning's and Python's.

    :param layout: what its CPUs are for
    :raises nova_pinning.errors.InputError: if this is not a machine
    """
    tree = machine_files.Tree(root)
    machine = discover.discover_host(tree)
    info = system.cpu_info(tree)
    return bench_model.Conditions(
        cpu_model=_cpu_model(info, machine),
        topology=f'{host_structure.summary(machine)}, '
        + words.count(len(layout.l3_domains), 'L3 domain'),
        cpus=len(machine.cpus), memory_mib=layout.memory_mib,
        kernel=machine.system.kernel, governor=_governor(machine),
        smt=machine.system.smt, load=load(root),
        mitigations=machine.system.mitigations, layout=layout.as_mapping(),
        versions=_own_versions(), virtualised=_virtualised(tree, info),
        findings=tuple(_findings(tree, layout, machine)),
        boot_id=tree.text('/proc/sys/kernel/random/boot_id') or '')


def load(root: str = '/') -> float:
    """The load of the last minute, 0 if the kernel does not tell."""
    text = machine_files.Tree(root).text('/proc/loadavg') or ''
    try:
        return float(text.split()[0])
    except (IndexError, ValueError):
        return 0.0


def _findings(
    tree: machine_files.Tree, layout: cpu_layout.CpuLayout,
    machine: host_model.HostDescription,
) -> Iterator[str]:
    """What makes figures of this host doubtful, then what its check says.

    Of the load and of what the host itself runs on a report tells.
    """
    if layout.note:
        yield layout.note
    wrong = machine.system.governors.keys() - {'performance'}
    if wrong:
        yield (f'the governor of CPU frequency is {_governor(machine)}, and '
               'frequencies may change while something is measured')
    if layout.planned:
        yield from _check(tree, layout.planned)


def _check(tree: machine_files.Tree,
           planned: host_model.HostDescription) -> Iterator[str]:
    """What ``nova-pinning host check`` finds, without its notes."""
    view = facts.CheckedHost(planned, gathering.gather(tree, planned))
    for finding in host_check_run.findings(view):
        if finding.severity is not check_rule.Severity.NOTE:
            yield (f'{finding.code} {finding.severity}: {finding.subject}: '
                   f'{finding.message}')


def _cpu_model(info: Mapping[str, str],
               machine: host_model.HostDescription) -> str:
    return next(filter(None, map(info.get, _MODEL_KEYS)),
                machine.cpu_model.model or machine.cpu_model.arch)


def _governor(machine: host_model.HostDescription) -> str:
    governors = machine.system.governors
    if len(governors) == 1:
        return next(iter(governors))
    return ', '.join(f'{name} (CPUs {cpus})'
                     for name, cpus in sorted(governors.items()))


def _virtualised(tree: machine_files.Tree, info: Mapping[str, str]) -> str:
    """What the machine runs on, '' if nothing says that it is virtual.

    Its hypervisor by its clock, which only its guests have, or by what Xen
    tells; then the maker and model that DMI has. The hypervisor flag is of
    x86; what has neither is known by DMI alone.
    """
    clocks = tree.text(_CLOCKS) or ''
    hypervisor = next(
        (name for clock, name in _HYPERVISORS.items() if clock in clocks),
        (tree.text('/sys/hypervisor/type') or '').capitalize())
    said = ' '.join(filter(None, (
        hypervisor, *(tree.text(f'{_DMI}/{name}')
                      for name in ('sys_vendor', 'product_name')))))
    if hypervisor:
        return said
    if 'hypervisor' in info.get('flags', '').split():
        return said or 'by what hypervisor it does not tell'
    return said if any(word in said for word in _VIRTUAL) else ''


def _own_versions() -> dict[str, str]:
    # Only here, for it takes a while to load.
    from importlib import metadata
    return {'nova-pinning': metadata.version('nova-pinning'),
            'python': platform.python_version()}
