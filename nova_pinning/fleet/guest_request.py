# SPDX-License-Identifier: Apache-2.0
"""What one more guest of a flavor asks for.

``bridge.flavor_request`` makes it of a flavor and an image by nova's own code.
"""

from collections.abc import Mapping
import dataclasses

from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import hostclass

_MIB_PER_GIB = 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlacementQuery:
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
class GuestRequest:
    """A guest that is to be placed.

    :param topology: None if it has none: its vCPUs float
    :param queries: what nova asks Placement, PCPU before VCPU in its place;
        a host that answers any of them will do
    """

    flavor: flavor_model.Flavor
    guest_class: hostclass.HostClass
    topology: model.Guest | None
    devices: tuple[snapshot.PciRequest, ...] = ()
    queries: tuple[PlacementQuery, ...] = ()

    @property
    def name(self) -> str:
        return self.flavor.name

    @property
    def disk_gib(self) -> int:
        """What nova counts it with on its host's own disks."""
        flavor = self.flavor
        return (flavor.disk_gib + flavor.ephemeral_gib
                + -(-flavor.swap_mib // _MIB_PER_GIB))
