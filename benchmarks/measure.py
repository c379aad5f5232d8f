# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Take the samples: both sides in turn, in processes of their own.

pyperf is the usual harness, but it times one function at a time, over and
over on the same arguments. Both are wrong here: the ratio of two functions
that ran minutes apart moves with whatever else the machine did meanwhile,
and a filter must not meet a ``numa_topology`` object twice, since
nova-scheduler rebuilds it from the database for each request. So this module
times by itself and keeps what makes pyperf's figures sound:

* a sample is one request, with a RequestSpec and HostStates that were made
  for it outside the timed region, from the same primitives and JSON that
  nova-scheduler gets them from; a side's work per request is spread over the
  hosts of the sample, no more than that;
* in each round both sides answer the same request for the same hosts, and
  they take turns in going first;
* times are CPU time of the thread, since all of it is computing: on a busy
  machine wall-clock time would charge the slower side for other programs
  more often;
* the first rounds of a process only warm up;
* several processes, each with its own hash seed, memory layout and hosts;
* the garbage collector is on, as in nova-scheduler, but what was made before
  the timed region is frozen, so that each side pays for its own garbage
  only;
* medians over the rounds of a process, then the mean over the processes; the
  ratio has a 95% bootstrap interval that keeps the two sides of a round
  together.

Logging is set to INFO as in production, with a handler that drops the
records: neither side is charged for writing. Debug messages are not made,
but nova builds the arguments of many, as it does in production.
"""

import dataclasses
import gc
import logging
import multiprocessing
from multiprocessing import connection
import time
import typing as ty
import warnings

from benchmarks import bars

# Processes are started afresh: a forked one would share the parent's hash
# seed and memory layout.
_SPAWN = multiprocessing.get_context('spawn')

# How long a process may take to import nova and fill its hosts.
_START_SECONDS = 120


class WorkerError(Exception):
    """A measuring process died."""


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure."""

    processes: int
    rounds: int
    request_rounds: int
    time_limit: float
    warm_up: int = 2
    calibrate: bool = False

    def steps(self, case: bars.Case) -> int:
        """Rounds of one process for a case, without the warm-up."""
        return self.request_rounds if case.whole_request else self.rounds

    def warm_up_steps(self, case: bars.Case) -> int:
        """Rounds of one process for a case that do not count."""
        return 1 if case.whole_request else self.warm_up


@dataclasses.dataclass(slots=True)
class Samples:
    """What one process measured for one case; times in ns for all hosts."""

    hosts: int
    used: list[float]
    nova_ns: list[int] = dataclasses.field(default_factory=list)
    ours_ns: list[int] = dataclasses.field(default_factory=list)
    nova_passed: int = 0
    ours_passed: int = 0
    differ: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Limited:
    """Nova's single try at a case that may never end."""

    seconds: float
    ended: bool
    passed: bool | None = None


Progress = ty.Callable[[bars.Case, int], None]


def set_up(ours: bool) -> None:
    """Load nova, and what is ours, with logging as in production."""
    warnings.simplefilter('ignore')
    logging.basicConfig(level=logging.INFO, handlers=[logging.NullHandler()])
    import nova.conf
    from nova import objects
    objects.register_all()
    if ours:
        import nova_pinning.conf  # noqa: F401 - registers [pinning]
    nova.conf.CONF([], project='nova', default_config_files=[],
                   default_config_dirs=[])


def timed(function: ty.Callable[..., ty.Any], *args: ty.Any,
          ) -> tuple[int, ty.Any]:
    """Call a function once and return the nanoseconds it took.

    What exists already is kept out of garbage collections.
    """
    gc.collect()
    gc.freeze()
    start = time.thread_time_ns()
    result = function(*args)
    return time.thread_time_ns() - start, result


def measure(case: bars.Case, process: int, plan: Plan,
            progress: ty.Callable[[], None]) -> Samples:
    """Measure one case in this process."""
    from benchmarks import scenes
    scene = scenes.build(case, process)
    nova, ours = scene.sides(plan.calibrate)
    samples = Samples(len(scene.records),
                      [round(record.used, 3) for record in scene.records])
    warm_up = plan.warm_up_steps(case)
    differ: set[str] = set()
    for number in range(warm_up + plan.steps(case)):
        answers: dict[str, tuple[str, ...]] = {}
        times: dict[str, int] = {}
        jobs = [('ours', ours, scene.states(), scene.request.spec())]
        if not case.endless:
            jobs.append(('nova', nova, scene.states(), scene.request.spec()))
        if number % 2:
            jobs.reverse()
        for name, side, states, spec in jobs:
            times[name], answers[name] = timed(side, states, spec)
        if 'nova' in answers:
            differ |= set(answers['nova']) ^ set(answers['ours'])
            samples.nova_passed = len(answers['nova'])
        samples.ours_passed = len(answers['ours'])
        if number >= warm_up:
            samples.ours_ns.append(times['ours'])
            if 'nova' in times:
                samples.nova_ns.append(times['nova'])
        progress()
    samples.differ = sorted(differ)
    return samples


def _work(pipe: connection.Connection, cases: list[bars.Case], process: int,
          plan: Plan) -> None:
    set_up(ours=not plan.calibrate)
    for case in cases:
        samples = measure(case, process, plan, lambda: pipe.send(None))
        pipe.send(samples)


def _work_limited(pipe: connection.Connection, case: bars.Case) -> None:
    set_up(ours=False)
    from benchmarks import scenes
    scene = scenes.build(case, 0)
    nova, _ours = scene.sides(calibrate=True)
    states, spec = scene.states()[:1], scene.request.spec()
    pipe.send(None)
    elapsed, passed = timed(nova, states, spec)
    pipe.send(Limited(elapsed / 1e9, True, bool(passed)))


class _Worker:
    """A process with a pipe from it, killed on the way out."""

    def __init__(self, target: ty.Callable[..., None], *args: ty.Any) -> None:
        self._pipe, there = _SPAWN.Pipe(duplex=False)
        self._process = _SPAWN.Process(
            target=target, args=(there, *args), daemon=True)
        self._process.start()
        # Ours is the only end left then, and its loss is noticed.
        there.close()

    def receive(self, seconds: float) -> ty.Any:
        """Return what the process sends next; TimeoutError without."""
        if not self._pipe.poll(seconds):
            raise TimeoutError()
        try:
            return self._pipe.recv()
        except EOFError:
            self._process.join()
            raise WorkerError('a measuring process ended with status '
                              f'{self._process.exitcode}') from None

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def run_process(cases: list[bars.Case], process: int, plan: Plan,
                progress: Progress) -> dict[str, Samples]:
    """Measure all cases in one new process."""
    worker = _Worker(_work, cases, process, plan)
    results: dict[str, Samples] = {}
    try:
        for case in cases:
            while True:
                message = worker.receive(_START_SECONDS)
                if message is not None:
                    break
                progress(case, 1)
            results[case.name] = message
    except TimeoutError:
        raise WorkerError(
            'a measuring process did not answer for '
            f'{_START_SECONDS} seconds') from None
    finally:
        worker.close()
    return results


def run_limited(case: bars.Case, seconds: float) -> Limited:
    """Let nova try one host of an endless case for a limited time."""
    worker = _Worker(_work_limited, case)
    try:
        worker.receive(_START_SECONDS)
        try:
            return ty.cast(Limited, worker.receive(seconds))
        except TimeoutError:
            return Limited(seconds, False)
    finally:
        worker.close()
