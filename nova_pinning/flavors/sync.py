# SPDX-License-Identifier: Apache-2.0
"""What is to be done so that a cloud has the flavors of a catalogue.

:func:`plan` says it, :mod:`nova_pinning.flavors.sync_apply` does it. Both are
pure but for the :class:`FlavorService` that they are given; the real one is
:mod:`nova_pinning.flavors.flavor_cloud`.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import enum
from typing import Protocol

from nova_pinning.flavors import difference
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import names


class FlavorService(Protocol):
    """What is asked of a cloud. All of it raises errors.CloudError."""

    name: str

    def flavors(self, with_projects: Callable[[flavor_model.Flavor], bool],
                ) -> tuple[flavor_model.Flavor, ...]:
        """All flavors.

        :param with_projects: the private flavors whose projects are to be
            read, which takes a request each; the others come without
        """

    def has_servers(self, flavor_id: str) -> bool:
        """Whether any server uses a flavor."""

    def create(self, flavor: flavor_model.Flavor) -> None:
        """Create it, without its extra specs and projects."""

    def delete(self, flavor_id: str) -> None:
        """Delete a flavor."""

    def set_extra_specs(self, flavor_id: str,
                        extra_specs: Mapping[str, str]) -> None:
        """Add or change extra specs, all or none."""

    def unset_extra_spec(self, flavor_id: str, key: str) -> None:
        """Take an extra spec away."""

    def set_description(self, flavor_id: str, description: str) -> None:
        """Change the description."""

    def add_project(self, flavor_id: str, project: str) -> None:
        """Let a project use a private flavor."""

    def remove_project(self, flavor_id: str, project: str) -> None:
        """No longer let a project use a private flavor."""


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

    :param wanted: as the catalogue has it; None to retire it
    :param live: as the cloud has it; None to create it
    :param reason: why it is a conflict or a replacement
    :param is_in_use: servers use the flavor that would have to be deleted,
        so it will be left as it is; only known after :func:`look_up_use`
    """

    action: FlavorAction
    name: str
    catalogue_flavor: flavor_model.Flavor | None = None
    live: flavor_model.Flavor | None = None
    reason: str = ''
    is_in_use: bool = False

    @property
    def differences(self) -> tuple[difference.Difference, ...]:
        """What differs between the cloud and the catalogue."""
        return difference.differences(self.live, self.catalogue_flavor)


class FlavorStatus(enum.StrEnum):
    """How it ended.

    DONE as planned; SKIPPED since nova or an owner is in the way, and nothing
    was touched; FAILED on the way, and what is missing is done next time.
    """

    DONE = 'done'
    SKIPPED = 'skipped'
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorResult:
    """What became of a change.

    :param message: why it was not done
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

    :param wanted: the catalogue's flavors
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
    if retires:
        kept = {flavor.name for flavor in flavors}
        changes += [FlavorChange(FlavorAction.RETIRE, flavor.name, live=flavor)
                    for flavor in live
                    if flavor.name not in kept
                    and is_owned(flavor, catalogue)]
    return tuple(changes)


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
                f'has another {_listed(differing)}, so that it cannot be '
                'adopted')
        if not adopts:
            return change(FlavorAction.CONFLICT, 'it exists and belongs to no '
                          'catalogue; --adopt takes it over')
        return change(FlavorAction.ADOPT)
    if differing:
        return change(FlavorAction.REPLACE, f'nova cannot change '
                      f'{_listed(differing)} in place')
    # An id may differ without need for a change: adopted flavors keep theirs.
    if difference.differences(same_name, flavor):
        return change(FlavorAction.UPDATE)
    return change(FlavorAction.UNCHANGED)


def _listed(keys: Sequence[str]) -> str:
    *first, last = keys
    return f'{", ".join(first)} and {last}' if first else last


def look_up_use(changes: Iterable[FlavorChange],
                cloud: FlavorService) -> tuple[FlavorChange, ...]:
    """The same, knowing which flavors cannot be deleted for their servers."""
    return tuple(
        dataclasses.replace(
            change,
            is_in_use=bool(change.live) and cloud.has_servers(change.live.id)
        ) if change.live and change.action in (FlavorAction.REPLACE,
                                               FlavorAction.RETIRE) else change
        for change in changes)


def read(cloud: FlavorService, flavors: Iterable[flavor_model.Flavor],
         catalogue: str) -> tuple[flavor_model.Flavor, ...]:
    """A cloud's flavors with all that :func:`plan` wants to know."""
    known = {flavor.name for flavor in flavors}
    return cloud.flavors(lambda flavor: flavor.name in known or is_owned(
        flavor, catalogue))
