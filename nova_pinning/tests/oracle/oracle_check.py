# SPDX-License-Identifier: Apache-2.0
"""What is wrong with an answer, worked out from the case's own figures.

Nothing here calls nova or the engine: this is the list of promises that an
answer has to keep, written down a second time. It holds the engine, the
oracle and nova to the same promises, and puts a name to those that nova
breaks.
"""

from __future__ import annotations

import collections
import typing as ty

from nova_pinning import compat
from nova_pinning.tests.oracle import oracle
from nova_pinning.tests.oracle import oracle_case

_SMALL, _LARGE, _ANY = -1, -2, -3


class Fault(compat.StrEnum):
    """A promise that an answer breaks."""

    CELLS = 'a guest cell has no host cell to itself'
    PIN_MISSING = 'a dedicated vCPU has no host CPU'
    PIN_STRAY = 'a vCPU is pinned that is not dedicated'
    CPU_FOREIGN = 'a vCPU is pinned to a CPU of another cell'
    CPU_TAKEN = 'a vCPU is pinned to a CPU that another guest has'
    CPU_TWICE = 'a host CPU is given out twice'
    EMULATOR = 'the CPU for emulator threads is missing or not free'
    EMULATOR_CORE = 'the CPU for emulator threads is on a core in use'
    THREADS = 'the thread policy is not kept'
    PAGES = 'the memory pages are not there'
    MEMORY = 'the memory is not there'
    SHARED_CPUS = 'the floating vCPUs are too many for the cell'
    SHARED_RATIO = 'the CPU or RAM allocation ratio is exceeded'


def faults(case: oracle_case.Case, answer: oracle.Answer) -> set[Fault]:
    """Return the promises that this answer breaks; none if it is right.

    PCI devices and networks are not looked at: an answer names cells only,
    and whether those are connected is for nova's own checks to say.
    """
    host = {cell['id']: cell for cell in case.data['host']}
    guest = case.data['guest']
    names = [cell.host_cell for cell in answer]
    if (len(answer) != len(guest['cells']) or
            len(set(names)) != len(names) or not set(names) <= set(host)):
        return {Fault.CELLS}
    faults: set[Fault] = set()
    given: collections.Counter[int] = collections.Counter()
    for number, cell in enumerate(answer):
        asked = guest['cells'][number]
        host_cell = host[cell.host_cell]
        faults |= _memory(case, asked, host_cell, cell)
        if guest['policy'] in ('dedicated', 'mixed'):
            faults |= _pins(guest, asked, host_cell, cell)
            isolated = number == 0 and guest['emulator'] == 'isolate'
            faults |= _emulator(guest, host_cell, cell, int(isolated))
            given.update(dict(cell.pins).values())
            given.update(cell.reserved)
        elif cell.pins:
            faults.add(Fault.PIN_STRAY)
        if guest['policy'] != 'dedicated':
            faults |= _shared(case, asked, host_cell)
    if any(count > 1 for count in given.values()):
        faults.add(Fault.CPU_TWICE)
    return faults


def _free(host_cell: dict[str, ty.Any]) -> set[int]:
    return set(host_cell['dedicated']) - set(host_cell['pinned'])


def _pins(
    guest: dict[str, ty.Any], asked: dict[str, ty.Any],
    host_cell: dict[str, ty.Any], cell: oracle.CellAnswer,
) -> set[Fault]:
    faults = set()
    pins = dict(cell.pins)
    if set(asked['dedicated']) - set(pins):
        faults.add(Fault.PIN_MISSING)
    if set(pins) - set(asked['dedicated']):
        faults.add(Fault.PIN_STRAY)
    if set(pins.values()) - set(host_cell['dedicated']):
        faults.add(Fault.CPU_FOREIGN)
    elif set(pins.values()) - _free(host_cell):
        faults.add(Fault.CPU_TAKEN)
    elif not _keeps_thread_policy(guest['threads'], host_cell, pins):
        faults.add(Fault.THREADS)
    return faults


def _keeps_thread_policy(
    policy: str | None, host_cell: dict[str, ty.Any], pins: dict[int, int],
) -> bool:
    cores = [set(core) for core in host_cell['siblings']]
    threads = max(map(len, cores), default=1)
    used = [core & set(pins.values()) for core in cores]
    if policy == 'require':
        # vCPUs share cores, only the last may be left over on its own.
        return threads > 1 and sum(len(cpus) == 1 for cpus in used) <= 1
    if policy == 'isolate':
        legacy = set(host_cell['dedicated']) == set(host_cell['shared'])
        if threads > 1 and not legacy:
            return False
        return all(
            len(cpus) <= 1 and (not cpus or core <= _free(host_cell))
            for core, cpus in zip(cores, used))
    return True


def _emulator(
    guest: dict[str, ty.Any], host_cell: dict[str, ty.Any],
    cell: oracle.CellAnswer, count: int,
) -> set[Fault]:
    if len(cell.reserved) != count or set(cell.reserved) - _free(host_cell):
        return {Fault.EMULATOR}
    if guest['threads'] == 'isolate':
        # Such a guest takes whole cores, also for its emulator threads.
        for core in map(set, host_cell['siblings']):
            if core & set(cell.reserved) and core - _free(host_cell):
                return {Fault.EMULATOR_CORE}
    return set()


def _memory(
    case: oracle_case.Case, asked: dict[str, ty.Any],
    host_cell: dict[str, ty.Any], cell: oracle.CellAnswer,
) -> set[Fault]:
    guest = case.data['guest']
    wanted_kib = asked['memory'] * 1024
    free_kib: dict[int, int] = {}
    total_kib: dict[int, int] = {}
    for size, total, used, reserved in host_cell['pages']:
        # Of two pools of one size, nova looks at the first.
        free_kib.setdefault(size, (total - used - reserved) * size)
        total_kib.setdefault(size, total * size)
    sizes = sorted(pool[0] for pool in host_cell['pages'])
    if guest['pagesize']:
        size = cell.page_size_kib
        if (size not in free_kib or wanted_kib > free_kib[size] or
                wanted_kib % size):
            return {Fault.PAGES}
        asked_for = {
            _SMALL: size == min(free_kib),
            _LARGE: size in sizes[1:],
            _ANY: True,
        }.get(guest['pagesize'], size == guest['pagesize'])
        return set() if asked_for else {Fault.PAGES}
    pinned = guest['policy'] in ('dedicated', 'mixed')
    if free_kib:
        size = min(free_kib)
        there_kib = free_kib[size] if pinned else total_kib[size]
        if wanted_kib > there_kib or wanted_kib % size:
            return {Fault.MEMORY}
        return set()
    there = host_cell['memory']
    if pinned:
        there -= host_cell['memory_used']
    return {Fault.MEMORY} if asked['memory'] > there else set()


def _shared(
    case: oracle_case.Case, asked: dict[str, ty.Any],
    host_cell: dict[str, ty.Any],
) -> set[Fault]:
    faults = set()
    cpus = len(host_cell['shared'])
    if len(asked['shared']) > cpus:
        faults.add(Fault.SHARED_CPUS)
    limits = case.data['limits']
    if limits:
        vcpus = host_cell['cpu_usage'] + len(asked['shared'])
        memory = host_cell['memory_used'] + asked['memory']
        if (vcpus > cpus * limits['cpu'] or
                memory > host_cell['memory'] * limits['ram']):
            faults.add(Fault.SHARED_RATIO)
    return faults
