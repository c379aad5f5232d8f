# SPDX-License-Identifier: Apache-2.0
"""Every answer about devices, held against Placement and nova's claims.

A cloud is some hosts with devices, aliases, and flavors with images; guests
are on some hosts, by nova's own claims. Each host with each flavor is a case.
What is right is what nova comes to: whether with any of Placement's
allocation candidates its filters let the guest pass, and the claim then gives
it all that it asks for. By hand::

    python -m nova_pinning.tests.oracle.device_series --cases 2000
"""

import collections
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import copy
import random
import sys
from typing import Any

from nova_pinning.bridge.offline import standalone

standalone.prepare()

from nova_pinning.admission import guest_request  # noqa: E402
from nova_pinning.admission import host_occupancy  # noqa: E402
from nova_pinning.admission import judge  # noqa: E402
from nova_pinning.admission import outcome  # noqa: E402
from nova_pinning.bridge.offline import deferred_claim  # noqa: E402
from nova_pinning.bridge.offline import flavor_request  # noqa: E402
from nova_pinning.capacity import capacity  # noqa: E402
from nova_pinning.capacity import count  # noqa: E402
from nova_pinning.capacity import like_hosts  # noqa: E402
from nova_pinning.capacity import stranded_devices  # noqa: E402
from nova_pinning import errors  # noqa: E402
from nova_pinning.explain import explanation  # noqa: E402
from nova_pinning.fleet import occupied  # noqa: E402
from nova_pinning.scheduler import filters  # noqa: E402
from nova_pinning.simulation import admission_columns  # noqa: E402
from nova_pinning.simulation import fast  # noqa: E402
from nova_pinning.simulation import scheduler_configuration  # noqa: E402
from nova_pinning.tests.oracle import device_figures  # noqa: E402
from nova_pinning.tests.oracle import device_fleet  # noqa: E402
from nova_pinning.tests.oracle import device_nova  # noqa: E402
from nova_pinning.tests.oracle import moved_devices  # noqa: E402
from nova_pinning.tests.oracle import numbered_cases  # noqa: E402
from nova_pinning.tests.oracle import second_guests  # noqa: E402

HOSTS, FLAVORS = 24, 10
#: In how many clouds the commands are asked that ask the judge.
SURFACES_EVERY = 4
#: Flavors that are asked for once more guests have come, in the others.
_SECONDS = 4
_NEW = '00000000-0000-0000-0000-0000000000ff'
_YES, _NO, _UNDECIDED = 'yes', 'no', 'undecided'
_ANSWERS = {outcome.Admitted: _YES, outcome.NotAdmitted: _NO,
            outcome.Undecided: _UNDECIDED}


class _Comparison:
    """One cloud, asked of both sides."""

    def __init__(self, seed: int, number: int,
                 counts: numbered_cases.Counts) -> None:
        self._counts = counts
        self.differences: list[str] = []
        self._number = number
        self.nova = device_fleet.NovaFleet(seed, number, HOSTS, FLAVORS)
        self.chance = random.Random(f'series {seed} {number}')
        self.nova.fill(self.chance.choice(
            (2, 5, 10) if self.nova.cloud.is_even else (0, 1, 3, 6)))
        if self.chance.random() < 0.3:
            self.nova.reserve()
        self._import()
        self.requests: dict[str, guest_request.GuestRequest] = {}
        #: Placement's candidates, by flavor and host.
        self.candidates: dict[str, dict[str, list[dict[str, Any]]]] = {}
        #: By host and flavor: nova's claims that are right.
        self.right: dict[tuple[str, str], list[
            tuple[Mapping[str, Any], device_nova.NovaClaim]]] = {}

    def _import(self) -> None:
        """Our own view of the hosts as they are."""
        self.fleet = self.nova.imported()
        self.there = occupied.of_fleet(self.fleet)
        self.judge = judge.AdmissionJudge(
            occupied.rules_of(self.fleet), deferred_claim.BOUNDS)
        self.explain = explanation.judge_of(
            self.fleet, bounds=deferred_claim.BOUNDS)
        #: The hosts as nova-scheduler has counted the last guest on them.
        self.states: dict[str, Any] = {}
        #: The same as our own commands have.
        self.counted: dict[str, host_occupancy.HostOccupancy] = {}

    def differ(self, what: str) -> None:
        """Note down what is wrong."""
        self.differences.append(what)

    def count(self, *what: str) -> None:
        self._counts.update(what)

    def run(self) -> None:
        """Ask everything."""
        self._read_orders()
        self._ask_for(self.requests)
        self._move()
        if self._number % SURFACES_EVERY == 0:
            self._simulate()
            self._strand()
            for surface, text in device_figures.differences(
                    self.nova, self.fleet, [*self.requests.values()]):
                self.differ(f'{surface}: {text}')
            self._count()
        else:
            self._follow()

    def _ask_for(self, names: Iterable[str]) -> None:
        self.nova.store()
        for name in names:
            found = self.candidates[name] = self.nova.candidates(name)
            for host in self.nova.hosts:
                self._ask(host, name, found.get(host, []))

    def _follow(self) -> None:
        """After one more guest on each host, others are asked for."""
        came = {}
        for host in self.nova.hosts:
            may = [name for name in self.requests if self.right[host, name]]
            if not may:
                continue
            name = self.chance.choice(may)
            request, before = self.requests[name], self.there[host]
            answer = self.judge.answer(request, before)
            state = second_guests.come(
                self.nova, host, name, self.candidates[name][host])
            if state is not None:
                came[host] = state, request, before, answer
        self._import()
        for host, (state, request, before, answer) in came.items():
            is_true = second_guests.is_true(state, self.nova.hosts[host])
            self.count(f'second: nova-scheduler counts {_said(is_true)}')
            if is_true:
                self.states[host] = state
            if isinstance(answer, outcome.Admitted):
                ours = judge.resident(request, before, answer.use)
                is_same = second_guests.are_alike(
                    ours, self.there[host].guests[-1])
                self.count(f'second: our count {_said(is_same)}')
                if is_same:
                    self.counted[host] = before.adding(ours)
        self._ask_for(self.chance.sample(
            sorted(self.requests), min(len(self.requests), _SECONDS)))

    def _read_orders(self) -> None:
        """The flavors, as our commands read them."""
        with flavor_request.batch(self.fleet.rules.pci_in_placement):
            for flavor, image in self.nova.cloud.orders:
                ours: guest_request.GuestRequest | None = None
                with contextlib.suppress(errors.InputError):
                    ours = flavor_request.request_for(
                        flavor, image, self.fleet.pci_aliases)
                if (ours is None) is not (
                        self.nova.orders[flavor.name] is None):
                    self.differ(f'{flavor}: nova '
                                f'{self.nova.orders[flavor.name]}')
                elif ours is not None:
                    self.requests[flavor.name] = ours

    def _ask(self, host: str, name: str,
             candidates: Sequence[dict[str, Any]]) -> None:
        """All that is asked of one host and one flavor."""
        order = self.nova.orders[name]
        assert order is not None
        nova = self.nova.hosts[host]
        passing = nova.passing(order, candidates) if candidates else []
        claims = [(one, claim) for one in passing
                  if (claim := nova.claimed(order, one, _NEW)) is not None]
        self.right[host, name] = claims
        right = _YES if claims else _NO
        self.count('cases', f'nova {right}', f'nova {right}' + (
            ' with devices' if order.wanted else ' without'))
        # Of others nova's PciPassthroughFilter alone decides.
        if candidates and order.spec.numa_topology:
            self._filter(host, name, candidates, claims)
        request = self.requests[name]
        answer = self.judge.answer(request, self.there[host])
        explained = self.explain.verdict(
            self.there[host], request)
        shown = (_NO if not explained.fits else
                 _UNDECIDED if explained.doubts else _YES)
        for surface, said, doubts in (
                ('judge', _ANSWERS[type(answer)],
                 getattr(answer, 'doubts', ())),
                ('explain', shown, explained.doubts)):
            self.count(f'{surface} {said}')
            if said == _UNDECIDED:
                if not all(doubt.text for doubt in doubts):
                    self.differ(f'{surface}, {host}, {name}: silent')
            elif said != right:
                self.differ(f'{surface}, {host}, {name}: {said}, nova says '
                            f'{right}: {getattr(answer, "refusals", "")}')
        if isinstance(answer, outcome.Admitted):
            self._devices(host, name, answer)
        if host in self.counted:
            again = self.judge.answer(request, self.counted[host])
            said = _ANSWERS[type(again)]
            self.count(f'second {said}')
            # Of devices that guests have nova does not tell all.
            if said not in (right, _UNDECIDED) or (
                    _given(again) != _given(answer)):
                self.differ(f'second, {host}, {name}: {again}, and imported '
                            f'{answer}, nova says {right}')

    def _devices(self, host: str, name: str,
                 answer: outcome.Admitted) -> None:
        """Whether nova gives such devices with any of its candidates."""
        devices = {device.address: device
                   for device in self.nova.hosts[host].tracker.pci_devs}
        _fit, mine = _given(answer)
        given = [collections.Counter(
            (f'{devices[one].vendor_id}:{devices[one].product_id}',
             devices[one].numa_node) for one in claim.addresses)
            for _candidate, claim in self.right[host, name]]
        if given and mine not in given:
            self.differ(f'use, {host}, {name}: {mine}, nova gives {given}')

    def _filter(self, host: str, name: str,
                candidates: Sequence[dict[str, Any]],
                claims: Sequence[tuple[Mapping[str, Any], Any]]) -> None:
        """PinnedTopologyFilter after PciPassthroughFilter."""
        order = self.nova.orders[name]
        nova = self.nova.hosts[host]
        state, surface = nova.state(candidates), 'filter'
        if host in self.states:
            surface, state = 'second filter', copy.copy(self.states[host])
            state.allocation_candidates = [*candidates]
            state.limits = {}
        kinds = [device_nova.FILTERS[0], filters.PinnedTopologyFilter]
        # Each host is asked by a request of its own: of one for several hosts
        # those are passed over that would be worse alternates.
        left = device_nova.filtered(kinds, [state], copy.copy(order.spec))
        said = _YES if left else _NO
        self.count(f'{surface} {said}')
        if said != (_YES if claims else _NO):
            self.differ(f'{surface}, {host}, {name}: {said}, nova claims '
                        f'{len(claims)} of {len(candidates)}')
        elif left:
            wrong = [one for one in left[0].allocation_candidates
                     if nova.claimed(order, one, _NEW) is None]
            if wrong:
                self.differ(f'{surface}, {host}, {name}: leaves candidates '
                            f'that fail: {len(wrong)}')

    def _simulate(self) -> None:
        """A scheduler that is simulated chooses a host that is right."""
        configuration = scheduler_configuration.SchedulerConfiguration(
            name='x', enabled_filters=self.fleet.enabled_filters,
            packs_cells=self.fleet.packs_cells)
        columns = admission_columns.of_fleet(
            self.fleet, configuration, range(HOSTS))
        scheduler = fast.FastScheduler(columns, configuration)
        for name, request in self.requests.items():
            may = {host for host in self.nova.hosts if self.right[host, name]}
            placed = scheduler.place(_NEW, request)
            chosen = None if placed.host is None else (
                columns.ledger.hosts[placed.host].name)
            self.count('simulate ' + (_YES if chosen else _NO))
            if chosen is None:
                if may and not columns.doubts:
                    self.differ(f'simulate, {name}: nowhere, nova {may}')
                continue
            if chosen not in may:
                self.differ(f'simulate, {name}: {chosen}, nova {may}')
            scheduler.remove(_NEW)

    def _strand(self) -> None:
        """No device is called stranded that nova gives."""
        requests = capacity.ranked(self.requests.values())
        finder = stranded_devices.DeviceFinder(
            [count.Counter(request, self.judge) for request in requests])
        numbering = like_hosts.Numbering()
        for host, nova in self.nova.hosts.items():
            counted = numbering.host(self.there[host])
            said = finder.by_place(counted)
            free = {device.address: (device, pool.get('live_migratable'))
                    for pool in nova.tracker.stats.pools
                    for device in pool['devices']}
            given = {address for name in self.requests
                     for _one, claim in self.right[host, name]
                     for address in claim.addresses}
            for place, cause in said.items():
                self.count(f'stranded {cause}')
                if cause is None:
                    continue
                pool = counted.pools[place]
                hit = [address for address in given
                       if _is_of(*free[address], pool, counted.occupancy)]
                if hit:
                    self.differ(f'stranded, {host}: {pool} ({cause}), nova '
                                f'gives {hit}')

    def _count(self) -> None:
        """As many guests as are counted nova places, and no more."""
        measured = capacity.measure(
            self.fleet, [*self.requests.values()])
        self._fill(measured)
        for place, request in enumerate(measured.requests):
            for one in measured.hosts:
                counted = one.counts[place]
                right = bool(self.right[one.host.name, request.name])
                said = (_NO if not counted.fits else
                        _YES if counted.certain else _UNDECIDED)
                self.count(f'capacity {said}')
                if said == _UNDECIDED:
                    if not counted.doubts:
                        self.differ('capacity: silent')
                elif (said == _YES) is not right:
                    self.differ(
                        f'capacity, {one.host.name}, {request.name}: '
                        f'{counted.fits}, nova says {right}')

    def _move(self) -> None:
        """Guests move where nova moves them, to what it allots to them."""
        for one in moved_devices.answers(
                self.nova, self.fleet, self.there, self.chance):
            if not one.kind:
                self.count('move refused by rule')
                continue
            said = (_UNDECIDED if one.said is None else
                    _YES if one.said else _NO)
            self.count(f'move {said}')
            if one.guest.devices:
                self.count(f'move {one.kind} with devices {said}')
            is_wrong = (not (one.right and all(one.right)) if one.said
                        else one.said is False and any(one.right))
            if is_wrong:
                self.differ(f'move {one.kind}, {one.host}, '
                            f'{one.guest.flavor}: {said}, nova '
                            f'{one.right}: {one.text}')

    def _fill(self, measured: capacity.FleetCapacity) -> None:
        """Have nova place guests of one flavor until no more come.

        To change the hosts is the last that is done with a cloud. Of several
        candidates nova takes one, and we another, so that the most that fit
        is all that can be held against it then.
        """
        number, request = max(
            enumerate(measured.requests), key=lambda one: sum(
                bool(host.counts[one[0]].fits) for host in measured.hosts))
        came = self.nova.fill_with(request.name)
        for host in measured.hosts:
            counted, right = host.counts[number], came[host.host.name]
            if counted.doubts:
                continue
            self.count('capacity counted to the end')
            most = counted.fits if not request.minds_candidates else (
                counted.most)
            if most is not None and right > most or (
                    not request.minds_candidates and right < counted.fits):
                self.differ(f'capacity, {host.host.name}, {request.name}: '
                            f'{counted.fits} to {counted.most}, nova places '
                            f'{right}')


def _given(answer: outcome.Outcome) -> tuple[Any, collections.Counter[Any]]:
    """Where the guest lies, and its devices by kind and node."""
    found = collections.Counter[Any]()
    if isinstance(answer, outcome.NotAdmitted):
        return None, found
    for use in answer.use.pci_devices:
        found[use.kind, use.numa_node] += use.count
    return answer.use.fit, found


def _said(yes: bool) -> str:
    return _YES if yes else _NO


def _is_of(device: Any, moves_live: str | None, pool: Any,
           there: host_occupancy.HostOccupancy) -> bool:
    """Whether a device of nova's is of one of our pools."""
    keys = dict(pool.keys)
    if (device.vendor_id, device.product_id, device.numa_node,
            device.dev_type, moves_live) != (
            keys['vendor_id'], keys['product_id'], pool.numa_node,
            keys['dev_type'], keys.get('live_migratable')):
        return False
    if keys.get('address') not in (
            None, device.parent_addr or device.address):
        return False
    provider = device.extra_info.get('rp_uuid')
    return (pool.provider is None or
            there.providers[pool.provider].uuid == provider)


def differences(seed: int, number: int,
                counts: numbered_cases.Counts) -> list[str]:
    """Hold a cloud against nova."""
    one = _Comparison(seed, number, counts)
    try:
        one.run()
    finally:
        one.nova.close()
    return one.differences


if __name__ == '__main__':
    sys.exit(numbered_cases.main(differences, __doc__, HOSTS * FLAVORS))
