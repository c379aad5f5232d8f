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
from typing import Annotated
from typing import TypeAlias

from nova_pinning import cpuset
from nova_pinning.document import atomic_file
from nova_pinning.document import codec
from nova_pinning.document import decoder
from nova_pinning.document import encoder
from nova_pinning import errors
from nova_pinning.host import cache_masks
from nova_pinning.host import machine_files

#: Where it is by default: a directory that does not outlast the boot, like
#: everything that the agent changes.
PATH = '/run/nova-pinning/agent.json'
_VERSION = 2
_IN_FORCE = 'settings', 'base_masks', 'banned_interrupts'
#: How many changes are remembered.
HISTORY = 1000
# Many guests have the same CPUs.
_Cpus: TypeAlias = Annotated[cpuset.CpuSet, codec.Form(
    str, functools.lru_cache(1024)(str),
    functools.lru_cache(1024)(cpuset.CpuSet.parse))]
_Mask: TypeAlias = Annotated[int, codec.Form(
    str, '{:x}'.format, functools.partial(int, base=16))]
_Slot: TypeAlias = Annotated[cache_masks.Slot, codec.Form(
    str, '{0.line}:{0.domain}'.format, lambda name: cache_masks.Slot(
        name.partition(':')[0], int(name.partition(':')[2])))]


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

    @classmethod
    def parse(cls, text: str) -> 'Setting':
        """What :func:`str` makes of one.

        :raises ValueError: if it has made none like that
        """
        kind, _blank, subject = text.partition(' ')
        return cls(Kind(kind), subject)


@dataclasses.dataclass
class SettingEntry:
    """A setting that the agent has changed.

    :ivar original: what there was before
    :ivar ours: what the agent has written, or is about to
    :ivar overrides: when somebody else was found to have written
    :ivar replaced: what is there until it has, None once it has
    """

    original: _Cpus
    ours: _Cpus
    overrides: tuple[float, ...] = ()
    replaced: _Cpus | None = None

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
        the domains where it has changed them
    :ivar homes: L3 domains by guest, for guests that float
    :ivar moves: when guests got another home lately
    :ivar banned_interrupts: those that irqbalance is told to leave alone;
        None if it has been told nothing
    :ivar history: what was done, the latest last: 'time: text'
    """

    settings: dict[
        Annotated[Setting, codec.Form(str, str, Setting.parse)],
        SettingEntry] = dataclasses.field(default_factory=dict)
    base_masks: Mapping[_Slot, _Mask] = dataclasses.field(default_factory=dict)
    homes: Mapping[str, frozenset[int]] = dataclasses.field(
        default_factory=dict)
    moves: tuple[float, ...] = ()
    banned_interrupts: frozenset[int] | None = None
    history: tuple[str, ...] = ()

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
        values = json.loads(text)
        # An earlier agent that has put everything back is no concern.
        if values.get('version') == 1 and not any(map(values.get, _IN_FORCE)):
            return AgentRecord()
        decoder.member(values.pop('version', None), {_VERSION: _VERSION})
        # An earlier agent had memory of guests to move.
        values.pop('awaited_memory', None)
        record: AgentRecord = decoder.decode(AgentRecord, values)
        return record
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise errors.InputError(
            f'this is no record of nova-pinning agent: {error}',
            errors.Location(path),
            'remove it if no agent runs; what an agent has changed stays '
            'until guests or the host are started anew') from error


def save(record: AgentRecord, path: str) -> None:
    """Replace the file as a whole.

    :raises errors.InputError: if it cannot be written
    """
    atomic_file.replace(path, json.dumps(
        {'version': _VERSION, **encoder.encode(record)}) + '\n', mode=0o644)
