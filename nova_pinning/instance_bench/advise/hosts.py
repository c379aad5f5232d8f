# SPDX-License-Identifier: Apache-2.0
"""What fits on a host, as far as its CPUs and memory go when it is empty."""

import dataclasses
import math

from nova_pinning import fit
from nova_pinning.fit import capacity
from nova_pinning.flavors import flavor_model
from nova_pinning.host import engine
from nova_pinning.host import host_model
from nova_pinning.instance_bench.advise import model
from nova_pinning.model import guest
from nova_pinning.model import hostclass

# Above rounding: 0.14 of 50 CPUs is 7, not a bit more.
_ROUNDING = 1e-9
_PAGE_SIZES = {
    'small': guest.PAGES_SMALL, 'large': guest.PAGES_LARGE,
    'any': guest.PAGES_ANY}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BareHost:
    """A host as the advisor sees it.

    :param cpus: that are online, which CHR goes by
    :param rooms: of each NUMA node
    :param l3_cpus: dedicated CPUs of the largest L3 domain, 0 if not known
    :param shared_cpus: how many CPUs floating vCPUs may use
    :param has_shared_set: whether nova.conf names shared CPUs
    """

    name: str
    cpus: int
    rooms: tuple[fit.Room, ...]
    l3_cpus: int
    shared_cpus: int
    memory_mib: int
    has_shared_set: bool

    @property
    def node_cpus(self) -> int:
        """Dedicated CPUs of the NUMA node that has the most."""
        return max((room.cpus for room in self.rooms), default=0)

    def of(self, guest_class: hostclass.HostClass) -> int:
        """How many CPUs there are for guests of a class."""
        if guest_class is hostclass.HostClass.SHARED:
            return self.shared_cpus
        return sum(room.cpus for room in self.rooms)

    def fits(self, flavor: flavor_model.Flavor,
             guest_class: hostclass.HostClass) -> bool:
        """Whether a guest of a flavor fits on the empty host.

        A floating guest with more vCPUs than there are CPUs for it would run,
        but wait for itself.
        """
        if guest_class is hostclass.HostClass.SHARED:
            return (flavor.vcpus <= self.shared_cpus
                    and flavor.memory_mib <= self.memory_mib)
        cells = _cells(flavor)
        return capacity.guests(self.rooms, fit.Size(
            -(-flavor.vcpus // cells), -(-flavor.memory_mib // cells),
            page_size_kib=_page_size_kib(flavor), cells=cells)) > 0

    def vcpus(self, value: model.AdvisedValue) -> tuple[int, int]:
        """The sizes in a range of CHR, at least one vCPU.

        :returns: the smallest and the largest; the latter is less if no whole
            number of vCPUs is in the range
        """
        assert value.low is not None and value.high is not None
        return (max(1, math.ceil(value.low * self.cpus - _ROUNDING)),
                math.floor(value.high * self.cpus + _ROUNDING))


def bare_host(description: host_model.HostDescription) -> BareHost:
    """What there is of a host that a file describes."""
    dedicated = engine.dedicated_cpus(description)
    reserved = description.nova.reserved_memory_mib
    return BareHost(
        name=description.name, cpus=len(description.cpus),
        rooms=tuple(map(fit.Room.of, engine.engine_host(description).cells)),
        l3_cpus=max((len(domain & dedicated) for node in description.nodes
                     for domain in node.l3_domains), default=0),
        shared_cpus=len(engine.shared_cpus(description)),
        memory_mib=max(0, sum(
            node.memory_mib for node in description.nodes) - reserved),
        has_shared_set=bool(description.nova.shared_cpus))


def _page_size_kib(flavor: flavor_model.Flavor) -> int | None:
    """The page size of its guests, None if it is not said in KiB."""
    text = flavor.extra_specs.get('hw:mem_page_size', '')
    return int(text) if text.isdecimal() else _PAGE_SIZES.get(text)


def _cells(flavor: flavor_model.Flavor) -> int:
    """NUMA cells of its guests; nova's own checks are for the cloud."""
    text = flavor.extra_specs.get('hw:numa_nodes', '1')
    return max(1, int(text)) if text.isdecimal() else 1
