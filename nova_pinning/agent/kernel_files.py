# SPDX-License-Identifier: Apache-2.0
"""Files of the kernel, read and written under any root."""

import os

from nova_pinning.host import machine_files

_CGROUPS = '/sys/fs/cgroup'


class WritableTree(machine_files.Tree):
    """The files of a machine, to be changed as well.

    Whatever changes something raises the OSError that the kernel answers with.
    """

    def write(self, path: str, text: str) -> None:
        # No truncation and no second write: the kernel takes each write for
        # a command of its own.
        descriptor = os.open(self._at(path), os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def make_directory(self, path: str) -> None:
        os.mkdir(self._at(path))

    def remove_directory(self, path: str) -> None:
        os.rmdir(self._at(path))


def control_group(files: WritableTree, pid: int,
                  controller: str) -> tuple[str, str]:
    """The control group of a process.

    :param controller: by which it is found under cgroup v1
    :returns: where its hierarchy is mounted, and its path there; '/' is all
        processes'
    """
    for controllers, path in machine_files.control_groups(
            files.text(f'/proc/{pid}/cgroup') or '').items():
        if controllers == '':
            return _CGROUPS, path
        if controller in controllers.split(','):
            return f'{_CGROUPS}/{controller}', path
    return _CGROUPS, '/'
