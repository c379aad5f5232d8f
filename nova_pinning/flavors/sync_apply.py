# SPDX-License-Identifier: Apache-2.0
"""Changes to a cloud's flavors, carried out one after the other.

Each leaves its flavor as the catalogue has it, or as it was. Nova can neither
rename a flavor nor change what :data:`difference.SHAPE` names, and takes the
extra specs of a new one with a second request. So before a flavor is deleted,
or a public one created, the same shape and extra specs are tried on a probe:
a private flavor without projects, which nobody can use. What cannot be
finished is undone.

Nothing is remembered between runs. Whenever it is not known how a request
ended, or somebody else was quicker, the flavor is read again and planned for
again, so the same steps lead on from wherever an earlier run was cut off.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import time
import uuid

from nova_pinning import errors
from nova_pinning.flavors import difference
from nova_pinning.flavors import flavor_cloud
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import names
from nova_pinning.flavors import sync

#: How long to wait before a flavor is tried again, in seconds.
WAITS_S = (1.0, 2.0, 4.0, 8.0, 16.0)

#: When so many flavors in a row could not be settled, the cloud is ill.
_FAILURES_IN_A_ROW = 3

_CHANGED = ('somebody else has changed it since it was compared with the '
            'catalogue, perhaps by applying another one of this name; run the '
            'command again to see what would change now')

#: What ends a change before it is done.
_ENDS = (errors.CloudError, KeyboardInterrupt)


def apply(
        changes: Iterable[sync.FlavorChange],
        cloud: flavor_cloud.FlavorCloud,
        catalogue: str,
        *,
        waits_s: Sequence[float] = WAITS_S,
        sleep: Callable[[float], None] = time.sleep,
) -> Iterator[sync.FlavorResult]:
    """Carry changes out, first those that an earlier run has left half done.

    A flavor that fails is reported, and the next one has its turn.

    :param waits_s: how long to wait before each further try of a flavor
    :returns: a result for each change, as soon as it is there
    :raises errors.CloudError: when it makes no sense to go on
    """
    in_a_row = 0
    for change in sorted(changes, key=lambda change: not change.is_cut_off):
        try:
            message = _settle(change, cloud, catalogue, waits_s, sleep)
        except (errors.RefusedError, errors.UnsettledError) as error:
            in_a_row = (in_a_row + 1
                        if isinstance(error, errors.UnsettledError) else 0)
            if in_a_row == _FAILURES_IN_A_ROW:
                raise errors.CloudError(
                    f'{in_a_row} flavors in a row failed, the last one '
                    f'({change.name}) with: {error}') from error
            yield sync.FlavorResult(change, sync.FlavorStatus.FAILED,
                                    str(error))
        else:
            in_a_row = 0
            yield sync.FlavorResult(
                change, sync.FlavorStatus.SKIPPED if message
                else sync.FlavorStatus.DONE, message or change.advice)


def _settle(change: sync.FlavorChange, cloud: flavor_cloud.FlavorCloud,
            catalogue: str, waits_s: Sequence[float],
            sleep: Callable[[float], None]) -> str:
    """Carry a change out, from where it stands, until it is done or undone.

    :returns: why nothing was done, '' if all was
    """
    if not change.is_to_do:
        return change.obstacle or change.reason
    attempt = _Attempt(change, cloud, catalogue)
    try:
        for wait_s in waits_s:
            with contextlib.suppress(errors.UnsettledError):
                return attempt.carry_out()
            sleep(wait_s)
        return attempt.carry_out()
    except _ENDS as error:
        undone = attempt.undo()
        if not undone or isinstance(error, KeyboardInterrupt):
            raise
        raise type(error)(f'{error}; {undone}') from error


class _Attempt:
    """What this run has done of one change so far."""

    def __init__(self, change: sync.FlavorChange,
                 cloud: flavor_cloud.FlavorCloud, catalogue: str) -> None:
        self._change = change
        self._cloud = cloud
        self._catalogue = catalogue
        # Not that of another run at the same time.
        self._probe_name = f'{sync.PROBE_PREFIX}{uuid.uuid4()}'
        self._is_proven = False
        self._has_begun = False

    def carry_out(self) -> str:
        """Do what is left of it.

        :returns: why nothing was done, '' if all was
        """
        todo = self._left() if self._has_begun else self._unless_changed()
        if not todo:
            return ''
        if todo.action is sync.FlavorAction.CONFLICT:
            return todo.reason
        live, flavor = todo.live, todo.catalogue_flavor
        if live and todo.deletes and todo.is_cut_off:
            self._has_begun = True
            self._cloud.delete(live.id)
            live = None
        if flavor and (todo.deletes if live else flavor.is_public):
            self._prove(flavor)
        if live:
            todo = sync.with_use(todo, self._cloud)
            if todo.obstacle:
                return todo.obstacle
        self._has_begun = True
        if live and todo.deletes:
            # Names are unique: the old one goes before the new one can come.
            self._cloud.delete(live.id)
            live = None
        if flavor and live:
            _update(live, flavor, self._cloud)
        elif flavor:
            _create(flavor, self._cloud)
        return ''

    def _unless_changed(self) -> sync.FlavorChange | None:
        """The change, if the cloud is still as it was planned for.

        :returns: None if somebody else has done it already
        :raises errors.UnsettledError: if it is as neither has it
        """
        live = self._change.live
        if not live or self._cloud.flavor(live.id) == live:
            return self._change
        left = self._left()
        if left and left.action is not sync.FlavorAction.UNCHANGED:
            raise errors.UnsettledError(_CHANGED)
        return None

    def _left(self) -> sync.FlavorChange | None:
        """What is left to do, None if nothing is.

        :raises errors.UnsettledError: if there is now a flavor that was not
            planned for, with other extra specs than this run gives it
        """
        change = self._change
        ids = {flavor.id for flavor in (change.catalogue_flavor, change.live)
               if flavor}
        live = [flavor for flavor in self._cloud.flavors(
                    lambda flavor: flavor.name == change.name)
                if flavor.name == change.name or flavor.id in ids]
        left = next(iter(sync.plan(
            (change.catalogue_flavor,) if change.catalogue_flavor else (),
            live, self._catalogue,
            adopts=change.action is sync.FlavorAction.ADOPT)), None)
        if left and left.live and left.live.extra_specs and (
                not change.live or left.live.id != change.live.id) and (
                    left.deletes or left.extra_specs_to_set):
            raise errors.UnsettledError(_CHANGED)
        return left

    def _prove(self, flavor: flavor_model.Flavor) -> None:
        """Make sure that nova takes a flavor's shape and extra specs.

        :raises errors.CloudError: if it does not
        """
        if self._is_proven:
            return
        probe = dataclasses.replace(
            flavor, name=self._probe_name, is_public=False, projects=())
        probe = dataclasses.replace(
            probe, id=names.flavor_id(self._catalogue, probe))
        try:
            self._cloud.create(probe)
            self._cloud.set_extra_specs(probe.id, probe.extra_specs)
        except _ENDS:
            # If this fails as well, the next run does it.
            with contextlib.suppress(errors.CloudError):
                self._cloud.delete(probe.id)
            raise
        self._cloud.delete(probe.id)
        self._is_proven = True

    def undo(self) -> str:
        """Make the flavor what it was, as far as the cloud does it.

        :returns: how that ended, for people; '' where there was nothing to
            go back to
        """
        after = self._change.catalogue_flavor
        before = None if self._change.is_cut_off else self._change.live
        if not self._has_begun or not after:
            return ''
        try:
            made = self._cloud.flavor(after.id)
            if made and (not before or before.id != made.id):
                if not difference.differences(made, after):
                    return ''
                if made.name == after.name and made.extra_specs in (
                        {}, after.extra_specs):
                    self._cloud.delete(made.id)
            if before and (current := self._cloud.flavor(before.id)):
                _update(current, before, self._cloud)
            elif before:
                _create(before, self._cloud)
        except errors.CloudError as error:
            return f'and it could not be made what it was before: {error}'
        return 'it is as it was before' if before else ''


def _create(flavor: flavor_model.Flavor,
            cloud: flavor_cloud.FlavorCloud) -> None:
    """Create a flavor, and delete it at once if it gets no extra specs.

    Between two requests a public one can be used without them.
    """
    def is_half_made() -> bool:
        made = cloud.flavor(flavor.id)
        return bool(made and made.name == flavor.name
                    and not made.extra_specs)

    try:
        cloud.create(flavor)
    except errors.UnsettledError:
        # The answer was lost, or another run is about to go on here.
        if not is_half_made():
            raise
    try:
        cloud.set_extra_specs(flavor.id, flavor.extra_specs)
    except _ENDS:
        with contextlib.suppress(errors.CloudError):
            if is_half_made():
                cloud.delete(flavor.id)
        raise
    for project in flavor.projects:
        cloud.add_project(flavor.id, project)


def _update(live: flavor_model.Flavor, flavor: flavor_model.Flavor,
            cloud: flavor_cloud.FlavorCloud) -> None:
    """Change what nova can change in place.

    Nova takes what is to be set as a whole or not at all, so that comes
    first. What is to go can only be taken away key by key. If the class
    changes it is named outright meanwhile, so that HostClassFilter lets no
    guest through whose other keys still say something else.
    """
    to_set = difference.extra_specs_to_set(live, flavor)
    to_unset = sorted(set(live.extra_specs) - set(flavor.extra_specs))
    if to_unset and (sync.class_of(live.extra_specs)
                     != sync.class_of(flavor.extra_specs)) and (
            flavor_model.CLASS_KEY not in flavor.extra_specs):
        to_set[flavor_model.CLASS_KEY] = sync.class_of(
            flavor.extra_specs)
        to_unset = sorted({*to_unset, flavor_model.CLASS_KEY},
                          key=lambda key: (key == flavor_model.CLASS_KEY, key))
    if to_set:
        cloud.set_extra_specs(live.id, to_set)
    for key in to_unset:
        cloud.unset_extra_spec(live.id, key)
    if live.description != flavor.description:
        cloud.set_description(live.id, flavor.description)
    for project in sorted(set(flavor.projects) - set(live.projects)):
        cloud.add_project(live.id, project)
    for project in sorted(set(live.projects) - set(flavor.projects)):
        cloud.remove_project(live.id, project)
