# SPDX-License-Identifier: Apache-2.0
"""How a run of an experiment is shown while it goes on."""

from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import re
import sys
from typing import TextIO

import rich.progress

from nova_pinning.cli import progress_bars
from nova_pinning.host import words
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import schedule

_NUMBERS = re.compile('[0-9.]+')


class ProgressLines:
    """A line for each case, each failure, and what makes figures doubtful.

    :param units: how many there are
    """

    def __init__(self, stream: TextIO, units: int) -> None:
        self._stream = stream
        self._units = units
        self._begun = 0
        self._flags: set[str] = set()

    def begin(self, unit: schedule.CaseRound, seconds_left: float) -> None:
        self._say(f'{self._count(unit)}, about {words.span(seconds_left)} '
                  'left')

    def step(self, text: str) -> None:
        pass

    def measured(self, measurement: bench_model.Measurement) -> None:
        for flag in measurement.flags:
            told = f'{_name(measurement.factors)}: {flag}'
            # Each repetition would say it again, with other numbers, and of
            # each instance.
            kind = _NUMBERS.sub('', told)
            if kind not in self._flags:
                self._flags.add(kind)
                self._say(f'doubtful: {told}')

    def failed(self, failure: bench_model.Failure) -> None:
        self._say(f'failed: {_name(failure.factors)}: {failure.message}')

    def _count(self, unit: schedule.CaseRound) -> str:
        self._begun += 1
        return f'case {self._begun} of {self._units}: {unit.case.name}'

    def _say(self, text: str) -> None:
        # Also a file or a pipe is to show how far it is.
        print(text, file=self._stream, flush=True)


class _Bar(ProgressLines):
    """The same with a bar instead of a line for each case, on a terminal."""

    def __init__(self, bar: rich.progress.Progress, units: int,
                 repetitions: int) -> None:
        super().__init__(sys.stderr, units)
        self._bar = bar
        self._task = bar.add_task('', total=repetitions, left='', step='')
        self._due = 0

    def begin(self, unit: schedule.CaseRound, seconds_left: float) -> None:
        # What failed before all of its repetitions were made is over too.
        self._bar.update(
            self._task, completed=self._due, description=self._count(unit),
            left=f'about {words.span(seconds_left)} left')
        self._due += len(unit.repetitions)

    def step(self, text: str) -> None:
        self._bar.update(self._task, step=text)

    def measured(self, measurement: bench_model.Measurement) -> None:
        super().measured(measurement)
        self._bar.advance(self._task)

    def _say(self, text: str) -> None:
        self._bar.console.print(text, soft_wrap=True)


@contextlib.contextmanager
def watcher(units: tuple[schedule.CaseRound, ...]) -> Iterator[ProgressLines]:
    """A bar on the error output if that is a terminal, else lines."""
    with progress_bars.progress_bars(
            rich.progress.TextColumn('{task.description}'),
            rich.progress.BarColumn(bar_width=20),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TextColumn('{task.fields[left]}'),
            rich.progress.TextColumn('{task.fields[step]}', style='dim'),
    ) as bar:
        yield ProgressLines(sys.stderr, len(units)) if bar.disable else _Bar(
            bar, len(units), sum(len(unit.repetitions) for unit in units))


def _name(factors: Mapping[str, str]) -> str:
    return ' / '.join(factors.values())
