# SPDX-License-Identifier: Apache-2.0
"""What a simulation measures while it runs, and what it found in the end."""

import collections
from collections.abc import Sequence
import dataclasses
import hashlib
from typing import NamedTuple

import numpy

from nova_pinning.admission import gaps
from nova_pinning.admission import guest_request
from nova_pinning import fit
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.scheduler import mix
from nova_pinning.simulation import cell_state
from nova_pinning.simulation import occupancy_ledger

#: Samples that a run keeps at most; above that every second one is dropped.
_MOST_SAMPLES = 240
_DEDICATED = hostclass.HostClass.DEDICATED


@dataclasses.dataclass(frozen=True, slots=True)
class FleetSample:
    """The fleet after so many arrivals.

    :param dedicated_vcpus: sold
    :param shared_vcpus: sold
    :param stranded_cpus: free dedicated CPUs that guests of the sizes that
        have arrived so far could not use: the mean over these guests
    """

    arrivals: int
    time_seconds: float
    dedicated_vcpus: int
    shared_vcpus: int
    stranded_cpus: float
    refused: int


@dataclasses.dataclass(frozen=True, slots=True)
class KindResult:
    """What became of the guests of one kind."""

    name: str
    vcpus: int
    arrivals: int
    refused: int


class ImpossibleKind(NamedTuple):
    """Guests of one kind that no host could hold even if it was empty.

    :param arrivals: of them, which count nowhere else
    """

    name: str
    vcpus: int
    arrivals: int


class MoveCounts(NamedTuple):
    """The moves of a run.

    :param plans: made, with moves or without
    :param made: moves
    :param refused: moves that nova would not make
    :param memory_mib: of all guests that were moved, each time they were
    """

    plans: int
    made: int
    refused: int
    memory_mib: int


@dataclasses.dataclass(frozen=True, slots=True)
class Moment:
    """When something happened, and what was sold then."""

    arrivals: int
    time_seconds: float
    dedicated_vcpus: int


@dataclasses.dataclass(slots=True, kw_only=True)
class RunResult:
    """What a run found; it grows until the run ends.

    :param dedicated_cpus: that the fleet has
    :param first_refusal: None if there was none
    :param limit: when refusals first reached the limit, None if they did not
    :param digest: of all decisions: the same for runs that decided the same
    :param l3_possible: guests that some host would have put in as few L3
        domains as can be, None if that was not looked at
    :param l3_met: those of them that were
    :param impossible: guests that are left out of all other figures, since
        no host could hold them even if it was empty
    :param moves: None if none were to be made
    :param doubts: what is not known of hosts that took no guest for that
        reason: how many hosts, and an example
    """

    configuration: str
    seed: int
    hosts: int
    dedicated_cpus: int
    arrivals: int = 0
    departures: int = 0
    refused: int = 0
    kinds: tuple[KindResult, ...] = ()
    samples: tuple[FleetSample, ...] = ()
    first_refusal: Moment | None = None
    limit: Moment | None = None
    final_vcpus: int = 0
    digest: str = ''
    l3_possible: int | None = None
    l3_met: int | None = None
    impossible: tuple[ImpossibleKind, ...] = ()
    moves: MoveCounts | None = None
    doubts: tuple[gaps.Counted, ...] = ()

    @property
    def acceptance(self) -> float | None:
        """Share of the guests that found a host; None if there were none."""
        return 1 - self.refused / self.arrivals if self.arrivals else None

    @property
    def limit_share(self) -> float | None:
        """Share of the dedicated CPUs sold when refusals reached the limit."""
        if self.limit is None or not self.dedicated_cpus:
            return None
        return self.limit.dedicated_vcpus / self.dedicated_cpus


def least_arrivals(window: int) -> int:
    """From which arrival on the limit of refusals is looked at.

    And then at each one that is refused.
    """
    return min(window, 100)


class RunMeter:
    """Counts what happens in a run.

    :param found: to be filled
    :param refused_share: of the arrivals in a window, the limit
    :param window: arrivals
    """

    def __init__(self,
                 ledger: occupancy_ledger.OccupancyLedger,
                 found: RunResult, refused_share: float = 0.01,
                 window: int = 1000) -> None:
        self._ledger = ledger
        self.found = found
        self._refused_share = refused_share
        self._window: collections.deque[bool] = collections.deque(
            maxlen=window)
        self._refused_in_window = 0
        self._least = least_arrivals(window)
        self._every = 1
        self._samples: list[FleetSample] = []
        self._sizes: collections.Counter[fit.Size] = collections.Counter()
        # What is stranded for each size on each host, and the version of
        # the host that this is about.
        self._lost = numpy.zeros((len(ledger.hosts), 0), dtype=numpy.int64)
        self._seen = numpy.full(len(ledger.hosts), -1, dtype=numpy.int64)
        self._kinds: dict[tuple[int, str], list[int]] = {}
        self._hash = hashlib.sha256()
        self._impossible: collections.Counter[
            tuple[int, str]] = collections.Counter()

    def arrived(
        self, time_seconds: float, request: guest_request.GuestRequest,
        host: int | None, is_l3_possible: bool | None = None,
        is_l3_met: bool | None = None,
    ) -> None:
        """Count an arrival.

        :param host: None if it was refused
        """
        found = self.found
        found.arrivals += 1
        is_refused = host is None
        name = '-' if host is None else self._ledger.hosts[host].name
        self._hash.update(f'{name}\n'.encode())
        counts = self._kinds.setdefault(
            (request.vcpus, request.name), [0, 0])
        counts[0] += 1
        counts[1] += is_refused
        if request.topology is not None and request.topology.is_pinned:
            self._sizes.update(mix.sizes(request.topology))
        if is_l3_possible is not None:
            found.l3_possible = (found.l3_possible or 0) + is_l3_possible
            found.l3_met = (found.l3_met or 0) + (
                is_l3_possible and bool(is_l3_met))
        self._count_refusal(time_seconds, is_refused)
        if found.arrivals % self._every == 0:
            self._sample(time_seconds)

    def left_out(self, request: guest_request.GuestRequest) -> None:
        """Note the arrival of a guest that no host could ever hold."""
        self._impossible[request.vcpus, request.name] += 1

    def rebalanced(self, numbers: Sequence[int], counts: MoveCounts) -> None:
        """Count the moves of a plan.

        :param numbers: the moves as whole numbers
        """
        self._hash.update(f'{numbers}\n'.encode())
        self.found.moves = MoveCounts(*map(
            sum, zip(self.found.moves or (0, 0, 0, 0), counts)))

    def _count_refusal(self, time_seconds: float, is_refused: bool) -> None:
        window = self._window
        if len(window) == window.maxlen:
            self._refused_in_window -= window[0]
        window.append(is_refused)
        self._refused_in_window += is_refused
        if not is_refused:
            return
        found = self.found
        found.refused += 1
        if found.first_refusal is None:
            found.first_refusal = self._moment(time_seconds)
        if (found.limit is None and len(window) >= self._least
                and self._refused_in_window
                >= self._refused_share * len(window)):
            found.limit = self._moment(time_seconds)

    def _moment(self, time_seconds: float) -> Moment:
        return Moment(self.found.arrivals, time_seconds,
                      self._ledger.sold_vcpus[_DEDICATED])

    def _sample(self, time_seconds: float) -> None:
        self._samples.append(FleetSample(
            self.found.arrivals, time_seconds,
            self._ledger.sold_vcpus[_DEDICATED],
            self._ledger.sold_vcpus[_DEDICATED.other], self._stranded(),
            self.found.refused))
        if len(self._samples) >= _MOST_SAMPLES:
            self._samples = self._samples[1::2]
            self._every *= 2

    def _stranded(self) -> float:
        ledger = self._ledger
        if self._lost.shape[1] != len(self._sizes):
            self._lost = numpy.zeros(
                (len(ledger.hosts), len(self._sizes)), dtype=numpy.int64)
            self._seen[:] = -1
        changed = numpy.flatnonzero(self._seen != ledger.version).tolist()
        for index in changed:
            self._lost[index] = [
                _stranded(ledger.occupancies[index].engine.cells, size)
                for size in self._sizes]
        self._seen[:] = ledger.version
        counts = numpy.array(list(self._sizes.values()), dtype=numpy.int64)
        total = int(counts.sum())
        if not total:
            return 0.0
        return int((self._lost.sum(axis=0) * counts).sum()) / total

    def result(self, doubts: tuple[gaps.Counted, ...]) -> RunResult:
        """What was found; to be asked for at the end of the run."""
        found = self.found
        found.kinds = tuple([
            KindResult(name, vcpus, *counts)
            for (vcpus, name), counts in sorted(self._kinds.items())])
        found.impossible = tuple([
            ImpossibleKind(name, vcpus, arrivals)
            for (vcpus, name), arrivals in sorted(self._impossible.items())])
        found.samples = tuple(self._samples)
        found.final_vcpus = self._ledger.sold_vcpus[_DEDICATED]
        found.digest = self._hash.hexdigest()[:32]
        found.doubts = doubts
        return found


def _stranded(cells: Sequence[model.CellView], size: fit.Size) -> int:
    """Free CPUs of a host that guests of a size cannot use."""
    lost = 0
    rooms = []
    key = 'stranded', size
    for cell in cells:
        assert isinstance(cell, cell_state.CellState)
        known: tuple[int, int] | None = cell.notes.get(key)
        if known is None:
            left = fit.Room.of(cell)
            known = cell.notes[key] = left.stranded(size), left.takes(size)
        lost += known[0]
        rooms.append(known[1])
    if size.cells == 1:
        return lost
    # Room in a cell cannot be used without room in enough others.
    unused = sum(rooms) - fit.spread(rooms, size.cells) * size.cells
    return lost + unused * size.vcpus
