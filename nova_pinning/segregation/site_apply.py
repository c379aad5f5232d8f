#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Bring a cloud in step with a site file, in an order that opens nothing.

There is no state but the cloud's. What was cut off half way is found by the
next plan, and every request can be repeated.

1. Aggregates without hosts are created, and get their metadata while that is
   said of nobody.
2. Hosts are turned one by one (nova_pinning.segregation.change), and join the
   aggregates that say what they are to say.
3. Aggregates with hosts get their metadata once all of these are of the
   class, and the hosts that waited for that join.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from typing import Protocol

from nova_pinning import errors
from nova_pinning.model import hostclass
from nova_pinning.segregation import change
from nova_pinning.segregation import model
from nova_pinning.segregation import site_plan


@dataclasses.dataclass(frozen=True, slots=True)
class AggregateResult:
    """What became of an aggregate.

    :param status: DONE or FAILED
    :param message: why it failed
    """

    wanted: site_plan.AggregateChange
    status: change.Status
    message: str = ''

    @property
    def is_fine(self) -> bool:
        """Whether nothing is left for anybody to do."""
        return self.status is change.Status.DONE


@dataclasses.dataclass(frozen=True, slots=True)
class HostResult:
    """What became of a host.

    :param result: of the last that was done about it
    """

    wanted: site_plan.HostChange
    result: change.Result

    @property
    def is_fine(self) -> bool:
        """Whether nothing is left for anybody to do."""
        return self.result.is_fine


Result = AggregateResult | HostResult


class Cloud(change.Cloud, Protocol):
    """What is needed of a cloud; see nova_pinning.segregation.cloud."""

    def aggregates(self) -> tuple[model.Aggregate, ...]: ...

    def hosts(self) -> tuple[model.Host, ...]: ...

    def create_aggregate(self, name: str) -> model.Aggregate: ...

    def set_metadata(self, aggregate: model.Aggregate,
                     metadata: Mapping[str, str | None]) -> None: ...


def apply(made: site_plan.Plan, cloud: Cloud, *,
          is_forced: bool = False) -> Iterator[Result]:
    """Do what a plan says.

    :param is_forced: turn hosts also while servers of the other class run
        on them
    :returns: what becomes of each change that is needed
    :raises errors.CloudError: if the cloud cannot be worked with
    """
    return _Applier(made, cloud, is_forced).run()


class _Applier:

    def __init__(self, made: site_plan.Plan, cloud: Cloud,
                 is_forced: bool) -> None:
        self._made = made
        self._cloud = cloud
        self._is_forced = is_forced
        #: Aggregates that say what they are to say, by name.
        self._ready = {one.kept.name: one.live for one in made.aggregates
                       if one.live and not one.is_needed}

    def run(self) -> Iterator[Result]:
        aggregates = self._made.aggregate_changes
        for one in aggregates:
            if not one.has_hosts:
                yield self._aggregate(one)
        late = []
        for host in self._made.host_changes:
            done = self._turn(host, host.turn, self._is_forced)
            if done.status in (change.Status.DONE, change.Status.UNCHANGED) \
                    and not self._ready.keys() >= set(host.joins):
                late.append((host, done))
            else:
                yield HostResult(host, done)
        for one in aggregates:
            if one.has_hosts:
                yield self._aggregate(one)
        for host, done in late:
            yield HostResult(host, self._join(host, done))

    def _turn(self, wanted: site_plan.HostChange, turn: change.Change,
              is_forced: bool) -> change.Result:
        """Turn a host, and put it into the aggregates that are ready."""
        turn = dataclasses.replace(turn, joins=tuple(
            self._ready[name] for name in wanted.joins
            if name in self._ready))
        result = change.apply(self._cloud, turn, is_forced=is_forced)
        if result.status is change.Status.FAILED:
            # Raises if it is not about this host at all.
            self._cloud.aggregates()
        return result

    def _join(self, wanted: site_plan.HostChange,
              done: change.Result) -> change.Result:
        """Put a host into the aggregates that were not ready before."""
        turn = change.Change(wanted.host, wanted.turn.host_class)
        missing = [name for name in wanted.joins if name not in self._ready]
        if missing:
            return dataclasses.replace(
                done, status=change.Status.FAILED,
                message=f'aggregate {missing[0]} is not ready for it')
        # Who came while it was turned is told, and no reason to stop here.
        is_turned = done.status is change.Status.DONE
        joined = self._turn(wanted, turn, self._is_forced or is_turned)
        strangers = {
            one.id: one for one in (*done.strangers, *joined.strangers)}
        return dataclasses.replace(
            joined, strangers=tuple(strangers.values()), left=done.left,
            change=dataclasses.replace(
                done.change, joins=joined.change.joins))

    def _aggregate(self, wanted: site_plan.AggregateChange) -> Result:
        try:
            message = self._let_say(wanted)
        except (errors.RefusedError, errors.UnsettledError) as error:
            message = str(error)
        return AggregateResult(
            wanted,
            change.Status.FAILED if message else change.Status.DONE, message)

    def _let_say(self, wanted: site_plan.AggregateChange) -> str:
        """Let an aggregate say of which class its hosts are.

        It is looked at anew: what it says is said of all that is in it now.

        :returns: why it cannot, '' if it does
        """
        kept = wanted.kept
        live = next((one for one in self._cloud.aggregates()
                     if one.name == kept.name), None)
        if live is None:
            live = self._cloud.create_aggregate(kept.name)
        if model.speaks_against(live, kept.host_class):
            return 'it is for hosts of another class by now'
        missing = site_plan.missing_metadata(kept, live)
        if missing:
            strangers = self._strangers(live, kept.host_class)
            if strangers:
                return (f'{site_plan.some(strangers)} in it '
                        f'{"is" if len(strangers) == 1 else "are"} not '
                        f'{kept.host_class}')
            self._cloud.set_metadata(live, missing)
        self._ready[kept.name] = live
        return ''

    def _strangers(self, live: model.Aggregate,
                   host_class: hostclass.HostClass) -> Sequence[str]:
        if not live.hosts:
            return ()
        return [host.name for host in self._cloud.hosts()
                if host.name in live.hosts
                and not site_plan.is_of_class(host, host_class)]
