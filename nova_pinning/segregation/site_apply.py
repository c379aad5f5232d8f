# SPDX-License-Identifier: Apache-2.0
"""Bring a cloud in step with a site file, in an order that opens nothing.

There is no state but the cloud's. What was cut off half way is found by the
next plan, and every request can be repeated.

1. Aggregates without hosts are created, and get their metadata while that is
   said of nobody.
2. Hosts are turned one by one (nova_pinning.segregation.class_change), and
   join the aggregates that say what they are to say.
3. Aggregates with hosts get their metadata once all of these are of the class,
   and the hosts that waited for that join.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from nova_pinning import errors
from nova_pinning.host import words
from nova_pinning.model import hostclass
from nova_pinning.segregation import class_change
from nova_pinning.segregation import segregation_cloud
from nova_pinning.segregation import segregation_model
from nova_pinning.segregation import site_plan


@dataclasses.dataclass(frozen=True, slots=True)
class AggregateResult:
    """What became of an aggregate.

    :param status: DONE or FAILED
    :param message: why it failed
    """

    change: site_plan.AggregateChange
    status: class_change.ChangeStatus
    message: str = ''

    @property
    def is_fine(self) -> bool:
        """Whether nothing is left for anybody to do."""
        return self.status is class_change.ChangeStatus.DONE


Result = AggregateResult | class_change.ChangeResult


def apply(made: site_plan.SitePlan, cloud: segregation_cloud.SegregationCloud,
          *, is_forced: bool = False) -> Iterator[Result]:
    """Do what a plan says.

    :param is_forced: turn hosts also while servers of the other class run
        on them
    :returns: what becomes of each change that is needed
    :raises errors.CloudError: if the cloud cannot be worked with
    """
    return _Applier(made, cloud, is_forced).run()


class _Applier:

    def __init__(self, made: site_plan.SitePlan,
                 cloud: segregation_cloud.SegregationCloud,
                 is_forced: bool) -> None:
        self._made = made
        self._cloud = cloud
        self._is_forced = is_forced
        #: Aggregates that say what they are to say, by name.
        self._ready = {
            aggregate.kept.name: aggregate.live
            for aggregate in made.aggregates
            if aggregate.live and not aggregate.is_needed}

    def run(self) -> Iterator[Result]:
        aggregates = self._made.aggregate_changes
        for aggregate in aggregates:
            if not aggregate.has_hosts:
                yield self._aggregate(aggregate)
        late = []
        for host in self._made.host_changes:
            done = self._turn(host, self._is_forced)
            is_done = done.status in (class_change.ChangeStatus.DONE,
                                      class_change.ChangeStatus.UNCHANGED)
            if is_done and not self._ready.keys() >= set(host.joins):
                late.append(done)
            else:
                yield done
        for aggregate in aggregates:
            if aggregate.has_hosts:
                yield self._aggregate(aggregate)
        yield from map(self._join, late)

    def _turn(self, change: class_change.ClassChange,
              is_forced: bool) -> class_change.ChangeResult:
        """Turn a host, and put it into the aggregates that are ready."""
        result = class_change.apply(
            self._cloud, dataclasses.replace(change, joins=tuple(
                name for name in change.joins if name in self._ready)),
            self._ready, is_forced=is_forced)
        if result.status is class_change.ChangeStatus.FAILED:
            # Raises if it is not about this host at all.
            self._cloud.aggregates()
        return dataclasses.replace(result, change=change)

    def _join(
        self, done: class_change.ChangeResult,
    ) -> class_change.ChangeResult:
        """Put a host into the aggregates that were not ready before."""
        change = done.change
        missing = [name for name in change.joins if name not in self._ready]
        if missing:
            return dataclasses.replace(
                done, status=class_change.ChangeStatus.FAILED,
                message=f'aggregate {missing[0]} is not ready for it')
        # Who came while it was turned is told, and no reason to stop here.
        is_turned = done.status is class_change.ChangeStatus.DONE
        joined = self._turn(
            class_change.ClassChange(change.host, change.host_class,
                                     joins=change.joins),
            self._is_forced or is_turned)
        strangers = {
            server.id: server
            for server in (*done.strangers, *joined.strangers)}
        return dataclasses.replace(
            joined, strangers=tuple(strangers.values()), left=done.left,
            change=change)

    def _aggregate(self, change: site_plan.AggregateChange) -> Result:
        try:
            message = self._let_say(change)
        except (errors.RefusedError, errors.UnsettledError) as error:
            message = str(error)
        return AggregateResult(
            change, class_change.ChangeStatus.FAILED
            if message else class_change.ChangeStatus.DONE, message)

    def _let_say(self, change: site_plan.AggregateChange) -> str:
        """Let an aggregate say of which class its hosts are.

        It is looked at anew: what it says is said of all that is in it now.

        :returns: why it cannot, '' if it does
        """
        kept = change.kept
        live = next((aggregate for aggregate in self._cloud.aggregates()
                     if aggregate.name == kept.name), None)
        if live is None:
            live = self._cloud.create_aggregate(kept.name)
        if segregation_model.speaks_against(live, kept.host_class):
            return 'it is for hosts of another class by now'
        missing = site_plan.missing_metadata(kept, live)
        if missing:
            strangers = self._strangers(live, kept.host_class)
            if strangers:
                names = words.listed(strangers, site_plan.MAX_NAMED)
                return (f'{names} in it '
                        f'{"is" if len(strangers) == 1 else "are"} not '
                        f'{kept.host_class}')
            self._cloud.set_metadata(live, missing)
        self._ready[kept.name] = live
        return ''

    def _strangers(self, live: segregation_model.HostAggregate,
                   host_class: hostclass.HostClass) -> Sequence[str]:
        if not live.hosts:
            return ()
        return [host.name for host in self._cloud.hosts()
                if host.name in live.hosts
                and not site_plan.is_of_class(host, host_class)]
