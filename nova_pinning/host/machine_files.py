# SPDX-License-Identifier: Apache-2.0
"""The files of a machine: this one, or another's as a dump under a directory.

Much in /sys and /proc is there or not, according to the kernel and to what
the machine is made of, and processes end while they are looked at. So what is
not there is no error. Files that exist but cannot be read are noted, and so
are those that make no sense: to take them for absent would be to invent.
"""

from collections.abc import Callable
import os
import pathlib
import re
import stat

from nova_pinning import cpuset

_NUMBER = re.compile(r'(\d+)')
# What fits into 64 bits; Python takes long over thousands of digits.
_DECIMAL = re.compile(r'-?[0-9]{1,20}')
_MAX_SHOWN = 40
# More than any file of the kernel's; /proc/interrupts has a line of 11 bytes
# for each CPU and interrupt.
_MAX_BYTES = 2 ** 28
_PART = 2 ** 14


class Tree:
    """Reads files under a root.

    Paths are as on the machine itself: '/sys/devices/system/cpu/online'.

    :param root: the directory that stands for /
    :ivar unread: why each path that is there could not be read
    :ivar nonsense: what is wrong with each path that is there and makes no
        sense: "has 'x'"
    """

    def __init__(self, root: str | os.PathLike[str] = '/') -> None:
        self.root = pathlib.Path(root)
        self._start = str(self.root).rstrip('/') + '/'
        self.unread: dict[str, str] = {}
        self.nonsense: dict[str, str] = {}

    @property
    def is_live(self) -> bool:
        """Whether it is of this machine, while it runs, and no dump."""
        return os.path.realpath(self._at('/proc')) == '/proc'

    def text(self, path: str) -> str | None:
        """What a file holds, without the blanks around it.

        Bytes that are not UTF-8 come as surrogates (os.fsdecode).

        :returns: None if it is not there, or cannot be read
        """
        content = self.content(path)
        return None if content is None else os.fsdecode(content).strip()

    def content(self, path: str) -> bytes | None:
        """What a file holds, None if it is not there or cannot be read."""
        try:
            # Not open(), which asks the kernel twice as much of each file.
            descriptor = os.open(self._at(path), os.O_RDONLY | os.O_NONBLOCK)
            try:
                about = os.fstat(descriptor)
                # In a dump it may be a pipe or a device, which has no end.
                if stat.S_ISREG(about.st_mode) and (
                        about.st_size <= _MAX_BYTES):
                    return b''.join(
                        iter(lambda: os.read(descriptor, _PART), b''))
            finally:
                os.close(descriptor)
            if not stat.S_ISDIR(about.st_mode):
                self.nonsense[path] = (
                    f'has {about.st_size:,} bytes' if about.st_size
                    else 'is a pipe or a device')
        except OSError as error:
            self._note(path, error)
        return None

    def number(self, path: str) -> int | None:
        """A file that holds a decimal number, None if there is none."""
        text = self.text(path)
        if text and not _DECIMAL.fullmatch(text):
            self.note_nonsense(path, text)
            return None
        return int(text) if text else None

    def count(self, path: str) -> int | None:
        """A file that holds how many there are, None if there is none."""
        number = self.number(path)
        return number if number is not None and number >= 0 else None

    def cpus(self, path: str, *,
             until_nul: bool = False) -> cpuset.CpuSet | None:
        """A file that holds a list of CPUs; None if there is none.

        :param until_nul: whether kernels are known that let the NUL of C
            become part of this file (print_nodes_state() in drivers/base/
            node.c before 3.19), or write '(null)' for none
        """
        return self._cpu_set(
            path, _parse_until_nul if until_nul else cpuset.CpuSet.parse)

    def mask(self, path: str) -> cpuset.CpuSet | None:
        """A file that holds a mask of CPUs: '0000,00000011,11111111'.

        :returns: None if there is none
        """
        return self._cpu_set(path, cpuset.CpuSet.parse_mask)

    def _cpu_set(
        self, path: str, parse: Callable[[str], cpuset.CpuSet],
    ) -> cpuset.CpuSet | None:
        text = self.text(path)
        try:
            return None if text is None else parse(text)
        except ValueError:
            self.note_nonsense(path, text or '')
            return None

    def note_nonsense(self, path: str, text: str) -> None:
        """Note what a file holds that is there and makes no sense.

        A file without anything in it is as good as absent: that is how
        programs that copy /sys leave what they could not read.
        """
        if text:
            self.nonsense[path] = f'has {text[:_MAX_SHOWN]!r}' + (
                '...' if len(text) > _MAX_SHOWN else '')

    def names(self, path: str) -> list[str]:
        """What is in a directory, cpu9 before cpu10; [] if it is not there."""
        try:
            return sorted(os.listdir(self._at(path)), key=natural)
        except OSError as error:
            self._note(path, error)
            return []

    def exists(self, path: str) -> bool:
        # Not what pathlib has, which raises what may not be looked at.
        return os.path.exists(self._at(path))

    def changed(self, path: str) -> int:
        """When a file, or what is in a directory, was changed last.

        :returns: nanoseconds since 1970, 0 if it is not there
        """
        try:
            return os.stat(self._at(path)).st_mtime_ns
        except OSError:
            return 0

    def is_read_only(self, path: str) -> bool:
        """Whether a file is there that not even root is to write to."""
        try:
            return not os.stat(self._at(path)).st_mode & 0o222
        except OSError:
            return False

    def link(self, path: str) -> str:
        """Where a symbolic link points, '' if it is none."""
        try:
            return os.readlink(self._at(path))
        except OSError:
            return ''

    def link_name(self, path: str) -> str:
        """The last part of where a symbolic link points, '' if it is none."""
        return os.path.basename(self.link(path))

    def _at(self, path: str) -> str:
        return self._start + path.lstrip('/')

    def _note(self, path: str, error: OSError) -> None:
        # A process that has ended gives ESRCH, a file of sysfs that makes no
        # sense on this machine EINVAL, EIO, ENODEV and others.
        if isinstance(error, PermissionError):
            self.unread[path] = (error.strerror or str(error)).lower()


def control_groups(text: str) -> dict[str, str]:
    """What /proc/PID/cgroup holds: paths by the controllers, '' for v2.

    Lines are such as '0::/system.slice/x.service' (cgroup v2), and
    '1:name=systemd:/...' (v1).
    """
    return {controllers: path for _number, controllers, path in (
        line.split(':', 2) for line in text.splitlines()
        if line.count(':') > 1)}


def _parse_until_nul(text: str) -> cpuset.CpuSet:
    told = text.partition('\0')[0].strip()
    return cpuset.CpuSet.parse('' if told == '(null)' else told)


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A sort key that takes numbers in names for what they are."""
    return tuple((int(part), '') if part.isdigit() else (-1, part)
                 for part in _NUMBER.split(name))
