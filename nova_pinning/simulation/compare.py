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
import signal
import threading
from typing import Protocol

from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import scheduler_configuration
from nova_pinning.simulation import simulation_run

#: Called with how many more guests have arrived, in any of the runs.
Tell = Callable[[int], None]
#: One of the runs: its seed and its configuration.
StudyCase = tuple[int, scheduler_configuration.SchedulerConfiguration]


class ArrivalSource(Protocol):
    """Where arrivals are from."""

    @property
    def count(self) -> int:
        """Arrivals of each seed."""

    def arrivals(self, seed: int) -> Iterator[arrival_process.Arrival]:
        """Those of one seed."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What is to be run: each configuration with each seed.

    :param configurations: with different names; the first is what the others
        are compared with
    """

    fleet: snapshot.Fleet
    source: ArrivalSource
    configurations: tuple[scheduler_configuration.SchedulerConfiguration, ...]
    seeds: tuple[int, ...]
    plan: simulation_run.RunPlan = simulation_run.RunPlan()

    @property
    def cases(self) -> tuple[StudyCase, ...]:
        """All runs, those of one seed together."""
        return tuple(itertools.product(self.seeds, self.configurations))

    def perform(
        self, case: StudyCase, tell: Tell = lambda arrivals: None,
    ) -> simulation_run.Result:
        """One of the runs."""
        seed, configuration = case
        return simulation_run.run(
            self.fleet, self.source.arrivals(seed), configuration, seed=seed,
            plan=self.plan, tell=tell)


def perform(
    study: Study, *, processes: int = 1, tell: Tell = lambda arrivals: None,
) -> list[simulation_run.Result]:
    """Do all runs; the results are in the order of ``study.cases``.

    They are the same whatever the number of processes.

    :param tell: called now and then; with several processes, after each run
    :raises errors.InputError: if a process is killed by somebody else
    """
    if min(processes, len(study.cases)) < 2:
        return [study.perform(case, tell) for case in study.cases]
    others = set(multiprocessing.active_children())
    pool = concurrent.futures.ProcessPoolExecutor(
        min(processes, len(study.cases)),
        mp_context=multiprocessing.get_context('spawn'),
        initializer=_start, initargs=(study,))
    try:
        futures = [pool.submit(_work, case) for case in study.cases]
        for future in concurrent.futures.as_completed(futures):
            future.result()
            tell(study.source.count)
        return [future.result() for future in futures]
    except process.BrokenProcessPool:
        raise errors.InputError(
            'a process of the simulation was killed', None,
            'it may have had too little memory: allow it fewer CPUs, as with '
            'taskset -c 0,1 before the command') from None
    except BaseException:
        # Nobody wants any more what the others would come to.
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


# In the processes.

#: What is to be run.
_work_on: Study | None = None


def _start(study: Study) -> None:
    global _work_on
    # An interrupt from the terminal is for the first process, which then
    # ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _work_on = study
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
    return _work_on.perform(case)
