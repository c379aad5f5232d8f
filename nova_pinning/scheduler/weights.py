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

"""FragmentationWeigher and CacheLocalityWeigher, for nova-scheduler."""

import abc
import math
from typing import Any

from nova.scheduler.filters import utils
from nova.scheduler import weights
from oslo_log import log as logging

from nova_pinning import conf
from nova_pinning.fit import score
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import layout
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

    :raises oslo_config.cfg.ConfigFileValueError: if an option of [pinning] is
        wrong; nova-scheduler then does not start
    """

    #: Option of [pinning], and aggregate metadata, with the multiplier.
    multiplier_name: str
    #: Weights that lie closer together than this do not make all the
    #: difference that the multiplier allows.
    least_range = 0.0

    def __init__(self) -> None:
        super().__init__()
        conf.check()
        self._has_logged_error = False
        self._multiplier = float(getattr(CONF.pinning, self.multiplier_name))

    def weight_multiplier(self, host_state: Any) -> float:
        """As nova.scheduler.utils.get_weight_multiplier finds it.

        The least of what the host's aggregates say, else the option. Nova's
        function raises if aggregates cannot be read, and logs a line for each
        host where they say nonsense or several things.
        """
        try:
            value = min(map(float, utils.aggregate_values_from_key(
                host_state, self.multiplier_name)), default=self._multiplier)
        except Exception as error:
            LOG.debug('%s of host %s cannot be used: %s',
                      self.multiplier_name, host_state.host, error)
            return self._multiplier
        return value if math.isfinite(value) else self._multiplier

    @abc.abstractmethod
    def weight(
        self,
        host_state: Any,
        request: requests.Request,
        placement: fitting.Placement,
    ) -> float:
        """How well the host suits the guest; more is better."""

    def weigh_objects(
        self, weighed_obj_list: Any, weight_properties: Any,
    ) -> list[float]:
        found = [self._weight_or_none(item.obj, weight_properties)
                 for item in weighed_obj_list]
        known = [weight for weight in found if weight is not None]
        worst = min(known, default=0.0)
        if self.least_range:
            # Read by nova.weights.BaseWeightHandler after this.
            self.maxval = max(max(known, default=0.0),
                              worst + self.least_range)
        return [worst if weight is None else weight for weight in found]

    def _weigh_object(self, obj: Any, weight_properties: Any) -> float:
        return self._weight_or_none(obj, weight_properties) or 0.0

    def _weight_or_none(self, host_state: Any, spec_obj: Any) -> float | None:
        try:
            request = requests.read(spec_obj)
            if request.guest is None or not request.guest.is_pinned:
                return 0.0
            placement = fitting.place(host_state, request)
            if not isinstance(placement, fitting.Placement):
                return None
            return self.weight(host_state, request, placement)
        except Exception:
            if not self._has_logged_error:
                self._has_logged_error = True
                LOG.exception(
                    'Unexpected error in %s on host %s; further ones are not '
                    'logged', type(self).__name__, host_state.host)
            return None


class FragmentationWeigher(_FitWeigher):
    """Prefers hosts where the guest strands the fewest CPUs.

    See :func:`nova_pinning.fit.score.fragmentation_cost`.
    """

    multiplier_name = 'fragmentation_weight_multiplier'
    least_range = score.COST_RANGE

    def __init__(self) -> None:
        super().__init__()
        self._configured = mix.configured_mix(CONF.pinning.fragmentation_mix)

    def weight(
        self,
        host_state: Any,
        request: requests.Request,
        placement: fitting.Placement,
    ) -> float:
        return -score.fragmentation_cost(
            placement.guest, placement.cells, placement.fit,
            self._configured or request.recent_mix, placement.other_cells)


class CacheLocalityWeigher(_FitWeigher):
    """Prefers hosts where the guest's CPUs lie in the fewest L3 domains.

    Aggregates and traits tell the L3 layout; where they do not, a NUMA cell
    is one domain.
    """

    multiplier_name = 'cache_locality_weight_multiplier'

    def weight(
        self,
        host_state: Any,
        request: requests.Request,
        placement: fitting.Placement,
    ) -> float:
        l3_cpus = layout.l3_cpus(host_state, request.traits)
        is_exclusive = request.options.exclusive_l3
        if l3_cpus is None and not is_exclusive:
            return -float(sum(
                bool(cell.pins) for cell in placement.fit.cells))
        total = 0
        for cell, cell_fit in zip(placement.cells, placement.fit.cells):
            _count, cost = score.l3_use(
                score.l3_domains(cell.cores, l3_cpus), cell, cell_fit,
                is_exclusive)
            total += cost
        return float(-total)


def all_weighers() -> list[type[weights.BaseHostWeigher]]:
    """Both weighers, for ``[filter_scheduler] weight_classes``."""
    return [FragmentationWeigher, CacheLocalityWeigher]
