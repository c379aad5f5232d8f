# SPDX-License-Identifier: Apache-2.0
"""A resctrl file system in memory, with the rules of the kernel's.

What it accepts and refuses, and what info/last_cmd_status says then, follows
fs/resctrl/ctrlmondata.c and fs/resctrl/rdtgroup.c: one CLOSID for each group,
masks in range, in one run and with the least number of bits; a new group gets
what nobody else has and what can be shared; threads that are there; bandwidth
in range, rounded up. With code and data apart (CDP) each has masks of its
own over the same ways, so that what one group has of either counts for all.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import errno
import os

from nova_pinning.agent import kernel_files

ROOT = '/sys/fs/resctrl'
_CPUS = '/sys/devices/system/cpu'
_EVENTS = ('llc_occupancy', 'mbm_total_bytes', 'mbm_local_bytes')


class Crash(BaseException):
    """The process is killed at this very write."""


class _Group:

    def __init__(self, masks: dict[str, dict[int, int]],
                 bandwidth: dict[int, int]) -> None:
        self.masks = masks
        self.bandwidth = bandwidth
        self.mode = 'shareable'
        self.tasks: set[int] = set()
        self.monitors: dict[str, set[int]] = {}


class FakeResctrl(kernel_files.WritableTree):
    """The kernel's side.

    :param cpus: the CPUs of each L3 domain, by its id
    :param live: threads that there are; may be changed at any time
    :param is_split: mounted with cdp
    :param rmids: how many groups can be watched
    :ivar on_change: called after each change
    :ivar fault: called before each change with what it is; may raise
    :ivar lies: a mask that is shown in place of every other one, None if the
        kernel tells the truth
    """

    def __init__(
        self, cpus: dict[int, Iterable[int]], ways: int = 11,
        min_bits: int = 1, shareable: int = 0, closids: int = 16,
        is_split: bool = False, bandwidth: tuple[int, int] | None = (10, 10),
        in_mbps: bool = False, rmids: int = 64,
    ) -> None:
        super().__init__()
        self.domains = sorted(cpus)
        self.ways, self.full = ways, (1 << ways) - 1
        self.min_bits, self.shareable = min_bits, shareable
        self.closids, self.rmids = closids, rmids
        self.lines = ('L3CODE', 'L3DATA') if is_split else ('L3',)
        self.bandwidth, self.in_mbps = bandwidth, in_mbps
        self.status = 'ok'
        self.live: set[int] = set()
        self.lies: int | None = None
        self.on_change: Callable[[], None] = lambda: None
        self.fault: Callable[[str], None] = lambda what: None
        self.default = self._group(self.full)
        self.groups: dict[str, _Group] = {}
        self.counters: dict[tuple[str, int, str], int | str] = {}
        self._files = dict(self._info())
        for domain, members in cpus.items():
            for cpu in members:
                path = f'{_CPUS}/cpu{cpu}/cache/index3'
                self._files |= {f'{path}/level': '3', f'{path}/id':
                                str(domain)}
        self._names: dict[str, list[str]] = {}
        for path in sorted(self._files):
            while path != '/':
                parent, name = os.path.split(path)
                if name not in self._names.setdefault(parent, []):
                    self._names[parent].append(name)
                path = parent

    # What kernel_files.WritableTree has of a machine.

    def text(self, path: str) -> str | None:
        if path in self._files:
            return self._files[path]
        if not path.startswith(ROOT):
            return None
        parts = path[len(ROOT) + 1:].split('/')
        if parts == ['info', 'last_cmd_status']:
            return self.status
        name, parts = ((parts[0], parts[1:]) if parts[0] in self.groups
                       else ('', parts))
        group = self.groups.get(name, self.default)
        if parts == ['schemata']:
            return self._schemata(group)
        if parts == ['tasks']:
            return '\n'.join(map(str, sorted(self._tasks_of(group))))
        if parts == ['mode']:
            return group.mode
        if parts[0] == 'mon_groups' and len(parts) > 2:
            if parts[1] not in group.monitors:
                return None
            if parts[2] == 'tasks':
                return '\n'.join(map(str, sorted(
                    group.monitors[parts[1]] & self.live)))
            return self._counter(f'{name}/{parts[1]}', parts[2:])
        return self._counter(name, parts)

    def names(self, path: str) -> list[str]:
        if path == ROOT:
            return ['info', 'mon_data', 'mon_groups', *self.groups]
        if path.startswith(f'{ROOT}/'):
            parts = path[len(ROOT) + 1:].split('/')
            name = parts[0] if parts[0] in self.groups else ''
            if parts[-1] == 'mon_groups':
                return list(self.groups.get(name, self.default).monitors)
            if parts[-1] == 'mon_data':
                return [f'mon_L3_{domain:02}' for domain in self.domains]
            if parts[-1].startswith('mon_L3_'):
                return list(_EVENTS)
        return self._names.get(path, [])

    def exists(self, path: str) -> bool:
        if path in self._files or path in self._names or path == ROOT:
            return True
        return path.removeprefix(f'{ROOT}/') in self.groups

    def is_read_only(self, path: str) -> bool:
        return False

    def write(self, path: str, text: str) -> None:
        self.fault(f'write {path}')
        self.status = 'ok'
        parts = path[len(ROOT) + 1:].split('/')
        group = self.default
        if parts[0] in self.groups:
            group, parts = self.groups[parts[0]], parts[1:]
        elif len(parts) > 1 and parts[0] != 'mon_groups':
            raise _error(errno.ENOENT)
        if parts == ['schemata']:
            self._write_schemata(group, text)
        elif parts == ['mode']:
            self._write_mode(group, text.strip())
        elif parts == ['tasks']:
            self._write_task(group, text)
        elif parts[0] == 'mon_groups' and parts[-1] == 'tasks':
            if parts[1] not in group.monitors:
                raise _error(errno.ENOENT)
            self._write_monitor(group, parts[1], text)
        else:
            raise _error(errno.EACCES)
        self.on_change()

    def make_directory(self, path: str) -> None:
        self.fault(f'mkdir {path}')
        self.status = 'ok'
        parts = path[len(ROOT) + 1:].split('/')
        monitors = 1 + len(self.groups) + sum(
            len(group.monitors) for group in (
                self.default, *self.groups.values()))
        if parts[-2:-1] == ['mon_groups']:
            group = self.groups.get(parts[0], self.default)
            if parts[-1] in group.monitors:
                raise _error(errno.EEXIST)
            if monitors >= self.rmids:
                self._fail('Out of RMIDs', errno.ENOSPC)
            group.monitors[parts[-1]] = set()
        else:
            if parts[0] in self.groups:
                raise _error(errno.EEXIST)
            if len(self.groups) + 1 >= self.closids:
                self._fail('Out of CLOSIDs', errno.ENOSPC)
            if monitors >= self.rmids:
                self._fail('Out of RMIDs', errno.ENOSPC)
            group = self._group(self.full)
            for line in self.lines:
                for domain in self.domains:
                    group.masks[line][domain] = self._initial(domain, line)
            self.groups[parts[0]] = group
        self.on_change()

    def remove_directory(self, path: str) -> None:
        self.fault(f'rmdir {path}')
        self.status = 'ok'
        parts = path[len(ROOT) + 1:].split('/')
        if parts[-2:-1] == ['mon_groups']:
            group = self.groups.get(parts[0], self.default)
            if group.monitors.pop(parts[-1], None) is None:
                raise _error(errno.ENOENT)
        elif self.groups.pop(parts[0], None) is None:
            raise _error(errno.ENOENT)
        self.on_change()

    # The rules.

    def _group(self, mask: int) -> _Group:
        most = 0xffffffff if self.in_mbps else 100
        return _Group(
            {line: dict.fromkeys(self.domains, mask) for line in self.lines},
            dict.fromkeys(self.domains, most) if self.bandwidth else {})

    def _initial(self, domain: int, line: str) -> int:
        """__init_one_rdt_domain()."""
        used = mask = self.shareable
        for group in (self.default, *self.groups.values()):
            theirs = 0
            for any_line in self.lines:
                theirs |= group.masks[any_line][domain]
            used |= theirs
            if group.mode == 'shareable':
                mask |= theirs
        mask |= self.full & ~used
        # cbm_ensure_valid(): the first run.
        first = mask & -mask
        run = 0
        while mask & first:
            run |= first
            first <<= 1
        if run.bit_count() < self.min_bits:
            self._fail(f'No space on {line}:{domain}', errno.ENOSPC)
        return run

    def _write_schemata(self, group: _Group, text: str) -> None:
        if not text.endswith('\n'):
            raise _error(errno.EINVAL)
        staged: list[tuple[dict[int, int], int, int]] = []
        for line in text[:-1].split('\n'):
            name, colon, rest = line.partition(':')
            if not colon:
                self._fail("Missing ':'")
            if not rest:
                self._fail(f"Missing '{name.strip()}' value")
            staged += self._parse_line(group, name.strip(), rest)
        for values, domain, value in staged:
            values[domain] = value

    def _parse_line(
        self, group: _Group, name: str, rest: str,
    ) -> Iterator[tuple[dict[int, int], int, int]]:
        if name not in self.lines and not (name == 'MB' and self.bandwidth):
            self._fail(f"Unknown or unsupported resource name '{name}'")
        seen = set()
        for part in rest.split(';'):
            number, equals, value = part.partition('=')
            if not equals or not number.strip().isdecimal():
                self._fail("Missing '=' or non-numeric domain")
            domain = int(number)
            if domain not in self.domains:
                raise _error(errno.EINVAL)
            if domain in seen:
                self._fail(f'Duplicate domain {domain}')
            seen.add(domain)
            if name == 'MB':
                yield group.bandwidth, domain, self._bandwidth(value.strip())
            else:
                yield (group.masks[name], domain,
                       self._mask(group, name, domain, value.strip()))

    def _bandwidth(self, value: str) -> int:
        assert self.bandwidth
        if not value.isdecimal():
            self._fail(f'Invalid MB value {value}')
        if self.in_mbps:
            return int(value)
        least, step = self.bandwidth
        if not least <= int(value) <= 100:
            self._fail(f'MB value {value} out of range [{least},100]')
        return -(-int(value) // step) * step

    def _mask(self, group: _Group, line: str, domain: int,
              value: str) -> int:
        try:
            mask = int(value, 16)
        except ValueError:
            self._fail(f'Non-hex character in the mask {value}')
        if mask == 0 or mask > self.full:
            self._fail('Mask out of range')
        shifted = mask // (mask & -mask)
        if shifted & (shifted + 1):
            self._fail(f'The mask {mask:x} has non-consecutive 1-bits')
        if mask.bit_count() < self.min_bits:
            self._fail(f'Need at least {self.min_bits} bits in the mask')
        for other in (self.default, *self.groups.values()):
            # With code and data apart, of either of them.
            if other is not group and any(
                    masks[domain] & mask for masks in other.masks.values()):
                if other.mode == 'exclusive':
                    self._fail('Overlaps with exclusive group')
                if group.mode == 'exclusive':
                    self._fail('Overlaps with other group')
        return mask

    def _write_mode(self, group: _Group, mode: str) -> None:
        if mode not in ('shareable', 'exclusive'):
            self._fail('Unknown or unsupported mode')
        if mode == 'exclusive':
            for line in self.lines:
                for domain, mask in group.masks[line].items():
                    if mask & self.shareable or any(
                            masks[domain] & mask
                            for other in (self.default,
                                          *self.groups.values())
                            if other is not group
                            for masks in other.masks.values()):
                        self._fail('Schemata overlaps')
        group.mode = mode

    def _write_task(self, group: _Group, text: str) -> None:
        task = self._task(text)
        for other in (self.default, *self.groups.values()):
            other.tasks.discard(task)
            for members in other.monitors.values():
                members.discard(task)
        if group is not self.default:
            group.tasks.add(task)

    def _write_monitor(self, group: _Group, name: str, text: str) -> None:
        task = self._task(text)
        if task not in self._tasks_of(group):
            self._fail("Can't move task to different control group")
        for members in group.monitors.values():
            members.discard(task)
        group.monitors[name].add(task)

    def _task(self, text: str) -> int:
        if not text.strip().isdecimal():
            self._fail(f'Task list parsing error pid {text.strip()}')
        task = int(text)
        if task not in self.live:
            self._fail(f'No task {task}', errno.ESRCH)
        return task

    def _tasks_of(self, group: _Group) -> set[int]:
        if group is self.default:
            return self.live.difference(*(
                other.tasks for other in self.groups.values()))
        return group.tasks & self.live

    # What files show.

    def _schemata(self, group: _Group) -> str:
        text = ''
        if self.bandwidth:
            text += '    MB:' + ';'.join(
                f'{domain}={value:>4}'
                for domain, value in group.bandwidth.items()) + '\n'
        for line in self.lines:
            text += f'{line:>6}:' + ';'.join(
                f'{domain}={mask if self.lies is None else self.lies:x}'
                for domain, mask in group.masks[line].items()) + '\n'
        return text

    def _info(self) -> Iterator[tuple[str, str]]:
        for line in self.lines:
            yield f'{ROOT}/info/{line}/cbm_mask', f'{self.full:x}'
            yield f'{ROOT}/info/{line}/min_cbm_bits', str(self.min_bits)
            yield (f'{ROOT}/info/{line}/shareable_bits',
                   f'{self.shareable:x}')
            yield f'{ROOT}/info/{line}/num_closids', str(self.closids)
        if self.bandwidth:
            least, step = self.bandwidth
            yield f'{ROOT}/info/MB/min_bandwidth', str(least)
            yield f'{ROOT}/info/MB/bandwidth_gran', str(step)
            yield f'{ROOT}/info/MB/num_closids', str(self.closids)
        yield f'{ROOT}/info/L3_MON/mon_features', '\n'.join(_EVENTS)
        yield f'{ROOT}/info/L3_MON/num_rmids', str(self.rmids)
        options = ['rw', 'relatime']
        if self.in_mbps:
            options.append('mba_MBps')
        yield ('/proc/self/mounts',
               f'resctrl {ROOT} resctrl {",".join(options)} 0 0')

    def _counter(self, name: str, parts: list[str]) -> str | None:
        if parts[0] != 'mon_data' or len(parts) != 3:
            return None
        domain = int(parts[1].removeprefix('mon_L3_'))
        return str(self.counters.get((name, domain, parts[2]), 0))

    def _fail(self, status: str, code: int = errno.EINVAL) -> None:
        self.status = status
        raise _error(code)


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))
