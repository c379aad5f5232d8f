# SPDX-License-Identifier: Apache-2.0
"""What keeps guests with their own CPUs and all others on different hosts."""

from collections.abc import Mapping
import dataclasses

from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits

#: Ways of separation: a trait for each class, metadata of host aggregates, or
#: something that flavors do not show.
WAYS = ('traits', 'aggregates', 'none')

#: What nova's AggregateInstanceExtraSpecsFilter reads: its own namespace, and
#: keys without any.
AGGREGATES = 'aggregate_instance_extra_specs:'
#: Keys without a namespace that mean something to nova itself.
OWN_KEYS = ('group_policy', 'hide_hypervisor_id')


@dataclasses.dataclass(frozen=True, slots=True)
class Separation:
    """How a cloud separates the classes.

    :param by: one of WAYS
    :param dedicated_trait: of hosts for pinned guests
    :param shared_trait: of the others
    """

    by: str = 'traits'
    dedicated_trait: str = placement_traits.DEDICATED
    shared_trait: str = placement_traits.SHARED

    def trait_of(self, host_class: str) -> str:
        """The trait of a class of hosts."""
        return (self.dedicated_trait
                if host_class == hostclass.HostClass.DEDICATED
                else self.shared_trait)

    def is_kept_by_aggregates(self, extra_specs: Mapping[str, str]) -> bool:
        """Whether a flavor asks for hosts of certain aggregates."""
        return hostclass.CLASS_KEY in extra_specs or any(
            key.startswith(AGGREGATES) or (
                ':' not in key and key not in OWN_KEYS)
            for key in extra_specs)


#: What this project's own documents set up.
DEFAULT = Separation()
