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

"""Changes to a cloud's flavors for people, and for machines."""

from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import rich.console

from nova_pinning.cli import changes as changes_lib
from nova_pinning.flavors import sync

_STYLES = {
    sync.Action.CREATE: 'green', sync.Action.UPDATE: 'yellow',
    sync.Action.ADOPT: 'yellow', sync.Action.REPLACE: 'yellow',
    sync.Action.RETIRE: 'red', sync.Action.CONFLICT: 'magenta'}

_DONE = {
    sync.Action.CREATE: 'created', sync.Action.UPDATE: 'updated',
    sync.Action.ADOPT: 'adopted', sync.Action.REPLACE: 'replaced',
    sync.Action.RETIRE: 'retired', sync.Action.UNCHANGED: 'unchanged'}

_IN_USE = 'servers use it, so it stays as it is'


def diff(changes: Iterable[sync.Change], console: rich.console.Console,
         is_brief: bool = False) -> None:
    """Print what would change, a block for each flavor.

    :param is_brief: a line for each, without the keys
    """
    for change in changes:
        if change.action is sync.Action.UNCHANGED:
            continue
        style = _STYLES[change.action]
        reasons = [reason for reason in (
            change.reason, _IN_USE if change.is_in_use else '') if reason]
        head = f'{change.action} {change.name}'
        if reasons:
            head += f': {"; ".join(reasons)}'
        has_keys = change.action is not sync.Action.CONFLICT and not is_brief
        changes_lib.show(console, head, f'bold {style}',
                         change.differences if has_keys else ())


def plan_totals(changes: Sequence[sync.Change]) -> str:
    """One line: how many flavors are to be created and so on."""
    words = {sync.Action.CONFLICT: 'in conflict',
             sync.Action.UNCHANGED: 'unchanged'}
    counts = [(words.get(action, f'to {action}'), sum(
        change.action is action and not change.is_in_use
        for change in changes)) for action in sync.Action]
    counts.append(('in use and left as they are',
                   sum(change.is_in_use for change in changes)))
    return ', '.join(f'{count} {word}' for word, count in counts
                     if count) or 'no flavors'


def result_line(result: sync.Result) -> str:
    """What became of a flavor."""
    change = result.change
    if result.status is sync.Status.DONE:
        return f'{_DONE[change.action]} {change.name}'
    if result.status is sync.Status.SKIPPED:
        return f'left {change.name} as it is: {result.message}'
    return f'failed to {change.action} {change.name}: {result.message}'


def result_totals(results: Sequence[sync.Result]) -> str:
    """One line: how many flavors were created and so on."""
    done = [result.change.action for result in results
            if result.status is sync.Status.DONE]
    counts = [(word, done.count(action)) for action, word in _DONE.items()]
    counts += [(word, sum(result.status is status for result in results))
               for status, word in ((sync.Status.SKIPPED, 'left as they are'),
                                    (sync.Status.FAILED, 'failed'))]
    return ', '.join(f'{count} {word}' for word, count in counts
                     if count) or 'no flavors'


def change_as_dict(change: sync.Change) -> dict[str, Any]:
    """A change for machines."""
    return {
        'action': str(change.action),
        'name': change.name,
        'id': change.live.id if change.live else None,
        'new_id': (change.wanted.id if change.wanted and change.action in (
            sync.Action.CREATE, sync.Action.REPLACE) else None),
        'reason': change.reason,
        'in_use': change.is_in_use,
        'differences': [one.as_dict() for one in change.differences],
    }


def result_as_dict(result: sync.Result) -> dict[str, Any]:
    """A change and what became of it, for machines."""
    return change_as_dict(result.change) | {
        'status': str(result.status), 'message': result.message}
