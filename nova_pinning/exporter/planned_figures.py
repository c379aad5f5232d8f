# SPDX-License-Identifier: Apache-2.0
"""Figures that take long: a mix, what moves would gain, lost hosts.

Each is worked out by one of nova-pinning's own commands in a process of its
own, on the fleet as it was read last. So it has its own memory, can be ended
when it takes too long, and takes nothing from what answers scrapes.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
from typing import Any

from nova_pinning.checks import metrics
from nova_pinning import errors
from nova_pinning.exporter import task_metrics

MIX, DEFRAGMENT, FAILOVER = 'mix', 'defragment', 'failover'
_NICE = 19
#: Of a program that did not end as it should: the end of what it said.
_LAST_CHARACTERS = 500


class PlannedFigures:
    """Works out what the options ask for. :meth:`refresh` is for one thread.

    :param settings: the group of nova_pinning.conf.exporter
    :param snapshot: gives the fleet as it was read last, as a packed
        snapshot; None if it never could be
    """

    def __init__(self, settings: Any, snapshot: Callable[[], bytes | None],
                 tasks: task_metrics.TaskMetrics) -> None:
        self._settings = settings
        self._snapshot = snapshot
        self._tasks = tasks
        self._texts: dict[str, str] = {}
        self._process: subprocess.Popen[str] | None = None
        self._is_stopping = False
        self._lock = threading.Lock()
        self._wanted: dict[str, Callable[[str], str]] = {}
        if settings.mix:
            self._wanted[MIX] = self._mix
        if settings.defragment:
            self._wanted[DEFRAGMENT] = self._defragment
        if settings.failover:
            self._wanted[FAILOVER] = self._failover
        for task in self._wanted:
            tasks.expect(task)

    @property
    def is_wanted(self) -> bool:
        """Whether the options ask for any."""
        return bool(self._wanted)

    def text(self) -> str:
        """The figures as they were worked out last."""
        return ''.join(self._texts.get(task, '') for task in self._wanted)

    def refresh(self) -> bool:
        """Work all of them out once. Never raises.

        :returns: whether there was a fleet to do it for
        """
        content = self._snapshot()
        if content is None:
            return False
        with tempfile.TemporaryDirectory(
                prefix='nova-pinning-exporter-',
                ignore_cleanup_errors=True) as directory:
            path = pathlib.Path(directory) / 'fleet.json.zst'
            path.write_bytes(content)
            for task, work_out in self._wanted.items():
                if self._is_stopping:
                    break
                text = self._tasks.run(task, lambda: work_out(str(path)))
                if text is not None:
                    self._texts[task] = text
        return True

    def stop(self) -> None:
        """End what is being worked out."""
        with self._lock:
            self._is_stopping = True
            if self._process is not None:
                with contextlib.suppress(OSError):
                    self._process.kill()

    def _mix(self, path: str) -> str:
        return _mix_text(self._run('capacity', path, '--mix'))

    def _defragment(self, path: str) -> str:
        made = metrics.Gauges('nova_pinning_defragmentation')
        before = made.add('guests_before', 'Guests of a size that fit as it '
                          'is', 'size')
        after = made.add('guests_after', 'Guests of a size that fit after so '
                         'many moves of others', 'size')
        moves = made.add('moves', 'Moves of guests that make that room',
                         'size')
        for size in self._settings.defragment:
            plan = self._run(
                'rebalance', 'defragment', path, '--for', size, '--moves',
                str(self._settings.defragment_moves))
            for gain in plan['gains']:
                before.labels(size).set(gain['before'])
                after.labels(size).set(gain['after'])
            moves.labels(size).set(len(plan['moves']))
        return made.text()

    def _failover(self, path: str) -> str:
        return _failover_text(self._run(
            'rebalance', 'failover', path, '--by', self._settings.failover_by,
            statuses=(0, 1)))

    def _run(self, *arguments: str,
             statuses: Collection[int] = (0,)) -> Mapping[str, Any]:
        """What a command says as JSON.

        :raises errors.InputError: if it ends with another status, or takes
            too long
        """
        where = errors.Location(f'nova-pinning {" ".join(arguments[:2])}')
        with self._lock:
            if self._is_stopping:
                raise errors.InputError('the exporter is ended', where)
            process = self._process = subprocess.Popen(
                [sys.executable, '-m', 'nova_pinning.cli.shell', *arguments,
                 '--format', 'json'],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, errors='replace',
                # Eventlet warns about itself, and whoever imports it.
                env={**os.environ, 'PYTHONWARNINGS': 'ignore'})
        try:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
            out, said = process.communicate(
                timeout=self._settings.plan_max_seconds)
        except subprocess.TimeoutExpired as error:
            raise errors.InputError(
                f'it took more than {self._settings.plan_max_seconds:g} s',
                where, 'raise [pinning_exporter] plan_max_seconds') from error
        finally:
            process.kill()
            process.communicate()
            with self._lock:
                self._process = None
        if process.returncode not in statuses:
            raise errors.InputError(
                said.strip().removeprefix('error: ')[-_LAST_CHARACTERS:]
                or f'it ended with status {process.returncode}', where)
        found: Mapping[str, Any] = json.loads(out)
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
