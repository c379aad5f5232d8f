# SPDX-License-Identifier: Apache-2.0
"""Which guests nova would move where, room aside.

Each rule has nova's function that it comes from. What a snapshot does not
tell refuses nothing, but for devices, of which has to be known that they move
live, and availability zones: a guest of which it is not known in which zone it
was asked for stays in that of its host.
"""

from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import copy
import dataclasses
import functools
from typing import Self

from nova_pinning.admission import filter_rules
from nova_pinning.admission import filters
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import resident_guest
from nova_pinning.admission import scheduler_rules
from nova_pinning import fit
from nova_pinning.fleet import cpu_models
from nova_pinning.fleet import device_moves
from nova_pinning.fleet import moved_guest
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.model import flag
from nova_pinning.model import hostclass
from nova_pinning.model import nova_release

#: In a flavor's extra specs or a server's metadata: whether it may be moved.
MOVABLE_KEY = 'pinning:movable'
#: What to call an unmarked host that has guests of both classes.
MIXED = 'mixed, unmarked'

# The states of servers in which nova.compute.api.API has each of these
# (check_instance_state of live_migrate, resize and evacuate).
_LIVE_STATES = ('active', 'paused')
_COLD_STATES = ('active', 'stopped')
_EVACUATION_STATES = ('active', 'stopped', 'error')


def is_in_state_for_live(guest: resident_guest.ResidentGuest) -> bool:
    """Whether nova may migrate a guest live, as far as its state goes.

    So it may where the state is not known.
    """
    return not guest.vm_state or guest.vm_state in _LIVE_STATES


class MigrationRules:
    """What nova refuses to move, and where to.

    All methods return a reason for people, '' if there is none.

    :param rules: what nova-scheduler is set to; None for what the fleet
        tells of it
    :param crosses_zones: whether guests that were asked for in no zone may
        leave that of their host, as nova lets them
    :param assumes: doubts of which kinds refuse nothing
    :param usual: what hosts run of which it is not known
    :ivar scheduler: the rules
    """

    def __init__(
        self, fleet: snapshot.Fleet,
        rules: scheduler_rules.SchedulerRules | None = None,
        crosses_zones: bool = False,
        assumes: frozenset[outcome.DoubtKind] = frozenset(),
        usual: nova_release.NovaRelease | None = None,
    ) -> None:
        self.scheduler = rules or occupied.rules_of(fleet)
        self._crosses_zones = crosses_zones
        self._assumes = assumes
        self._usual = usual
        self._aliases = fleet.pci_aliases
        self._hosts = {host.name: host for host in fleet.hosts}
        self._classes = dict(_classes(fleet))
        self._oldest = _oldest_releases(fleet.hosts)
        self._reader = moved_guest.RequestReader(fleet)
        self._specs = {flavor.name: flavor.extra_specs
                       for flavor in fleet.flavors}
        self._groups = {group.id: group for group in fleet.server_groups}

    @functools.cached_property
    def hopeful(self) -> Self:
        """The same rules if all that is not known turns out well."""
        hopeful = copy.copy(self)
        hopeful._assumes = frozenset(outcome.DoubtKind)
        return hopeful

    def extra_specs(
        self, guest: resident_guest.ResidentGuest,
    ) -> Mapping[str, str]:
        """Of its flavor; {} if that is not known."""
        return self._specs.get(guest.flavor, {})

    def request(
        self, guest: resident_guest.ResidentGuest,
        target: offered_host.OfferedHost | None = None,
    ) -> guest_request.GuestRequest:
        """What it would ask another host for.

        :param target: to which it is moved; None if it is evacuated
        """
        request = self._reader.request(guest)
        is_told = request.claims or (
            request.topology and fit.has_open_pages(request.topology))
        if target and is_told and not self.cold_reason(guest, target):
            return dataclasses.replace(request, is_live=True)
        return request

    def source(
        self, guest: resident_guest.ResidentGuest,
    ) -> offered_host.OfferedHost | None:
        """The host that it is on, None if the fleet has not got it."""
        return self._hosts.get(guest.host)

    # The guest alone.

    def guest_refusal(self, guest: resident_guest.ResidentGuest) -> str:
        """Why a guest cannot leave its host, or may not."""
        return self._staying(guest) or _both(
            self.live_refusal(guest), self.cold_refusal(guest))

    def _staying(self, guest: resident_guest.ResidentGuest) -> str:
        """Why it is to stay, however it could be moved."""
        if not guest.is_movable:
            state = f' ({guest.vm_state})' if guest.vm_state else ''
            return f'is in a state in which nova does not move it{state}'
        for where, values in (('its metadata', guest.metadata),
                              ('its flavor', self.extra_specs(guest))):
            if MOVABLE_KEY in values:
                # What it says itself outweighs what its flavor says.
                return ('' if flag.parse(values[MOVABLE_KEY]) is not False
                        else f'{MOVABLE_KEY} is false in {where}')
        return ''

    def live_refusal(self, guest: resident_guest.ResidentGuest) -> str:
        """Why nova does not migrate a guest live at all."""
        specs = self.extra_specs(guest)
        if not is_in_state_for_live(guest):
            return f'is {guest.vm_state}'
        found = self._first(device_moves.live_refusals(
            guest, specs, self._aliases))
        if found:
            return found
        if has_vtpm(specs):
            # reject_legacy_vtpm_live_migration; before it there was
            # reject_vtpm_instances.
            if specs.get('hw:tpm_secret_security') != 'host':
                return 'has a TPM whose secret does not move with it'
            oldest = self._oldest_beside(guest)
            if oldest is not None and oldest < nova_release.MOVES_TPMS:
                return ('has a TPM, which nova moves live from '
                        f'{nova_release.MOVES_TPMS} on, and a host runs '
                        f'{oldest}')
        if flag.parse(specs.get('hw:mem_encryption', '')):
            # reject_mem_enc_instances
            return 'has encrypted memory'
        return self._accelerator_refusal(specs)

    def _oldest_beside(
        self, guest: resident_guest.ResidentGuest,
    ) -> nova_release.NovaRelease | None:
        """The oldest release of a host that may be of the guest's nova cell.

        None if none is known. Nova leaves those out that were forced down;
        a snapshot does not tell these for sure.
        """
        source = self.source(guest)
        cell = source.nova_cell if source else ''
        return min(
            (release for name, release in self._oldest.items()
             if not cell or name in (cell, '')), default=None)

    def cold_refusal(self, guest: resident_guest.ResidentGuest) -> str:
        """Why nova does not migrate a guest cold at all."""
        if guest.vm_state and guest.vm_state not in _COLD_STATES:
            return f'is {guest.vm_state}'
        return self._first(device_moves.cold_refusals(
            guest)) or self._accelerator_refusal(self.extra_specs(guest))

    @staticmethod
    def _accelerator_refusal(specs: Mapping[str, str]) -> str:
        # block_accelerators
        return ('has accelerators' if specs.get('accel:device_profile')
                else '')

    def evacuation_refusal(self, guest: resident_guest.ResidentGuest) -> str:
        """Why nova does not evacuate a guest at all."""
        if guest.vm_state and guest.vm_state not in _EVACUATION_STATES:
            return f'is {guest.vm_state}, and nova evacuates no such guest'
        if has_vtpm(self.extra_specs(guest)):
            # reject_vtpm_instances
            return 'has a TPM, and nova evacuates no such guest'
        return ''

    # The guest and a host.

    def placing_refusal(self, guest: resident_guest.ResidentGuest,
                        target: offered_host.OfferedHost) -> str:
        """Why a guest cannot go to a host, were it empty, live or cold.

        That it does not go to the host that it is on is not said here: it
        may come back to that.
        """
        if self.scheduler.reserve_of(target):
            # Not even as a last choice: it is not asked whether others do.
            return 'is kept for guests of lost hosts (pinning:reserve)'
        return next(self._host_refusals(
            guest, target, self._zone(guest, self._crosses_zones)), '') or (
                _both(self.cold_reason(guest, target),
                      self.cold_refusal(guest)))

    def host_refusal(self, guest: resident_guest.ResidentGuest,
                     target: offered_host.OfferedHost) -> str:
        """The same, with the host that it is on."""
        if target.name == guest.host:
            return 'nova does not migrate a guest within its host'
        return self.placing_refusal(guest, target)

    def cold_reason(self, guest: resident_guest.ResidentGuest,
                    target: offered_host.OfferedHost) -> str:
        """Why a guest cannot go to a host live."""
        return self.live_refusal(guest) or self.live_host_refusal(
            guest, target)

    def evacuation_host_refusal(self, guest: resident_guest.ResidentGuest,
                                target: offered_host.OfferedHost) -> str:
        """Why a guest cannot be evacuated to a host, were it empty."""
        return next(self._host_refusals(
            guest, target, self._zone(guest, True), is_evacuated=True), '')

    def _host_refusals(
        self, guest: resident_guest.ResidentGuest,
        target: offered_host.OfferedHost, zone: str | None,
        is_evacuated: bool = False,
    ) -> Iterator[str]:
        source = self.source(guest)
        if source and source.nova_cell != target.nova_cell and (
                source.nova_cell and target.nova_cell):
            # Live and for evacuations never; cold with
            # compute:servers:resize:cross_cell, which nobody has by default.
            yield f'is in another cell of nova ({target.nova_cell})'
        host_class = self._class_of(target)
        if host_class not in (None, guest.guest_class):
            yield f'is a {host_class} host'
        if zone is not None and not guest.availability_zone and (
                zone != self.scheduler.zone_of(target)):
            # Nova would let it: to it, the default zone is any.
            yield f'is not in availability zone {zone}'
        found = filters.gate(
            self.request(guest),
            guest_request.GuestWishes(
                project=guest.project,
                availability_zone=guest.availability_zone or None,
                is_evacuated=is_evacuated),
            target, self.scheduler)
        yield from (refusal.text for refusal in found.refusals)
        yield from (doubt.text for doubt in found.doubts
                    if doubt.kind not in self._assumes)

    def _zone(self, guest: resident_guest.ResidentGuest,
              crosses_zones: bool) -> str | None:
        """The availability zone that a guest stays in, None for any."""
        if guest.availability_zone:
            return guest.availability_zone
        source = self.source(guest)
        is_known = (guest.availability_zone is not None
                    or outcome.DoubtKind.REQUEST in self._assumes)
        if source is None or crosses_zones and is_known:
            return None
        return self.scheduler.zone_of(source)

    def live_host_refusal(self, guest: resident_guest.ResidentGuest,
                          target: offered_host.OfferedHost) -> str:
        """Why a guest that moves live cannot go to this host."""
        source = self.source(guest)
        if source is None:
            return ''
        # LiveMigrationTask._check_compatible_with_source_hypervisor
        if source.hypervisor_version and target.hypervisor_version and (
                source.hypervisor_version > target.hypervisor_version):
            return 'has an older hypervisor than its own host'
        if source.nova_release and target.nova_release and (
                nova_release.of_name(target.nova_release)
                < nova_release.of_name(source.nova_release)):
            return (f'runs nova {target.nova_release}, its own host '
                    f'{source.nova_release}')
        found = self._first(device_moves.live_host_refusals(
            guest, self.extra_specs(guest), source, target, self._usual))
        if found:
            return found
        if guest.cpu_model:
            # A model by name is one that the operator wants on all hosts.
            return ''
        return cpu_models.live_refusal(source.cpu_model, target.cpu_model)

    def _first(self, found: Iterable[device_moves.Objection]) -> str:
        """The first, but for doubts that are taken away."""
        return next((one if isinstance(one, str) else one.text
                     for one in found if isinstance(one, str)
                     or one.kind not in self._assumes), '')

    # Server groups.

    def is_grouped(self, guest: resident_guest.ResidentGuest) -> bool:
        """Whether :meth:`group_refusal` could ever say anything of it."""
        group = self._groups.get(guest.server_group)
        return group is not None and group.policy in (
            offered_host.GroupPolicy.AFFINITY,
            offered_host.GroupPolicy.ANTI_AFFINITY)

    def group_refusal(
        self, guest: resident_guest.ResidentGuest,
        there: Iterable[resident_guest.ResidentGuest],
    ) -> str:
        """Why the guest's server group keeps it off another host.

        :param there: the guests of that host at that moment
        """
        group = self._groups.get(guest.server_group)
        if group is None:
            return ''
        others = sum(other.server_group == group.id for other in there)
        name = group.name or group.id
        if group.policy is offered_host.GroupPolicy.AFFINITY and not others:
            # ServerGroupAffinityFilter: its hosts are those of its members,
            # the one that the guest is to leave among them.
            return (f'server group {name} keeps it where its other members '
                    'are, and nova moves them one at a time')
        if (group.policy is offered_host.GroupPolicy.ANTI_AFFINITY
                and others >= group.max_per_host):
            # ServerGroupAntiAffinityFilter
            return (f'has {others} of server group {name} already, and '
                    f'{group.max_per_host} may be on a host')
        return ''

    def most_of_group(self, guest: resident_guest.ResidentGuest) -> int | None:
        """How many of its server group may be on a host, None for any."""
        group = self._groups.get(guest.server_group)
        if group is None or (
                group.policy is not offered_host.GroupPolicy.ANTI_AFFINITY):
            return None
        return group.max_per_host

    # What is alike.

    def guest_key(self, guest: resident_guest.ResidentGuest) -> Hashable:
        """All that refusals of hosts read of a guest, groups apart."""
        source = self.source(guest)
        return (guest.guest_class, guest.flavor, guest.project,
                guest.vm_state, device_moves.key(guest),
                bool(guest.cpu_model), guest.availability_zone,
                source and self.source_key(source))

    def source_key(self, host: offered_host.OfferedHost) -> Hashable:
        """All that refusals of other hosts read of the one that it leaves."""
        return (host.nova_cell, host.cpu_model, host.nova_release,
                host.hypervisor_version, self.scheduler.zone_of(host))

    def _class_of(self, host: offered_host.OfferedHost) -> str | None:
        return host.known_class or self._classes.get(host.name)

    def host_key(self, host: offered_host.OfferedHost) -> Hashable:
        """All that refusals of hosts read of a host, but its name."""
        return (self._class_of(host), host.traits, host.aggregates,
                host.is_enabled, host.disabled_reason, host.nova_cell,
                host.cpu_model, host.nova_release, host.hypervisor_version,
                any(size > 1 for cell in host.cells
                    for size in cell.core_sizes), host.children, host.gaps)


def _classes(fleet: snapshot.Fleet) -> Iterator[tuple[str, str | None]]:
    """The classes of hosts by their guests as they are, where those tell."""
    guests = occupied.guests_by_host(fleet)
    for host in fleet.hosts:
        if host.known_class is None:
            own = guests[host.name]
            try:
                yield host.name, filter_rules.host_class(
                    host_occupancy.of_host(host, own))
            except hostclass.UnknownClass:
                yield host.name, MIXED


def _oldest_releases(
    hosts: Iterable[offered_host.OfferedHost],
) -> Mapping[str, nova_release.NovaRelease]:
    """The oldest that is known of each of nova's cells, '' among them."""
    oldest: dict[str, nova_release.NovaRelease] = {}
    for host in hosts:
        if host.nova_release:
            release = nova_release.of_name(host.nova_release)
            oldest[host.nova_cell] = min(
                release, oldest.get(host.nova_cell, release))
    return oldest


def _both(live: str, cold: str) -> str:
    """Why a guest moves neither live nor cold; '' if either will do."""
    if not live or not cold or live == cold:
        return live and cold
    return f'cannot move live: {live}; nor cold: {cold}'


def has_vtpm(extra_specs: Mapping[str, str]) -> bool:
    """Whether a flavor gives its guests a TPM (nova's get_vtpm_constraint)."""
    return 'hw:tpm_version' in extra_specs or 'hw:tpm_model' in extra_specs
