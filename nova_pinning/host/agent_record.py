# SPDX-License-Identifier: Apache-2.0
"""What nova-pinning agent has changed on a host, as it keeps it in a file.

The agent goes by it when it is started again and when it puts everything
back; a check of the host goes by it in order not to call that a deviation.
"""

from collections.abc import Mapping
import dataclasses
import enum
import functools
import json
from typing import Any

from nova_pinning import cpuset
from nova_pinning.document import atomic_file
from nova_pinning import errors
from nova_pinning.host import cache_masks
from nova_pinning.host import machine_files

#: Where it is by default: a directory that does not outlast the boot, like
#: everything that the agent changes.
PATH = '/run/nova-pinning/agent.json'
_VERSION = 1
#: How many changes are remembered.
HISTORY = 1000


class Kind(enum.StrEnum):
    """What of a host has CPUs that the agent sets."""

    INTERRUPT = 'interrupt'
    QUEUE = 'queue'
    THREAD = 'thread'
    GROUP = 'group'


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """Something that has CPUs, and that can be told others.

    :param subject: an interrupt's number; a file of a queue below
        /sys/class/net, such as 'eth0/queues/tx-0/xps_cpus'; a thread,
        'PID/TID'; the file with the CPUs of a control group
    """

    kind: Kind
    subject: str

    def __str__(self) -> str:
        return f'{self.kind} {self.subject}'


@dataclasses.dataclass
class SettingEntry:
    """A setting that the agent has changed.

    :ivar original: what there was before
    :ivar ours: what the agent has written, or is about to
    :ivar overrides: when somebody else was found to have written
    :ivar replaced: what is there until it has, None once it has
    """

    original: cpuset.CpuSet
    ours: cpuset.CpuSet
    overrides: list[float] = dataclasses.field(default_factory=list)
    replaced: cpuset.CpuSet | None = None

    def is_own(self, cpus: cpuset.CpuSet) -> bool:
        """Whether nobody else has written.

        An agent that was killed may or may not have.
        """
        return cpus in (self.ours, self.replaced)


@dataclasses.dataclass
class AgentRecord:
    """All that the agent has to remember.

    Times are seconds since the machine was booted.

    :ivar base_masks: of resctrl's default group before the agent came, of
        the domains where it has changed them; of an earlier agent the
        ways of all lines of a domain, under the line ''
    :ivar homes: L3 domains by guest, for guests that float
    :ivar moves: when guests got another home lately
    :ivar awaited_memory: UUIDs of guests whose memory is on the NUMA node
        of an earlier home
    :ivar banned_interrupts: those that irqbalance is told to leave alone;
        None if it has been told nothing
    :ivar history: what was done, the latest last: 'time: text'
    """

    settings: dict[Setting, SettingEntry] = dataclasses.field(
        default_factory=dict)
    base_masks: dict[cache_masks.Slot, int] = dataclasses.field(
        default_factory=dict)
    homes: dict[str, frozenset[int]] = dataclasses.field(default_factory=dict)
    moves: list[float] = dataclasses.field(default_factory=list)
    awaited_memory: set[str] = dataclasses.field(default_factory=set)
    banned_interrupts: list[int] | None = None
    history: list[str] = dataclasses.field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in force any more."""
        return not (self.settings or self.base_masks
                    or self.banned_interrupts is not None)

    def has_moved(self, pid: int, cpus: cpuset.CpuSet) -> bool:
        """Whether the agent has given threads of a process these CPUs.

        Those that they start since then are on the same.
        """
        return any(
            setting.kind is Kind.THREAD and entry.ours == cpus
            and setting.subject.startswith(f'{pid}/')
            for setting, entry in self.settings.items())

    def set_interrupts(self) -> dict[int, cpuset.CpuSet]:
        """Interrupts that the agent has placed, with their CPUs."""
        return {int(setting.subject): entry.ours
                for setting, entry in self.settings.items()
                if setting.kind is Kind.INTERRUPT}


def load(tree: machine_files.Tree, path: str = PATH) -> AgentRecord:
    """Read a record; an empty one if there is none.

    :raises errors.InputError: if it makes no sense
    """
    text = tree.text(path)
    if not text:
        return AgentRecord()
    try:
        return _decode(json.loads(text))
    except (AttributeError, KeyError, TypeError, ValueError,
            RecursionError) as error:
        raise errors.InputError(
            f'this is no record of nova-pinning agent: {error}',
            errors.Location(path),
            'remove it if no agent runs; what an agent has changed stays '
            'until guests or the host are started anew') from error


def save(record: AgentRecord, path: str) -> None:
    """Replace the file as a whole.

    :raises errors.InputError: if it cannot be written
    """
    del record.history[:-HISTORY]
    atomic_file.replace(path, json.dumps(_encode(record)) + '\n', mode=0o644)


def _encode(record: AgentRecord) -> dict[str, Any]:
    # Many guests have the same CPUs.
    text = functools.cache(str)
    return {
        'version': _VERSION,
        'settings': [
            {'kind': str(setting.kind), 'subject': setting.subject,
             'original': text(entry.original), 'ours': text(entry.ours),
             'overrides': entry.overrides,
             **({} if entry.replaced is None
                else {'replaced': text(entry.replaced)})}
            for setting, entry in record.settings.items()],
        'base_masks': {f'{slot.line}:{slot.domain}': f'{mask:x}'
                       for slot, mask in record.base_masks.items()},
        'homes': {uuid: sorted(home) for uuid, home in record.homes.items()},
        'moves': record.moves,
        'awaited_memory': sorted(record.awaited_memory),
        'banned_interrupts': record.banned_interrupts,
        'history': record.history}


def _decode(values: Mapping[str, Any]) -> AgentRecord:
    if values['version'] != _VERSION:
        raise ValueError(f'version {values["version"]} is not known')
    parse = cpuset.CpuSet.parse
    return AgentRecord(
        {Setting(Kind(item['kind']), item['subject']): SettingEntry(
            parse(item['original']), parse(item['ours']),
            [float(time) for time in item['overrides']],
            parse(item['replaced']) if 'replaced' in item else None)
         for item in values['settings']},
        {_slot(name): int(mask, 16)
         for name, mask in values['base_masks'].items()},
        {uuid: frozenset(map(int, home))
         for uuid, home in values['homes'].items()},
        [float(time) for time in values['moves']],
        set(map(str, values.get('awaited_memory', ()))),
        values['banned_interrupts'],
        [str(line) for line in values['history']])


def _slot(name: str) -> cache_masks.Slot:
    # Earlier records have the number of the domain only, for all lines.
    line, _colon, domain = name.rpartition(':')
    return cache_masks.Slot(line, int(domain))
