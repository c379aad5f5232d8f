# SPDX-License-Identifier: Apache-2.0
"""Keeps figures of a fleet up to date, whatever happens to what it reads."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import fnmatch
import gc
import logging
from typing import Any

from nova_pinning.admission import guest_request
from nova_pinning.admission import pci_alias
from nova_pinning.capacity import capacity
from nova_pinning import errors
from nova_pinning.exporter import fleet_figures
from nova_pinning.exporter import fleet_sources
from nova_pinning.exporter import fleet_tally
from nova_pinning.exporter import task_metrics
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot

LOG = logging.getLogger(__name__)

READ, COUNT = 'read', 'count'
#: Of Python's generations: how many objects the youngest has before it is
#: looked through, and what the oldest never comes to. With fewer, rows of a
#: page would be taken for old while they are still in use.
_YOUNG_OBJECTS, _NEVER = 10_000, 2 ** 31 - 1


class FleetWatch:
    """Reads a fleet and counts it; what is known is there at any time.

    :meth:`refresh` is for one thread, all else for any.

    :param patterns: of the names of flavors that are counted, with *; () for
        all
    :param most: how many flavors at most, those of most guests
    """

    def __init__(self, source: fleet_sources.FleetSource,
                 patterns: Sequence[str] = (), most: int = 200,
                 tasks: task_metrics.TaskMetrics | None = None) -> None:
        self._source = source
        self._patterns = patterns
        self._most = most
        self._tasks = tasks or task_metrics.TaskMetrics()
        self._tally: fleet_tally.FleetTally | None = None
        self._requests: tuple[guest_request.GuestRequest, ...] = ()
        #: What they depend on.
        self._settings: tuple[Any, ...] = ()
        self._fleet: snapshot.Fleet | None = None
        self._text = ''
        for task in (READ, COUNT):
            self._tasks.expect(task)

    @property
    def fleet(self) -> snapshot.Fleet | None:
        """As it was read last; None if it never could be."""
        return self._fleet

    def text(self) -> str:
        """The figures as they were counted last; '' if they never were."""
        return self._text

    def refresh(self) -> None:
        """Read and count once. Never raises."""
        with _with_little_garbage():
            fleet = self._tasks.run(READ, self._source.read)
            if fleet is None:
                return
            self._fleet = fleet
            if self._tasks.run(COUNT, lambda: self._count(fleet)) is None:
                # What it has counted halfway may be wrong.
                self._tally = None

    def _count(self, fleet: snapshot.Fleet) -> int:
        requests = self._read_flavors(fleet)
        rules = occupied.rules_of(fleet)
        tally = self._tally
        if (tally is None or tally.rules != rules
                or tally.requests != requests):
            tally = fleet_tally.FleetTally(requests, rules)
        changed = tally.update(fleet)
        self._text = fleet_figures.text(tally, fleet.taken_epoch)
        self._tally = tally
        self._tasks.hosts_recounted.inc(changed)
        return changed

    def _read_flavors(
        self, fleet: snapshot.Fleet,
    ) -> tuple[guest_request.GuestRequest, ...]:
        """One guest of each flavor that is counted, as nova would place it."""
        chosen = self._chosen(fleet)
        settings = (chosen, fleet.pci_aliases, fleet.rules.pci_in_placement)
        if self._settings != settings:
            self._requests = _read_flavors(*settings)
            self._settings = settings
        self._tasks.flavors_left_out.set(
            len(self._matching(fleet)) - len(self._requests))
        return self._requests

    def _matching(self,
                  fleet: snapshot.Fleet) -> list[flavor_model.Flavor]:
        return [
            flavor for flavor in fleet.flavors if not self._patterns or any(
                fnmatch.fnmatchcase(flavor.name, pattern)
                for pattern in self._patterns)]

    def _chosen(self,
                fleet: snapshot.Fleet) -> tuple[flavor_model.Flavor, ...]:
        matching = self._matching(fleet)
        if len(matching) > self._most:
            guests = capacity.guests_by_flavor(fleet)
            matching = sorted(matching, key=lambda flavor: (
                -guests.get(flavor.name, 0),
                flavor.name))[:self._most]
        return tuple(sorted(matching, key=lambda flavor: flavor.name))


def _read_flavors(flavors: Sequence[flavor_model.Flavor],
                  aliases: Mapping[str, pci_alias.PciAlias],
                  in_placement: bool,
                  ) -> tuple[guest_request.GuestRequest, ...]:
    """What nova makes of flavors; those that it refuses are left out."""
    # Only here, for it takes seconds.
    from nova_pinning.bridge.offline import standalone
    standalone.prepare()
    from nova_pinning.bridge.offline import flavor_request
    requests = []
    with flavor_request.batch(in_placement):
        for flavor in flavors:
            try:
                requests.append(flavor_request.request_for(
                    flavor, {}, aliases))
            except errors.InputError as error:
                LOG.warning('flavor left out: %s', error)
    return capacity.ranked(requests)


@contextlib.contextmanager
def _with_little_garbage() -> Iterator[None]:
    """Keep Python from looking for garbage among what stays.

    A fleet is millions of objects, none of which is part of a cycle. To go
    through all of them takes seconds, in which no scrape is answered, and
    Python does so several times while they come to be. What nova, SQLAlchemy
    and openstacksdk make meanwhile does have cycles, so what is young is
    looked through all the time, the rest once in the end; after that what is
    there is frozen, garbage or not.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(_YOUNG_OBJECTS, thresholds[1], _NEVER)
    try:
        yield
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(*thresholds)
