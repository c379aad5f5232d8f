# SPDX-License-Identifier: Apache-2.0
"""Guests that come and go at random, and what the agent makes of the caches.

Each case is a host with a cache of its own kind, and a few hundred events:
guests arrive, leave, are pinned elsewhere, ask for something else or are
rebooted; somebody makes groups of his own; the agent is started again, with
or without its record; and writes fail, or are the last thing that the agent
does. What must hold is checked after every single change of the kernel's.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import errno
import functools
import itertools
import os
import random

from nova_pinning.agent import cache_control
from nova_pinning.agent import cache_model
from nova_pinning.agent import resctrl
from nova_pinning.host import cache_masks
from nova_pinning.tests.oracle import fake_resctrl

_FAULTS = (errno.EIO, errno.EINVAL, errno.ENOSPC, errno.EBUSY, errno.ENOMEM)


class Violation(AssertionError):
    """Something that must never be."""


@dataclasses.dataclass
class _Guest:
    ways: int
    domains: frozenset[int]
    bandwidth: int
    tasks: frozenset[int]


class CacheCase:
    """One host, and what happens on it.

    :ivar events: how many there were
    """

    def __init__(self, seed: int) -> None:
        self._random = dice = random.Random(seed)
        self.events = 0
        self._domains = range(dice.choice((1, 1, 2, 2, 4)))
        ways = dice.choice((4, 8, 11, 12, 15, 16, 20))
        ends = (0, 0, 0b11 << (ways - 2), 0b11, 0b11 << ways // 2)
        self._kernel = fake_resctrl.FakeResctrl(
            {domain: range(4 * domain, 4 * domain + 4)
             for domain in self._domains},
            ways, dice.choice((1, 1, 2)), dice.choice(ends),
            dice.choice((4, 8, 16)), dice.random() < 0.4,
            dice.choice((None, (10, 10), (5, 5))), dice.random() < 0.1)
        self._kept_ways = dice.choice((1, 2, 3))
        self._guests: dict[str, _Guest] = {}
        #: Of the default group, as its owner wants them.
        self._base: dict[cache_masks.Slot, int] = {}
        self._read_base(self._domains)
        if dice.random() < 0.2:
            self._owner_changes(self._domains)
        self._record: dict[cache_masks.Slot, int] = {}
        self._numbers = itertools.count(1)
        self._crowd = dice.randint(2, 14)
        self._kernel.on_change = self._check_now
        self._start()

    def run(self, events: int) -> None:
        """Let things happen, and look after each of them."""
        for _event in range(events):
            self.events += 1
            is_quiet = self._happen()
            self._reconcile(is_quiet)
        self._guests.clear()
        self._kernel.live.clear()
        self._foreign_goes(everything=True)
        self._reconcile(is_quiet=True)
        self._end()

    def _happen(self) -> bool:
        """One event; returns whether no write is to fail after it."""
        dice = self._random
        self._kernel.fault = lambda what: None
        what = dice.random()
        if not self._guests or (what < 0.6
                                and dice.random() * 2 * self._crowd
                                > len(self._guests)):
            self._arrive()
        elif what < 0.6:
            self._leave()
        elif what < 0.7:
            guest = self._guests[dice.choice(list(self._guests))]
            guest.domains = self._some_domains()
        elif what < 0.75:
            guest = self._guests[dice.choice(list(self._guests))]
            guest.ways = self._some_ways()
        elif what < 0.8:
            # A hard reboot: other threads under the same name.
            guest = self._guests[dice.choice(list(self._guests))]
            self._kernel.live -= guest.tasks
            guest.tasks = self._threads()
        elif what < 0.85:
            # A thread more.
            guest = self._guests[dice.choice(list(self._guests))]
            guest.tasks |= self._threads(1)
        elif what < 0.9:
            # Without one, nobody could know what there was before.
            self._start(may_lose=set(self._base.values()) == {
                self._kernel.full})
        elif what < 0.905:
            self._owner_changes([domain for domain in self._domains
                                 if not self._is_asked_for(domain)])
        elif what < 0.91:
            self._foreign_comes()
        elif what < 0.93:
            self._foreign_goes()
        else:
            self._break_something()
            return False
        return True

    def _start(self, may_lose: bool = False) -> None:
        """The agent starts anew; now and then its record is lost."""
        if may_lose and self._random.random() < 0.2:
            self._record = {}
        agent = self._agent = cache_control.CacheControl(
            resctrl.ResctrlGroups(self._kernel, self._kept_ways), self._record,
            lambda: setattr(self, '_record', dict(agent.base)))

    def _arrive(self) -> None:
        dice = self._random
        name = cache_control.group_name(str(next(self._numbers)))
        bandwidth = dice.choice((0, 0, 5, 30, 95))
        ways = self._some_ways()
        if ways or bandwidth:
            self._guests[name] = _Guest(ways, self._some_domains(),
                                        bandwidth, self._threads())

    def _leave(self) -> None:
        name = self._random.choice(list(self._guests))
        self._kernel.live -= self._guests.pop(name).tasks

    def _break_something(self) -> None:
        dice = self._random
        left = dice.randrange(6)
        code = dice.choice((*_FAULTS, 0))

        def fault(what: str) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                if not code:
                    raise fake_resctrl.Crash(what)
                raise OSError(code, os.strerror(code))

        self._kernel.fault = fault
        (self._arrive if dice.random() < 0.5 or not self._guests
         else self._leave)()

    def _foreign_comes(self) -> None:
        dice, kernel = self._random, self._kernel
        name = f'{fake_resctrl.ROOT}/other{dice.randrange(3)}'
        kernel.on_change = lambda: None
        try:
            kernel.make_directory(name)
            self._write_masks(name, self._domains, kernel.ways // 4)
        except OSError:
            pass
        kernel.on_change = self._check_now

    def _owner_changes(self, domains: Sequence[int]) -> None:
        """Somebody gives the default group other masks."""
        on_change = self._kernel.on_change
        self._kernel.on_change = lambda: None
        if domains:
            self._write_masks(fake_resctrl.ROOT, domains, self._kernel.ways)
        self._read_base(domains)
        self._kernel.on_change = on_change

    def _write_masks(self, directory: str, domains: Sequence[int],
                     most: int) -> None:
        """Masks of any run of ways, now and then others for each line."""
        dice, kernel = self._random, self._kernel
        least = kernel.min_bits if most < kernel.ways else most // 2

        def masks() -> str:
            texts = []
            for domain in domains:
                ways = dice.randint(least, max(least, most))
                first = dice.randint(0, kernel.ways - ways)
                texts.append(f'{domain}={((1 << ways) - 1) << first:x}')
            return ';'.join(texts)

        same = masks() if dice.random() < 0.5 else ''
        kernel.write(f'{directory}/schemata', ''.join(
            f'{line}:{same or masks()}\n' for line in kernel.lines))

    def _read_base(self, domains: Iterable[int]) -> None:
        self._base |= {
            cache_masks.Slot(line, domain): masks[domain]
            for line, masks in self._kernel.default.masks.items()
            for domain in domains}

    def _everybodys(self, domain: int) -> int:
        """The ways that the default group has for code and for data."""
        return functools.reduce(int.__and__, (
            mask for slot, mask in self._base.items()
            if slot.domain == domain))

    def _is_asked_for(self, domain: int) -> bool:
        return any(guest.ways and domain in guest.domains
                   for guest in self._guests.values())

    def _foreign_goes(self, everything: bool = False) -> None:
        for name in list(self._kernel.groups):
            if not cache_control.is_ours(name) and (
                    everything or self._random.random() < 0.5):
                del self._kernel.groups[name]

    def _some_ways(self) -> int:
        return self._random.choice(
            (0, 1, 2, 2, 3, 4, self._kernel.ways // 2, self._kernel.ways))

    def _some_domains(self) -> frozenset[int]:
        dice = self._random
        return frozenset(dice.sample(
            self._domains, dice.choice((1, 1, 1, len(self._domains)))))

    def _threads(self, count: int = 2) -> frozenset[int]:
        tasks = frozenset(itertools.islice(self._numbers, count))
        self._kernel.live |= tasks
        return tasks

    def _requests(self) -> Iterator[cache_model.CacheRequest]:
        for name, guest in self._guests.items():
            yield cache_model.CacheRequest(
                name, guest.ways, guest.domains, guest.bandwidth, guest.tasks)

    def _reconcile(self, is_quiet: bool) -> None:
        requests = list(self._requests())
        try:
            outcome = self._agent.reconcile(requests)
        except fake_resctrl.Crash:
            self._kernel.fault = lambda what: None
            self._start()
            outcome = self._agent.reconcile(requests)
        if outcome.trouble:
            if is_quiet:
                raise Violation(f'trouble without a fault: {outcome.trouble}')
            self._kernel.fault = lambda what: None
            outcome = self._agent.reconcile(requests)
            if outcome.trouble:
                raise Violation(f'trouble that stays: {outcome.trouble}')
        self._kernel.fault = lambda what: None
        self._check_result(outcome)
        # Most events look at what the last one has left anyway.
        if self.events % 5 == 0:
            again = self._agent.reconcile(requests)
            if again.done:
                raise Violation(f'not settled: {again.done}')

    # What must hold.

    def _masks(self, group: 'fake_resctrl._Group') -> dict[int, int]:
        masks = dict.fromkeys(self._domains, 0)
        for values in group.masks.values():
            for domain, mask in values.items():
                masks[domain] |= mask
        return masks

    def _limits(self) -> cache_model.CacheLimits:
        kernel = self._kernel
        return cache_model.CacheLimits(
            kernel.ways, kernel.min_bits, kernel.shareable,
            min(self._kept_ways, kernel.ways))

    def _check_now(self) -> None:
        """Ways of two who run overlap only where they are everybody's."""
        if not self._guests:
            return
        kept = self._limits().kept
        running = [('', self._masks(self._kernel.default))] + [
            (name, self._masks(group))
            for name, group in self._kernel.groups.items()
            if group.tasks & self._kernel.live and name in self._guests]
        for domain in self._domains:
            if kept & ~self._everybodys(domain):
                # Nobody can have ways of his own there.
                continue
            own = 0
            shared = 0
            for name, masks in running:
                mask = masks[domain]
                if mask & kept or not name:
                    shared |= mask
                else:
                    if mask & own:
                        raise Violation(f'{name} has ways of others in '
                                        f'domain {domain}: {mask:x}')
                    own |= mask
            if own & shared:
                raise Violation(f'own ways {own & shared:x} in domain '
                                f'{domain} are shared')

    def _check_result(self, outcome: cache_control.CacheOutcome) -> None:
        groups = {name: group for name, group in self._kernel.groups.items()
                  if cache_control.is_ours(name)}
        if set(groups) != set(self._guests) - set(outcome.refused):
            raise Violation(f'groups {sorted(groups)}, guests '
                            f'{sorted(self._guests)}, {outcome.refused}')
        for name, group in groups.items():
            guest = self._guests[name]
            if not guest.tasks <= group.tasks:
                raise Violation(f'{name} has threads outside of its group')
            for domain in guest.domains if guest.ways else ():
                for masks in group.masks.values():
                    if masks[domain].bit_count() != guest.ways:
                        raise Violation(f'{name} has {masks[domain]:x}')
        for name, reason in outcome.refused.items():
            self._check_refusal(name, reason)
        self._check_untouched(domain for domain in self._domains
                              if not self._is_asked_for(domain))
        if not self._guests:
            self._check_empty()

    def _check_refusal(self, name: str, reason: str) -> None:
        """A guest that was refused could not have been served."""
        kernel, guest = self._kernel, self._guests[name]
        if len(kernel.groups) + 1 >= kernel.closids:
            return
        if guest.bandwidth and not kernel.bandwidth:
            return
        if guest.ways and any(
                guest.ways < kernel.min_bits
                or not self._has_room(domain, guest.ways)
                for domain in guest.domains):
            return
        raise Violation(f'{name} was refused without need: {reason}')

    def _has_room(self, domain: int, ways: int) -> bool:
        """Whether the longest run of free ways has room for a guest more."""
        used = sum(guest.ways for name, guest in self._guests.items()
                   if name in self._kernel.groups and domain in guest.domains)
        kept = self._limits().kept
        if kept & ~self._everybodys(domain):
            return False
        free = self._everybodys(domain) & ~kept
        for name, group in self._kernel.groups.items():
            if name not in self._guests:
                free &= ~self._masks(group)[domain]
        runs = map(len, f'{free:b}'.split('0'))
        return used + ways <= (max(runs) if free else 0)

    def _check_empty(self) -> None:
        left = [name for name in self._kernel.groups
                if cache_control.is_ours(name)]
        if left:
            raise Violation(f'left behind: {left}')
        self._check_untouched(self._domains)

    def _check_untouched(self, domains: Iterable[int]) -> None:
        for domain in domains:
            for line, masks in self._kernel.default.masks.items():
                mask = self._base[cache_masks.Slot(line, domain)]
                if masks[domain] != mask:
                    raise Violation(
                        f'the default group has {masks[domain]:x} in '
                        f'{line}:{domain}, and had {mask:x}')

    def _end(self) -> None:
        self._agent.release()
        self._check_empty()
