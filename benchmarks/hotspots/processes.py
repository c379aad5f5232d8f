# SPDX-License-Identifier: Apache-2.0
"""The processes: one that holds the truth, and the nova-schedulers.

None of them is this one, so nothing here imports nova.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import concurrent.futures
import functools
import logging
import multiprocessing
from multiprocessing import managers
import signal
import traceback
from typing import Any

from benchmarks.hotspots import model
from benchmarks.hotspots import setups
from nova_pinning.bridge import standalone

# A process that is started afresh has a hash seed of its own, by which nova
# puts hosts that weigh the same in another order.
_SPAWN = multiprocessing.get_context('spawn')


class Failed(Exception):
    """A nova-scheduler has failed; with its traceback."""


@functools.cache
def _truth() -> Any:
    """The only one, in the process that holds it."""
    from benchmarks.hotspots import truth
    return truth.Truth()


class _Manager(managers.BaseManager):
    pass


_Manager.register('truth', _truth)


def _prepare() -> None:
    """Set up a new process, before it imports nova."""
    standalone.prepare()
    # As in production, but that nothing is written.
    logging.basicConfig(level=logging.INFO, handlers=[logging.NullHandler()])
    # The one process that an interrupt is for tells the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _take_part(address: Any, run: setups.Run, number: int) -> model.Report:
    try:
        from benchmarks.hotspots import schedulers
        manager = _Manager(address)
        manager.connect()
        return schedulers.take_part(
            manager.truth(), run, number)  # type: ignore[attr-defined]
    except Exception:
        # Exceptions of nova and its libraries do not all survive the way
        # back, and the pool would wait forever.
        raise Failed(traceback.format_exc()) from None


def perform(
    runs: Iterable[setups.Run], processes: int,
) -> Iterator[model.Result]:
    """Do runs, one after the other.

    :param processes: as the scenes of all runs have it
    :raises Failed: if one of them fails
    :raises concurrent.futures.process.BrokenProcessPool: if one dies
    """
    manager = _Manager(ctx=_SPAWN)
    manager.start(_prepare)
    with manager, concurrent.futures.ProcessPoolExecutor(
            processes, _SPAWN, _prepare) as pool:
        truth = manager.truth()  # type: ignore[attr-defined]
        for run in runs:
            truth.begin(run)
            # As many as there are processes, and each waits for all others to
            # begin: each gets one.
            futures = [pool.submit(_take_part, manager.address, run, number)
                       for number in range(processes)]
            try:
                reports = [future.result() for future in
                           concurrent.futures.as_completed(futures)]
            except BaseException:
                truth.abort()
                raise
            yield model.Result(
                run,
                tuple(outcome for report in reports
                      for outcome in report.outcomes),
                tuple(error for report in reports for error in report.errors),
                truth.end())
