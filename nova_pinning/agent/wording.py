# SPDX-License-Identifier: Apache-2.0
"""What the agent does, in words."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import functools

from nova_pinning.agent import agent_model
from nova_pinning.agent import cache_steps
from nova_pinning.agent import settings_ledger
from nova_pinning import cpuset
from nova_pinning.host import agent_record

_Kind = agent_record.Kind


class Subjects:
    """What settings are of, in words."""

    def __init__(self, guests: Iterable[agent_model.AgentGuest]) -> None:
        self._guests: dict[str, agent_model.AgentGuest] = {}
        for guest in guests:
            self._guests[str(guest.pid)] = guest
            self._guests[guest.emulator_group] = guest

    def name(self, setting: agent_record.Setting) -> str:
        process, _slash, thread = setting.subject.partition('/')
        if setting.kind is _Kind.THREAD and process in self._guests:
            guest = self._guests[process]
            return f'{_part(guest, int(thread))} of {guest_name(guest)}'
        if setting.kind is _Kind.GROUP and setting.subject in self._guests:
            return ('emulator threads of '
                    f'{guest_name(self._guests[setting.subject])}')
        return str(setting)


def changes(made: Iterable[settings_ledger.Change],
            subjects: Subjects) -> Iterator[str]:
    """Changes of settings; what is alike is said once."""
    # Many guests have the same CPUs.
    text = functools.cache(str)
    alike: dict[tuple[str, str], list[agent_record.Setting]] = {}
    for change in made:
        back = ', as before' if change.is_return else ''
        alike.setdefault((
            subjects.name(change.setting),
            f'CPUs {text(change.cpus) or "any"}{back} '
            f'(was {text(change.before) or "any"})'),
            []).append(change.setting)
    interrupts: dict[str, list[int]] = {}
    for (name, what), settings in alike.items():
        if settings[0].kind is _Kind.INTERRUPT:
            interrupts.setdefault(what, []).append(int(settings[0].subject))
        else:
            yield f'{name}: {what}'
    for what, numbers in interrupts.items():
        several = 's' if len(numbers) > 1 else ''
        yield f'interrupt{several} {cpuset.CpuSet(numbers)}: {what}'


def guest_name(guest: agent_model.AgentGuest) -> str:
    return f'guest {guest.name} ({guest.uuid})'


def step(one: cache_steps.Step, names: Mapping[str, str]) -> str:
    """A change of a cache group.

    :param names: those of guests, by group
    """
    group = (f'group of {names.get(one.group, one.group)}' if one.group
             else 'the default group')
    match one:
        case cache_steps.RemoveGroup():
            return f'{group} is given up'
        case cache_steps.CreateGroup():
            return f'{group} is made'
        case cache_steps.SetMasks(masks=masks):
            return f'{group} gets ' + ', '.join(
                f'{slot.line} ways {mask:x} in domain {slot.domain}'
                for slot, mask in sorted(masks.items()))
        case cache_steps.SetBandwidth(bandwidth=bandwidth):
            return f'{group} gets memory bandwidth {bandwidth}'
        case cache_steps.AddTasks(tasks=tasks):
            several = 's' if len(tasks) > 1 else ''
            return f'{group} gets {len(tasks)} thread{several}'


def _part(guest: agent_model.AgentGuest, thread: int) -> str:
    if thread in guest.vcpu_tasks:
        return 'vCPUs'
    return 'vhost' if thread in guest.vhost else 'emulator threads'
