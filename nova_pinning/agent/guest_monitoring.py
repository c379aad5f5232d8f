# SPDX-License-Identifier: Apache-2.0
"""Who uses how much cache and memory bandwidth, as resctrl counts it."""

from collections.abc import Iterable
from collections.abc import Iterator
import dataclasses
import errno

from nova_pinning.agent import agent_model
from nova_pinning.agent import cache_control
from nova_pinning.agent import kernel_files
from nova_pinning.agent import resctrl

_MONITORS = f'{resctrl.ROOT}/mon_groups'


@dataclasses.dataclass(frozen=True, slots=True)
class CacheUse:
    """What a guest uses of one L3 domain.

    :param event: the kernel's name: llc_occupancy (bytes now),
        mbm_total_bytes, mbm_local_bytes (bytes since some time)
    """

    uuid: str
    name: str
    domain: int
    event: str
    value: int


class GuestMonitoring:
    """Has guests watched that have no control group of their own.

    Those that have one are watched in it.
    """

    def __init__(self, files: kernel_files.WritableTree) -> None:
        self._files = files
        self.trouble = ''

    def reconcile(self, guests: Iterable[agent_model.AgentGuest]) -> None:
        """Have the groups that there are to be."""
        files = self._files
        self.trouble = ''
        if not files.exists(f'{resctrl.ROOT}/info/L3_MON/mon_features'):
            return
        wanted = {}
        for guest in guests:
            name = cache_control.group_name(guest.uuid)
            if not files.exists(f'{resctrl.ROOT}/{name}'):
                wanted[name] = guest.tasks
        present = {name for name in files.names(_MONITORS)
                   if cache_control.is_ours(name)}
        try:
            for name in sorted(present - wanted.keys()):
                files.remove_directory(f'{_MONITORS}/{name}')
            for name, tasks in wanted.items():
                if name not in present:
                    files.make_directory(f'{_MONITORS}/{name}')
                self._add(name, tasks)
        except OSError as error:
            self.trouble = (
                'the kernel can watch no more guests (num_rmids)'
                if error.errno == errno.ENOSPC else
                f'groups to watch guests cannot be set: {error.strerror}')

    def release(self) -> None:
        """Have no guest watched."""
        self.reconcile(())

    def uses(
        self, guests: Iterable[agent_model.AgentGuest],
    ) -> Iterator[CacheUse]:
        """What each guest uses."""
        for guest in guests:
            name = cache_control.group_name(guest.uuid)
            for root in (resctrl.ROOT, _MONITORS):
                data = f'{root}/{name}/mon_data'
                for directory in self._files.names(data):
                    if not directory.startswith('mon_L3_'):
                        continue
                    for event in self._files.names(f'{data}/{directory}'):
                        text = self._files.text(
                            f'{data}/{directory}/{event}') or ''
                        # There may be no value yet: 'Unavailable'.
                        if text.isdecimal():
                            yield CacheUse(
                                guest.uuid, guest.name,
                                int(directory.removeprefix('mon_L3_')),
                                event, int(text))

    def _add(self, name: str, tasks: frozenset[int]) -> None:
        path = f'{_MONITORS}/{name}/tasks'
        there = frozenset(map(int, (self._files.text(path) or '').split()))
        for task in sorted(tasks - there):
            try:
                self._files.write(path, f'{task}\n')
            except OSError as error:
                if error.errno not in (errno.ESRCH, errno.EINVAL):
                    raise
