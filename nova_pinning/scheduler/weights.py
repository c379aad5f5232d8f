# SPDX-License-Identifier: Apache-2.0
"""FragmentationWeigher and CacheLocalityWeigher, for nova-scheduler."""

from __future__ import annotations

import abc
import math
import time
from typing import Any

from nova.scheduler.filters import utils
from nova.scheduler import weights
from oslo_log import log as logging

from nova_pinning import conf
from nova_pinning.fit import score
from nova_pinning.scheduler import errorlog
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import layout
from nova_pinning.scheduler import metrics
from nova_pinning.scheduler import mix
from nova_pinning.scheduler import requests

CONF = conf.CONF
LOG = logging.getLogger(__name__)


class _FitWeigher(weights.BaseHostWeigher, metaclass=abc.ABCMeta):
    """A weigher that looks at where a pinned guest goes, and never raises.

    Hosts weigh nothing for guests that are not pinned. The fit is the one
    that PinnedTopologyFilter found; without that filter it is made here. A
    host on which the guest does not fit, or which cannot be weighed, weighs
    as little as the worst of the others.

    nova-scheduler weighs for several requests at once with one weigher, so
    nothing of a request is kept in it.

    :raises oslo_config.cfg.ConfigFileValueError: if an option of [pinning] is
        wrong; nova-scheduler then does not start
    """

    # What weigh_objects returns is normalized already, and nova is to leave
    # it as it is: what it would read from here after a call may be another
    # request's by then.
    minval = 0.0
    maxval = 1.0

    #: Option of [pinning], and aggregate metadata, with the multiplier.
    multiplier_name: str
    #: Weights that lie closer together than this do not make all the
    #: difference that the multiplier allows.
    least_range = 0.0

    def __init__(self) -> None:
        super().__init__()
        conf.check()
        requests.current_options()
        self._errors = errorlog.ErrorLog()

    def weight_multiplier(self, host_state: Any) -> float:
        """As nova.scheduler.utils.get_weight_multiplier finds it.

        The least of what the host's aggregates say, else the option as it is
        for the request. Nova's function raises if aggregates cannot be read,
        and logs a line for each host where they say nonsense or several
        things.
        """
        try:
            said = utils.aggregate_values_from_key(
                host_state, self.multiplier_name)
            if said:
                value = min(map(float, said))
                if math.isfinite(value):
                    return value
        except Exception as error:
            LOG.debug('%s of host %s cannot be used: %s',
                      self.multiplier_name, host_state.host, error)
        multiplier: float = getattr(
            requests.last_options(), self.multiplier_name)
        return multiplier

    @abc.abstractmethod
    def weight(
        self,
        host_state: Any,
        request: requests.PinningRequest,
        placement: fitting.FittedGuest,
    ) -> float:
        """How well the host suits the guest; more is better.

        :returns: any number, or ``score.UNKNOWN``
        """

    def weigh_objects(
        self, weighed_obj_list: Any, weight_properties: Any,
    ) -> list[float]:
        started = time.perf_counter()
        request = self._request(weight_properties)
        if request is None:
            return [0.0] * len(weighed_obj_list)
        unscaled = [self._weight(item.obj, request)
                    for item in weighed_obj_list]
        metrics.recorder().weighed(
            type(self).__name__, len(unscaled), time.perf_counter() - started)
        if LOG.isEnabledFor(logging.DEBUG):
            LOG.debug('%s: before they are normalized, weights are %s',
                      type(self).__name__, {
                          item.obj.host: weight
                          for item, weight in zip(weighed_obj_list, unscaled)})
        return score.normalized(unscaled, self.least_range)

    def _weigh_object(self, obj: Any, weight_properties: Any) -> float:
        # A host weighs something only beside others.
        return 0.0

    def _request(self, spec_obj: Any) -> requests.PinningRequest | None:
        """The request, None if all hosts are to weigh nothing for it."""
        try:
            request = requests.read(spec_obj)
            if request.options.observes:
                return None
            if request.guest is None or not request.guest.is_pinned:
                return None
            requests.note_instance(spec_obj, request)
        except Exception as error:
            self._errors.report(
                LOG, 'Unexpected error in %s on a request',
                type(self).__name__, error=error)
            return None
        return request

    def _weight(self, host_state: Any,
                request: requests.PinningRequest) -> float:
        try:
            placement = fitting.fit_on_host(host_state, request)
            if isinstance(placement, fitting.FittedGuest):
                return self.weight(host_state, request, placement)
        except Exception as error:
            self._errors.report(
                LOG, 'Unexpected error in %s on host %s',
                type(self).__name__, host_state.host, error=error)
            metrics.recorder().error(type(self).__name__, type(error).__name__)
        return score.UNFIT


class FragmentationWeigher(_FitWeigher):
    """Prefers hosts where the guest strands the fewest CPUs.

    See :func:`nova_pinning.fit.score.fragmentation_growth`. Of places that are
    alike in this the fullest cells, which keeps large room in one piece.
    """

    multiplier_name = 'fragmentation_weight_multiplier'
    least_range = score.COST_RANGE

    def __init__(self) -> None:
        super().__init__()
        self._configured = mix.configured_mix(CONF.pinning.fragmentation_mix)

    def weight(
        self,
        host_state: Any,
        request: requests.PinningRequest,
        placement: fitting.FittedGuest,
    ) -> float:
        return -(score.fragmentation_growth(
            placement.guest, placement.cells, placement.fit,
            self._configured or request.recent_mix or (),
            placement.other_cells,
            fitting.device_stock(host_state, request, placement))
            + score.COST_OF_FREE_CPU * score.left_over(
                placement.guest, placement.cells))


class CacheLocalityWeigher(_FitWeigher):
    """Prefers hosts where the guest's CPUs lie in the fewest L3 domains.

    Aggregates and traits tell the L3 layout; hosts of which they do not are
    neither better nor worse than the others are on average.
    """

    multiplier_name = 'cache_locality_weight_multiplier'

    def weight(
        self,
        host_state: Any,
        request: requests.PinningRequest,
        placement: fitting.FittedGuest,
    ) -> float:
        l3_cpus = layout.l3_cpus(host_state, request.traits)
        if l3_cpus is None:
            return score.UNKNOWN
        total = 0
        for cell, cell_fit in zip(placement.cells, placement.fit.cells):
            others = [other.cores for other in placement.host_cells
                      if other.id != cell.id]
            total += score.l3_cost(
                score.l3_domains(cell.cores, l3_cpus, others), cell, cell_fit,
                request.options.prefer_exclusive_l3)
        return float(-total)


def all_weighers() -> list[type[weights.BaseHostWeigher]]:
    """Both weighers, for ``[filter_scheduler] weight_classes``."""
    return [FragmentationWeigher, CacheLocalityWeigher]
