# SPDX-License-Identifier: Apache-2.0
"""Running guests, and what libvirt was told of them."""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import itertools
import os
import re

from nova_pinning.host.check import facts
from nova_pinning.host.check import processes
from nova_pinning.host import machine_files
from nova_pinning.host import qemu_process
from nova_pinning.host import running_domains

_DAEMONS = ('libvirtd', 'virtqemud')

_QEMU = re.compile(r'qemu-system-\w+|qemu-kvm|kvm')
_VHOST = re.compile(r'vhost-(\d+)')
# Memory of QEMU's own that nobody asks to be anywhere.
_OWN_MEMORY = re.compile(r' (?:heap|stack)\b')
_LOCKED = re.compile(r'^VmLck:\s*(\d+) kB', re.MULTILINE)


def visible_path(tree: machine_files.Tree, path: str,
                 everything: Iterable[facts.HostProcess]) -> str | None:
    """Where a directory of libvirt's is to be seen, None if nowhere.

    In a container libvirt may have one that the host has not.
    """
    roots = [''] + [f'/proc/{process.pid}/root' for process in everything
                    if tree.is_live and process.name in _DAEMONS]
    return next((f'{root}{path}' for root in roots
                 if tree.exists(f'{root}{path}')), None)


def split(
    tree: machine_files.Tree, everything: Iterable[facts.HostProcess],
    chosen: Collection[int] | None = None,
) -> tuple[tuple[facts.HostProcess, ...], tuple[facts.RunningGuest, ...]]:
    """Tell guests from other processes.

    :param chosen: the processes of the guests that findings are wanted
        about; None for all
    :returns: the others, and the guests
    """
    everything = tuple(everything)
    records = visible_path(tree, running_domains.DIRECTORY, everything)
    states = {state.pid: state for state in _states(tree, records)}
    # If a record cannot be read, nobody is called a stranger.
    is_complete = records is not None and not any(
        path.startswith(records) for path in tree.unread)
    others, qemus = [], []
    vhost: dict[int, list[facts.HostProcess]] = {}
    for process in everything:
        worker = _VHOST.fullmatch(process.name)
        if process.of_kernel and worker:
            vhost.setdefault(int(worker[1]), []).append(process)
        elif _is_guest(process.arguments) or _is_of(
                states.get(process.pid), process):
            qemus.append(process)
        else:
            others.append(process)
    guests = tuple(
        _guest(tree, qemu, states.get(qemu.pid),
               [thread for worker in vhost.pop(qemu.pid, ())
                for thread in worker.threads], is_complete,
               chosen is None or qemu.pid in chosen)
        for qemu in qemus)
    # Those that work for something else are processes like others.
    others += itertools.chain.from_iterable(vhost.values())
    return tuple(sorted(others, key=lambda process: process.pid)), guests


def _is_guest(arguments: Sequence[str]) -> bool:
    """Whether a command line is that of QEMU with a guest.

    libvirt also starts it without a machine, to see what it can do.
    """
    return bool(arguments) and bool(
        _QEMU.fullmatch(os.path.basename(arguments[0]))) and (
            not _option(arguments, 'machine').startswith('none'))


def _is_of(state: running_domains.RunningDomain | None,
           process: facts.HostProcess) -> bool:
    """Whether a domain's record is of this process, not of an earlier one."""
    return state is not None and bool(state.domain.uuid) and (
        state.domain.uuid in process.arguments)


def _option(arguments: Sequence[str], name: str) -> str:
    """The value of the last such option of QEMU, '' if there is none."""
    value = ''
    for option, following in zip(arguments, arguments[1:]):
        if option in (f'-{name}', f'--{name}'):
            value = following
    return value


def _name(arguments: Sequence[str]) -> str:
    """The guest's name: -name NAME, or -name guest=NAME,debug-threads=on."""
    for part in _option(arguments, 'name').split(','):
        key, equals, value = part.partition('=')
        if not equals:
            return key
        if key == 'guest':
            return value
    return ''


def _guest(
    tree: machine_files.Tree, process: facts.HostProcess,
    state: running_domains.RunningDomain | None,
    vhost: Sequence[qemu_process.QemuThread], is_complete: bool,
    is_asked_for: bool,
) -> facts.RunningGuest:
    known = state.domain if state else None
    is_starting = state is not None and state.is_starting
    status = tree.text(f'/proc/{process.pid}/status') or ''
    locked = _LOCKED.search(status)
    # Anew, for libvirt may have pinned them before the record was read.
    threads = processes.threads(tree, process.pid)
    qemu = qemu_process.qemu_process_of(
        process.pid, (*threads, *vhost),
        int(locked[1]) if locked else 0, tuple(_regions(tree, process.pid)),
        state.vcpu_tids if state else None)
    name = (known.name if known else '') or _name(process.arguments)
    return facts.RunningGuest(
        qemu, name or f'QEMU {process.pid}',
        known.uuid if known else _option(process.arguments, 'uuid'), known,
        is_complete and known is None, is_asked_for and not is_starting,
        is_starting, process.unit, process.container)


def _regions(
    tree: machine_files.Tree, pid: int,
) -> Iterator[qemu_process.MemoryRegion]:
    maps = tree.text(f'/proc/{pid}/numa_maps') or ''
    for line in maps.splitlines():
        # Most lines are of memory that was never touched.
        if '=' in line and qemu_process.is_guest_memory(line) and (
                not _OWN_MEMORY.search(line)):
            region = qemu_process.parse_region(line)
            if region.pages:
                yield region


def _states(
    tree: machine_files.Tree, directory: str | None,
) -> Iterator[running_domains.RunningDomain]:
    for name in tree.names(directory) if directory else ():
        if name.endswith('.xml'):
            state = running_domains.parse(
                tree.text(f'{directory}/{name}') or '')
            if state:
                yield state
