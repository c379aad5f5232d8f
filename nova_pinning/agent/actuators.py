# SPDX-License-Identifier: Apache-2.0
"""Reads and writes CPUs of interrupts, queues and threads."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import os
from typing import Protocol

from nova_pinning.agent import agent_model
from nova_pinning.agent import emulator_pins
from nova_pinning.agent import kernel_files
from nova_pinning import cpuset
from nova_pinning.host import agent_record

_Kind = agent_record.Kind


class Pinner(Protocol):
    """What pins emulator threads: libvirt."""

    def pin_emulator(self, uuid: str, cpus: cpuset.CpuSet) -> None:
        """Raises OSError if that cannot be done.

        TimeoutError if it is not known whether it has been or will be.
        """


class Actuators:
    """Reads and writes settings.

    :param get_affinity: what tells a thread's CPUs
    :param set_affinity: what sets them
    """

    def __init__(
        self, files: kernel_files.KernelFiles, pinner: Pinner,
        get_affinity: Callable[[int], Iterable[int]] = os.sched_getaffinity,
        set_affinity: Callable[[int, Iterable[int]], None] = (
            os.sched_setaffinity),
    ) -> None:
        self._files, self._pinner = files, pinner
        self._get_affinity = get_affinity
        self._set_affinity = set_affinity

    def without_libvirt(
        self, settings: Iterable[agent_record.Setting],
    ) -> tuple['Actuators', dict[str, agent_model.AgentGuest]]:
        """The same, with the kernel in libvirt's place.

        :param settings: those of the record
        :returns: guests by UUID as well, as far as the kernel has them
        """
        pins = emulator_pins.EmulatorPins(
            self._files, settings, self._get_affinity, self._set_affinity)
        return Actuators(self._files, pins, self._get_affinity,
                         self._set_affinity), pins.guests

    def read(
        self, settings: Iterable[agent_record.Setting],
        guests: Mapping[str, agent_model.AgentGuest],
    ) -> dict[agent_record.Setting, cpuset.CpuSet]:
        """Settings as they are; those that are not there are left out.

        :param guests: by UUID, as libvirt tells of them now
        """
        found = {setting: self._read(setting, guests) for setting in settings}
        return {setting: cpus for setting, cpus in found.items()
                if cpus is not None}

    def write(self, setting: agent_record.Setting,
              cpus: cpuset.CpuSet) -> None:
        """Change a setting.

        :raises TimeoutError: if libvirt does not answer; it may yet be done
        :raises OSError: if that cannot be done
        """
        subject = setting.subject
        match setting.kind:
            case _Kind.INTERRUPT:
                self._files.write(_affinity(subject), f'{cpus}\n')
            case _Kind.QUEUE:
                self._files.write(_queue(subject), f'{cpus.kernel_mask}\n')
            case _Kind.THREAD:
                self._set_affinity(int(subject.partition('/')[2]), cpus)
            case _Kind.EMULATOR:
                self._pinner.pin_emulator(setting.guest, cpus)

    def _read(
        self, setting: agent_record.Setting,
        guests: Mapping[str, agent_model.AgentGuest],
    ) -> cpuset.CpuSet | None:
        subject = setting.subject
        if setting.kind is _Kind.INTERRUPT:
            return self._parsed(_affinity(subject), cpuset.CpuSet.parse)
        if setting.kind is _Kind.QUEUE:
            return self._parsed(_queue(subject), cpuset.CpuSet.parse_mask)
        if setting.kind is _Kind.THREAD:
            return self._thread(subject)
        guest = guests.get(setting.guest)
        if guest is None or guest.key != subject:
            return None
        return guest.emulator_cpus

    def _parsed(
        self, path: str, parse: Callable[[str], cpuset.CpuSet],
    ) -> cpuset.CpuSet | None:
        text = self._files.text(path)
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
            return cpuset.CpuSet(self._get_affinity(int(tid)))
        except OSError:
            return None


def _affinity(number: str) -> str:
    return f'/proc/irq/{number}/smp_affinity_list'


def _queue(path: str) -> str:
    return f'/sys/class/net/{path}'
