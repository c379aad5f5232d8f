# SPDX-License-Identifier: Apache-2.0
"""From the groups that there are to those that there are to be, in steps.

After each step no guest's own ways are in the mask of anybody else who runs,
so whoever is stopped half way leaves nothing that is wrong, only something
that is not finished:

#. groups that are not needed any more go;
#. whoever shares ways gives up those that are about to be a guest's own;
#. guests take their own ways, each once nobody else has them any more;
#. whoever shares ways gets those that have become free.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses

from nova_pinning.agent import cache_model
from nova_pinning.host import cache_masks

#: The name of the default group.
DEFAULT = ''


@dataclasses.dataclass(frozen=True, slots=True)
class RemoveGroup:
    """Give a group up; its threads go to the default group."""

    group: str


@dataclasses.dataclass(frozen=True, slots=True)
class CreateGroup:
    """Make a group, of whatever ways the kernel gives it."""

    group: str


@dataclasses.dataclass(frozen=True, slots=True)
class SetMasks:
    """Change some masks of a group."""

    group: str
    masks: Mapping[cache_masks.Slot, int]


@dataclasses.dataclass(frozen=True, slots=True)
class SetBandwidth:
    """Change the limit of a group, in all domains."""

    group: str
    bandwidth: int


@dataclasses.dataclass(frozen=True, slots=True)
class AddTasks:
    """Put threads into a group."""

    group: str
    tasks: tuple[int, ...]


Step = RemoveGroup | CreateGroup | SetMasks | SetBandwidth | AddTasks


def steps(
    state: cache_model.ResctrlState, layout: cache_model.CacheLayout,
    requests: Iterable[cache_model.CacheRequest], ours: Iterable[str],
    default_bandwidth: int,
) -> Iterator[Step]:
    """All that is to be done, in this order.

    :param ours: those of the present groups that are ours
    :param default_bandwidth: of a guest that asks for none
    """
    for group in sorted(set(ours) - layout.groups):
        yield RemoveGroup(group)
    new = sorted(layout.groups - set(state.groups))
    # Who shares gives up ways before there is anybody to take them.
    transition = _Transition(state, layout)
    yield from transition.shrink()
    for group in new:
        yield CreateGroup(group)
    yield from transition.move()
    yield from transition.grow()
    for request in requests:
        if request.guest not in layout.groups:
            continue
        present = state.groups.get(request.guest)
        if state.bandwidth:
            value = state.bandwidth.rounded(
                request.bandwidth) if request.bandwidth else default_bandwidth
            if present is None or any(
                    there != value for there in present.bandwidth.values()):
                yield SetBandwidth(request.guest, value)
        missing = request.tasks - (present.tasks if present else frozenset())
        if missing:
            yield AddTasks(request.guest, tuple(sorted(missing)))


class _Transition:
    """Masks on their way."""

    def __init__(self, state: cache_model.ResctrlState,
                 layout: cache_model.CacheLayout) -> None:
        self._limits = state.limits
        self._target = {DEFAULT: dict(layout.shared)} if (
            state.limits) else {}
        self._now = {DEFAULT: dict(state.default.masks)}
        self._own = {guest: {slot for slot in layout.shared
                             if slot.domain in masks}
                     for guest, masks in layout.exclusive.items()}
        self._lines = {slot.line for slot in layout.shared}
        for name in sorted(layout.groups) if state.limits else ():
            self._target[name] = layout.masks(name)
            group = state.groups.get(name)
            # Without threads a mask has no effect, so it is in nobody's way.
            self._now[name] = (dict(group.masks) if group and group.tasks
                               else {})
        self._seen = {name: dict(group.masks)
                      for name, group in state.groups.items()}
        self._seen[DEFAULT] = dict(state.default.masks)

    def shrink(self) -> Iterator[Step]:
        """Whoever shares a cache gives up what is to be a guest's own.

        So does a guest whose ways are others' too, which must have been
        somebody else's doing.
        """
        for name, target in self._target.items():
            masks = {}
            for slot, now in self._now[name].items():
                if slot in self._own.get(name, ()):
                    if any(now & mask for mask in self._others(
                            name, slot, owners=True)):
                        masks[slot] = self._kept(slot)
                elif slot in target:
                    kept = self._kept(slot)
                    if now & ~target[slot] or kept & ~now:
                        both = now & target[slot]
                        masks[slot] = (
                            both if self._is_valid(both) and not kept & ~both
                            else kept)
            yield from self._set(name, masks)

    def move(self) -> Iterator[Step]:
        """Guests take their own ways, as they become free."""
        while True:
            waiting = self._waiting()
            if not waiting:
                return
            has_moved = False
            for name, slots in waiting.items():
                free = {
                    slot: self._target[name][slot] for slot in slots
                    if not any(self._target[name][slot] & mask
                               for mask in self._others(name, slot))}
                if free:
                    has_moved = True
                    yield from self._set(name, free)
            if not has_moved:
                # Some are in each other's place: one makes room, and shares
                # with everybody for that moment.
                blocked = next((
                    (name, slot) for name, slots in waiting.items()
                    for slot in slots if self._now[name].get(
                        slot, self._kept(slot)) != self._kept(slot)),
                    None)
                if blocked is None:
                    # What the kernel says of its groups cannot be.
                    return
                name, slot = blocked
                yield from self._set(name, {slot: self._kept(slot)})

    def grow(self) -> Iterator[Step]:
        """Whoever shares a cache takes what is left."""
        for name, target in self._target.items():
            yield from self._set(name, {
                slot: mask for slot, mask in target.items()
                if self._seen.get(name, {}).get(slot) != mask})

    def _waiting(self) -> dict[str, list[cache_masks.Slot]]:
        return {
            name: slots for name in self._own if (slots := [
                slot for slot in sorted(self._own[name])
                if self._now[name].get(slot) != self._target[name][slot]])}

    def _others(self, name: str, slot: cache_masks.Slot,
                owners: bool = False) -> Iterator[int]:
        """The masks that others have in a domain now, of whatever line.

        :param owners: whether only those who are to have their own there
        """
        for line in self._lines:
            there = slot._replace(line=line)
            for other, masks in self._now.items():
                if other != name and there in masks and (
                        not owners or there in self._own.get(other, ())):
                    yield masks[there]

    def _set(self, name: str,
             masks: Mapping[cache_masks.Slot, int]) -> Iterator[Step]:
        if masks:
            self._now[name].update(masks)
            self._seen.setdefault(name, {}).update(masks)
            yield SetMasks(name, dict(masks))

    def _kept(self, slot: cache_masks.Slot) -> int:
        """Ways that are nobody's own."""
        assert self._limits is not None
        shared = self._target[DEFAULT][slot]
        both = shared & self._limits.kept
        return both if self._is_valid(both) else shared

    def _is_valid(self, mask: int) -> bool:
        assert self._limits is not None
        return (cache_masks.is_contiguous(mask)
                and mask.bit_count() >= self._limits.min_ways)
