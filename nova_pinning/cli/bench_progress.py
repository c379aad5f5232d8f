# SPDX-License-Identifier: Apache-2.0
"""How a run of an experiment is shown while it goes on."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import re

import rich.progress

from nova_pinning.cli import progress_bars
from nova_pinning.host import words
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import schedule

_NUMBERS = re.compile('[0-9.]+')


class RunProgress:
    """Each failure, what makes figures doubtful, and how far a run is.

    The last is a bar on a terminal; elsewhere each case has a line, since a
    file or a pipe is to show it too.

    :param units: all that is to be measured
    """

    def __init__(self, bar: rich.progress.Progress,
                 units: Sequence[schedule.CaseRound]) -> None:
        self._bar = bar
        self._units = len(units)
        self._task = bar.add_task('', total=sum(
            len(unit.repetitions) for unit in units), left='', step='')
        self._begun = self._due = 0
        self._flags: set[str] = set()

    def begin(self, unit: schedule.CaseRound, seconds_left: float) -> None:
        self._begun += 1
        name = f'case {self._begun} of {self._units}: {unit.case.name}'
        left = f'about {words.span(seconds_left)} left'
        if self._bar.disable:
            self._say(f'{name}, {left}')
        # What failed before all of its repetitions were made is over too.
        self._bar.update(self._task, completed=self._due, description=name,
                         left=left)
        self._due += len(unit.repetitions)

    def step(self, text: str) -> None:
        self._bar.update(self._task, step=text)

    def measured(self, measurement: bench_model.Measurement) -> None:
        for flag in measurement.flags:
            told = f'{_name(measurement.factors)}: {flag}'
            # Each repetition would say it again, with other numbers, and of
            # each instance.
            kind = _NUMBERS.sub('', told)
            if kind not in self._flags:
                self._flags.add(kind)
                self._say(f'doubtful: {told}')
        self._bar.advance(self._task)

    def failed(self, failure: bench_model.Failure) -> None:
        self._say(f'failed: {_name(failure.factors)}: {failure.message}')

    def _say(self, text: str) -> None:
        self._bar.console.print(text, soft_wrap=True)


@contextlib.contextmanager
def watcher(units: Sequence[schedule.CaseRound]) -> Iterator[RunProgress]:
    """Show on the error output how a run goes."""
    with progress_bars.progress_bars(
            rich.progress.TextColumn('{task.description}'),
            rich.progress.BarColumn(bar_width=20),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TextColumn('{task.fields[left]}'),
            rich.progress.TextColumn('{task.fields[step]}', style='dim'),
    ) as bar:
        yield RunProgress(bar, units)


def _name(factors: Mapping[str, str]) -> str:
    return ' / '.join(factors.values())
