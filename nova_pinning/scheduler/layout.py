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

"""How a host's CPUs share L3 caches, as far as anything tells."""

from typing import Any

from oslo_log import log as logging

from nova_pinning.placement import traits as placement_traits
from nova_pinning.scheduler import traits

LOG = logging.getLogger(__name__)


def l3_cpus(host_state: Any, view: traits.View) -> int | None:
    """The host CPUs in each L3 domain, None if nothing tells.

    What aggregates say outweighs the traits of the host's provider: those
    come with the host, aggregates are for whoever knows better.

    :param host_state: nova.scheduler.host_manager.HostState
    """
    named = l3_cpus_from_aggregates(host_state)
    if named is not None:
        return named
    marks = view.marks.get(host_state.uuid)
    return marks.l3_cpus if marks else None


def l3_cpus_from_aggregates(host_state: Any) -> int | None:
    """What the host's aggregates say under ``pinning:l3_cpus``.

    The smallest number if several say so; what is no positive number counts
    as not said, since a weigher has no way to refuse.
    """
    found = []
    for aggregate in host_state.aggregates:
        text = aggregate.metadata.get(placement_traits.L3_KEY)
        if text is None:
            continue
        said = placement_traits.parse_l3_cpus(text)
        if said is not None:
            found.append(said)
        else:
            LOG.debug('%s of aggregate %s is %r, which is no number of CPUs',
                      placement_traits.L3_KEY, aggregate.name, text)
    return min(found, default=None)
