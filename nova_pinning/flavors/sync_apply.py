# SPDX-License-Identifier: Apache-2.0
"""Changes to a cloud's flavors, carried out one after the other.

Nothing is remembered between requests. Whenever it is not known how a
request ended, or somebody else was quicker, the flavor is read again and
planned for again, so the same steps lead on from wherever an earlier run was
cut off.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import time

from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import sync

#: How long to wait before a flavor is tried again, in seconds.
WAITS_S = (1.0, 2.0, 4.0, 8.0, 16.0)

#: When so many flavors in a row could not be settled, the cloud is ill.
_FAILURES_IN_A_ROW = 3


def apply(
        changes: Iterable[sync.FlavorChange],
        cloud: sync.FlavorService,
        catalogue: str,
        *,
        waits_s: Sequence[float] = WAITS_S,
        sleep: Callable[[float], None] = time.sleep,
) -> Iterator[sync.FlavorResult]:
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
            result = sync.FlavorResult(change, sync.FlavorStatus.FAILED,
                                       str(error))
        except errors.UnsettledError as error:
            in_a_row += 1
            if in_a_row == _FAILURES_IN_A_ROW:
                raise errors.CloudError(
                    f'{in_a_row} flavors in a row failed, the last one '
                    f'({change.name}) with: {error}') from error
            yield sync.FlavorResult(change, sync.FlavorStatus.FAILED,
                                    str(error))
            continue
        in_a_row = 0
        yield result


def _settle(change: sync.FlavorChange, cloud: sync.FlavorService,
            catalogue: str, waits_s: Sequence[float],
            sleep: Callable[[float], None]) -> sync.FlavorResult:
    """Carry a change out, from where it stands, until it is done."""
    todo: sync.FlavorChange | None = change
    for wait_s in (*waits_s, None):
        try:
            message = _carry_out(todo, cloud) if todo else ''
        except errors.UnsettledError:
            if wait_s is None:
                raise
            sleep(wait_s)
            todo = _plan_again(change, cloud, catalogue)
        else:
            return sync.FlavorResult(
                change, sync.FlavorStatus.SKIPPED if message
                else sync.FlavorStatus.DONE, message)
    raise AssertionError('unreachable')


def _plan_again(change: sync.FlavorChange, cloud: sync.FlavorService,
                catalogue: str) -> sync.FlavorChange | None:
    """What is left to do of a change."""
    ids = {
        flavor.id
        for flavor in (change.catalogue_flavor, change.live)
        if flavor}
    live = [flavor for flavor in cloud.flavors(
                lambda flavor: flavor.name == change.name)
            if flavor.name == change.name or flavor.id in ids]
    if change.catalogue_flavor:
        return sync.plan((change.catalogue_flavor,), live, catalogue,
                    adopts=change.action is sync.FlavorAction.ADOPT)[0]
    return next(iter(sync.plan((), live, catalogue)), None)


def _carry_out(change: sync.FlavorChange, cloud: sync.FlavorService) -> str:
    """Do what a change takes.

    :returns: why nothing was done, '' if all was
    """
    if change.action is sync.FlavorAction.CONFLICT:
        return change.reason
    live, flavor = change.live, change.catalogue_flavor
    if live and change.action in (sync.FlavorAction.REPLACE,
                                  sync.FlavorAction.RETIRE):
        # Names are unique: the old one goes before the new one can come.
        if cloud.has_servers(live.id):
            return f'servers use it (id {live.id})'
        cloud.delete(live.id)
        live = None
    if flavor and not live:
        cloud.create(flavor)
        # Until it has its extra specs a public flavor can be used without.
        cloud.set_extra_specs(flavor.id, flavor.extra_specs)
        for project in flavor.projects:
            cloud.add_project(flavor.id, project)
    elif flavor and live:
        _update(live, flavor, cloud)
    return ''


def _update(live: flavor_model.Flavor, flavor: flavor_model.Flavor,
            cloud: sync.FlavorService) -> None:
    to_set = {key: value for key, value in flavor.extra_specs.items()
              if live.extra_specs.get(key) != value}
    if to_set:
        cloud.set_extra_specs(live.id, to_set)
    for key in sorted(set(live.extra_specs) - set(flavor.extra_specs)):
        cloud.unset_extra_spec(live.id, key)
    if live.description != flavor.description:
        cloud.set_description(live.id, flavor.description)
    for project in sorted(set(flavor.projects) - set(live.projects)):
        cloud.add_project(live.id, project)
    for project in sorted(set(live.projects) - set(flavor.projects)):
        cloud.remove_project(live.id, project)
