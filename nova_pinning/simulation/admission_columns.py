# SPDX-License-Identifier: Apache-2.0
"""What Placement and the filters say of guests, for all hosts at once.

``AdmissionJudge`` says it, and here it is kept: what never changes once for
hosts that are alike, and what changes until a guest comes or goes. Where
nothing counts but how much of each resource class a host's own provider has
left, arrays are compared. A host of which not all is known takes no guest
that it matters to, and what is not known is noted.
"""

from collections.abc import Sequence
import dataclasses
from typing import TypeAlias

import numpy

from nova_pinning.admission import gaps
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import providers
from nova_pinning.bridge.offline import deferred_claim
from nova_pinning import fit
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.simulation import occupancy_ledger
from nova_pinning.simulation import scheduler_configuration
from nova_pinning.simulation import settings

Flags: TypeAlias = numpy.ndarray


class AdmissionColumns:
    """What is said of each kind of guests on the hosts of a ledger.

    Equal requests have to be one object.

    :param admission: says it
    """

    def __init__(self, ledger: occupancy_ledger.OccupancyLedger,
                 admission: judge.AdmissionJudge) -> None:
        self.ledger = ledger
        self.judge = admission
        alike: dict[offered_host.OfferedHost, int] = {}
        #: Of each host, equal for those that are alike but for their names.
        self.sorts = numpy.array([
            alike.setdefault(dataclasses.replace(
                host, name='', disabled_reason=''), len(alike))
            for host in ledger.hosts], dtype=numpy.int64)
        #: One of each sort, without guests.
        self.empty = [host_occupancy.of_host(host) for host in alike]
        # The requests are kept alive, since their addresses are the keys.
        self._kinds: dict[int, KindColumns] = {}
        self._could_hold: dict[
            int, tuple[guest_request.GuestRequest, bool]] = {}
        self._noted: set[tuple[int, int, tuple[outcome.Doubt, ...]]] = set()
        self._doubts: dict[outcome.DoubtKind, dict[str, str]] = {}

    def of_sorts(self, values: Sequence[bool] | Sequence[float]) -> Flags:
        """An array with a value for each host, of one for each sort."""
        return numpy.array(values)[self.sorts]

    def of(self, request: guest_request.GuestRequest) -> 'KindColumns':
        """What is said of guests of one kind."""
        known = self._kinds.get(id(request))
        if known is None:
            known = self._kinds[id(request)] = KindColumns(self, request)
        return known

    def could_hold(self, request: guest_request.GuestRequest) -> bool:
        """Whether some host certainly has room for such a guest when empty.

        No scheduler can place others, and no moves can make room for them.
        Whatever a configuration says of filters, of hosts without a class or
        of nova-compute's claims has no say, so that it is the same for all
        configurations.
        """
        known = self._could_hold.get(id(request))
        if known is None:
            hardware = judge.AdmissionJudge(assumes=self.judge.assumes)
            known = self._could_hold[id(request)] = request, any(
                isinstance(hardware.answer(request, occupancy),
                           outcome.Admitted) for occupancy in self.empty)
            if not known[1]:
                # What is not known is noted by the way.
                self.of(request).offered()
        return known[1]

    def note(self, request: guest_request.GuestRequest, sort: int,
             doubts: Sequence[outcome.Doubt]) -> None:
        """Note what keeps a kind of guests off hosts of a sort.

        Unless they could hold none, for all that is known.
        """
        key = id(request), sort, tuple(doubts)
        if not doubts or key in self._noted:
            return
        self._noted.add(key)
        if not isinstance(self.judge.answer(request, self.empty[sort]),
                          outcome.NotAdmitted):
            for doubt in doubts:
                of_kind = self._doubts.setdefault(doubt.kind, {})
                for index in numpy.flatnonzero(self.sorts == sort).tolist():
                    of_kind.setdefault(
                        self.ledger.hosts[index].name, doubt.text)

    @property
    def doubts(self) -> tuple[gaps.Counted, ...]:
        """What was not known: of how many hosts, and an example."""
        return tuple(
            (kind, len(hosts), ': '.join(min(hosts.items())))
            for kind, hosts in sorted(self._doubts.items()))


class KindColumns:
    """What is said of guests of one kind, host by host."""

    def __init__(self, columns: AdmissionColumns,
                 request: guest_request.GuestRequest) -> None:
        self._columns = columns
        self._ledger = ledger = columns.ledger
        self._judge = columns.judge
        self.request = request
        may_be_listed, is_open = [], []
        for sort, empty in enumerate(columns.empty):
            gate = self._judge.gate(request, empty.host)
            if not gate.refusals:
                columns.note(request, sort, gate.doubts)
            may_be_listed.append(empty.host.is_enabled and all(
                refusal.layer is not outcome.RefusalLayer.PLACEMENT
                for refusal in gate.refusals))
            # Without cells there is nothing to claim.
            is_open.append(not gate.refusals and not gate.doubts and bool(
                empty.host.cells or request.topology is None))
        self._is_open = columns.of_sorts(is_open)
        at_best = [
            [providers.has_enough_at_best(empty.host, query)
             for empty in columns.empty] for query in request.queries]
        is_flat = [may and None not in flags and bool(flags)
                   for may, flags in zip(may_be_listed, zip(*at_best))]
        self._queries = [
            _FlatQuery(columns, query, columns.of_sorts([
                flat and best is True for flat, best in zip(is_flat, flags)]))
            for query, flags in zip(request.queries, at_best)]
        #: Hosts that candidates have to be looked for on, as guests come and
        #: go there; those of the last look.
        self._others = numpy.flatnonzero(columns.of_sorts([
            may and not flat for may, flat in zip(
                may_be_listed, is_flat or [False] * len(may_be_listed))]))
        self._looked_at = numpy.full(len(self._others), -1)
        self._found = numpy.zeros(len(ledger.hosts), dtype=bool)
        self._candidates: dict[int, list[providers.Candidate]] = {}
        self._minding = numpy.array([
            index for index, host in enumerate(ledger.hosts)
            if self._judge.rules.minds_guests(host)], dtype=numpy.int64)
        self._asked = numpy.full(len(self._minding), -1)
        self._lets = numpy.ones(len(ledger.hosts), dtype=bool)

    def offered(self) -> Flags:
        """The hosts of which Placement has candidates now, that are certain.

        Nova asks all of its queries and puts the answers together.
        """
        if len(self._others):
            version = self._ledger.allocated[self._others]
            for index in self._others[self._looked_at != version].tolist():
                self._look(index)
            self._looked_at = version
        some = self._found
        for query in self._queries:
            some = some | query.find()
        return some

    def _look(self, index: int) -> None:
        found, doubts = [], tuple[outcome.Doubt, ...]()
        for candidate in judge.candidates(
                self.request, self._ledger.occupancies[index]):
            doubts = self._judge.remaining(candidate.doubts)
            if not doubts:
                found.append(candidate)
        if not found:
            self._note(index, doubts)
        self._candidates[index] = found
        self._found[index] = bool(found)

    def passing(self) -> Flags:
        """The hosts that filters let pass now, the last of them apart."""
        if len(self._minding):
            version = self._ledger.version[self._minding]
            for index in self._minding[self._asked != version].tolist():
                found = self._judge.by_guests(
                    self.request, self._ledger.occupancies[index])
                self._note(index, found.doubts)
                self._lets[index] = not found.refusals and not found.doubts
            self._asked = version
        return self._is_open & self._lets

    def _note(self, index: int, doubts: tuple[outcome.Doubt, ...]) -> None:
        self._columns.note(
            self.request, int(self._columns.sorts[index]), doubts)

    def candidates(self, index: int) -> Sequence[providers.Candidate]:
        """Those of a host that was offered last, as ``judge.candidates``."""
        return self._candidates.get(index) or [
            providers.of_root(query.query) for query in self._queries
            if query.found[index]]


class _FlatQuery:
    """A query that hosts meet with enough of each class left.

    :param may: the hosts that do, if there is nothing else to it
    :ivar found: the hosts that did when last asked
    """

    def __init__(self, columns: AdmissionColumns,
                 query: guest_request.CandidatesQuery, may: Flags) -> None:
        self.query = query
        self.found = self._may = may
        self._amounts = [
            (columns.ledger.used(name), amount, columns.of_sorts([
                has.capacity if (has := empty.inventories.get(name)) else 0.0
                for empty in columns.empty]))
            for name, amount in query.resources.items() if amount]

    def find(self) -> Flags:
        found = self._may
        for used, amount, capacity in self._amounts:
            found = found & (used + amount <= capacity)
        self.found = found
        return found


def of_fleet(
    fleet: snapshot.Fleet,
    configuration: scheduler_configuration.SchedulerConfiguration,
    order: Sequence[int], is_empty: bool = False,
    assumes: frozenset[outcome.DoubtKind] = frozenset(),
) -> AdmissionColumns:
    """The columns of a fleet under a configuration.

    :param order: as :class:`occupancy_ledger.OccupancyLedger` has it, and
        is_empty
    :param assumes: as :class:`judge.AdmissionJudge` has it
    :raises errors.InputError: if an option of the configuration is wrong
    """
    options = settings.read(configuration)
    return AdmissionColumns(
        occupancy_ledger.OccupancyLedger(fleet, order, is_empty),
        judge.AdmissionJudge(dataclasses.replace(
            occupied.rules_of(fleet),
            packs_cells=configuration.packs_cells,
            enabled_filters=configuration.enabled_filters,
            unknown_host_class=options.unknown_host_class),
            fit.ClaimBounds(
                options.nova_claim_max_seconds,
                ask_nova=deferred_claim.predict_claim
                if options.check_nova_claim else None), assumes))
