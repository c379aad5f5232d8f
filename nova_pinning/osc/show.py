# SPDX-License-Identifier: Apache-2.0
"""Changes to a cloud's flavors for people, and for machines."""

from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import rich.console

from nova_pinning.flavors import sync
from nova_pinning.presentation import flavor_changes

_STYLES = {
    sync.FlavorAction.CREATE: 'green', sync.FlavorAction.UPDATE: 'yellow',
    sync.FlavorAction.ADOPT: 'yellow', sync.FlavorAction.REPLACE: 'yellow',
    sync.FlavorAction.RETIRE: 'red', sync.FlavorAction.CONFLICT: 'magenta'}

_DONE = {
    sync.FlavorAction.CREATE: 'created',
    sync.FlavorAction.UPDATE: 'updated',
    sync.FlavorAction.ADOPT: 'adopted',
    sync.FlavorAction.REPLACE: 'replaced',
    sync.FlavorAction.RETIRE: 'retired',
    sync.FlavorAction.UNCHANGED: 'unchanged'}


def diff(changes: Iterable[sync.FlavorChange], console: rich.console.Console,
         is_brief: bool = False) -> None:
    """Print what would change, a block for each flavor.

    :param is_brief: a line for each, without the keys
    """
    for change in changes:
        if change.action is sync.FlavorAction.UNCHANGED:
            continue
        style = _STYLES[change.action]
        stays = f'{change.obstacle}, so it stays as it is'
        reasons = [reason for reason in (
            change.reason, stays if change.obstacle else change.advice)
            if reason]
        head = f'{change.action} {change.name}'
        if reasons:
            head += f': {"; ".join(reasons)}'
        has_keys = (change.action is not sync.FlavorAction.CONFLICT
                    and not is_brief)
        flavor_changes.show(console, head, f'bold {style}',
                            change.differences if has_keys else ())


def plan_totals(changes: Sequence[sync.FlavorChange]) -> str:
    """One line: how many flavors are to be created and so on."""
    words = {sync.FlavorAction.CONFLICT: 'in conflict',
             sync.FlavorAction.UNCHANGED: 'unchanged'}
    counts = [(words.get(action, f'to {action}'), sum(
        change.action is action and not change.obstacle
        for change in changes)) for action in sync.FlavorAction]
    counts.append(('left as they are',
                   sum(bool(change.obstacle) for change in changes)))
    return ', '.join(f'{count} {word}' for word, count in counts
                     if count) or 'no flavors'


def result_line(result: sync.FlavorResult) -> str:
    """What became of a flavor."""
    change = result.change
    if result.status is sync.FlavorStatus.DONE:
        message = f': {result.message}' if result.message else ''
        return f'{_DONE[change.action]} {change.name}{message}'
    if result.status is sync.FlavorStatus.LOST:
        return f'lost {change.name}: {result.message}'
    if result.status is sync.FlavorStatus.SKIPPED:
        return f'left {change.name} as it is: {result.message}'
    return f'failed to {change.action} {change.name}: {result.message}'


def result_totals(results: Sequence[sync.FlavorResult]) -> str:
    """One line: how many flavors were created and so on."""
    done = [result.change.action for result in results
            if result.status is sync.FlavorStatus.DONE]
    counts = [(word, done.count(action)) for action, word in _DONE.items()]
    counts += [(word, sum(result.status is status
                          for result in results))
               for status, word in ((sync.FlavorStatus.SKIPPED,
                                     'left as they are'),
                                    (sync.FlavorStatus.FAILED, 'failed'),
                                    (sync.FlavorStatus.LOST, 'lost'))]
    return ', '.join(f'{count} {word}' for word, count in counts
                     if count) or 'no flavors'


def change_as_dict(change: sync.FlavorChange) -> dict[str, Any]:
    """A change for machines."""
    return {
        'action': str(change.action),
        'name': change.name,
        'id': change.live.id if change.live else None,
        'new_id': (change.catalogue_flavor.id if change.catalogue_flavor
                   and change.action in (sync.FlavorAction.CREATE,
                                         sync.FlavorAction.REPLACE) else None),
        'reason': change.reason,
        'in_use': bool(change.servers),
        'servers': list(change.servers),
        'obstacle': change.obstacle,
        'differences': [
            difference.as_dict() for difference in change.differences]}


def result_as_dict(result: sync.FlavorResult) -> dict[str, Any]:
    """A change and what became of it, for machines."""
    return change_as_dict(result.change) | {
        'status': str(result.status), 'message': result.message}
