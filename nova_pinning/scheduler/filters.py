# SPDX-License-Identifier: Apache-2.0
"""PinnedTopologyFilter and HostClassFilter, for nova-scheduler to load."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
import copy
from typing import Any

import nova.conf
from nova.scheduler import filters
from oslo_log import log as logging

from nova_pinning import conf
from nova_pinning import fit
from nova_pinning.model import filter_order
from nova_pinning.model import hostclass
from nova_pinning.model import Reason
from nova_pinning.model import Refusal
from nova_pinning.scheduler import census
from nova_pinning.scheduler import classes
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import metrics
from nova_pinning.scheduler import reasoned
from nova_pinning.scheduler import requests
from nova_pinning.scheduler import selftest
from nova_pinning.scheduler import tally
from nova_pinning.scheduler import traits_reader

LOG = logging.getLogger(__name__)


class PinnedTopologyFilter(reasoned.ReasonedFilter):
    """Hosts on which the guest's NUMA topology fits, exactly.

    To be used in the place of nova's NUMATopologyFilter. It differs where
    that is wrong: see "What nova's NUMA fit gets wrong" in the admin guide.
    """

    def __init__(self) -> None:
        super().__init__()
        self._self_test = selftest.at_start_up()
        self.is_followed = _check_order()

    def refusal(
        self, host_state: Any, request: requests.PinningRequest,
    ) -> Refusal | None:
        if request.spec_topology is not None and self._self_test.failures:
            raise selftest.SelfTestFailed(self._self_test.failures[0])
        is_last = None
        if any(hostclass.RESERVE_KEY in aggregate.metadata
               for aggregate in host_state.aggregates):
            # Not at the top: who keeps no reserve need not trust it.
            from nova_pinning.scheduler import reserve
            is_last = reserve.is_last(host_state, request)
        if is_last is False:
            return Refusal(Reason.RESERVED)
        outcome = fitting.fit_on_host(host_state, request)
        if isinstance(outcome, Refusal):
            return outcome
        if is_last and outcome and outcome.drawback is None:
            outcome.drawback = Refusal(Reason.RESERVED)
        if outcome is None and not request.requires_threads:
            return None
        topology = host_state.numa_topology
        if request.requires_threads and topology and not topology.has_threads:
            return Refusal(Reason.NO_THREADS)
        if (request.requires_shared_cpus and topology
                and not classes.has_shared_cpus(topology)):
            return Refusal(
                Reason.NOVA_START,
                detail='realtime vCPUs with emulator threads policy "share" '
                       'need [compute] cpu_shared_set, which is not set on '
                       'the host')
        return None

    def error_refusal(self, error: Exception, host_state: Any,
                      spec_obj: Any) -> Refusal | None:
        """By default nova's own fit decides where ours is not that of nova."""
        options = requests.current_options()
        if (not isinstance(error, selftest.SelfTestFailed)
                or options.on_error != 'by-class'):
            return super().error_refusal(error, host_state, spec_obj)
        seen = _asked_of_nova(host_state, spec_obj)
        if isinstance(seen, Refusal):
            return seen
        if not options.observes:
            host_state.limits = seen.limits
            host_state.allocation_candidates = seen.allocation_candidates
        return None

    def fitted(
        self, host_state: Any, request: requests.PinningRequest,
    ) -> fitting.FittedGuest | None:
        return fitting.last_fit(host_state, request)

    def second_choice(
        self, second: Sequence[Any], request: requests.PinningRequest,
        has_first: bool,
    ) -> Sequence[Any]:
        """Hosts on which the first claim is right.

        Nova takes alternates from the same hosts. So those on which a second
        attempt could be accepted though it is wrong come alone, where there
        are no others: then there is no second attempt. For several instances
        nova asks for alternates apart, so all of them come.
        """
        harmless: list[Any] = []
        harmful: list[Any] = []

        def sort(host_state: Any, outcome: object) -> bool:
            """Whether the guest fits there, which is noted down then."""
            if not isinstance(outcome, fitting.FittedGuest):
                return False
            (harmful if fit.comes_alone(outcome.drawback)
             else harmless).append(host_state)
            return True

        cut_off = [
            host_state for host_state in second
            if not sort(host_state, fitting.fit_on_host(host_state, request))]
        # To look at these takes long, so there are only as many as nova may
        # try.
        enough = request.instances + nova.conf.CONF.scheduler.max_attempts - 1
        with request.budget.for_second_tier():
            for host_state in cut_off:
                if len(harmless) >= enough:
                    break
                sort(host_state, fitting.fit_on_host(
                    host_state, request, is_patient=True))
        if request.is_several:
            return harmless or harmful
        return harmless or ([] if has_first else harmful[:1])

    def observe(
        self, host_states: Sequence[Any], spec_obj: Any,
        refused: tally.RefusalTally,
    ) -> None:
        """Say where nova's own filter decides otherwise."""
        ours, nova = tally.RefusalTally(), tally.RefusalTally()
        for host_state in host_states:
            name = host_state.host
            refusal = refused.refusal(name)
            of_nova = _asked_of_nova(host_state, spec_obj)
            if isinstance(of_nova, Refusal):
                if refusal is None:
                    nova.add(name, of_nova)
            elif refusal is not None:
                ours.add(name, refusal)
        if not ours and not nova:
            return
        said = []
        if ours:
            said.append(f'nova passes what {self._name} would refuse: {ours}')
        if nova:
            said.append(f'{self._name} would pass what nova refuses: {nova}')
        LOG.info('Observing instance %s, %d hosts: %s',
                 reasoned.instance_of(spec_obj), len(host_states),
                 '. '.join(said))
        recorder = metrics.recorder()
        for who, refusals in (('ours', ours), ('nova', nova)):
            for reason, count in refusals.counts.items():
                recorder.differed(self._name, who, reason, count)


def _check_order() -> bool:
    """Whether filters come after PinnedTopologyFilter.

    It is an error, unless that only observes.
    """
    wrong = filter_order.what_is_wrong(
        nova.conf.CONF.filter_scheduler.enabled_filters)
    if wrong and not requests.current_options().observes:
        LOG.error(
            'If the filters after ours refuse all hosts of first choice, '
            'those of second choice have to be there: until that is put '
            'right, they are passed beside the others. In [filter_scheduler], '
            '%s', wrong)
    return bool(wrong)


def _note_mode(_reloaded: Any, changed: Mapping[Any, Any]) -> None:
    """See to the order again once the filters begin to act."""
    if ('pinning', 'mode') in changed:
        _check_order()


conf.CONF.register_mutate_hook(_note_mode)


def _asked_of_nova(host_state: Any, spec_obj: Any) -> Any:
    """A host as nova's own filter passes it, or its Refusal.

    :param host_state: nova.scheduler.host_manager.HostState; not changed
    """
    # Not at the top: this module is loaded while nova's filters still are.
    from nova.scheduler.filters import numa_topology_filter
    seen = copy.copy(host_state)
    seen.limits = dict(host_state.limits)
    try:
        passes = numa_topology_filter.NUMATopologyFilter().host_passes(
            seen, spec_obj)
    except Exception as error:
        return Refusal(Reason.NOVA_REFUSES,
                       detail=f'{type(error).__name__}: {error}')
    return seen if passes else Refusal(Reason.NOVA_REFUSES)


class HostClassFilter(reasoned.ReasonedFilter):
    """Hosts of the guest's own class: dedicated or shared.

    What aggregates and traits state counts, and both have to agree. Where
    neither says anything, the host's CPU sets tell, and where those do not
    either, ``unknown_host_class`` decides. Bare metal is of neither class, and
    passes.
    """

    def __init__(self) -> None:
        super().__init__()
        traits_reader.tell(census.CENSUS.note)

    def refusal(
        self, host_state: Any, request: requests.PinningRequest,
    ) -> Refusal | None:
        if request.guest_class is None:
            return request.class_refusal
        if hostclass.is_bare_metal(host_state.hypervisor_type):
            return None
        view = request.traits
        try:
            if view.stale and self._depends_on_traits(host_state, request):
                return Refusal(Reason.TRAITS_STALE, detail=view.stale)
            host_class = classes.host_class(
                host_state, view, request.options.unknown_host_class)
        except hostclass.UnknownClass as error:
            return Refusal(Reason.CLASS_UNKNOWN, detail=str(error))
        if host_class in (None, request.guest_class):
            return None
        return Refusal(
            Reason.HOST_CLASS,
            detail=f'a {host_class} host, a {request.guest_class} guest')

    @staticmethod
    def _depends_on_traits(host_state: Any,
                           request: requests.PinningRequest) -> bool:
        """Whether traits that are too old, or unread, decide about the guest.

        Once traits have been read, a dedicated guest needs them, or an
        aggregate: the topology shows what a host could do, not what it is
        for. Before the first read the topology has to do, since a site may
        not use traits at all. If it shows CPUs for both classes, the host
        counts as dedicated, and only a trait could open it to shared guests.
        """
        if hostclass.class_of_aggregates(host_state.aggregates) is not None:
            return False
        were_read = request.traits.were_read
        topology = host_state.numa_topology
        if request.guest_class is hostclass.HostClass.DEDICATED:
            return were_read or classes.class_from_topology(topology) is None
        return not were_read and classes.has_cpus_for_both(topology)


def all_filters() -> list[type[filters.BaseHostFilter]]:
    """Both filters, for ``[filter_scheduler] available_filters``."""
    return [PinnedTopologyFilter, HostClassFilter]
