# SPDX-License-Identifier: Apache-2.0
"""Caches and memory bandwidth, kept as guests want them."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import errno

from nova_pinning.agent import cache_layout
from nova_pinning.agent import cache_model
from nova_pinning.agent import cache_steps
from nova_pinning.agent import resctrl
from nova_pinning.host import cache_masks

#: What names of our groups begin with.
PREFIX = 'nova-pinning-'
_UNLIMITED_MBPS = 0xffffffff


@dataclasses.dataclass(frozen=True, slots=True)
class CacheOutcome:
    """What came of an attempt to bring the groups in step.

    :param done: the steps that were taken, or would have been
    :param refused: why a guest has no group, by its name
    :param trouble: what went wrong, '' if nothing
    :param masks: the ways that each guest has for itself, by domain
    """

    done: tuple[cache_steps.Step, ...] = ()
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    trouble: str = ''
    masks: Mapping[str, Mapping[int, int]] = dataclasses.field(
        default_factory=dict)


def group_name(guest: str) -> str:
    """The name of a guest's group."""
    return f'{PREFIX}{guest}'


def is_ours(group: str) -> bool:
    return group.startswith(PREFIX)


class CacheControl:
    """Brings groups in step with what guests ask for.

    It keeps nothing in mind but the masks of the default group from before
    its time, of the domains where it has changed them: whatever else there
    is to know the kernel tells.

    :param base: those masks
    :param remember: keeps them, before anything is changed
    """

    def __init__(
        self, kernel: resctrl.ResctrlGroups,
        base: Mapping[cache_masks.Slot, int] | None = None,
        remember: Callable[[], None] = lambda: None,
    ) -> None:
        self._kernel, self._remember = kernel, remember
        self.base = dict(base or {})
        self.distrust = ''

    def reconcile(
        self, requests: Sequence[cache_model.CacheRequest],
        dry_run: bool = False,
    ) -> CacheOutcome:
        """Bring them in step.

        :param requests: of guests that ask for anything, by the name of
            their group, in the order in which the guests came
        :raises resctrl.CacheUnavailable: if there is nothing to control
        """
        if self.distrust:
            return CacheOutcome(trouble=self.distrust)
        state = self._kernel.read()
        ours = [name for name in state.groups if is_ours(name)]
        base = _base(state, self.base, ours)
        if not requests and not ours and not _changed(state, base):
            # Nothing is ours, so the default group is its owner's to change.
            self.base = {}
            return CacheOutcome()
        wanted, refused = _without_foreign(requests, state)
        layout = cache_layout.lay_out(
            state, {**state.default.masks, **base}, wanted, ours)
        refused |= layout.refused
        asked = {domain for masks in layout.exclusive.values()
                 for domain in masks}
        base |= {slot: mask for slot, mask in state.default.masks.items()
                 if slot.domain in asked and slot not in base}
        if not dry_run:
            self._keep(base)
        done: list[cache_steps.Step] = []
        for step in cache_steps.steps(state, layout, wanted, ours,
                                      _unlimited(state)):
            try:
                if not dry_run:
                    self._kernel.apply(step)
            except resctrl.ResctrlError as error:
                if error.code == errno.EPROTO:
                    self.distrust = (f'{error}; caches are left alone from '
                                     'now on')
                    self.release()
                return CacheOutcome(tuple(done), refused, str(error))
            done.append(step)
        if not dry_run:
            # Where nobody has ways any more, all is as it was.
            self.base = {slot: mask for slot, mask in base.items()
                         if slot.domain in asked}
        return CacheOutcome(tuple(done), refused, '', layout.exclusive)

    def _keep(self, base: dict[cache_masks.Slot, int]) -> None:
        if base != self.base:
            self.base = base
            self._remember()

    def release(self) -> tuple[str, ...]:
        """Put everything back; what could not be is told."""
        try:
            state = self._kernel.read()
        except resctrl.CacheUnavailable:
            return ()
        ours = [name for name in state.groups if is_ours(name)]
        # What is told by groups alone has to be known when they are gone.
        self._keep(_base(state, self.base, ours))
        steps: list[cache_steps.Step] = [*map(cache_steps.RemoveGroup, ours)]
        if changed := _changed(state, self.base):
            steps.append(cache_steps.SetMasks(cache_steps.DEFAULT, changed))
        return tuple(self._failures(steps))

    def _failures(self, steps: Iterable[cache_steps.Step]) -> Iterator[str]:
        for step in steps:
            try:
                self._kernel.apply(step)
            except resctrl.ResctrlError as error:
                yield str(error)


def _base(
    state: cache_model.ResctrlState, known: Mapping[cache_masks.Slot, int],
    ours: Iterable[str],
) -> dict[cache_masks.Slot, int]:
    """What the default group had where we have changed it.

    Where a group of ours has ways of its own and nobody has a record of it,
    an agent was killed, and its record was lost: the default group is taken
    to have had all ways then, as it has when resctrl is mounted.

    :param known: from the record; of resctrl as it was mounted then
    """
    there = state.default.masks
    return {
        **{slot: state.limits.full for slot, mask in there.items()
           if state.limits and any(
               not mask & state.groups[name].masks[slot] for name in ours)},
        **{slot: mask for slot, mask in known.items() if slot in there}}


def _changed(
    state: cache_model.ResctrlState, base: Mapping[cache_masks.Slot, int],
) -> dict[cache_masks.Slot, int]:
    """The masks of the default group that are to go back."""
    return {slot: mask for slot, mask in base.items()
            if state.default.masks[slot] != mask}


def _unlimited(state: cache_model.ResctrlState) -> int:
    """No limit at all: what the default group has."""
    values = state.default.bandwidth.values()
    if state.bandwidth and state.bandwidth.in_mbps:
        return max(values, default=_UNLIMITED_MBPS)
    return max(values, default=100)


def _without_foreign(
    requests: Sequence[cache_model.CacheRequest],
    state: cache_model.ResctrlState,
) -> tuple[list[cache_model.CacheRequest], dict[str, str]]:
    """Leave out guests that somebody else has put into a group."""
    owners = {task: name for name, group in state.groups.items()
              if not is_ours(name) for task in group.tasks}
    if not owners:
        return list(requests), {}
    wanted, refused = [], {}
    for request in requests:
        group = next((owners[task] for task in request.tasks
                      if task in owners), None)
        if group is None:
            wanted.append(request)
        else:
            refused[request.guest] = (
                f'somebody else has put it into resctrl group {group}')
    return wanted, refused
