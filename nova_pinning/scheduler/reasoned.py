# SPDX-License-Identifier: Apache-2.0
"""What our filters have in common: reasons, two tiers, and no surprises."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import time
from typing import Any

from nova.scheduler import filters
from oslo_log import log as logging

from nova_pinning import compat
from nova_pinning import conf
from nova_pinning import fit
from nova_pinning.model import hostclass
from nova_pinning.model import Reason
from nova_pinning.model import Refusal
from nova_pinning.scheduler import errorlog
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import metrics
from nova_pinning.scheduler import requests
from nova_pinning.scheduler import tally

LOG = logging.getLogger(__name__)


@compat.dataclass(slots=True)
class _Round:
    """One instance on its way through a filter.

    :ivar refused: hosts that will not do
    :ivar passed: how many will
    :ivar second: hosts that would only do where no other is left
    """

    refused: tally.RefusalTally
    passed: int = 0
    second: list[Any] = dataclasses.field(default_factory=list)


class ReasonedFilter(filters.BaseHostFilter, metaclass=abc.ABCMeta):
    """A filter that knows why it refuses a host, and never raises.

    Reasons are logged at DEBUG for each host. When no host is left, one line
    at INFO sums them up for the request, those of our filters that ran before
    included.

    One filter object serves all requests, in several threads at once: what
    belongs to a request is kept with that.
    """

    RUN_ON_REBUILD = False
    #: Whether filters come after it, which may leave none that it passes.
    is_followed = False

    def __init__(self) -> None:
        super().__init__()
        conf.check()
        requests.current_options()
        self._name = type(self).__name__
        self._errors = errorlog.ErrorLog()

    @abc.abstractmethod
    def refusal(
        self, host_state: Any, request: requests.PinningRequest,
    ) -> Refusal | None:
        """Why the host will not do, or None if it will.

        :param host_state: nova.scheduler.host_manager.HostState; not changed
        """

    def fitted(
        self, host_state: Any, request: requests.PinningRequest,
    ) -> fitting.FittedGuest | None:
        """Where the guest goes on a host that will do, None for anywhere."""
        return None

    def second_choice(
        self, second: Sequence[Any], request: requests.PinningRequest,
        has_first: bool,
    ) -> Sequence[Any]:
        """Those of the second tier that pass where the first may not do.

        :param second: HostStates
        :param has_first: whether any of the first tier have passed
        """
        return second

    def observe(
        self, host_states: Sequence[Any], spec_obj: Any,
        refused: tally.RefusalTally,
    ) -> None:
        """Say what would have been different, had the filter acted.

        :param host_states: all that came to the filter
        :param refused: those that it would have refused
        """
        if refused:
            LOG.info('Observing instance %s: %s would refuse %s of %d hosts. '
                     '%s', instance_of(spec_obj), self._name, refused.hosts,
                     len(host_states), refused)
        for reason, count in refused.counts.items():
            metrics.recorder().differed(self._name, 'ours', reason, count)

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        request = self._request(spec_obj)
        refusal, is_sound = self._judge(host_state, spec_obj, request)
        if _observes(request):
            return True
        if refusal is None and is_sound and request is not None:
            _accept(host_state, self.fitted(host_state, request))
        return refusal is None

    def filter_all(
        self, filter_obj_list: Iterable[Any], spec_obj: Any,
    ) -> Iterator[Any]:
        if self._is_rebuild(spec_obj):
            yield from filter_obj_list
            return
        started = time.perf_counter()
        request = self._request(spec_obj)
        if (request is not None and not request.has_alternates
                and self._has_host(spec_obj, request)):
            # Each instance has a host, and this one is for alternates.
            return
        round_ = _Round(tally.RefusalTally())
        if _observes(request):
            host_states = list(filter_obj_list)
            self._look(host_states, spec_obj, request, round_)
            self._observe(host_states, spec_obj, round_.refused)
            self._measure(request, round_, time.perf_counter() - started)
            yield from host_states
            return
        for host_state in filter_obj_list:
            if self._passes_first(host_state, spec_obj, request, round_):
                yield host_state
        if request is not None:
            yield from self._second_tier(spec_obj, request, round_)
        self._measure(request, round_, time.perf_counter() - started)
        self._conclude(spec_obj, request, round_)

    def _look(
        self, host_states: Iterable[Any], spec_obj: Any,
        request: requests.PinningRequest | None, round_: _Round,
    ) -> None:
        """Judge hosts as if the filter acted, and change none."""
        for host_state in host_states:
            self._passes_first(host_state, spec_obj, request, round_)
        if request is None:
            return
        chosen = [] if self._is_enough(round_, request) else self._chosen(
            round_.second, request, round_)
        for host_state in round_.second:
            name = host_state.host
            if host_state in chosen:
                round_.refused.discard(name)
                round_.passed += 1
            elif round_.refused.refusal(name) is None:
                fitted = self.fitted(host_state, request)
                assert fitted is not None and fitted.drawback is not None
                round_.refused.add(name, fitted.drawback)

    def _passes_first(
        self, host_state: Any, spec_obj: Any,
        request: requests.PinningRequest | None, round_: _Round,
    ) -> bool:
        """Whether a host is of the first tier; note it down if not."""
        refusal, is_sound = self._judge(host_state, spec_obj, request)
        if refusal is not None:
            round_.refused.add(host_state.host, refusal)
            if fit.is_cut_off(refusal):
                round_.second.append(host_state)
            return False
        if is_sound and request is not None:
            fitted = self.fitted(host_state, request)
            if fitted is not None:
                if fitted.drawback is not None:
                    round_.second.append(host_state)
                    return False
                if not request.options.observes:
                    _accept(host_state, fitted)
        round_.passed += 1
        return True

    def _second_tier(
        self, spec_obj: Any, request: requests.PinningRequest, round_: _Round,
    ) -> Iterator[Any]:
        """Hosts with a drawback, where there are not enough others.

        Nova hands the hosts that are left for one instance on to the next.
        So those that were left aside then are looked at again, unless they
        are not where the first instance is and have to be. As alternates,
        which nova asks for after the last of several instances, they are no
        good.
        """
        if self._has_host(spec_obj, request):
            return
        new = set(round_.second)
        aside = [host_state for host_state in request.left_aside
                 if host_state not in new]
        if self._is_enough(round_, request):
            request.left_aside[:] = [*aside, *round_.second]
            self._count_drawbacks(round_.second, request, False)
            return
        second = list(round_.second)
        if request.group_policy != 'affinity':
            second += aside
        chosen = self._chosen(second, request, round_)
        taken = set(chosen)
        request.left_aside[:] = [
            host_state for host_state in [*aside, *round_.second]
            if host_state not in taken]
        drawbacks = self._count_drawbacks(chosen, request, True)
        # One that had no time before may turn out to have none.
        if drawbacks:
            LOG.info('Instance %s goes on a host of second choice, since none '
                     'of the first is left: %s'
                     if not round_.passed else
                     'Instance %s may go on a host of second choice, since '
                     'those of the first may not be enough for its server '
                     'group or for later filters: %s', instance_of(spec_obj),
                     drawbacks)
        for host_state in chosen:
            round_.refused.discard(host_state.host)
            round_.passed += 1
            fitted = self.fitted(host_state, request)
            if (request.is_several and fitted is not None
                    and fit.comes_alone(fitted.drawback)):
                request.has_alternates = False
            _accept(host_state, fitted)
            yield host_state

    def _is_enough(self, round_: _Round,
                   request: requests.PinningRequest) -> bool:
        """Whether the hosts of the first tier do, for now.

        Where each instance may need a host of its own, the filter for that
        comes before this one, and leaves none once those are used up. Nova
        does not ask this one then. Nor does it ask again where a later filter
        has refused them all.
        """
        if self.is_followed and not request.options.observes:
            return False
        needed = 1
        if request.group_policy == 'anti-affinity':
            needed = request.instances - sum(
                name == self._name for name, _instance in request.placed)
        return round_.passed >= max(1, needed)

    def _chosen(
        self, second: Sequence[Any], request: requests.PinningRequest,
        round_: _Round,
    ) -> Sequence[Any]:
        """What second_choice() says; none if it fails.

        It may have come to know more of those that it leaves.
        """
        if not second:
            return []
        refused = round_.refused
        try:
            chosen = self.second_choice(
                second, request, bool(round_.passed))
            taken = set(chosen)
            for host_state in second:
                name = host_state.host
                if host_state in taken or refused.refusal(name) is None:
                    continue
                refusal = self.refusal(host_state, request)
                if refusal is not None:
                    refused.discard(name)
                    refused.add(name, refusal)
            return chosen
        except Exception as error:
            self._note_error(error, second[0].host)
            for host_state in second:
                refused.discard(host_state.host)
                refused.add(host_state.host, _unexpected(error))
            return []

    def _drawbacks(self, host_states: Iterable[Any],
                   request: requests.PinningRequest) -> tally.RefusalTally:
        drawbacks = tally.RefusalTally()
        for host_state in host_states:
            fitted = self.fitted(host_state, request)
            if fitted is not None and fitted.drawback is not None:
                drawbacks.add(host_state.host, fitted.drawback)
        return drawbacks

    def _count_drawbacks(self, host_states: Iterable[Any],
                         request: requests.PinningRequest,
                         is_used: bool) -> tally.RefusalTally:
        recorder = metrics.recorder()
        drawbacks = self._drawbacks(host_states, request)
        for reason, count in drawbacks.counts.items():
            recorder.held_back(reason, count, is_used)
        return drawbacks

    def _measure(self, request: requests.PinningRequest | None,
                 round_: _Round, seconds: float) -> None:
        recorder = metrics.recorder()
        recorder.filtered(
            self._name, round_.passed, round_.refused.counts, seconds)
        if request is not None and request.budget.longest_seconds:
            budget = request.budget
            recorder.searched(budget.longest_seconds, budget.is_exceeded)
            budget.longest_seconds, budget.is_exceeded = 0.0, False

    def _conclude(
        self,
        spec_obj: Any,
        request: requests.PinningRequest | None,
        round_: _Round,
    ) -> None:
        """Say so if no host is left, and why."""
        instance = instance_of(spec_obj)
        tallies = {}
        has_passed = False
        if request is not None:
            tallies = request.tallies.setdefault(instance, {})
            # Nova asks once more for alternates, after the last instance of
            # several has its host. That none is left then is not a failure.
            has_passed = self._has_host(spec_obj, request)
            if round_.passed:
                request.placed.add((self._name, instance))
        tallies[self._name] = round_.refused
        if not round_.refused or round_.passed:
            return
        if has_passed:
            LOG.debug('No alternate host for instance %s. %s refused %s',
                      instance, self._name, round_.refused)
            return
        LOG.info('No host for instance %s. %s', instance,
                 '. '.join(f'{name} refused {what}'
                           for name, what in tallies.items() if what))
        metrics.recorder().no_host()

    def _has_host(self, spec_obj: Any,
                  request: requests.PinningRequest) -> bool:
        """Whether there was a host for this instance before."""
        return (self._name, instance_of(spec_obj)) in request.placed

    def _observe(self, host_states: Sequence[Any], spec_obj: Any,
                 refused: tally.RefusalTally) -> None:
        try:
            self.observe(host_states, spec_obj, refused)
        except Exception as error:
            self._note_error(
                error, host_states[0].host if host_states else '(none)')

    def _request(self, spec_obj: Any) -> requests.PinningRequest | None:
        """The request, None if it cannot be read: each host will say so."""
        try:
            request = requests.read(spec_obj)
            requests.note_instance(spec_obj, request)
            return request
        except Exception:
            return None

    def _judge(
        self,
        host_state: Any,
        spec_obj: Any,
        request: requests.PinningRequest | None,
    ) -> tuple[Refusal | None, bool]:
        """What refusal() says, or what is configured if it fails.

        :returns: with whether it is that of refusal()
        """
        is_sound = True
        try:
            refusal = self.refusal(
                host_state, request or requests.read(spec_obj))
        except Exception as error:
            is_sound = False
            self._note_error(error, host_state.host)
            refusal = self.error_refusal(error, host_state, spec_obj)
        if refusal is not None and LOG.isEnabledFor(logging.DEBUG):
            LOG.debug('%s refuses host %s for instance %s: %s',
                      self._name, host_state.host, instance_of(spec_obj),
                      refusal)
        return refusal, is_sound

    def _note_error(self, error: Exception, host_name: str) -> None:
        self._errors.report(
            LOG, 'Unexpected error in %s on host %s', self._name, host_name,
            error=error)
        metrics.recorder().error(self._name, type(error).__name__)

    def error_refusal(self, error: Exception, host_state: Any,
                      spec_obj: Any) -> Refusal | None:
        """What is configured for a host that the filter cannot judge."""
        policy = requests.current_options().on_error
        if policy == 'pass' or (
                policy == 'by-class' and not self._is_dedicated(spec_obj)):
            return None
        return _unexpected(error)

    @staticmethod
    def _is_dedicated(spec_obj: Any) -> bool:
        """Whether the guest counts as dedicated; it does when in doubt."""
        try:
            return (requests.read(spec_obj).guest_class is not
                    hostclass.HostClass.SHARED)
        except Exception:
            return True

    @staticmethod
    def _is_rebuild(spec_obj: Any) -> bool:
        # As nova's filters do: this module is loaded while nova's scheduler
        # package still is.
        from nova.scheduler import utils
        return bool(utils.request_is_rebuild(spec_obj))


def _unexpected(error: Exception) -> Refusal:
    return Refusal(Reason.ERROR, detail=f'{type(error).__name__}: {error}')


def _accept(host_state: Any, fitted: fitting.FittedGuest | None) -> None:
    """Tell nova what it has to know of a host that passes."""
    if fitted is not None:
        host_state.limits['numa_topology'] = fitted.limits
        host_state.allocation_candidates = fitted.candidates


def _observes(request: requests.PinningRequest | None) -> bool:
    options = requests.current_options(
    ) if request is None else request.options
    return options.observes


def instance_of(spec_obj: Any) -> str:
    """The UUID of the instance that a RequestSpec is about now."""
    try:
        return str(spec_obj.instance_uuid)
    except Exception:
        # Nova's objects raise for a field that was never set.
        return '(unknown)'
