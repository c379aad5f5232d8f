# SPDX-License-Identifier: Apache-2.0
"""Take the samples: both sides in turn, in processes of their own.

A round makes HostStates outside the timed region, from the JSON that
nova-scheduler gets them from, and goes over them several times. There are
two figures, because they answer different questions:

* "same": the passes after the first, over the same HostStates. It compares
  the work of the two filters, reading ``numa_topology`` included, and is what
  the bars are defined and judged on.
* "first": the first pass, over objects that are not in the CPU's caches yet.
  This is what one single request meets, since nova-scheduler rebuilds the
  objects from the database for each. Some microseconds a host then go into
  waiting for memory. They hardly show in nova's time but do in ours, so the
  ratio is smaller.

Each pass is a separate request: its RequestSpec is new, so that nothing
that was kept with an earlier one helps, and what a filter changed on the
HostStates is undone. The whole request is measured as one request, so it has
the first pass only, and its bar is judged on that.

pyperf is the usual harness, but it times one function at a time, and the
ratio of two functions that ran minutes apart moves with whatever else the
machine did meanwhile. So this module times by itself and keeps what makes
pyperf's figures sound:

* in each round both sides answer the same requests for equal hosts, each on
  HostStates of its own, and they take turns in going first;
* times are CPU time of the thread, since all of it is computing: on a busy
  machine wall-clock time would charge the slower side for other programs
  more often;
* the first rounds of a process only warm up;
* several processes, each with its own hash seed, memory layout and hosts;
* the garbage collector is on, as in nova-scheduler, but what was made before
  the timed region is frozen, so that each side pays for its own garbage
  only;
* medians over the rounds of a process, then the mean over the processes;
  ratios and times have 95% bootstrap intervals that keep the two sides of a
  round together, and bars are judged with these.

Logging is set to INFO as in production, with a handler that drops the
records: neither side is charged for writing. Debug messages are not made,
but nova builds the arguments of many, as it does in production.
"""

import argparse
from concurrent import futures
import dataclasses
import gc
import logging
import multiprocessing
import signal
import time
import typing as ty
import warnings

from benchmarks import runner
from benchmarks.speed import bars

if ty.TYPE_CHECKING:
    # These load nova, which only the measuring processes need.
    from benchmarks.speed import scenes
    from nova.scheduler import host_manager

# Processes are started afresh: a forked one would share the parent's hash
# seed and memory layout.
_SPAWN = multiprocessing.get_context('spawn')


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure.

    :ivar few_rounds: of the whole request and of slow cases
    :ivar command_rounds: of the commands
    :ivar time_limit: in seconds, for nova to try one host of an endless case
    """

    processes: int
    rounds: int
    few_rounds: int
    command_rounds: int
    time_limit: float
    passes: int = 5
    warm_up: int = 1

    def passes_of(self, case: bars.Case) -> int:
        """How often a round goes over the same HostStates."""
        if case.whole_request:
            return 1
        return 2 if case.slow else self.passes


QUICK = Plan(processes=2, rounds=7, few_rounds=2, command_rounds=2,
             time_limit=2)
DEFAULT = Plan(processes=3, rounds=7, few_rounds=4, command_rounds=7,
               time_limit=10)
RIGOROUS = Plan(processes=8, rounds=20, few_rounds=10, command_rounds=20,
                time_limit=60)


def plan_of(options: argparse.Namespace) -> Plan:
    """Return how much to measure."""
    return (QUICK if options.quick else
            RIGOROUS if options.rigorous else DEFAULT)


@dataclasses.dataclass(frozen=True, slots=True)
class Limited:
    """Nova's single try at a host of a case that may never end."""

    seconds: float
    ended: bool
    passed: bool = False


@dataclasses.dataclass(slots=True)
class Samples:
    """What one process measured for one case.

    Times are ns for all hosts; each round is a list of its passes, the
    first-seen one first.
    """

    hosts: int
    nova_ns: list[list[int]] = dataclasses.field(default_factory=list)
    ours_ns: list[list[int]] = dataclasses.field(default_factory=list)
    ours_passed: int = 0
    differ: list[str] = dataclasses.field(default_factory=list)
    limited: Limited | None = None


Answer = tuple[str, ...]


def set_up() -> None:
    """Load nova, and what is ours, with logging as in production."""
    warnings.simplefilter('ignore')
    logging.basicConfig(level=logging.INFO, handlers=[logging.NullHandler()])
    import nova.conf
    from nova import objects
    objects.register_all()
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


def _passes(scene: 'scenes.Scene', side: 'scenes.Side',
            states: list['host_manager.HostState'], count: int,
            ) -> tuple[list[int], list[Answer]]:
    """Time a side on the same HostStates several times."""
    times = []
    answers = []
    for _ in range(count):
        elapsed, answer = timed(side, states, scene.request.spec())
        times.append(elapsed)
        answers.append(answer)
        scene.renew(states)
    return times, answers


def _differing(scene: 'scenes.Scene', name: str, answer: Answer,
               other: Answer) -> set[str]:
    """Hosts about which a side's answer is not what it ought to be."""
    if scene.first_tier is None:
        return set(answer) ^ set(other)
    if name == 'ours':
        return set(answer) ^ scene.first_tier
    return set(scene.first_tier.difference(answer))


def measure(case: bars.Case, process: int, plan: Plan) -> Samples:
    """Measure one case in this process."""
    from benchmarks.speed import scenes
    # Let go of the case before, which was kept out of collections.
    gc.unfreeze()
    gc.collect()
    scene = scenes.build(case, process)
    nova, ours = scene.sides()
    sides = {'ours': ours} if case.endless else {'ours': ours, 'nova': nova}
    samples = Samples(len(scene.records))
    is_long = case.whole_request or case.slow
    # Of a slow case the first pass, which is not judged, is warm-up enough.
    warm_up = 0 if case.slow else plan.warm_up
    differ: set[str] = set()
    for number in range(
            warm_up + (plan.few_rounds if is_long else plan.rounds)):
        answers: dict[str, list[Answer]] = {}
        times: dict[str, list[int]] = {}
        order = sorted(sides, reverse=bool(number % 2))
        # All are made before anything is timed: made just before its turn,
        # a side's HostStates would not be as cold as the other's.
        all_states = {name: scene.states() for name in order}
        for name in order:
            times[name], answers[name] = _passes(
                scene, sides[name], all_states[name], plan.passes_of(case))
            for answer in answers[name]:
                differ |= _differing(scene, name, answer,
                                     answers[order[0]][0])
        samples.ours_passed = len(answers['ours'][0])
        if number >= warm_up:
            samples.ours_ns.append(times['ours'])
            if 'nova' in times:
                samples.nova_ns.append(times['nova'])
    samples.differ = sorted(differ)
    if case.endless and not process:
        samples.limited = _try(nova, scene, plan.time_limit)
    return samples


class _TimeIsUp(BaseException):
    """No more CPU time for a try."""


def _try(nova: 'scenes.Side', scene: 'scenes.Scene', seconds: float,
         ) -> Limited:
    """Let nova try one host for so much CPU time."""
    def stop(number: int, frame: object) -> None:
        raise _TimeIsUp

    states, spec = scene.states()[:1], scene.request.spec()
    previous = signal.signal(signal.SIGPROF, stop)
    try:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        elapsed, passed = timed(nova, states, spec)
    except _TimeIsUp:
        return Limited(seconds, False)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
    return Limited(elapsed / 1e9, True, bool(passed))


def measure_all(cases: ty.Sequence[bars.Case], plan: Plan, step: runner.Step,
                ) -> dict[str, list[Samples]]:
    """Measure all cases in several new processes.

    :raises runner.BenchmarkError: if a process dies
    """
    samples: dict[str, list[Samples]] = {case.name: [] for case in cases}
    try:
        for process in range(plan.processes):
            with futures.ProcessPoolExecutor(1, _SPAWN, set_up) as pool:
                for case in cases:
                    samples[case.name].append(pool.submit(
                        measure, case, process, plan).result())
                    step(case.name)
    except futures.BrokenExecutor as error:
        raise runner.BenchmarkError(
            f'a measuring process ended: {error}') from None
    return samples
