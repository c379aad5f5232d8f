# SPDX-License-Identifier: Apache-2.0
"""Runs of a command in instances, timed, and which of them count.

Pure. Each instance writes when a run of its command began and ended, by its
own clock, and handshakes before and after say what the controller's clock
showed then: all times are by that one. Where several instances are measured
at the same time each runs its command over and over, and a run counts if all
instances were at work for as long as it took: what one gets while others have
not begun, or are done, says nothing of how they share.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import instance_clock
from nova_pinning.instance_bench.workloads import figures

#: What begins a line with a time: ASCII's record separator.
MARK = '\x1e'
#: The part of a run that may be outside the time in which all instances run,
#: since no two clocks are read at once.
MOST_OUTSIDE = 0.01
# What part of the time clocks may gain or lose without a word.
_MOST_GAINED = 0.01
_CLOCK_ADVICE = 'let nothing set clocks while it is measured'

_SCRIPT = r"""mark() {{ printf '\036%s\n' "$(date +%s%N)"; }}
wait=$(({start} - $(date +%s%N)))
[ $wait -le 0 ] ||
sleep $((wait / 1000000000)).$(printf %09d $((wait % 1000000000)))
end=$(($(date +%s%N) + {nanoseconds}))
while :; do
mark
(
{command}
) || exit
mark
[ "$(date +%s%N)" -lt $end ] || break
done"""


@dataclasses.dataclass(frozen=True, slots=True)
class TimedRun:
    """One run of a command.

    :param started: seconds since the epoch
    """

    started: float
    ended: float
    stdout: str

    @property
    def seconds(self) -> float:
        return self.ended - self.started


@dataclasses.dataclass(frozen=True, slots=True)
class ClockLine:
    """An instance's clock between two handshakes, by the controller's.

    A straight line. Of those that the handshakes leave open it is the one
    whose rate is nearest to that of the controller's clock, so that what they
    cannot tell is not taken for a clock that goes wrong.
    """

    first: instance_clock.ClockReading
    last: instance_clock.ClockReading

    @property
    def gained_seconds(self) -> float:
        """By how much it went ahead of the controller's clock meanwhile."""
        first, last = self._offsets
        return last - first

    @property
    def seconds(self) -> float:
        """From one handshake to the other, by the controller's clock."""
        return self.last.middle - self.first.middle

    @property
    def doubt(self) -> str:
        """That it went so wrong that how it did matters, '' if not."""
        if abs(self.gained_seconds) <= _MOST_GAINED * self.seconds:
            return ''
        return (f'its clock gained {self.gained_seconds:.1f} s in '
                f'{self.seconds:.1f} s; its times are right if it did so '
                'evenly')

    def outside(self, inside: float) -> float:
        """What the controller's clock showed.

        :param inside: what the instance's did
        :raises bench_errors.WorkloadError: if that went backwards
        """
        passed = self.seconds + self.gained_seconds
        if passed <= 0:
            raise bench_errors.WorkloadError(
                f'its clock was set back by {-self.gained_seconds:.1f} s',
                _CLOCK_ADVICE)
        first, _last = self._offsets
        since = inside - self.first.middle - first
        return inside - first - self.gained_seconds * since / passed

    @property
    def _offsets(self) -> tuple[float, float]:
        """As near to each other as the handshakes allow."""
        bounds = [(reading.offset - reading.uncertainty,
                   reading.offset + reading.uncertainty)
                  for reading in (self.first, self.last)]
        between = (max(low for low, _high in bounds)
                   + min(high for _low, high in bounds)) / 2
        first, last = (min(max(between, low), high) for low, high in bounds)
        return first, last


def script(command: str, *, seconds: float = 0.0, start: float = 0.0) -> str:
    """What the shell is to run so that runs are timed.

    It ends with the command's status as soon as that is not zero.

    :param seconds: for how long the command is begun again; it is run once
        at least
    :param start: when to begin, by the instance's clock, so that several
        begin together; at once if that is past
    """
    return _SCRIPT.format(command=command, start=round(start * 1e9),
                          nanoseconds=round(seconds * 1e9))


def parse(stdout: str) -> tuple[TimedRun, ...]:
    """What a script's output says, by the instance's clock.

    :raises bench_errors.WorkloadError: if times are missing, or go backwards
    """
    pieces = stdout.split(MARK)[1:]
    runs = []
    for first, last in zip(pieces[::2], pieces[1::2]):
        began, _newline, text = first.partition('\n')
        runs.append(TimedRun(
            started=_seconds(began), ended=_seconds(last.strip()),
            stdout=text))
    if not runs or len(pieces) % 2:
        raise bench_errors.WorkloadError(
            'a run has no end, or there is too much output to be kept')
    for run in runs:
        if run.seconds <= 0:
            raise bench_errors.WorkloadError(
                f'a run took {run.seconds:.6f} s by the clock of the '
                'instance, which was set back meanwhile', _CLOCK_ADVICE)
    return tuple(runs)


def by_controller(runs: Sequence[TimedRun],
                  clock: ClockLine) -> tuple[TimedRun, ...]:
    """Runs with their times by the controller's clock.

    :raises bench_errors.WorkloadError: if the instance's went backwards
    """
    return tuple(dataclasses.replace(
        run, started=clock.outside(run.started),
        ended=clock.outside(run.ended)) for run in runs)


def without_times(stdout: str) -> str:
    """What the command itself printed."""
    return ''.join(piece.partition('\n')[2]
                   for piece in stdout.split(MARK)).strip()


def counted(every: Mapping[str, Sequence[TimedRun]],
            is_race: bool) -> Mapping[str, Sequence[TimedRun]]:
    """The runs of each instance that count.

    :param every: all runs in each instance, in order, by its name
    :param is_race: that it is the times that all take which are of interest,
        though some have ended before others
    :raises bench_errors.WorkloadError: if an instance has none
    """
    if is_race:
        return every
    begin = max(runs[0].started for runs in every.values())
    end = min(runs[-1].ended for runs in every.values())
    chosen = {}
    for name, runs in every.items():
        chosen[name] = [
            run for run in runs
            if max(begin - run.started, 0.0) + max(run.ended - end, 0.0)
            <= MOST_OUTSIDE * run.seconds]
        if not chosen[name]:
            raise bench_errors.WorkloadError(
                f'{name}: no run of its command lies within the '
                f'{max(end - begin, 0.0):.1f} s in which all instances ran; '
                f'one takes {runs[0].seconds:.1f} s',
                'give it a longer --window, or the workload less to do')
    return chosen


def mean_figures(workload: bench_model.Workload,
                 runs: Sequence[TimedRun]) -> dict[str, float]:
    """A workload's figures over several runs.

    :raises bench_errors.WorkloadError: if a run lacks one
    """
    each = [(run.seconds, figures.read(workload, run.stdout, run.seconds))
            for run in runs]
    return {figure.name: _mean(figure, each) for figure in workload.figures}


def _mean(figure: bench_model.WorkloadFigure,
          each: Sequence[tuple[float, Mapping[str, float]]]) -> float:
    # Rates add up by the time that they were kept up for.
    weights = [seconds if figure.better is bench_model.Better.HIGHER else 1.0
               for seconds, _figures in each]
    return sum(weight * of_run[figure.name] for weight, (_seconds, of_run)
               in zip(weights, each)) / sum(weights)


def _seconds(text: str) -> float:
    if not text.isdecimal():
        raise bench_errors.WorkloadError(
            f'the clock of the instance says {text[:40]!r}',
            'its date has to know %s%N, as that of GNU does')
    return int(text) / 1e9
