# SPDX-License-Identifier: Apache-2.0
"""What is to be done so that a cloud has the flavors of a catalogue.

:func:`plan` says it, :func:`with_use` what servers have to do with it, and
:mod:`nova_pinning.flavors.sync_apply` does it. All are pure but
for the :class:`flavor_cloud.FlavorCloud` that they are given.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import enum

from nova_pinning.flavors import difference
from nova_pinning.flavors import flavor_cloud
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import names
from nova_pinning.host import words
from nova_pinning.model import hostclass

#: What the names of flavors begin with on which extra specs are tried.
PROBE_PREFIX = 'nova-pinning-probe-'

#: How many servers a message names.
_NAMED_SERVERS = 5


class FlavorAction(enum.StrEnum):
    """What is to be done about one flavor."""

    CREATE = 'create'
    UPDATE = 'update'
    ADOPT = 'adopt'
    REPLACE = 'replace'
    RETIRE = 'retire'
    CONFLICT = 'conflict'
    UNCHANGED = 'unchanged'


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorChange:
    """What is to be done about one flavor, and why.

    :param catalogue_flavor: as the catalogue has it; None to retire it
    :param live: as the cloud has it; None to create it
    :param reason: why it is a conflict or a replacement
    :param servers: those that use it; only known after :func:`with_use`
    :param obstacle: why it will be left as it is, '' if nothing is in the way
    """

    action: FlavorAction
    name: str
    catalogue_flavor: flavor_model.Flavor | None = None
    live: flavor_model.Flavor | None = None
    reason: str = ''
    servers: tuple[str, ...] = ()
    obstacle: str = ''

    @property
    def differences(self) -> tuple[difference.Difference, ...]:
        """What differs between the cloud and the catalogue."""
        return difference.differences(self.live, self.catalogue_flavor)

    @property
    def deletes(self) -> bool:
        """Whether a flavor has to be deleted for it."""
        return self.action in (FlavorAction.REPLACE, FlavorAction.RETIRE)

    @property
    def is_to_do(self) -> bool:
        """Whether there is anything to do, and nothing in the way of it."""
        return not self.obstacle and self.action not in (
            FlavorAction.CONFLICT, FlavorAction.UNCHANGED)

    @property
    def is_cut_off(self) -> bool:
        """Whether it finds a flavor that has none of its extra specs yet."""
        return bool(self.live and not self.live.extra_specs and (
            self.deletes or self.action is FlavorAction.UPDATE))

    @property
    def extra_specs_to_set(self) -> dict[str, str]:
        """The extra specs that nova is to take."""
        return {} if self.action is FlavorAction.CONFLICT else (
            difference.extra_specs_to_set(
                None if self.deletes else self.live, self.catalogue_flavor))

    @property
    def advice(self) -> str:
        """What to do about servers that do not follow, '' if there are none.

        Each has a copy of its flavor, which neither a rebuild nor a migration
        renews, and nova refuses a resize to the same flavor.
        """
        if not self.servers or self.obstacle:
            return ''
        return (f'{_counted(self.servers)} will keep the extra specs of '
                'before; resize each to another flavor and back, or create it '
                'anew: a rebuild keeps them too')


class FlavorStatus(enum.StrEnum):
    """How it ended.

    DONE as planned; SKIPPED since something is in the way, and nothing was
    touched; FAILED on the way, see the message for what is left; LOST, since
    somebody else changed it once it was done.
    """

    DONE = 'done'
    SKIPPED = 'skipped'
    FAILED = 'failed'
    LOST = 'lost'


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorResult:
    """What became of a change.

    :param message: why it was not done, or what is left to do about servers
    """

    change: FlavorChange
    status: FlavorStatus
    message: str = ''


def is_owned(flavor: flavor_model.Flavor, catalogue: str) -> bool:
    """Whether a flavor of a cloud belongs to a catalogue.

    It says so in its extra specs. One that has none at all, but the id that
    only this catalogue gives it, was being created when a run was cut off.
    """
    if flavor.extra_specs:
        return flavor.extra_specs.get(flavor_model.CATALOGUE_KEY) == catalogue
    return flavor.id == names.flavor_id(catalogue, flavor)


def plan(flavors: Iterable[flavor_model.Flavor],
         live: Iterable[flavor_model.Flavor],
         catalogue: str,
         *,
         adopts: bool = False,
         retires: bool = True) -> tuple[FlavorChange, ...]:
    """What is to be done so that a cloud has the flavors of a catalogue.

    :param flavors: the catalogue's
    :param live: the cloud's, with the projects of those that are private and
        owned or wanted
    :param catalogue: its name
    :param adopts: take over flavors that have the name and shape of a wanted
        one, but belong to nobody
    :param retires: delete owned flavors that the catalogue no longer has
    :returns: a change for each wanted flavor, in their order, then the ones
        to retire
    """
    live = tuple(live)
    by_name = {flavor.name: flavor for flavor in live}
    by_id = {flavor.id: flavor for flavor in live}
    flavors = tuple(flavors)
    changes = [_change(flavor, by_name.get(flavor.name),
                       by_id.get(flavor.id), catalogue, adopts)
               for flavor in flavors]
    kept = {flavor.name for flavor in flavors}
    for flavor in live:
        is_probe = flavor.name.startswith(PROBE_PREFIX)
        if flavor.name not in kept and (retires or is_probe) and (
                is_owned(flavor, catalogue)):
            changes.append(FlavorChange(
                FlavorAction.RETIRE, flavor.name, live=flavor,
                reason=_CUT_OFF if is_probe else ''))
    return tuple(changes)


_CUT_OFF = 'an earlier run that was cut off has left it'


def _change(flavor: flavor_model.Flavor, same_name: flavor_model.Flavor | None,
            same_id: flavor_model.Flavor | None, catalogue: str,
            adopts: bool) -> FlavorChange:
    def change(action: FlavorAction, reason: str = '') -> FlavorChange:
        return FlavorChange(action, flavor.name, flavor, same_name, reason)

    if same_id and same_id.name != flavor.name:
        return change(FlavorAction.CONFLICT,
                      f'flavor {same_id.name!r} has its id {flavor.id}')
    if same_name is None:
        return change(FlavorAction.CREATE)
    differing = difference.shape_changes(same_name, flavor)
    if not is_owned(same_name, catalogue):
        owner = same_name.extra_specs.get(flavor_model.CATALOGUE_KEY)
        if owner:
            return change(FlavorAction.CONFLICT,
                          f'it belongs to catalogue {owner!r}')
        if differing:
            return change(
                FlavorAction.CONFLICT,
                'it exists, belongs to no catalogue, and '
                f'has another {words.listed(differing)}, so that it cannot be '
                'adopted')
        if not adopts:
            return change(FlavorAction.CONFLICT, 'it exists and belongs to no '
                          'catalogue; --adopt takes it over')
        return change(FlavorAction.ADOPT)
    if differing:
        return change(FlavorAction.REPLACE, f'nova cannot change '
                      f'{words.listed(differing)} in place')
    # An id may differ without need for a change: adopted flavors keep theirs.
    if difference.differences(same_name, flavor):
        return change(FlavorAction.UPDATE,
                      '' if same_name.extra_specs else _CUT_OFF)
    return change(FlavorAction.UNCHANGED)


def with_use(change: FlavorChange,
             cloud: flavor_cloud.FlavorCloud) -> FlavorChange:
    """The change, with the servers of its flavor and what they prevent.

    A flavor whose creation was cut off is finished or deleted even if servers
    use it.
    """
    live, flavor = change.live, change.catalogue_flavor
    if not live or not (change.deletes or _changes_guests(change)):
        return change
    servers = cloud.servers(live.id)
    obstacle = ''
    if change.deletes and not change.is_cut_off:
        if servers:
            obstacle = f'it (id {live.id}) is used by {_counted(servers)}'
        elif resizing := cloud.resizing(live):
            obstacle = (f'{_counted(resizing)} may be in a resize from or to '
                        'it; confirm or revert that first')
    elif servers and flavor and not change.is_cut_off and (
            class_of(live.extra_specs) != class_of(flavor.extra_specs)):
        # Somebody may have changed the flavor under servers that are of the
        # right class; they do not keep it from being mended.
        others = [server for server, own in cloud.own_extra_specs(live.id)
                  if own is None
                  or class_of(own) != class_of(flavor.extra_specs)]
        if others:
            obstacle = (
                f'its class would change from {class_of(live.extra_specs)} to '
                f'{class_of(flavor.extra_specs)} while it is used by '
                f'{_counted(others)}; give the other class a flavor of '
                'another name, or resize the servers')
    return dataclasses.replace(change, servers=servers, obstacle=obstacle)


def _changes_guests(change: FlavorChange) -> bool:
    """Whether guests come out another way after an update."""
    if change.action not in (FlavorAction.UPDATE, FlavorAction.ADOPT):
        return False
    before, after = (flavor.own_specs if flavor else {} for flavor in (
        change.live, change.catalogue_flavor))
    return before != after


def class_of(extra_specs: Mapping[str, str]) -> str:
    """The class of hosts that a flavor's guests belong on, for people."""
    try:
        return str(hostclass.class_of_guest(extra_specs))
    except hostclass.UnknownClass:
        return 'an unknown one'


def _counted(servers: Sequence[str]) -> str:
    """'2 servers (a (id), b (id))'."""
    return (f'{words.count(len(servers), "server")} '
            f'({words.listed(servers, _NAMED_SERVERS)})')


def read(cloud: flavor_cloud.FlavorCloud,
         flavors: Iterable[flavor_model.Flavor],
         catalogue: str) -> tuple[flavor_model.Flavor, ...]:
    """A cloud's flavors with all that :func:`plan` wants to know."""
    known = {flavor.name for flavor in flavors}
    return cloud.flavors(lambda flavor: flavor.name in known or is_owned(
        flavor, catalogue))


def lost(results: Iterable[FlavorResult], changes: Iterable[FlavorChange],
         ) -> tuple[FlavorResult, ...]:
    """What somebody else has changed since this run was through with it.

    :param results: of this run
    :param changes: what :func:`plan` says after it
    """
    left = {result.change.name for result in results
            if result.status is not FlavorStatus.DONE}
    # A probe is that of a run that is still busy.
    return tuple(
        FlavorResult(change, FlavorStatus.LOST,
                     'somebody else has changed it meanwhile, perhaps by '
                     'applying another catalogue of this name')
        for change in changes
        if change.action is not FlavorAction.UNCHANGED
        and change.name not in left
        and not change.name.startswith(PROBE_PREFIX))
