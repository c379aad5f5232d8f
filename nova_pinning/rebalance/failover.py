# SPDX-License-Identifier: Apache-2.0
"""Whether all guests come up elsewhere when a host, or a rack, is lost.

Guests are tried first, the largest first and each where it is tightest: if
all come up, that is the proof. Otherwise an integer program tells how many
stay down at least, and where it and the trial part, its own evacuation is
tried, and then, if they are few enough, all there are. What is neither shown
nor proved then is unknown, and said to be. A host of which not all is known
takes no guest, and proves nothing either.
"""

import collections
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning import errors
from nova_pinning.explain import host_verdicts
from nova_pinning.explain import verdict_summary
from nova_pinning import fit
from nova_pinning.fleet import guest_kinds
from nova_pinning.fleet import snapshot
from nova_pinning.host import words
from nova_pinning import model
from nova_pinning.rebalance import evacuation
from nova_pinning.rebalance import evacuation_proof
from nova_pinning.rebalance import failover_model
from nova_pinning.rebalance import failover_reserve
from nova_pinning.rebalance import move_rules

#: What is lost together, unless it is a key of aggregates' metadata or the
#: name of an aggregate.
BY_HOST, BY_AGGREGATE = 'host', 'aggregate'

#: Why a host does not take a guest, as :meth:`_LossJudge._cause` has it, and
#: the free CPUs of its cells.
_Cause = tuple[tuple[str, host_verdicts.RefusalCause | str], list[int]]
# That a line has room for.
_REASONS = 3

#: Told how many losses of how many have been looked at.
Tell = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FailoverSettings:
    """How hard to try.

    :param seconds: that a proof for one loss may take
    :param most_tries: of fits, where all evacuations are looked at
    :param has_reserve: whether the least reserve is looked for
    :param ask_nova: nova's own claim, None to take the engine's word
    """

    seconds: float = 5.0
    most_tries: int = 20_000
    has_reserve: bool = True
    ask_nova: fit.AskNova | None = None


def groups_of(
    fleet: snapshot.Fleet, by: str,
) -> tuple[Mapping[str, tuple[str, ...]], tuple[str, ...]]:
    """The hosts that are lost together, by name, and those in no group.

    :param by: BY_HOST, BY_AGGREGATE, a key of aggregates' metadata, whose
        values are then the names, or the name of one aggregate
    :raises errors.InputError: if the fleet has nothing of that name
    """
    names = [host.name for host in fleet.hosts]
    if by == BY_HOST:
        return {name: (name,) for name in names}, ()
    labels = {
        aggregate.name: label for aggregate in fleet.aggregates
        if (label := _label(aggregate, by))}
    if not labels:
        raise errors.InputError(
            f'has no aggregate with {by} in its metadata, nor one of that '
            'name', fleet.where, 'group hosts by host, aggregate, or one of '
            'these keys: ' + (', '.join(sorted({
                key for aggregate in fleet.aggregates
                for key in aggregate.metadata})) or 'there are none'))
    groups: dict[str, list[str]] = {}
    grouped = set()
    for host in fleet.hosts:
        for label in dict.fromkeys(
                labels[name] for name in host.aggregates if name in labels):
            groups.setdefault(label, []).append(host.name)
            grouped.add(host.name)
    return ({label: tuple(hosts) for label, hosts in groups.items()},
            tuple(name for name in names if name not in grouped))


def _label(aggregate: offered_host.Aggregate, by: str) -> str:
    if by == BY_AGGREGATE or by == aggregate.name:
        return aggregate.name
    return aggregate.metadata.get(by, '')


def check_failover(
    fleet: snapshot.Fleet, by: str = BY_HOST,
    rules: move_rules.MoveRules | None = None,
    settings: FailoverSettings = FailoverSettings(),
    tell: Tell = lambda done, total: None,
    only: Iterable[str] = (),
) -> failover_model.FailoverReport:
    """Look at the loss of each host, or each group of hosts.

    :param by: as :func:`groups_of` takes it
    :param rules: of evacuations; those of nova alone if left out
    :param only: names of the groups to look at; () for all
    :raises errors.InputError: if there is no such group
    """
    groups, ungrouped = groups_of(fleet, by)
    wanted = list(only)
    for name in wanted:
        if name not in groups:
            raise errors.InputError(
                f'there is no {by} {name} in the fleet', fleet.where)
    judge = _LossJudge(evacuation.EvacuationFleet(
        fleet, rules or move_rules.MoveRules(fleet), settings.ask_nova),
        settings)
    names = wanted or list(groups)
    losses = []
    for number, name in enumerate(names):
        tell(number, len(names))
        losses.append(judge.loss(name, groups[name]))
    reserve = None
    if settings.has_reserve:
        reserve = failover_reserve.least_reserve(judge.fleet, losses)
    tell(len(names), len(names))
    return failover_model.FailoverReport(
        groups=by, losses=tuple(losses), reserve=reserve,
        ungrouped=ungrouped, taken_at=fleet.taken_at)


class _LossJudge:
    """Judges losses, one after the other; what fits where is kept."""

    def __init__(self, fleet: evacuation.EvacuationFleet,
                 settings: FailoverSettings) -> None:
        self.fleet = fleet
        self._settings = settings
        #: Why hosts do not take guests, by kind and name.
        self._causes: dict[int, Mapping[str, _Cause]] = {}
        self._kept = [
            host.name for host in fleet.fleet.hosts
            if fleet.rules.scheduler.reserve_of(host) and host.is_enabled]

    def loss(self, name: str,
             hosts: Sequence[str]) -> failover_model.HostLoss:
        """What becomes of the guests of these hosts."""
        lost = frozenset(hosts)
        guests = [guest for host in hosts
                  for guest in self.fleet.occupancies[host].guests]
        targets = {host: state for host, state in self.fleet.states.items()
                   if host not in lost}
        nowhere = self._nowhere_at_all(guests, targets)
        open_guests = [guest for guest in guests if guest.uuid not in nowhere]
        # What is kept for this mostly does.
        kept = {name: targets[name] for name in self._kept if name in targets}
        trial = self._try(open_guests, kept)
        has_own = not any(
            any(self.fleet.shared.taken(guest)) for guest in open_guests)
        if trial.down and kept and has_own:
            trial = self._host_by_host(open_guests, kept)
        if trial.down:
            trial = self._try(open_guests, targets)
        least, doubt = len(nowhere), ''
        if trial.down:
            doubt = self._doubt(open_guests, targets)
            trial, bound = self._prove(
                trial, open_guests, targets,
                is_exact=not doubt and has_own)
            least += bound
        down = (*(_down(guest, nowhere[guest.uuid], is_certain=True)
                  for guest in guests if guest.uuid in nowhere),
                *(_down(guest, self._why(guest, targets))
                  for guest in trial.down))
        verdict = failover_model.SurvivalVerdict.UNKNOWN
        if not down:
            verdict = failover_model.SurvivalVerdict.YES
        elif least:
            verdict = failover_model.SurvivalVerdict.NO
        return failover_model.HostLoss(
            name=name, hosts=tuple(hosts), guests=len(guests),
            vcpus=sum(guest.vcpus for guest in guests), verdict=verdict,
            down=down, least_down=least,
            doubt=doubt if verdict is (
                failover_model.SurvivalVerdict.UNKNOWN) else '',
            evacuations=tuple(_evacuation(*placed) for placed
                              in trial.placed),
            is_unguided=not down and not self.fleet.evacuate(
                guests, targets, evacuation.WEIGHED).down)

    def _try(self, guests: Iterable[resident_guest.ResidentGuest],
             targets: evacuation.Targets) -> evacuation.Evacuated:
        return self.fleet.evacuate(
            evacuation.largest_first(guests, self.fleet), targets,
            evacuation.TIGHTEST)

    def _host_by_host(
        self, guests: Iterable[resident_guest.ResidentGuest],
        kept: evacuation.Targets,
    ) -> evacuation.Evacuated:
        """The guests of each lost host on one of those that are kept.

        On one like their own they have lain before, in some order.
        """
        by_host: dict[str, list[resident_guest.ResidentGuest]] = {}
        for guest in guests:
            by_host.setdefault(guest.host, []).append(guest)
        left = dict(kept)
        whole = evacuation.Evacuated([], [])
        for host, own in sorted(by_host.items(),
                                key=lambda item: -len(item[1])):
            cells = self.fleet.occupancies[host].host.cells
            # One that is unlike it may be all that another can have.
            for name, state in sorted(
                    left.items(),
                    key=lambda item: item[1].occupancy.host.cells != cells):
                trial = self._on_one(own, {name: state})
                if not trial.down:
                    whole.placed.extend(trial.placed)
                    del left[name]
                    break
            else:
                whole.down.extend(own)
        return whole

    def _on_one(self, guests: Sequence[resident_guest.ResidentGuest],
                target: evacuation.Targets) -> evacuation.Evacuated:
        """Evacuate guests to one host, in whichever order it takes."""
        trial = self._try(guests, target)
        if not trial.down or not all(
                self.fleet.would_take(self.fleet.kind(guest), state)
                for guest in guests for state in target.values()):
            return trial
        try:
            found = evacuation_proof.best(
                self.fleet, self._counts(guests), target,
                self._settings.most_tries)
        except evacuation_proof.TooManyError:
            return trial
        return self._follow(found.sequences, guests, target)

    def _counts(self, guests: Iterable[resident_guest.ResidentGuest],
                ) -> Mapping[int, int]:
        """How many there are of each kind, by number."""
        return collections.Counter(
            self.fleet.kind(guest).number for guest in guests)

    def _prove(
        self, trial: evacuation.Evacuated,
        guests: Sequence[resident_guest.ResidentGuest],
        targets: evacuation.Targets, is_exact: bool,
    ) -> tuple[evacuation.Evacuated, int]:
        """The best evacuation that is found, and how many stay down at least.

        :param guests: that could come up if each were the only one
        :param is_exact: whether each comes up where it is certain or not at
            all, and takes nothing that hosts share
        """
        counts = self._counts(guests)
        bound = evacuation_proof.least_down(
            self.fleet, counts, targets, self._settings.seconds)
        if bound.down < len(trial.down) and bound.counts:
            trial = min(trial, self._follow(_sequences(
                self.fleet, bound.counts), guests, targets),
                key=lambda one: len(one.down))
        if bound.down >= len(trial.down):
            return trial, len(trial.down)
        try:
            found = evacuation_proof.best(
                self.fleet, counts, targets, self._settings.most_tries)
        except evacuation_proof.TooManyError:
            return trial, bound.down
        return (self._follow(found.sequences, guests, targets),
                found.down if is_exact else bound.down)

    def _follow(
        self, sequences: Mapping[str, Sequence[int]],
        guests: Iterable[resident_guest.ResidentGuest],
        targets: evacuation.Targets,
    ) -> evacuation.Evacuated:
        """Evacuate guests of these kinds to these hosts, the rest anywhere."""
        waiting: dict[int, list[resident_guest.ResidentGuest]] = {}
        for guest in sorted(guests, key=lambda guest: guest.uuid,
                            reverse=True):
            waiting.setdefault(
                self.fleet.kind(guest).number, []).append(guest)
        states = dict(targets)
        placed: list[evacuation.Placed] = []
        for name, numbers in sequences.items():
            for number in numbers:
                kind, state = self.fleet.kinds[number], states[name]
                if self.fleet.would_take(kind, state):
                    placed.append(self.fleet.put(
                        states, waiting[number].pop(), name))
        rest = self._try([guest for own in waiting.values() for guest in own],
                         states)
        return evacuation.Evacuated(placed + rest.placed, rest.down)

    def _doubt(self, guests: Iterable[resident_guest.ResidentGuest],
               targets: evacuation.Targets) -> str:
        """What is not known, so that a host may take a guest; '' if all is.

        Others may come up then in its stead.
        """
        return next((
            f'whether {guest.name or guest.uuid} can be evacuated to {name}: '
            f'{doubt}' for guest in guests for name, doubt
            in self.fleet.doubts(self.fleet.kind(guest)).items()
            if name in targets), '')

    # Why.

    def _nowhere_at_all(
        self, guests: Iterable[resident_guest.ResidentGuest],
        targets: evacuation.Targets,
    ) -> dict[str, str]:
        """The guests that come up on no host, even if they were the only ones.

        :returns: why, by UUID; without those of which that is not certain
        """
        reasons: dict[int, str] = {}
        found = {}
        for guest in guests:
            reason = self.fleet.rules.evacuation_refusal(guest)
            if not reason:
                kind = self.fleet.kind(guest)
                if kind.number not in reasons:
                    nowhere = self._nowhere(kind, targets)
                    # Doubts of all hosts take long to find.
                    reasons[kind.number] = '' if nowhere and any(
                        name in targets
                        for name in self.fleet.doubts(kind)) else nowhere
                reason = reasons[kind.number]
            if reason:
                found[guest.uuid] = reason
        return found

    def _nowhere(self, kind: guest_kinds.GuestKind,
                 targets: evacuation.Targets) -> str:
        """Why no host takes a guest; '' if one does."""
        if any(name in targets for name in self.fleet.takers(kind)):
            return ''
        if kind.number not in self._causes:
            self._causes[kind.number] = {
                name: (self._cause(kind, state), [
                    cell.free_count for cell in state.occupancy.engine.cells])
                for name, state in self.fleet.states.items()}
        causes = self._causes[kind.number]
        counts = collections.Counter([
            causes[name][0] for name in targets])
        lacking = [(_lack(cause, count, kind), count)
                   for (refusal, cause), count in counts.items()
                   if not refusal]
        if lacking:
            hosts = sum([count for _told, count in lacking])
            return (f'none of the {words.count(hosts, "host")} that it may '
                    f'go to has room ({_told(lacking)})'
                    f'{_needs(kind, targets, causes)}')
        if counts:
            told = _told((refusal, count) for (refusal, _cause), count
                         in counts.items())
            return f'it may go to no host that is left: {told}'
        return 'no host is left'

    def _cause(
        self, kind: guest_kinds.GuestKind, state: guest_kinds.HostState,
    ) -> tuple[str, host_verdicts.RefusalCause | str]:
        """Why a host does not take a guest.

        :returns: why it would not if it were empty; and else why it does not
            as it is, '' for the guest's server group
        """
        refusal = self.fleet.refusal(kind, state)
        if refusal or state.is_full(kind):
            return refusal, ''
        verdict = host_verdicts.HostJudge(
            self.fleet.occupancies, self.fleet.judge).verdict(
                state.occupancy, kind.request)
        return '', verdict.cause or str(state.room(kind))

    def _why(self, guest: resident_guest.ResidentGuest,
             targets: evacuation.Targets) -> str:
        """Why a guest stays down that might come up."""
        kind = self.fleet.kind(guest)
        hosts = sum([name in targets for name in self.fleet.takers(kind)])
        if not hosts:
            return self._nowhere(kind, targets)
        return (f'the room on {words.count(hosts, "host")} that would do goes '
                'to others that were lost with it')


def _needs(kind: guest_kinds.GuestKind, targets: evacuation.Targets,
           causes: Mapping[str, _Cause]) -> str:
    """What a pinned guest needs, and the host that has most; '' for others."""
    topology = kind.request.topology
    if topology is None or not topology.is_pinned:
        return ''
    _sum, free, name = max(
        (sum(free), free, name) for name in targets
        for (refusal, _cause), free in [causes[name]] if not refusal)
    needed = [demand.dedicated + demand.emulator
              for demand in topology.demands]
    return (f'; it needs {_by_cell(needed)}, and {name} has most left, '
            f'{_by_cell(free)}')


def _by_cell(cpus: Sequence[int]) -> str:
    """'12 CPUs', '12 + 8 CPUs'."""
    return f'{" + ".join(map(str, cpus))} CPU{"" if cpus == [1] else "s"}'


def _lack(cause: host_verdicts.RefusalCause | str, count: int,
          kind: guest_kinds.GuestKind) -> str:
    """What some hosts lack, in the words of ``explain``."""
    if not isinstance(cause, str):
        return verdict_summary.phrase(cause, count, kind.request)
    if cause:
        return f'{"refuses" if count == 1 else "refuse"} it: {cause}'
    verb = 'has' if count == 1 else 'have'
    return f'{verb} as many of its server group as may be'


def _told(reasons: Iterable[tuple[str, int]]) -> str:
    """Those that are given most often, with how often."""
    ranked = sorted(reasons, key=lambda pair: (-pair[1], pair[0]))
    return ', '.join(f'{count:,} {reason}'
                     for reason, count in ranked[:_REASONS])


def _sequences(
    fleet: evacuation.EvacuationFleet, counts: Mapping[tuple[int, str], int],
) -> dict[str, list[int]]:
    """Kinds for each host, the largest first."""
    sequences: dict[str, list[int]] = {}
    for (number, name), count in sorted(
            counts.items(), reverse=True,
            key=lambda pair: fleet.kinds[pair[0][0]].size):
        sequences.setdefault(name, []).extend([number] * count)
    return sequences


def _down(guest: resident_guest.ResidentGuest, reason: str,
          is_certain: bool = False) -> failover_model.DownGuest:
    return failover_model.DownGuest(
        guest=guest.uuid, name=guest.name, host=guest.host,
        vcpus=guest.vcpus, memory_mib=guest.memory_mib, flavor=guest.flavor,
        reason=reason, is_certain=is_certain)


def _evacuation(guest: resident_guest.ResidentGuest, target: str,
                place: model.Fit) -> failover_model.Evacuation:
    return failover_model.Evacuation(
        guest=guest.uuid, name=guest.name, source=guest.host, target=target,
        fit=None if guest.topology is None else place)
