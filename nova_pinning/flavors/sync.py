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

"""Bringing a cloud's flavors in step with a catalogue.

:func:`plan` says what is to be done, :func:`apply` does it. Both are pure
but for the :class:`Cloud` that they are given; the real one is
:mod:`nova_pinning.flavors.cloud`.

Nothing is remembered between requests. Whenever it is not known how a
request ended, or somebody else was quicker, the flavor is read again and
planned for again, so the same steps lead on from wherever an earlier run was
cut off.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import enum
import time
from typing import Protocol

from nova_pinning import errors
from nova_pinning.flavors import difference
from nova_pinning.flavors import model
from nova_pinning.flavors import names

#: How long to wait before a flavor is tried again, in seconds.
WAITS_S = (1.0, 2.0, 4.0, 8.0, 16.0)

#: When so many flavors in a row could not be settled, the cloud is ill.
_FAILURES_IN_A_ROW = 3


class Cloud(Protocol):
    """What is asked of a cloud. All of it raises errors.CloudError."""

    name: str

    def flavors(self, with_projects: Callable[[model.Flavor], bool],
                ) -> tuple[model.Flavor, ...]:
        """All flavors.

        :param with_projects: the private flavors whose projects are to be
            read, which takes a request each; the others come without
        """

    def has_servers(self, flavor_id: str) -> bool:
        """Whether any server uses a flavor."""

    def create(self, flavor: model.Flavor) -> None:
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


class Action(enum.StrEnum):
    """What is to be done about one flavor."""

    CREATE = 'create'
    UPDATE = 'update'
    ADOPT = 'adopt'
    REPLACE = 'replace'
    RETIRE = 'retire'
    CONFLICT = 'conflict'
    UNCHANGED = 'unchanged'


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """What is to be done about one flavor, and why.

    :param wanted: as the catalogue has it; None to retire it
    :param live: as the cloud has it; None to create it
    :param reason: why it is a conflict or a replacement
    :param is_in_use: servers use the flavor that would have to be deleted,
        so it will be left as it is; only known after :func:`look_up_use`
    """

    action: Action
    name: str
    wanted: model.Flavor | None = None
    live: model.Flavor | None = None
    reason: str = ''
    is_in_use: bool = False

    @property
    def differences(self) -> tuple[difference.Difference, ...]:
        """What differs between the cloud and the catalogue."""
        return difference.differences(self.live, self.wanted)


class Status(enum.StrEnum):
    """How it ended.

    DONE as planned; SKIPPED since nova or an owner is in the way, and nothing
    was touched; FAILED on the way, and what is missing is done next time.
    """

    DONE = 'done'
    SKIPPED = 'skipped'
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What became of a change.

    :param message: why it was not done
    """

    change: Change
    status: Status
    message: str = ''


def is_owned(flavor: model.Flavor, catalogue: str) -> bool:
    """Whether a flavor of a cloud belongs to a catalogue.

    It says so in its extra specs. One that has none at all, but the id that
    only this catalogue gives it, was being created when a run was cut off.
    """
    if flavor.extra_specs:
        return flavor.extra_specs.get(model.CATALOGUE_KEY) == catalogue
    return flavor.id == names.flavor_id(catalogue, flavor)


def plan(wanted: Iterable[model.Flavor], live: Iterable[model.Flavor],
         catalogue: str, *, adopts: bool = False,
         retires: bool = True) -> tuple[Change, ...]:
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
    wanted = tuple(wanted)
    changes = [_change(flavor, by_name.get(flavor.name),
                       by_id.get(flavor.id), catalogue, adopts)
               for flavor in wanted]
    if retires:
        kept = {flavor.name for flavor in wanted}
        changes += [Change(Action.RETIRE, flavor.name, live=flavor)
                    for flavor in live
                    if flavor.name not in kept
                    and is_owned(flavor, catalogue)]
    return tuple(changes)


def _change(wanted: model.Flavor, same_name: model.Flavor | None,
            same_id: model.Flavor | None, catalogue: str,
            adopts: bool) -> Change:
    def change(action: Action, reason: str = '') -> Change:
        return Change(action, wanted.name, wanted, same_name, reason)

    if same_id and same_id.name != wanted.name:
        return change(Action.CONFLICT,
                      f'flavor {same_id.name!r} has its id {wanted.id}')
    if same_name is None:
        return change(Action.CREATE)
    differing = difference.shape_changes(same_name, wanted)
    if not is_owned(same_name, catalogue):
        owner = same_name.extra_specs.get(model.CATALOGUE_KEY)
        if owner:
            return change(Action.CONFLICT,
                          f'it belongs to catalogue {owner!r}')
        if differing:
            return change(
                Action.CONFLICT, 'it exists, belongs to no catalogue, and '
                f'has another {_listed(differing)}, so that it cannot be '
                'adopted')
        if not adopts:
            return change(Action.CONFLICT, 'it exists and belongs to no '
                          'catalogue; --adopt takes it over')
        return change(Action.ADOPT)
    if differing:
        return change(Action.REPLACE, f'nova cannot change '
                      f'{_listed(differing)} in place')
    # An id may differ without need for a change: adopted flavors keep theirs.
    if difference.differences(same_name, wanted):
        return change(Action.UPDATE)
    return change(Action.UNCHANGED)


def _listed(keys: Sequence[str]) -> str:
    *first, last = keys
    return f'{", ".join(first)} and {last}' if first else last


def look_up_use(changes: Iterable[Change],
                cloud: Cloud) -> tuple[Change, ...]:
    """The same, knowing which flavors cannot be deleted for their servers."""
    return tuple(
        dataclasses.replace(
            change, is_in_use=bool(change.live) and cloud.has_servers(
                change.live.id))
        if change.live and change.action in (Action.REPLACE, Action.RETIRE)
        else change for change in changes)


def read(cloud: Cloud, wanted: Iterable[model.Flavor],
         catalogue: str) -> tuple[model.Flavor, ...]:
    """A cloud's flavors with all that :func:`plan` wants to know."""
    known = {flavor.name for flavor in wanted}
    return cloud.flavors(lambda flavor: flavor.name in known or is_owned(
        flavor, catalogue))


def apply(changes: Iterable[Change], cloud: Cloud, catalogue: str, *,
          waits_s: Sequence[float] = WAITS_S,
          sleep: Callable[[float], None] = time.sleep) -> Iterator[Result]:
    """Carry changes out, one after the other.

    A flavor that fails is reported, and the next one has its turn.

    :param waits_s: how long to wait before each further try of a flavor
    :returns: a result for each change, as soon as it is there
    :raises errors.CloudError: when it makes no sense to go on
    """
    in_a_row = 0
    for change in changes:
        try:
            result = _settle(change, cloud, catalogue, waits_s, sleep)
        except errors.RefusedError as error:
            result = Result(change, Status.FAILED, str(error))
        except errors.UnsettledError as error:
            in_a_row += 1
            if in_a_row == _FAILURES_IN_A_ROW:
                raise errors.CloudError(
                    f'{in_a_row} flavors in a row failed, the last one '
                    f'({change.name}) with: {error}') from error
            yield Result(change, Status.FAILED, str(error))
            continue
        in_a_row = 0
        yield result


def _settle(change: Change, cloud: Cloud, catalogue: str,
            waits_s: Sequence[float],
            sleep: Callable[[float], None]) -> Result:
    """Carry a change out, from where it stands, until it is done."""
    todo: Change | None = change
    for wait_s in (*waits_s, None):
        try:
            message = _carry_out(todo, cloud) if todo else ''
        except errors.UnsettledError:
            if wait_s is None:
                raise
            sleep(wait_s)
            todo = _plan_again(change, cloud, catalogue)
        else:
            return Result(change, Status.SKIPPED if message else Status.DONE,
                          message)
    raise AssertionError('unreachable')


def _plan_again(change: Change, cloud: Cloud,
                catalogue: str) -> Change | None:
    """What is left to do of a change."""
    ids = {flavor.id for flavor in (change.wanted, change.live) if flavor}
    live = [flavor for flavor in cloud.flavors(
                lambda flavor: flavor.name == change.name)
            if flavor.name == change.name or flavor.id in ids]
    if change.wanted:
        return plan((change.wanted,), live, catalogue,
                    adopts=change.action is Action.ADOPT)[0]
    return next(iter(plan((), live, catalogue)), None)


def _carry_out(change: Change, cloud: Cloud) -> str:
    """Do what a change takes.

    :returns: why nothing was done, '' if all was
    """
    if change.action is Action.CONFLICT:
        return change.reason
    live, wanted = change.live, change.wanted
    if live and change.action in (Action.REPLACE, Action.RETIRE):
        # Names are unique: the old one goes before the new one can come.
        if cloud.has_servers(live.id):
            return f'servers use it (id {live.id})'
        cloud.delete(live.id)
        live = None
    if wanted and not live:
        cloud.create(wanted)
        # Until it has its extra specs a public flavor can be used without.
        cloud.set_extra_specs(wanted.id, wanted.extra_specs)
        for project in wanted.projects:
            cloud.add_project(wanted.id, project)
    elif wanted and live:
        _update(live, wanted, cloud)
    return ''


def _update(live: model.Flavor, wanted: model.Flavor, cloud: Cloud) -> None:
    to_set = {key: value for key, value in wanted.extra_specs.items()
              if live.extra_specs.get(key) != value}
    if to_set:
        cloud.set_extra_specs(live.id, to_set)
    for key in sorted(set(live.extra_specs) - set(wanted.extra_specs)):
        cloud.unset_extra_spec(live.id, key)
    if live.description != wanted.description:
        cloud.set_description(live.id, wanted.description)
    for project in sorted(set(wanted.projects) - set(live.projects)):
        cloud.add_project(live.id, project)
    for project in sorted(set(live.projects) - set(wanted.projects)):
        cloud.remove_project(live.id, project)
