#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What the host was like when it was measured.

Nothing is changed, and all is read through files under one root, so that the
files of another machine do as well.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import platform

from nova_pinning.bench import layout as bench_layout
from nova_pinning.bench import model
from nova_pinning.host.check import gather as check_gather
from nova_pinning.host.check import rule
from nova_pinning.host.check import run
from nova_pinning.host import discover
from nova_pinning.host.discover import system
from nova_pinning.host import model as host_model
from nova_pinning.host import tree as host_tree
from nova_pinning.host import words
from nova_pinning.model import severity

# A load of less than this, one minute's, is what looking at a host makes.
_QUIET_LOAD = 0.5
_DMI = '/sys/class/dmi/id'
# What /proc/cpuinfo calls the model on x86, POWER, s390 and old ARM.
_MODEL_KEYS = ('model name', 'cpu', 'processor 0', 'Processor')


def gather(layout: bench_layout.Layout, root: str = '/',
           versions: Mapping[str, str] | None = None,
           emulated: bool = False) -> model.Conditions:
    """Look at the host.

    :param layout: what its CPUs are for
    :param versions: of the programs that matter, as platforms tell them;
        nova-pinning's and Python's own are added
    :param emulated: whether guests run without hardware virtualisation
    :raises nova_pinning.errors.InputError: if this is no machine
    """
    tree = host_tree.Tree(root)
    machine = discover.discover(tree)
    info = system.cpu_info(tree)
    virtualised = _virtualised(tree, info)
    load_now = load(root)
    return model.Conditions(
        cpu_model=_cpu_model(tree, info, machine),
        topology=_topology(machine),
        cpus=len(machine.cpus),
        memory_mib=layout.memory_mib,
        kernel=machine.system.kernel,
        governor=_governor(machine),
        smt=machine.system.smt,
        load=load_now,
        mitigations=machine.system.mitigations,
        layout=layout.as_mapping(),
        versions=_own_versions() | dict(versions or {}),
        virtualised=virtualised,
        emulated=emulated,
        findings=tuple(_findings(
            tree, layout, machine, virtualised, load_now)))


def load(root: str = '/') -> float:
    """The load of the last minute, 0 if the kernel does not tell."""
    text = host_tree.Tree(root).text('/proc/loadavg') or ''
    try:
        return float(text.split()[0])
    except (IndexError, ValueError):
        return 0.0


def _findings(
    tree: host_tree.Tree, layout: bench_layout.Layout,
    machine: host_model.HostDescription, virtualised: str, load_now: float,
) -> Iterator[str]:
    """What makes figures of this host doubtful, then what its check says."""
    if layout.note:
        yield layout.note
    if virtualised:
        yield (f'the host is a virtual machine itself ({virtualised}): others '
               'may run on its CPUs')
    if load_now > _QUIET_LOAD:
        yield (f'the load was {load_now:.2f} before anything was started; '
               'other programs run on the host')
    wrong = machine.system.governors.keys() - {'performance'}
    if wrong:
        yield (f'the governor of CPU frequency is {_governor(machine)}, and '
               'frequencies may change while something is measured')
    if layout.planned:
        yield from _check(tree, layout.planned)


def _check(tree: host_tree.Tree,
           planned: host_model.HostDescription) -> Iterator[str]:
    """What ``nova-pinning host check`` finds, without its notes."""
    view = rule.View(planned, check_gather.gather(tree, planned))
    for one in run.findings(view):
        if one.severity is not severity.Severity.NOTE:
            yield f'{one.code} {one.severity}: {one.subject}: {one.message}'


def _cpu_model(tree: host_tree.Tree, info: Mapping[str, str],
               machine: host_model.HostDescription) -> str:
    return next(filter(None, map(info.get, _MODEL_KEYS)),
                machine.cpu_model.model or machine.cpu_model.arch)


def _topology(machine: host_model.HostDescription) -> str:
    layout = bench_layout.of_host(machine)
    sockets = {node.socket for node in machine.nodes if node.cpus}
    if machine.dies:
        sockets |= {die.socket for die in machine.dies}
    return ', '.join((
        words.count(len(sockets), 'socket'),
        words.count(len(layout.nodes), 'NUMA node'),
        words.count(len(layout.cores), 'core'),
        words.count(len(layout.cpus), 'CPU'),
        words.count(len(layout.l3_domains), 'L3 domain')))


def _governor(machine: host_model.HostDescription) -> str:
    governors = machine.system.governors
    if len(governors) == 1:
        return next(iter(governors))
    return ', '.join(f'{name} (CPUs {cpus})'
                     for name, cpus in sorted(governors.items()))


def _virtualised(tree: host_tree.Tree, info: Mapping[str, str]) -> str:
    """What the machine runs on, '' if nothing says that it is virtual.

    The hypervisor flag of x86, what Xen tells, and DMI for what has neither.
    """
    names = list(filter(None, (
        tree.text(f'{_DMI}/{name}') for name in ('sys_vendor',
                                                 'product_name'))))
    hypervisor = tree.text('/sys/hypervisor/type')
    if hypervisor:
        return ' '.join((hypervisor, *names))
    if 'hypervisor' in info.get('flags', '').split():
        return ' '.join(names) or 'of an unknown kind'
    known = ('QEMU', 'KVM', 'VMware', 'VirtualBox', 'Xen', 'OpenStack',
             'Virtual Machine')
    said = ' '.join(names)
    return said if any(word in said for word in known) else ''


def _own_versions() -> dict[str, str]:
    # Only here, for it takes a while to load.
    from importlib import metadata
    return {'nova-pinning': metadata.version('nova-pinning'),
            'python': platform.python_version()}
