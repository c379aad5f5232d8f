# SPDX-License-Identifier: Apache-2.0
"""Pins of emulator threads, seen and put back where libvirt does not answer.

They are written where libvirt writes them: to the control group that it has
made for emulator threads, and to the first of the threads. Only its own XML
stays as it is.
"""

from collections.abc import Callable
from collections.abc import Iterable

from nova_pinning.agent import agent_model
from nova_pinning.agent import guest_processes
from nova_pinning.agent import kernel_files
from nova_pinning import cpuset
from nova_pinning.host import agent_record

_GROUP = '/emulator'


class EmulatorPins:
    """What the kernel has of guests whose emulator threads were pinned.

    :param settings: those of the record
    :param get_affinity: what tells a thread's CPUs
    :param set_affinity: what sets them
    """

    def __init__(
        self, files: kernel_files.KernelFiles,
        settings: Iterable[agent_record.Setting],
        get_affinity: Callable[[int], Iterable[int]],
        set_affinity: Callable[[int, Iterable[int]], None],
    ) -> None:
        self._files, self._set_affinity = files, set_affinity
        self.guests: dict[str, agent_model.AgentGuest] = {}
        for setting in settings:
            uuid, pid = setting.guest, setting.subject.rpartition(':')[2]
            # A number may be another process's by now.
            if uuid and guest_processes.is_of(files, int(pid), uuid):
                try:
                    cpus = cpuset.CpuSet(get_affinity(int(pid)))
                except OSError:
                    continue
                self.guests[uuid] = agent_model.AgentGuest(
                    uuid, uuid, int(pid), {}, cpus)

    def pin_emulator(self, uuid: str, cpus: cpuset.CpuSet) -> None:
        """Have the emulator threads of a guest run on these CPUs.

        :raises OSError: if the kernel refuses
        """
        pid = self.guests[uuid].pid
        root, path = kernel_files.control_group(self._files, pid, 'cpuset')
        if path.endswith(_GROUP):
            self._files.write(f'{root}{path}/cpuset.cpus', f'{cpus}\n')
        self._set_affinity(pid, cpus)
