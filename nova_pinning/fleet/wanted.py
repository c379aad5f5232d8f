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

"""What one more guest of a flavor asks for.

``bridge.wanted`` makes it of a flavor and an image by nova's own code.
"""

from collections.abc import Mapping
import dataclasses

from nova_pinning.flavors import model as flavor_model
from nova_pinning.fleet import model as fleet_model
from nova_pinning import model
from nova_pinning.model import hostclass

_MIB_PER_GIB = 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What nova asks Placement for, all groups together.

    :param resources: amounts by resource class (PCPU, VCPU, MEMORY_MB,
        DISK_GB, ...)
    :param required: traits, each of which a host has to have
    :param forbidden: traits, none of which it may have
    """

    resources: Mapping[str, int]
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A guest that is to be placed.

    :param topology: None if it has none: its vCPUs float
    :param queries: what nova asks Placement, PCPU before VCPU in its place;
        a host that answers any of them will do
    """

    flavor: flavor_model.Flavor
    guest_class: hostclass.HostClass
    topology: model.Guest | None
    devices: tuple[fleet_model.PciRequest, ...] = ()
    queries: tuple[Query, ...] = ()

    @property
    def name(self) -> str:
        return self.flavor.name

    @property
    def disk_gib(self) -> int:
        """What nova counts it with on its host's own disks."""
        flavor = self.flavor
        return (flavor.disk_gib + flavor.ephemeral_gib
                + -(-flavor.swap_mib // _MIB_PER_GIB))
