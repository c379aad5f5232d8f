# SPDX-License-Identifier: Apache-2.0
"""Looking at a host: all that the rules go by.

Nothing is changed. What cannot be read is told, with what it hides.
"""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
import os
import re

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import agent_record
from nova_pinning.host.check import facts
from nova_pinning.host.check import guests
from nova_pinning.host.check import interrupt_lines
from nova_pinning.host.check import processes
from nova_pinning.host import discover
from nova_pinning.host.discover import system
from nova_pinning.host import host_model
from nova_pinning.host import levers
from nova_pinning.host import machine_files
from nova_pinning.host import running_domains
from nova_pinning.host import words

# What is hidden by each path that cannot be read; the first that matches
# counts, and paths that no pattern is for hide the same as each other.
_HIDDEN = (
    (r'/proc/\d+/numa_maps', 'which NUMA nodes the memory of guests is on'),
    (r'/proc/\d+/environ', 'which CPUs irqbalance keeps interrupts off'),
    (r'(/proc/\d+/root)?/run/libvirt.*', 'what libvirt has pinned in guests'),
    (r'/proc/\d+.*', 'the threads of processes of other users'),
    (r'/proc/irq.*|/sys/kernel/irq.*', 'where interrupts go'),
    (r'.*', 'parts of what the machine is'),
)
# PROC_PID_INIT_INO of include/linux/proc_ns.h.
_ALL_PROCESSES = 'pid:[4026531836]'
_CLOCKSOURCE = ('/sys/devices/system/clocksource/clocksource0/'
                'current_clocksource')
# Where systemd-machined has guests (cgroups v2).
_MACHINES = '/sys/fs/cgroup/machine.slice'
_NODES = '/sys/devices/system/node'
_NODE = re.compile(r'node(\d+)')
_NOVA_COMPUTE = 'nova-compute'
# What the time of boot, which the kernel works out anew when the clock is
# set, may be wrong by.
_LEEWAY_SECONDS = 2
_PAGES = re.compile(r'hugepages-(\d+)kB')


def gather(
    tree: machine_files.Tree, planned: host_model.HostDescription,
    pids: Collection[int] | None = None,
    nova_conf: facts.NovaConf | None = None, nova_conf_error: str = '',
) -> facts.HostFacts:
    """Look at a host.

    :param pids: of the QEMU processes of the guests to be judged; None for
        all guests. The others are looked at as well, since guests may be in
        each other's way.
    :param nova_conf: as nova-compute loads it, None if it was not loaded
    :param nova_conf_error: why it cannot be loaded, '' if nothing is wrong
    :raises errors.InputError: if this is not a machine
    """
    host = discover.discover_host(tree, system.name(tree))
    agent, no_agent = _agent(tree)
    # Whoever looks is not part of what is looked at.
    own = tree.link_name('/proc/self')
    everything = list(filter(None, (
        processes.process(tree, pid) for pid in processes.pids(tree)
        if str(pid) != own)))
    others, running = guests.split(tree, everything, pids)
    return facts.HostFacts(
        host=host, processes=others, guests=running,
        interrupts=tuple(interrupt_lines.interrupts(tree)),
        default_interrupt_cpus=interrupt_lines.default_cpus(tree),
        irqbalance=interrupt_lines.irqbalance(tree, others),
        workqueue_cpus=interrupt_lines.workqueue_cpus(tree),
        numa_balancing=tree.text(
            '/proc/sys/kernel/numa_balancing') not in (None, '0'),
        merges_pages=tree.text('/sys/kernel/mm/ksm/run') == '1',
        levers=dict(lever_values(tree, planned)),
        clocksource=tree.text(_CLOCKSOURCE) or '',
        partition=tree.text(f'{_MACHINES}/cpuset.cpus.partition') or '',
        partition_cpus=tree.cpus(f'{_MACHINES}/cpuset.cpus.effective')
        or cpuset.CpuSet(),
        free_pages=dict(free_pages(tree)),
        nova_conf=nova_conf, nova_conf_error=nova_conf_error,
        outdated=tuple(_outdated(tree, others, nova_conf)),
        agent=agent,
        unread=(*_unread(tree), *_no_records(tree, everything, running),
                *_starting(running), *no_agent))


def _agent(
    tree: machine_files.Tree,
) -> tuple[agent_record.AgentRecord, tuple[facts.Unread, ...]]:
    """What the agent has changed, or why that is not known."""
    try:
        return agent_record.load(tree), ()
    except errors.InputError as error:
        return agent_record.AgentRecord(), (facts.Unread(
            agent_record.PATH, error.message,
            'what nova-pinning agent has changed'),)


def lever_values(
    tree: machine_files.Tree, planned: host_model.HostDescription,
) -> Iterator[tuple[str, str]]:
    """What the files of the planned levers hold; not every kernel has all."""
    if planned.plan is None:
        return
    quiet = (planned.nova.dedicated_cpus or cpuset.CpuSet()) | (
        planned.plan.poll_cpus)
    for name in planned.plan.levers:
        for path in levers.LEVERS[name].paths(quiet):
            text = tree.text(path)
            if text is not None:
                yield path, text


def _outdated(
    tree: machine_files.Tree, others: Iterable[facts.HostProcess],
    nova_conf: facts.NovaConf | None,
) -> Iterator[facts.HostProcess]:
    """Each nova-compute that cannot have read its files as they are now."""
    changed = [os.stat(file).st_mtime
               for file in (nova_conf.files if nova_conf else ())
               if os.path.exists(file)]
    for process in others:
        if process.name == _NOVA_COMPUTE and not process.of_kernel:
            started = processes.started(tree, process.pid)
            if started and any(
                    time > started + _LEEWAY_SECONDS for time in changed):
                yield process


def free_pages(
    tree: machine_files.Tree,
) -> Iterator[tuple[tuple[int, int], int]]:
    """Free huge pages by node and size in KiB."""
    directories = {int(match[1]): f'{_NODES}/{match[0]}/hugepages'
                   for match in map(_NODE.fullmatch, tree.names(_NODES))
                   if match}
    # A kernel without NUMA has no nodes.
    for node, directory in (
            directories or {0: '/sys/kernel/mm/hugepages'}).items():
        for size in filter(None, map(
                _PAGES.fullmatch, tree.names(directory))):
            free = tree.number(f'{directory}/{size[0]}/free_hugepages')
            if free is not None:
                yield (node, int(size[1])), free


def _no_records(
    tree: machine_files.Tree, everything: Iterable[facts.HostProcess],
    running: Collection[facts.RunningGuest],
) -> Iterator[facts.Unread]:
    if running and guests.visible_path(
            tree, running_domains.DIRECTORY, everything) is None:
        yield facts.Unread(running_domains.DIRECTORY, 'it is not there',
                           'what libvirt has pinned in guests')


def _starting(
    running: Iterable[facts.RunningGuest],
) -> Iterator[facts.Unread]:
    names = [guest.name for guest in running if guest.is_starting]
    if names:
        yield facts.Unread(words.listed(names, 1), 'libvirt is starting it',
                           'where threads of guests are pinned')


def _unread(tree: machine_files.Tree) -> Iterator[facts.Unread]:
    """What cannot be read, of each kind one with how many there are."""
    namespace = tree.link_name('/proc/self/ns/pid')
    if namespace.startswith('pid:') and namespace != _ALL_PROCESSES:
        yield facts.Unread(
            '/proc', 'it is looked at from inside a container (PID namespace)',
            'processes outside of it, and what they run where')
    if not tree.exists('/proc/1'):
        yield facts.Unread(
            '/proc', 'they are hidden (hidepid) or not there',
            'whether processes of other users are where they should be')
    kinds: dict[tuple[str, str], list[str]] = {}
    for path, reason in tree.unread.items():
        hides = next(hides for pattern, hides in _HIDDEN
                     if re.fullmatch(pattern, path))
        kinds.setdefault((hides, reason), []).append(path)
    for (hides, reason), paths in kinds.items():
        yield facts.Unread(words.listed(paths, 1), reason, hides)
