# SPDX-License-Identifier: Apache-2.0
"""Reads and writes CPUs of interrupts, queues, threads and their groups."""

from collections.abc import Callable
from collections.abc import Iterable
import functools
import os

from nova_pinning.agent import kernel_files
from nova_pinning import cpuset
from nova_pinning.host import agent_record

_Kind = agent_record.Kind
# Threads by the thousand have the same few.
_cpus = functools.lru_cache(1024)(cpuset.CpuSet)


class Actuators:
    """Reads and writes settings.

    :param get_affinity: what tells a thread's CPUs
    :param set_affinity: what sets them
    """

    def __init__(
        self, files: kernel_files.WritableTree,
        get_affinity: Callable[[int], Iterable[int]] = os.sched_getaffinity,
        set_affinity: Callable[[int, Iterable[int]], None] = (
            os.sched_setaffinity),
    ) -> None:
        self._files = files
        self._get_affinity = get_affinity
        self._set_affinity = set_affinity

    def read(
        self, settings: Iterable[agent_record.Setting],
    ) -> dict[agent_record.Setting, cpuset.CpuSet]:
        """Settings as they are; those that are not there are left out."""
        found = {setting: self._read(setting) for setting in settings}
        return {setting: cpus for setting, cpus in found.items()
                if cpus is not None}

    def write(self, setting: agent_record.Setting,
              cpus: cpuset.CpuSet) -> None:
        """Change a setting.

        :raises OSError: if that cannot be done
        """
        if setting.kind is _Kind.THREAD:
            self._set_affinity(int(setting.subject.partition('/')[2]), cpus)
        else:
            text = cpus.kernel_mask if setting.kind is _Kind.QUEUE else cpus
            self._files.write(_file(setting), f'{text}\n')

    def _read(self, setting: agent_record.Setting) -> cpuset.CpuSet | None:
        if setting.kind is _Kind.THREAD:
            return self._thread(setting.subject)
        text = self._files.text(_file(setting))
        parse = (cpuset.CpuSet.parse_mask if setting.kind is _Kind.QUEUE
                 else cpuset.CpuSet.parse)
        try:
            return None if text is None else parse(text)
        except ValueError:
            return None

    def _thread(self, subject: str) -> cpuset.CpuSet | None:
        process, _slash, tid = subject.partition('/')
        # A number may be another thread's by now.
        if not (self._files.exists(f'/proc/{process}/task/{tid}')
                or self._files.text(
                    f'/proc/{tid}/comm') == f'vhost-{process}'):
            return None
        try:
            return _cpus(frozenset(self._get_affinity(int(tid))))
        except OSError:
            return None


def _file(setting: agent_record.Setting) -> str:
    match setting.kind:
        case _Kind.INTERRUPT:
            return f'/proc/irq/{setting.subject}/smp_affinity_list'
        case _Kind.QUEUE:
            return f'/sys/class/net/{setting.subject}'
        case _:
            return setting.subject
