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

"""PinnedTopologyFilter and HostClassFilter, for nova-scheduler to load."""

import abc
from collections.abc import Iterable
from collections.abc import Iterator
import traceback
from typing import Any

from nova.scheduler import filters
from oslo_log import log as logging

from nova_pinning import conf
from nova_pinning.model import hostclass
from nova_pinning.model import Reason
from nova_pinning.model import Refusal
from nova_pinning.scheduler import classes
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import requests
from nova_pinning.scheduler import tally

CONF = conf.CONF
LOG = logging.getLogger(__name__)


class _ReasonedFilter(filters.BaseHostFilter, metaclass=abc.ABCMeta):
    """A filter that knows why it refuses a host, and never raises.

    Reasons are logged at DEBUG for each host. When no host is left, one line
    at INFO sums them up for the request, those of our filters that ran before
    included.
    """

    RUN_ON_REBUILD = False

    def __init__(self) -> None:
        super().__init__()
        conf.check()
        self._logged_errors: set[str] = set()

    @abc.abstractmethod
    def refusal(
        self, host_state: Any, request: requests.Request,
    ) -> Refusal | None:
        """Why the host will not do, or None if it will.

        :param host_state: nova.scheduler.host_manager.HostState
        """

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        return self._judge(host_state, spec_obj) is None

    def filter_all(
        self, filter_obj_list: Iterable[Any], spec_obj: Any,
    ) -> Iterator[Any]:
        if self._is_rebuild(spec_obj):
            yield from filter_obj_list
            return
        try:
            request = requests.read(spec_obj)
        except Exception:
            # Each host will meet the same error, and say so.
            request = None
        instance = _instance(spec_obj)
        refused = tally.Tally()
        passed = False
        for host_state in filter_obj_list:
            refusal = self._judge(host_state, spec_obj, request)
            if refusal is None:
                passed = True
                yield host_state
            else:
                refused.add(host_state.host, refusal)
        tallies = {}
        if request is not None:
            tallies = request.tallies.setdefault(instance, {})
        tallies[type(self).__name__] = refused
        if refused and not passed:
            LOG.info('No host for instance %s. %s', instance,
                     '. '.join(f'{name} refused {what}'
                               for name, what in tallies.items() if what))

    def _judge(
        self,
        host_state: Any,
        spec_obj: Any,
        request: requests.Request | None = None,
    ) -> Refusal | None:
        """What refusal() says, or what is configured if it fails."""
        try:
            refusal = self.refusal(
                host_state, request or requests.read(spec_obj))
        except Exception as error:
            refusal = self._judge_error(host_state, spec_obj, error)
        if refusal is not None and LOG.isEnabledFor(logging.DEBUG):
            LOG.debug('%s refuses host %s for instance %s: %s',
                      type(self).__name__, host_state.host,
                      _instance(spec_obj), refusal)
        return refusal

    def _judge_error(
        self, host_state: Any, spec_obj: Any, error: Exception,
    ) -> Refusal | None:
        """What to do about a host on which the filter itself failed.

        Logged once for each place in the code that fails, so that a broken
        fleet does not flood the log.
        """
        place = ''.join(traceback.format_tb(error.__traceback__)[-1:])
        key = f'{type(error).__name__} {place}'
        if key not in self._logged_errors:
            self._logged_errors.add(key)
            LOG.error(
                'Unexpected error in %s on host %s; further ones of this '
                'kind are not logged', type(self).__name__, host_state.host,
                exc_info=error)
        policy = CONF.pinning.on_error
        if policy == 'pass' or (
                policy == 'by-class' and not self._is_dedicated(spec_obj)):
            return None
        return Refusal(Reason.ERROR, detail=f'{type(error).__name__}: {error}')

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


class PinnedTopologyFilter(_ReasonedFilter):
    """Hosts on which the guest's NUMA topology fits, exactly.

    To be used in the place of nova's NUMATopologyFilter. It differs where
    that is wrong: see "What nova's NUMA fit gets wrong" in the admin guide.
    """

    def refusal(
        self, host_state: Any, request: requests.Request,
    ) -> Refusal | None:
        outcome = fitting.place(host_state, request)
        if isinstance(outcome, Refusal):
            return outcome
        if request.requires_threads and not self._has_threads(host_state):
            return Refusal(Reason.NO_THREADS)
        if outcome is not None:
            host_state.limits['numa_topology'] = outcome.limits
            host_state.allocation_candidates = outcome.candidates
        return None

    @staticmethod
    def _has_threads(host_state: Any) -> bool:
        """Whether the host has hardware threads, or no topology to tell."""
        topology = host_state.numa_topology
        return not topology or topology.has_threads


class HostClassFilter(_ReasonedFilter):
    """Hosts of the guest's own class: dedicated or shared.

    What aggregates and traits state counts, and both have to agree. The
    host's topology is asked only where neither says anything.
    """

    def refusal(
        self, host_state: Any, request: requests.Request,
    ) -> Refusal | None:
        if request.guest_class is None:
            return request.class_refusal
        view = request.traits
        try:
            if view.stale and self._depends_on_traits(host_state, request):
                return Refusal(Reason.TRAITS_STALE, detail=view.stale)
            host_class = (classes.stated_class(host_state, view) or
                          classes.class_from_topology(host_state) or
                          self._default(request))
        except hostclass.UnknownClass as error:
            return Refusal(Reason.CLASS_UNKNOWN, detail=str(error))
        if host_class is None:
            if request.options.unknown_host_class == 'allow':
                return None
            return Refusal(
                Reason.CLASS_UNKNOWN, detail="nothing tells the host's class")
        if host_class is request.guest_class:
            return None
        return Refusal(
            Reason.HOST_CLASS,
            detail=f'a {host_class} host, a {request.guest_class} guest')

    @staticmethod
    def _depends_on_traits(host_state: Any, request: requests.Request) -> bool:
        """Whether a guest must not go on the host by traits that are too old.

        The topology does not help: it shows what a host could do, not what it
        is for.
        """
        return (request.guest_class is hostclass.HostClass.DEDICATED and
                classes.class_from_aggregates(host_state) is None)

    @staticmethod
    def _default(request: requests.Request) -> hostclass.HostClass | None:
        """The class of a host whose class nothing tells."""
        unknown = request.options.unknown_host_class
        if unknown in ('dedicated', 'shared'):
            return hostclass.HostClass(unknown)
        return None


def _instance(spec_obj: Any) -> str:
    try:
        return str(spec_obj.instance_uuid)
    except Exception:
        # Nova's objects raise for a field that was never set.
        return '(unknown)'


def all_filters() -> list[type[filters.BaseHostFilter]]:
    """Both filters, for ``[filter_scheduler] available_filters``."""
    return [PinnedTopologyFilter, HostClassFilter]
