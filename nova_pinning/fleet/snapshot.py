# SPDX-License-Identifier: Apache-2.0
"""A fleet as a snapshot describes it.

Hosts and guests are in the engine's own terms wherever the engine has them:
a host's cells are ``model.HostCell`` as they are without guests, a guest's
topology is a ``model.Guest`` and where it lies a ``model.Fit``. What is used
of a host follows from the guests and is written nowhere.
"""

from collections.abc import Mapping
import dataclasses
import datetime
from typing import Annotated
from typing import TypeAlias

from nova_pinning.admission import offered_host
from nova_pinning.admission import pci_alias
from nova_pinning.admission import resident_guest
from nova_pinning.admission import scheduler_rules
from nova_pinning.document import codec
from nova_pinning.document import terms
from nova_pinning import errors
from nova_pinning.flavors import flavor_model


# nova-scheduler loads that class, and none of what files have to do with.
_Flavor: TypeAlias = Annotated[flavor_model.Flavor, codec.Fields(
    name=terms.Word, id=terms.Line, vcpus=terms.Vcpus,
    memory_mib=terms.Amount, disk_gib=terms.Amount,
    ephemeral_gib=terms.Amount, swap_mib=terms.Amount,
    rxtx_factor=terms.Ratio, projects=tuple[terms.Line, ...],
    description=terms.ShownProse,
    extra_specs=Mapping[terms.Word, terms.Prose])]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A snapshot.

    :param guests: in any order; each on one of the hosts, unless something
        is wrong, which nova_pinning.fleet.problems finds
    :param flavors: those of the cloud, as far as they are known
    :param server_groups: as far as they are known
    :param pci_aliases: by name
    :param packs_cells: nova's packing_host_numa_cells_allocation_strategy
    :param enabled_filters: of nova-scheduler, () if not known
    :param rules: what else nova-scheduler is set to; what the fleet has
        itself is not in it, see ``occupied.rules_of``
    :param taken_at: ISO 8601, UTC; '' if not known
    :param source: where it is from, for people
    :param where: the file it was read from
    """

    hosts: tuple[offered_host.OfferedHost, ...]
    guests: tuple[resident_guest.ResidentGuest, ...] = ()
    flavors: tuple[_Flavor, ...] = ()
    aggregates: tuple[offered_host.Aggregate, ...] = ()
    server_groups: tuple[offered_host.ServerGroup, ...] = ()
    pci_aliases: Mapping[terms.Word, pci_alias.PciAlias] = dataclasses.field(
        default_factory=dict)
    packs_cells: bool = False
    enabled_filters: tuple[terms.Word, ...] = ()
    rules: scheduler_rules.SchedulerRules = scheduler_rules.SchedulerRules()
    taken_at: terms.Time = ''
    source: terms.ShownProse = ''
    where: errors.Location = dataclasses.field(
        default=errors.Location(''), compare=False)

    @property
    def taken_epoch(self) -> float | None:
        """When it was taken, in seconds of the epoch; None if not known."""
        try:
            taken = datetime.datetime.fromisoformat(self.taken_at)
        except ValueError:
            return None
        if taken.tzinfo is None:
            taken = taken.replace(tzinfo=datetime.UTC)
        return taken.timestamp()
