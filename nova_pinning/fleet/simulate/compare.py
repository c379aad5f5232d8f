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

"""Runs under several configurations and seeds, side by side."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import concurrent.futures
from concurrent.futures import process
import dataclasses
import functools
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
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet.simulate import arrivals as arrivals_module
from nova_pinning.fleet.simulate import configuration as configurations
from nova_pinning.fleet.simulate import run

#: Called with a run and further decisions of it.
Decided = Callable[['Case', Sequence[int]], None]

_POLL_SECONDS = 0.1


class Source(Protocol):
    """Where arrivals are from."""

    @property
    def count(self) -> int:
        """Arrivals of each seed."""

    def arrivals(self, seed: int) -> Iterator[arrivals_module.Arrival]:
        """Those of one seed."""


class Case(NamedTuple):
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

    fleet: fleet_model.Fleet
    source: Source
    configurations: tuple[configurations.Configuration, ...]
    seeds: tuple[int, ...]
    plan: run.Plan = run.Plan()
    is_fast: bool = True

    @property
    def cases(self) -> tuple[Case, ...]:
        """All runs, those of one seed together."""
        return tuple(
            Case(one.name, seed) for seed, one in itertools.product(
                self.seeds, self.configurations))

    def perform(
        self, case: Case, known: Sequence[int] = (),
        decided: Callable[[list[int]], None] | None = None,
    ) -> run.Result:
        """One of the runs.

        :param known: what was decided of it before
        """
        configuration = next(one for one in self.configurations
                             if one.name == case.configuration)
        return run.run(
            self.fleet, self.source.arrivals(case.seed), configuration,
            seed=case.seed, plan=self.plan,
            factory=None if self.is_fast else _factory(), known=known,
            decided=decided)


def _factory() -> run.Factory:
    from nova_pinning.bridge import standalone
    standalone.prepare()
    from nova_pinning.scheduler import replay
    return replay.Replay


def perform(
    study: Study, *,
    processes: int = 1,
    known: Mapping[Case, Sequence[int]] | None = None,
    decided: Decided | None = None,
) -> list[run.Result]:
    """Do all runs; the results are in the order of ``study.cases``.

    They are the same whatever the number of processes.

    :param known: what was decided before, of runs that were broken off
    :param decided: called in this process, now and then
    :raises InputError: if a process is killed by somebody else
    """
    known, decided = known or {}, decided or _ignore
    if min(processes, len(study.cases)) < 2:
        return [
            study.perform(case, known.get(case, ()), _new_only(
                len(known.get(case, ())), functools.partial(decided, case)))
            for case in study.cases]
    return _perform_apart(study, processes, known, decided)


def _new_only(
    known: int, decided: Callable[[list[int]], None],
) -> Callable[[list[int]], None]:
    """A ``decided`` that leaves out the first ones, which are known."""
    left = known

    def new_only(decisions: list[int]) -> None:
        nonlocal left
        new = decisions[left:]
        left = max(0, left - len(decisions))
        decided(new)

    return new_only


def _ignore(_case: Case, _decisions: Sequence[int]) -> None:
    pass


def _perform_apart(
    study: Study, processes: int, known: Mapping[Case, Sequence[int]],
    decided: Decided,
) -> list[run.Result]:
    context = multiprocessing.get_context('spawn')
    # What the processes have decided comes through here.
    channel: Any = context.Queue()
    stopping = context.Event()
    pool = concurrent.futures.ProcessPoolExecutor(
        min(processes, len(study.cases)), mp_context=context,
        initializer=_start, initargs=(study, channel, stopping))
    try:
        futures = [
            pool.submit(_work, case, tuple(known.get(case, ())))
            for case in study.cases]
        waiting = set(futures)
        while waiting:
            _drain(channel, decided)
            done = {one for one in waiting if one.done()}
            for one in done:
                one.result()
            waiting -= done
        _drain(channel, decided)
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


def _drain(channel: Any, decided: Decided) -> None:
    """Hand on what has come, waiting a moment for it."""
    try:
        while True:
            decided(*channel.get(timeout=_POLL_SECONDS))
    except queue.Empty:
        return


# In the processes.

class _StoppedError(Exception):
    """The process is to end."""


@dataclasses.dataclass(slots=True)
class _Worker:

    study: Study
    channel: Any
    stopping: Any


_worker: _Worker | None = None


def _start(study: Study, channel: Any, stopping: Any) -> None:
    global _worker
    # An interrupt from the terminal is for the first process, which then
    # tells this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What nobody reads any more must not keep this process from its end.
    channel.cancel_join_thread()
    _worker = _Worker(study, channel, stopping)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process, whatever it does, if the first one is killed.

    It would wait for more work for ever.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(case: Case, known: tuple[int, ...]) -> run.Result:
    assert _worker is not None
    worker = _worker

    def decided(decisions: list[int]) -> None:
        if worker.stopping.is_set():
            raise _StoppedError
        worker.channel.put((case, decisions))

    return worker.study.perform(case, known, _new_only(len(known), decided))
