# SPDX-License-Identifier: Apache-2.0
"""Runs under several configurations and seeds, side by side."""

from collections.abc import Callable
from collections.abc import Iterator
import concurrent.futures
from concurrent.futures import process
import dataclasses
import itertools
import multiprocessing
import os
import queue
import signal
import threading
from typing import Any
from typing import NamedTuple
from typing import Protocol

from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import scheduler_configuration
from nova_pinning.simulation import simulation_run

#: Called with how many more guests have arrived, in any of the runs.
Tell = Callable[[int], None]

_POLL_SECONDS = 0.1


class ArrivalSource(Protocol):
    """Where arrivals are from."""

    @property
    def count(self) -> int:
        """Arrivals of each seed."""

    def arrivals(self, seed: int) -> Iterator[arrival_process.Arrival]:
        """Those of one seed."""


class StudyCase(NamedTuple):
    """One of the runs.

    :param configuration: its name
    """

    configuration: str
    seed: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What is to be run: each configuration with each seed.

    :param configurations: with different names; the first is what the others
        are compared with
    :param is_fast: by the engine alone, else by nova's own classes
    """

    fleet: snapshot.Fleet
    source: ArrivalSource
    configurations: tuple[scheduler_configuration.SchedulerConfiguration, ...]
    seeds: tuple[int, ...]
    plan: simulation_run.RunPlan = simulation_run.RunPlan()
    is_fast: bool = True

    @property
    def cases(self) -> tuple[StudyCase, ...]:
        """All runs, those of one seed together."""
        return tuple(
            StudyCase(configuration.name, seed)
            for seed, configuration in itertools.product(
                self.seeds, self.configurations))

    def perform(
        self, case: StudyCase, tell: Tell = lambda arrivals: None,
    ) -> simulation_run.Result:
        """One of the runs."""
        configuration = next(
            configuration for configuration in self.configurations
            if configuration.name == case.configuration)
        return simulation_run.run(
            self.fleet, self.source.arrivals(case.seed), configuration,
            seed=case.seed, plan=self.plan,
            factory=None if self.is_fast else _factory(), tell=tell)


def _factory() -> simulation_run.Factory:
    from nova_pinning.bridge.offline import standalone
    standalone.prepare()
    from nova_pinning.simulation import nova_replay
    return nova_replay.NovaReplay


def perform(
    study: Study, *, processes: int = 1, tell: Tell = lambda arrivals: None,
) -> list[simulation_run.Result]:
    """Do all runs; the results are in the order of ``study.cases``.

    They are the same whatever the number of processes.

    :param tell: called in this process, now and then
    :raises errors.InputError: if a process is killed by somebody else
    """
    if min(processes, len(study.cases)) < 2:
        return [study.perform(case, tell) for case in study.cases]
    context = multiprocessing.get_context('spawn')
    # How far the processes are comes through here.
    channel: Any = context.Queue()
    stopping = context.Event()
    pool = concurrent.futures.ProcessPoolExecutor(
        min(processes, len(study.cases)), mp_context=context,
        initializer=_start, initargs=(study, channel, stopping))
    try:
        futures = [pool.submit(_work, case) for case in study.cases]
        waiting = set(futures)
        while waiting:
            _drain(channel, tell)
            done = {future for future in waiting if future.done()}
            for future in done:
                future.result()
            waiting -= done
        _drain(channel, tell)
        return [future.result() for future in futures]
    except process.BrokenProcessPool:
        raise errors.InputError(
            'a process of the simulation was killed', None,
            'it may have had too little memory: give --processes a smaller '
            'number') from None
    finally:
        stopping.set()
        pool.shutdown(cancel_futures=True)
        channel.close()


def _drain(channel: Any, tell: Tell) -> None:
    """Hand on what has come, waiting a moment for it."""
    try:
        while True:
            tell(channel.get(timeout=_POLL_SECONDS))
    except queue.Empty:
        return


# In the processes.

class _StoppedError(Exception):
    """The process is to end."""


#: What is to be run, where decisions go, and what tells to stop.
_work_on: tuple[Study, Any, Any] | None = None


def _start(study: Study, channel: Any, stopping: Any) -> None:
    global _work_on
    # An interrupt from the terminal is for the first process, which then
    # tells this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What nobody reads any more must not keep this process from its end.
    channel.cancel_join_thread()
    _work_on = study, channel, stopping
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process, whatever it does, if the first one is killed.

    It would wait for more work forever.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(case: StudyCase) -> simulation_run.Result:
    assert _work_on is not None
    study, channel, stopping = _work_on

    def tell(arrivals: int) -> None:
        if stopping.is_set():
            raise _StoppedError
        channel.put(arrivals)

    return study.perform(case, tell)
