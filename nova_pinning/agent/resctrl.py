# SPDX-License-Identifier: Apache-2.0
"""The kernel's resctrl file system, read and written.

See Documentation/filesystems/resctrl.rst of the kernel. Groups are left in
mode "shareable": one in mode "exclusive" has to have its ways for itself in
every L3 domain, also in those where the guest never runs.
"""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import errno
import functools
import itertools

from nova_pinning.agent import cache_model
from nova_pinning.agent import cache_steps
from nova_pinning.agent import kernel_files
from nova_pinning import cpuset
from nova_pinning.host import cache_masks
from nova_pinning.host.discover import processors
from nova_pinning.host.discover import resctrl
from nova_pinning.host import hardware
from nova_pinning.host import problems
from nova_pinning.host import words

ROOT = resctrl.ROOT
_MOUNTS = '/proc/self/mounts'
# With code and data apart (mount option cdp) each has its own lines.
_LINES = (('L3',), ('L3CODE', 'L3DATA'))


class CacheUnavailable(Exception):
    """Caches and bandwidth of this host cannot be controlled; says why."""


class ResctrlError(Exception):
    """The kernel has refused a change, or has not made it; says which."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class ResctrlGroups:
    """Reads and changes the groups.

    :param kept_ways: what no guest is to get for itself, at the least
    """

    def __init__(self, files: kernel_files.WritableTree,
                 kept_ways: int = 1) -> None:
        self._files = files
        self._kept_ways = kept_ways
        self._info: tuple[
            cache_model.CacheLimits | None,
            cache_model.BandwidthLimits | None, int,
            dict[int, cpuset.CpuSet]] | None = None
        self._lines: tuple[str, ...] = ()

    def read(self) -> cache_model.ResctrlState:
        """All groups as they are.

        :raises CacheUnavailable: if there is no resctrl, or what it says of
            itself makes no sense
        """
        if self._info is None:
            self._info = self._read_info()
        limits, bandwidth, groups_limit, domains = self._info
        groups = {}
        for name in self._files.names(ROOT):
            if name in ('info', 'mon_groups', 'mon_data'):
                continue
            schemata = self._files.text(f'{ROOT}/{name}/schemata')
            if schemata is not None:
                groups[name] = self._group(
                    schemata, self._files.text(f'{ROOT}/{name}/tasks') or '')
        default = self._files.text(f'{ROOT}/schemata')
        if default is None:
            self._info = None
            raise CacheUnavailable('the default group of resctrl has no '
                                   'schemata: the CPUs can only be watched')
        whole = self._group(default, '')
        if bandwidth and not bandwidth.in_mbps and any(
                value > 100 for value in whole.bandwidth.values()):
            bandwidth = dataclasses.replace(bandwidth, is_absolute=True)
        return cache_model.ResctrlState(
            limits, bandwidth, groups_limit, domains, whole, groups)

    def apply(self, step: cache_steps.Step) -> None:
        """Make one change, and look whether it has been made.

        :raises ResctrlError: if not
        """
        match step:
            case cache_steps.RemoveGroup(group):
                self._try(f'group {group} cannot be removed',
                          lambda: self._files.remove_directory(
                              f'{ROOT}/{group}'))
            case cache_steps.CreateGroup(group):
                self._try(f'group {group} cannot be made',
                          lambda: self._files.make_directory(
                              f'{ROOT}/{group}'))
            case cache_steps.SetMasks(group, masks):
                self._set_masks(group, masks)
            case cache_steps.SetBandwidth(group, bandwidth):
                self._set_bandwidth(group, bandwidth)
            case cache_steps.AddTasks(group, tasks):
                for task in tasks:
                    self._add_task(group, task)

    def _read_info(self) -> tuple[
            cache_model.CacheLimits | None,
            cache_model.BandwidthLimits | None, int,
            dict[int, cpuset.CpuSet]]:
        files, info = self._files, f'{ROOT}/info'
        if not files.exists(info):
            raise CacheUnavailable(
                f'there is no {info}: mount it with "mount -t resctrl '
                f'resctrl {ROOT}", if the CPUs and the kernel can do that')
        # What was wrong before may be right by now.
        files.nonsense.clear()
        l3, mb = resctrl.cache(files), resctrl.bandwidth(files)
        wrong = [f'{path} {what}' for path, what in files.nonsense.items()
                 if path.startswith(info)]
        wrong += [f'{info}/L3: {problem.message}'
                  for problem in (problems.cache_problems(l3) if l3 else ())]
        if wrong:
            raise CacheUnavailable('; '.join(wrong))
        if not l3 and not mb:
            there = words.listed(files.names(info)) if files.names(
                info) else 'nothing'
            raise CacheUnavailable(
                'neither L3 caches nor memory bandwidth can be divided: '
                f'{info} has {there}')
        domains = resctrl.l3_domains(files, processors.read(files).online)
        if not domains:
            raise CacheUnavailable('the kernel does not tell which CPUs share '
                                   'an L3 cache')
        if l3:
            self._lines = _LINES[l3.has_cdp]
        limits = cache_model.CacheLimits(
            l3.ways, max(1, l3.min_cbm_bits), l3.shareable_bits,
            min(self._kept_ways, l3.ways)) if l3 else None
        bandwidth = cache_model.BandwidthLimits(
            mb.min_bandwidth, mb.bandwidth_gran,
            self._in_mbps()) if mb else None
        return (limits, bandwidth,
                hardware.Resctrl(domains, l3, mb).guest_groups + 1, domains)

    def _in_mbps(self) -> bool:
        for line in (self._files.text(_MOUNTS) or '').splitlines():
            fields = line.split()
            if len(fields) > 3 and fields[1:3] == [ROOT, 'resctrl']:
                return 'mba_MBps' in fields[3].split(',')
        return False

    def _group(self, schemata: str, tasks: str) -> cache_model.GroupState:
        masks: dict[cache_masks.Slot, int] = {}
        bandwidth: dict[int, int] = {}
        for name, values in _schemata(schemata):
            if name in self._lines:
                masks |= {cache_masks.Slot(name, domain): int(value, 16)
                          for domain, value in values}
            elif name == 'MB':
                bandwidth = {domain: int(value) for domain, value in values}
        return cache_model.GroupState(masks, bandwidth, frozenset(
            map(int, tasks.split())))

    def _set_masks(self, group: str,
                   masks: Mapping[cache_masks.Slot, int]) -> None:
        text = _schemata_of(masks)
        self._write_schemata(group, text)
        present = self._present(group)
        if any(present.masks.get(slot) != mask
               for slot, mask in masks.items()):
            raise ResctrlError(
                f'the kernel has accepted masks {_in_line(text)} for '
                f'{_name(group)}, and says that it has '
                + _in_line(_schemata_of(present.masks)), errno.EPROTO)

    def _set_bandwidth(self, group: str, bandwidth: int) -> None:
        domains = self._present(group).bandwidth
        text = ';'.join(f'{domain}={bandwidth}' for domain in sorted(domains))
        if text:
            self._write_schemata(group, f'MB:{text}\n')

    def _present(self, group: str) -> cache_model.GroupState:
        text = self._files.text(f'{_directory(group)}/schemata')
        if text is None:
            raise ResctrlError(f'{_name(group)} has gone', errno.ENOENT)
        return self._group(text, '')

    def _write_schemata(self, group: str, text: str) -> None:
        self._try(f'{_name(group)} cannot have {_in_line(text)}',
                  lambda: self._files.write(
                      f'{_directory(group)}/schemata', text))

    def _add_task(self, group: str, task: int) -> None:
        try:
            self._files.write(f'{_directory(group)}/tasks', f'{task}\n')
        except OSError as error:
            # It may have ended meanwhile.
            if error.errno != errno.ESRCH:
                raise ResctrlError(
                    f'thread {task} cannot be put into {_name(group)}: '
                    f'{self._reason(error)}', error.errno or 0) from error

    def _try(self, what: str, change: Callable[[], None]) -> None:
        try:
            change()
        except OSError as error:
            raise ResctrlError(f'{what}: {self._reason(error)}',
                               error.errno or 0) from error

    def _reason(self, error: OSError) -> str:
        status = self._files.text(f'{ROOT}/info/last_cmd_status')
        words = (error.strerror or str(error)).lower()
        return words if status in (None, '', 'ok') else f'{words} ({status})'


def _directory(group: str) -> str:
    return f'{ROOT}/{group}' if group else ROOT


def _name(group: str) -> str:
    return f'group {group}' if group else 'the default group'


def _schemata_of(masks: Mapping[cache_masks.Slot, int]) -> str:
    """What is written to a schemata file."""
    return ''.join(
        f'{line}:' + ';'.join(
            f'{slot.domain}={mask:x}' for slot, mask in there) + '\n'
        for line, there in itertools.groupby(
            sorted(masks.items()), lambda item: item[0].line))


def _in_line(text: str) -> str:
    return ' '.join(text.split())


@functools.lru_cache(maxsize=1024)
def _schemata(text: str) -> tuple[tuple[str, tuple[tuple[int, str], ...]],
                                  ...]:
    """The lines of a schemata file; what makes no sense is left out."""
    lines = []
    for line in text.splitlines():
        name, _colon, rest = line.partition(':')
        values = []
        for part in rest.split(';'):
            domain, equals, value = part.partition('=')
            if equals and domain.strip().isdecimal():
                values.append((int(domain), value.strip()))
        if values:
            lines.append((name.strip(), tuple(values)))
    return tuple(lines)
