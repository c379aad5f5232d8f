# SPDX-License-Identifier: Apache-2.0
"""Whole rounds of the agent on hosts where anything may happen between them.

Guests that are pinned, float, or have devices arrive, leave, migrate away and
back, are rebooted and pinned elsewhere by nova; somebody else writes to what
the agent has written; nobody knows which guests run; the agent is ended
meanwhile; writes fail, or are the last thing that the agent does; it starts
anew with its record as the file has it.
Whatever the agent writes is looked at when it does, and in the end all has to
be as others have left it.
"""

from collections.abc import Iterable
import dataclasses
import errno
import os
import pathlib
import random
import tempfile

from nova_pinning.agent import actuators
from nova_pinning.agent import agent_model
from nova_pinning.agent import decision
from nova_pinning.agent import home_domains
from nova_pinning.agent import host_agent
from nova_pinning.agent import running_guests
from nova_pinning import cpuset
from nova_pinning.host import agent_record
from nova_pinning.host import machine_files
from nova_pinning.tests.oracle import fake_resctrl

_DOMAINS, _SIZE = 4, 8
_EVERYTHING = cpuset.CpuSet(range(_DOMAINS * _SIZE))
_NIC, _DEVICE = '0000:01:00.0', '0000:81:00.{}'
_MOVES = 3
_QUEUE = 'eth0/queues/tx-{}/xps_cpus'
_GROUP = '/sys/fs/cgroup/machine/{}/libvirt/emulator/cpuset.cpus'


class Violation(AssertionError):
    """Something that must never be."""


def _part(first: int, end: int) -> cpuset.CpuSet:
    """So many CPUs of each domain."""
    return cpuset.CpuSet(_SIZE * domain + number for domain in range(_DOMAINS)
                         for number in range(first, end))


HOST, SHARED, DEDICATED = _part(0, 1), _part(1, 4), _part(4, _SIZE)


class _Kernel(fake_resctrl.FakeResctrl):
    """With interrupts and queues, threads and the time that they ran."""

    def __init__(self) -> None:
        super().__init__({domain: range(_SIZE * domain, _SIZE * domain + _SIZE)
                          for domain in range(_DOMAINS)}, ways=12)
        self.places: dict[str, cpuset.CpuSet] = {
            **{f'/proc/irq/{number}/smp_affinity_list': _EVERYTHING
               for number in (24, 25, 26, 30, 31)},
            **{f'/sys/class/net/{_QUEUE.format(queue)}': cpuset.CpuSet()
               for queue in range(3)}}
        self.threads: dict[int, cpuset.CpuSet] = {}
        self.processes: dict[int, set[int]] = {}
        self.ran: dict[int, int] = {}
        #: Emulator threads and vhost by the file of their group's CPUs.
        self.members: dict[str, tuple[int, ...]] = {}

    def text(self, path: str) -> str | None:
        if path in self.places:
            cpus = self.places[path]
            return (cpus.kernel_mask if path.startswith('/sys/class')
                    else str(cpus))
        if path.endswith('/schedstat'):
            return f'{self.ran.get(int(path.split("/")[4]), 0)} 0 0'
        return super().text(path)

    def names(self, path: str) -> list[str]:
        for number in range(2):
            device = f'/sys/bus/pci/devices/{_DEVICE.format(number)}'
            if path == f'{device}/msi_irqs':
                return [str(30 + number)]
        return super().names(path)

    def exists(self, path: str) -> bool:
        parts = path.split('/')
        if len(parts) == 5 and parts[3] == 'task':
            return int(parts[4]) in self.processes.get(int(parts[2]), ())
        return super().exists(path)

    def write(self, path: str, text: str) -> None:
        if path not in self.places:
            super().write(path, text)
            return
        self.fault(f'write {path}')
        parse = (cpuset.CpuSet.parse_mask if path.startswith('/sys/class')
                 else cpuset.CpuSet.parse)
        self.places[path] = parse(text.strip())
        for tid in self.members.get(path, ()):
            self.threads[tid] = self.places[path]

    def affinity(self, tid: int) -> cpuset.CpuSet:
        if tid not in self.threads:
            raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
        return self.threads[tid]

    def set_affinity(self, tid: int, cpus: Iterable[int]) -> None:
        self.affinity(tid)
        for path, tids in self.members.items():
            if tid in tids and self.places[path].isdisjoint(cpus):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self.fault(f'affinity {tid}')
        self.threads[tid] = cpuset.CpuSet(cpus)


class _Libvirt:
    """Guests that run."""

    def __init__(self) -> None:
        self.running: dict[str, agent_model.AgentGuest] = {}
        self.is_gone = False

    def guests(self) -> list[agent_model.AgentGuest]:
        if self.is_gone:
            raise running_guests.GuestsUnknownError('no route')
        return list(self.running.values())


class RoundCase:
    """One host, and what happens on it.

    :ivar events: how many there were
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.events = 0
        self._now, self._number = 1000.0, 100
        self._kernel = _Kernel()
        self._libvirt = _Libvirt()
        #: What others want, by what it is of.
        self._theirs = dict(self._kernel.places)
        self._stopped: dict[str, agent_model.AgentGuest] = {}
        self._directory = tempfile.TemporaryDirectory()
        self._path = str(pathlib.Path(self._directory.name) / 'agent.json')
        self._start()

    def run(self, events: int) -> None:
        """Let things happen, and look after each of them."""
        try:
            for _event in range(events):
                self.events += 1
                self._now += self._random.choice((1, 30, 30, 300, 3601))
                self._happen()
                self._round()
            self._kernel.fault = lambda what: None
            self._agent.release()
            self._check_end()
        finally:
            self._directory.cleanup()

    def _start(self) -> None:
        kernel = self._kernel
        nodes = {node: cpuset.CpuSet(range(16 * node, 16 * node + 16))
                 for node in range(2)}
        host = agent_model.AgentHost(
            {domain: cpuset.CpuSet(range(
                _SIZE * domain, _SIZE * domain + _SIZE))
             for domain in range(_DOMAINS)}, nodes, HOST, SHARED, DEDICATED,
            (agent_model.ServingNic(_NIC, ('eth0',), (24, 25, 26), {
                _QUEUE.format(queue): queue for queue in range(3)}),))
        self._agent = host_agent.HostAgent(
            host, decision.Scheme(), kernel, self._libvirt,
            agent_record.load(machine_files.Tree(), self._path),
            self._save, home_domains.HomeLimits(moves_per_hour=_MOVES),
            clock=lambda: self._now,
            settings=actuators.Actuators(kernel, kernel.affinity,
                                         self._set_affinity))

    def _save(self, record: agent_record.AgentRecord) -> None:
        self._kernel.fault('save')
        agent_record.save(record, self._path)

    def _set_affinity(self, tid: int, cpus: Iterable[int]) -> None:
        cpus = cpuset.CpuSet(cpus)
        for guest in self._libvirt.running.values():
            if tid in guest.vcpu_tasks and guest.is_pinned:
                raise Violation(f'a pinned vCPU was moved to {cpus}')
        self._kernel.set_affinity(tid, cpus)

    def _happen(self) -> None:
        dice = self._random
        self._kernel.fault = lambda what: None
        self._libvirt.is_gone = dice.random() < 0.03
        for guest in self._libvirt.running.values():
            for tid in guest.vcpu_tasks:
                self._kernel.ran[tid] = self._kernel.ran.get(tid, 0) + int(
                    dice.random() * 30e9)
        what = dice.random()
        running = list(self._libvirt.running)
        if what < 0.25 or not running:
            self._arrive()
        elif what < 0.45:
            self._leave(dice.choice(running))
        elif what < 0.55:
            # A hard reboot: another QEMU, with nova's pins.
            uuid = dice.choice(running)
            self._leave(uuid)
            self._boot(self._stopped.pop(uuid))
        elif what < 0.65 and self._stopped:
            self._boot(self._stopped.pop(dice.choice(list(self._stopped))))
        elif what < 0.75:
            self._others_write()
        elif what < 0.82:
            self._start()
        elif what < 0.85:
            self._agent.release()
            self._check_end()
            self._start()
        elif what < 0.95:
            self._break_something()

    def _arrive(self) -> None:
        dice = self._random
        self._number += 1
        count = dice.choice((1, 2, 4))
        uuid = f'guest-{self._number}'
        if dice.random() < 0.5:
            vcpus = {number: cpuset.CpuSet([cpu]) for number, cpu
                     in enumerate(dice.sample(sorted(DEDICATED), count))}
        else:
            vcpus = dict.fromkeys(range(count), SHARED)
        self._boot(agent_model.AgentGuest(
            uuid, uuid, 0, vcpus, cpuset.union(vcpus.values()),
            interfaces=dice.randrange(3), wishes=agent_model.Wishes(
                dice.choice((0, 0, 2, 4)), dice.choice((0, 0, 50))),
            hostdevs=frozenset([_DEVICE.format(dice.randrange(2))])
            if dice.random() < 0.3 else frozenset()))

    def _boot(self, guest: agent_model.AgentGuest) -> None:
        """As nova has libvirt start a guest."""
        self._number += 10
        pid = self._number
        count = len(guest.vcpus)
        vcpu_tasks = range(pid + 1, pid + 1 + count)
        own, group = cpuset.union(guest.vcpus.values()), _GROUP.format(pid)
        threads = {pid: own, pid + 8: own, **{
            tid: guest.vcpus[number]
            for number, tid in enumerate(vcpu_tasks)}}
        self._kernel.threads |= threads
        self._kernel.processes[pid] = set(threads)
        self._kernel.places[group] = self._theirs[group] = own
        self._kernel.members[group] = pid, pid + 8
        self._kernel.live |= set(threads)
        for tid, cpus in threads.items():
            self._theirs[f'thread {tid}'] = cpus
        self._libvirt.running[guest.uuid] = dataclasses.replace(
            guest, pid=pid, emulator_cpus=own, tasks=frozenset(threads),
            vcpu_tasks=frozenset(vcpu_tasks), vhost=frozenset([pid + 8]),
            emulator_tasks=frozenset([pid]), emulator_group=group)

    def _leave(self, uuid: str) -> None:
        guest = self._libvirt.running.pop(uuid)
        for tid in guest.tasks:
            del self._kernel.threads[tid]
            self._kernel.live.discard(tid)
            del self._theirs[f'thread {tid}']
        del self._kernel.processes[guest.pid]
        for known in (self._kernel.places, self._kernel.members, self._theirs):
            del known[guest.emulator_group]
        self._stopped[uuid] = guest

    def _others_write(self) -> None:
        """What the agent would never write, so that both are told apart."""
        dice = self._random
        cpus = cpuset.CpuSet(dice.sample(sorted(DEDICATED), 2))
        path = dice.choice(list(self._kernel.places))
        # Nova's live resize also moves the threads of a group.
        self._kernel.write(path, f'{cpus.kernel_mask}\n' if path.startswith(
            '/sys/class') else f'{cpus}\n')
        for what in (path, *(f'thread {tid}' for tid
                             in self._kernel.members.get(path, ()))):
            self._theirs[what] = cpus

    def _break_something(self) -> None:
        dice = self._random
        left, code = dice.randrange(8), dice.choice((errno.EIO, 0))

        def fault(what: str) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                # That the record cannot be written is the end as well.
                if not code or what == 'save':
                    raise fake_resctrl.Crash(what)
                raise OSError(code, os.strerror(code))

        self._kernel.fault = fault
        self._arrive()

    def _round(self) -> None:
        try:
            self._agent.reconcile()
        except running_guests.GuestsUnknownError:
            return
        except fake_resctrl.Crash:
            self._kernel.fault = lambda what: None
            self._start()
            self._agent.reconcile()
        self._kernel.fault = lambda what: None
        # A guest may move, each time another one.
        for _time in range(_MOVES + 2):
            again = self._agent.reconcile()
            if not again.done:
                break
        else:
            raise Violation(f'not settled: {again.done}')
        self._check_now()

    # What must hold.

    def _check_now(self) -> None:
        """What is not as others want it is on CPUs that the plan allows."""
        ours = HOST | SHARED
        for path, cpus in self._kernel.places.items():
            if cpus != self._theirs[path] and not cpus.issubset(ours):
                raise Violation(f'{path} is on {cpus}')
        for tid, cpus in self._kernel.threads.items():
            if cpus != self._theirs[f'thread {tid}'] and not cpus.issubset(
                    ours):
                raise Violation(f'thread {tid} is on {cpus}')
        lately = [time for time in self._agent.record.moves
                  if time > self._now - 3600]
        if len(lately) > _MOVES:
            raise Violation(f'{len(lately)} moves within an hour')

    def _check_end(self) -> None:
        """All is as others have left it."""
        for what, cpus in {**self._kernel.places, **{
                f'thread {tid}': cpus
                for tid, cpus in self._kernel.threads.items()}}.items():
            if self._theirs[what] != cpus:
                raise Violation(f'{what} was left on {cpus}, and was on '
                                f'{self._theirs[what]}')
        if self._kernel.groups or self._kernel.default.monitors:
            raise Violation(f'groups were left: {[*self._kernel.groups]}')
        if not self._agent.record.is_empty:
            raise Violation('the record is not empty')
