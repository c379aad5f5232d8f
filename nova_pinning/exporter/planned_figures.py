# SPDX-License-Identifier: Apache-2.0
"""Figures that take long: a mix, what moves would gain, lost hosts.

Each is worked out by one of nova-pinning's own commands, on the fleet as it
was read last.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
import json
from typing import Any

from nova_pinning.checks import metrics
from nova_pinning.exporter import child_commands
from nova_pinning.exporter import task_metrics

MIX, DEFRAGMENT, FAILOVER = 'mix', 'defragment', 'failover'


class PlannedFigures:
    """Works out what the options ask for. :meth:`refresh` is for one thread.

    :param settings: the group of nova_pinning.conf.exporter
    :param snapshot: gives the fleet as it was read last, as a packed
        snapshot; None if it never could be
    :param commands: runs the commands
    """

    def __init__(self, settings: Any, snapshot: Callable[[], bytes | None],
                 tasks: task_metrics.TaskMetrics,
                 commands: child_commands.ChildCommands) -> None:
        self._settings = settings
        self._commands = commands
        self._snapshot = snapshot
        self._tasks = tasks
        self._texts: dict[str, str] = {}
        # Each is asked for by the option of its name.
        self._wanted: dict[str, Callable[[bytes], str]] = {
            task: work_out for task, work_out in (
                (MIX, self._mix), (DEFRAGMENT, self._defragment),
                (FAILOVER, self._failover)) if getattr(settings, task)}
        for task in self._wanted:
            tasks.expect(task)

    def text(self) -> str:
        """The figures as they were worked out last."""
        return ''.join(self._texts.get(task, '') for task in self._wanted)

    def refresh(self) -> bool:
        """Work all of them out once; what fails is told and counted.

        :returns: whether there was a fleet to do it for
        :raises SystemExit: if all is to end
        """
        content = self._snapshot() if self._wanted else b''
        if content is None:
            return False
        for task, work_out in self._wanted.items():
            text = self._tasks.run(task, lambda: work_out(content))
            if text is not None:
                self._texts[task] = text
        return True

    def _mix(self, content: bytes) -> str:
        return _mix_text(self._run(content, 'capacity', '-', '--mix'))

    def _defragment(self, content: bytes) -> str:
        made = metrics.Gauges('nova_pinning_defragmentation')
        before = made.add('guests_before', 'Guests of a size that fit as it '
                          'is', 'size')
        after = made.add('guests_after', 'Guests of a size that fit after so '
                         'many moves of others', 'size')
        moves = made.add('moves', 'Moves of guests that make that room',
                         'size')
        for size in self._settings.defragment:
            plan = self._run(
                content, 'rebalance', 'plan', '-', '--for', size,
                '--moves', str(self._settings.defragment_moves))
            for gain in plan['gains']:
                before.labels(size).set(gain['before'])
                after.labels(size).set(gain['after'])
            moves.labels(size).set(len(plan['moves']))
        return made.text()

    def _failover(self, content: bytes) -> str:
        return _failover_text(self._run(
            content, 'rebalance', 'failover', '-', '--by',
            self._settings.failover_by, statuses=(0, 1)))

    def _run(self, content: bytes, *arguments: str,
             statuses: Collection[int] = (0,)) -> Mapping[str, Any]:
        """What a command says as JSON.

        :raises errors.InputError: as :meth:`child_commands.ChildCommands.run`
        """
        found: Mapping[str, Any] = json.loads(self._commands.run(
            content, *arguments, '--format', 'json', statuses=statuses,
            limit_seconds=self._settings.plan_max_seconds,
            advice='raise [pinning_exporter] plan_max_seconds'))
        return found


def _mix_text(found: Mapping[str, Any]) -> str:
    made = metrics.Gauges('nova_pinning_mix')
    guests = made.add('guests', 'Further guests of a flavor, all flavors '
                      'together, in the proportions of those there are',
                      'flavor', 'class')
    bound = made.add('guests_bound', 'Guests of the mix that cannot be '
                     'exceeded', 'class')
    classes = {flavor['name']: flavor['class'] for flavor in found['flavors']}
    for mix in found['mixes']:
        for flavor in mix['flavors']:
            name = flavor['name']
            guests.labels(name, classes[name]).set(flavor['fits'])
        bound.labels(classes[mix['flavors'][0]['name']]).set(mix['bound'])
    for name in found['left_out_of_mixes']:
        guests.labels(name, classes[name]).set(0)
    return made.text()


def _failover_text(found: Mapping[str, Any]) -> str:
    made = metrics.Gauges('nova_pinning_failover')
    losses = made.add(
        'losses', 'Losses of a host, or of what failover_by says, by whether '
        'all guests come up elsewhere', 'survived')
    for verdict in ('yes', 'no', 'unknown'):
        losses.labels(verdict).set(sum(
            loss['verdict'] == verdict for loss in found['losses']))
    made.add('guests_down', 'Guests that do not come up after the worst '
             'loss').set(max((len(loss['down']) for loss in found['losses']),
                             default=0))
    reserve = found['reserve']
    if reserve is not None or found['verdict'] == 'yes':
        made.add('missing_hosts', 'Empty hosts that would have to be added '
                 'for all losses to be survived').set(
                     0 if reserve is None else reserve['count'])
    return made.text()
