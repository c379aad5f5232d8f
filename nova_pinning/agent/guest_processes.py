# SPDX-License-Identifier: Apache-2.0
"""The processes and threads of guests, as the kernel has them at one look."""

from collections.abc import Iterator
from collections.abc import Mapping
import functools

from nova_pinning.agent import kernel_files

VHOST = 'vhost-'
_UUID = '\0-uuid\0'
# Linux 6.4 made them threads of the process that they work for.
_VHOST_INSIDE = (6, 4)


def is_of(files: kernel_files.KernelFiles, pid: int, uuid: str) -> bool:
    """Whether a process is the QEMU of a guest.

    libvirt puts the UUID on its command line.
    """
    line = files.text(f'/proc/{pid}/cmdline') or ''
    return f'{_UUID}{uuid}\0' in f'{line}\0'


class GuestProcesses:
    """One look at them; what all guests need is read once.

    :param known: process ids by UUID, from the last look
    """

    def __init__(self, files: kernel_files.KernelFiles,
                 known: Mapping[str, int]) -> None:
        self._files, self._known = files, known

    def pid(self, uuid: str, name: str) -> int | None:
        """The QEMU of a guest, None if there is none.

        :param name: libvirt's
        """
        known = self._known.get(uuid)
        if known and is_of(self._files, known, uuid):
            return known
        text = self._files.text(f'/run/libvirt/qemu/{name}.pid') or ''
        if text.isdecimal() and is_of(self._files, int(text), uuid):
            return int(text)
        return self._by_uuid.get(uuid)

    def threads(self, pid: int) -> dict[int, str]:
        """The threads that work for a guest, with their names."""
        files = self._files
        return {
            **{int(tid): files.text(f'/proc/{pid}/task/{tid}/comm') or ''
               for tid in files.names(f'/proc/{pid}/task')},
            **dict.fromkeys(self._vhost.get(str(pid), ()), f'{VHOST}{pid}')}

    @functools.cached_property
    def _by_uuid(self) -> Mapping[str, int]:
        found = {}
        for pid in self._processes():
            line = self._files.text(f'/proc/{pid}/cmdline') or ''
            _before, is_guest, rest = line.partition(_UUID)
            if is_guest:
                found[rest.partition('\0')[0]] = pid
        return found

    @functools.cached_property
    def _vhost(self) -> Mapping[str, list[int]]:
        """Threads of vhost that are processes, by the one they work for."""
        release = self._files.text('/proc/sys/kernel/osrelease') or ''
        numbers = release.split('-')[0].split('.')[:2]
        found: dict[str, list[int]] = {}
        if all(map(str.isdecimal, numbers)) and tuple(
                map(int, numbers)) < _VHOST_INSIDE:
            for pid in self._processes():
                name = self._files.text(f'/proc/{pid}/comm') or ''
                if name.startswith(VHOST):
                    found.setdefault(
                        name.removeprefix(VHOST), []).append(pid)
        return found

    def _processes(self) -> Iterator[int]:
        for process in self._files.names('/proc'):
            if process.isdecimal():
                yield int(process)
