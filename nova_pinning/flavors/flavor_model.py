# SPDX-License-Identifier: Apache-2.0
"""A flavor as nova has it, wherever it came from."""

from collections.abc import Mapping
import dataclasses

from nova_pinning import compat
from nova_pinning import errors
from nova_pinning.model import hostclass
from nova_pinning import units

#: The extra spec that says which catalogue a flavor belongs to. Flavors
#: without it, or with another catalogue's name, are never changed.
CATALOGUE_KEY = 'pinning:catalogue'
#: The extra spec that says which family of it a flavor is of.
FAMILY_KEY = 'pinning:family'
OWNERSHIP = (CATALOGUE_KEY, FAMILY_KEY)
#: The extra spec with the ways of each L3 cache that a guest has for itself.
L3_WAYS_KEY = 'pinning:l3_ways'
#: The extra spec with the limit of a guest's memory bandwidth, in per cent.
BANDWIDTH_KEY = 'pinning:memory_bandwidth'
#: The extra spec that HostClassFilter reads: 'dedicated' or 'shared'.
CLASS_KEY = hostclass.CLASS_KEY


@compat.dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """What nova calls a flavor.

    :param id: nova's flavorid; '' where none has been given yet
    :param disk_gib: root disk, 0 for the size of the image
    :param projects: ids of the projects that may use it, sorted; empty for
        public flavors
    :param extra_specs: by key, both as nova stores them
    :param ignored: the codes of rules whose findings are no news to whoever
        sells it, with the reason
    :param where: where it is defined
    :param origins: where each extra spec comes from, by its key; also
        'vcpus', 'ram', 'disk', 'name' and so on for the other properties.
        A key that is missing came from ``where``.
    """

    name: str
    id: str = ''
    vcpus: int
    memory_mib: int
    disk_gib: int = 0
    ephemeral_gib: int = 0
    swap_mib: int = 0
    rxtx_factor: float = 1.0
    is_public: bool = True
    projects: tuple[str, ...] = ()
    description: str = ''
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    ignored: Mapping[str, str] = dataclasses.field(
        default_factory=dict, compare=False, repr=False)
    where: errors.Location = dataclasses.field(
        default=errors.Location(''), compare=False)
    origins: Mapping[str, errors.Location] = dataclasses.field(
        default_factory=dict, compare=False, repr=False)

    @property
    def own_specs(self) -> dict[str, str]:
        """The extra specs but for those that say whose it is."""
        return {key: value for key, value in self.extra_specs.items()
                if key not in OWNERSHIP}

    @property
    def local_disk_gib(self) -> int:
        """What nova counts it with on its host's own disks."""
        return (self.disk_gib + self.ephemeral_gib
                + -(-self.swap_mib // units.MIB_PER_GIB))

    def origin(self, key: str) -> errors.Location:
        """Where an extra spec, or another property, comes from."""
        return self.origins.get(key, self.where)
