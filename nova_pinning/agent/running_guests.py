# SPDX-License-Identifier: Apache-2.0
"""Guests that run, from libvirt's files and the kernel.

libvirt itself is neither asked nor told anything, so it may be started anew,
or hang, and what nova has told it stays.
"""

from collections.abc import Mapping
import functools
import logging

from nova_pinning.agent import agent_model
from nova_pinning.agent import kernel_files
from nova_pinning.host import qemu_process
from nova_pinning.host import running_domains

LOG = logging.getLogger(__name__)
_IOTHREAD, _VHOST = 'IO iothread', 'vhost-'
_MOST_GUESTS = 2048
_WAYS, _BANDWIDTH = 'pinning:l3_ways', 'pinning:memory_bandwidth'
_MOST = 1_000_000
# Where libvirt has emulator threads: /machine.slice/…/libvirt/emulator.
_EMULATOR = '/emulator'
# Linux 6.4 made threads of vhost those of the process that they work for.
_VHOST_INSIDE = (6, 4)


class GuestsUnknownError(Exception):
    """Nobody can tell which guests run; says why."""


class RunningGuests:
    """All guests that run.

    :param directory: where libvirt keeps what it knows of them
    :param flavors: extra specs by flavor, for guests of nova before 2025.2
    """

    def __init__(
        self, files: kernel_files.WritableTree,
        directory: str = running_domains.DIRECTORY,
        flavors: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._files, self._directory = files, directory
        self._flavors = flavors or {}
        # Few of them change from one look to the next.
        self._parse = functools.lru_cache(_MOST_GUESTS)(running_domains.parse)
        self._seen: dict[str, running_domains.RunningDomain] = {}

    def changed(self) -> int:
        """When any of them came, went or changed last, in nanoseconds."""
        return self._files.changed(self._directory)

    def guests(self) -> list[agent_model.AgentGuest]:
        """Those that run now, in the order in which they were started.

        One that libvirt is still starting is not among them: the agent could
        take a thread that is to be a vCPU for one of the emulator's, and move
        it after libvirt has pinned it.

        :raises GuestsUnknownError: if libvirt's files are not to be seen
        """
        files = self._files
        files.unread.clear()
        names = files.names(self._directory)
        texts = {name: files.text(f'{self._directory}/{name}')
                 for name in names if name.endswith('.xml')}
        unread = next(iter(files.unread.items()), None)
        if unread or not files.exists(self._directory):
            path, why = unread or (self._directory, 'there is no such place')
            raise GuestsUnknownError(f'{path}: {why}')
        known = {}
        for name, text in texts.items():
            # One that makes no sense now is as it was seen last.
            domain = self._parse(text) if text else None
            if domain := domain or self._seen.get(name):
                known[name] = domain
            elif text:
                LOG.warning('%s/%s makes no sense', self._directory, name)
        self._seen = known
        vhost = _vhost(files)
        return [self._guest(running, vhost) for running in sorted(
            known.values(), key=lambda running: running.number)
            if not running.is_starting
            and _is_of(files, running.pid, running.domain.uuid)]

    def _guest(self, running: running_domains.RunningDomain,
               vhost: Mapping[int, list[int]]) -> agent_model.AgentGuest:
        domain, pid = running.domain, running.pid
        names = {
            **{int(tid): self._files.text(f'/proc/{pid}/task/{tid}/comm') or ''
               for tid in self._files.names(f'/proc/{pid}/task')},
            **dict.fromkeys(vhost.get(pid, ()), _VHOST)}
        vcpu_tasks = frozenset(filter(
            lambda tid: tid in running.vcpu_tids
            or qemu_process.is_vcpu(names[tid]), names))
        vhost_tasks = frozenset(filter(
            lambda tid: names[tid].startswith(_VHOST), names))
        taps = tuple(interface.target for interface in domain.interfaces
                     if interface.target)
        specs = (self._flavors.get(domain.flavor, {})
                 if domain.extra_specs is None else domain.extra_specs)
        emulator_cpus = domain.emulator_pin
        root, group = kernel_files.control_group(self._files, pid, 'cpuset')
        return agent_model.AgentGuest(
            domain.uuid, domain.name, pid,
            {vcpu: domain.vcpu_affinity(vcpu)
             for vcpu in range(domain.vcpus)},
            domain.floats_over if emulator_cpus is None else emulator_cpus,
            f'{root}{group}/cpuset.cpus' if group.endswith(_EMULATOR) else '',
            frozenset(names), vcpu_tasks, vhost_tasks,
            frozenset(tid for tid, name in names.items()
                      if tid not in vcpu_tasks | vhost_tasks
                      and not name.startswith(_IOTHREAD)),
            domain.hostdevs, len(taps), taps,
            wishes(specs))


def wishes(specs: Mapping[str, str]) -> agent_model.Wishes:
    """The wishes in extra specs; what cannot be read is told, and ignored."""
    values, problems = {}, []
    for key in (_WAYS, _BANDWIDTH):
        text = specs.get(key, '0').strip()
        is_number = text.isdecimal() and int(text) <= _MOST
        values[key] = int(text) if is_number else 0
        if not is_number:
            problems.append(f'{key}={text!r} is no number from 1 on')
    return agent_model.Wishes(values[_WAYS], values[_BANDWIDTH],
                              tuple(problems))


def _is_of(files: kernel_files.WritableTree, pid: int, uuid: str) -> bool:
    """Whether a process is the QEMU of a guest: its command line has the UUID.

    A number may be another process's by now.
    """
    return uuid in (files.text(f'/proc/{pid}/cmdline') or '').split('\0')


def _vhost(files: kernel_files.WritableTree) -> dict[int, list[int]]:
    """Threads of vhost that are processes, by the one they work for."""
    release = files.text('/proc/sys/kernel/osrelease') or ''
    numbers = release.split('-')[0].split('.')[:2]
    found: dict[int, list[int]] = {}
    if all(map(str.isdecimal, numbers)) and tuple(
            map(int, numbers)) < _VHOST_INSIDE:
        for process in filter(str.isdecimal, files.names('/proc')):
            name = files.text(f'/proc/{process}/comm') or ''
            pid = name.removeprefix(_VHOST)
            if pid != name and pid.isdecimal():
                found.setdefault(int(pid), []).append(int(process))
    return found
