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
    """Change the masks of some domains of a group."""

    group: str
    masks: Mapping[int, int]


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
        self._own = {guest: set(masks)
                     for guest, masks in layout.exclusive.items()}
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
            for domain, now in self._now[name].items():
                if domain in self._own.get(name, ()):
                    if any(now & mask for other, mask in self._others(
                            name, domain, owners=True)):
                        masks[domain] = self._kept(domain)
                elif domain in target:
                    kept = self._kept(domain)
                    if now & ~target[domain] or kept & ~now:
                        both = now & target[domain]
                        masks[domain] = (
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
            for name, domains in waiting.items():
                free = {
                    domain: self._target[name][domain] for domain in domains
                    if not any(self._target[name][domain] & mask
                               for _other, mask in self._others(name, domain))}
                if free:
                    has_moved = True
                    yield from self._set(name, free)
            if not has_moved:
                # Some are in each other's place: one makes room, and shares
                # with everybody for that moment.
                blocked = next((
                    (name, domain) for name, domains in waiting.items()
                    for domain in domains if self._now[name].get(
                        domain, self._kept(domain)) != self._kept(domain)),
                    None)
                if blocked is None:
                    # What the kernel says of its groups cannot be.
                    return
                name, domain = blocked
                yield from self._set(name, {domain: self._kept(domain)})

    def grow(self) -> Iterator[Step]:
        """Whoever shares a cache takes what is left."""
        for name, target in self._target.items():
            yield from self._set(name, {
                domain: mask for domain, mask in target.items()
                if self._seen.get(name, {}).get(domain) != mask})

    def _waiting(self) -> dict[str, list[int]]:
        return {
            name: domains for name in self._own if (domains := [
                domain for domain in sorted(self._own[name])
                if self._now[name].get(domain) != self._target[name][domain]])}

    def _others(self, name: str, domain: int,
                owners: bool = False) -> Iterator[tuple[str, int]]:
        """The masks that others have in a domain now.

        :param owners: whether only those who are to have their own there
        """
        for other, masks in self._now.items():
            if other != name and domain in masks and (
                    not owners or domain in self._own.get(other, ())):
                yield other, masks[domain]

    def _set(self, name: str, masks: Mapping[int, int]) -> Iterator[Step]:
        if masks:
            self._now[name].update(masks)
            self._seen.setdefault(name, {}).update(masks)
            yield SetMasks(name, dict(masks))

    def _kept(self, domain: int) -> int:
        """Ways that are nobody's own."""
        assert self._limits is not None
        shared = self._target[DEFAULT][domain]
        both = shared & self._limits.kept
        return both if self._is_valid(both) else shared

    def _is_valid(self, mask: int) -> bool:
        assert self._limits is not None
        return (cache_masks.is_contiguous(mask)
                and mask.bit_count() >= self._limits.min_ways)
