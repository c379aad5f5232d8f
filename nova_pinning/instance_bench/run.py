# SPDX-License-Identifier: Apache-2.0
"""An experiment being run: what is left of it, case by case.

Whatever ends a run, what platforms started is ended and results so far are in
the file. What fails is one case; others go on.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
from typing import Protocol

from nova_pinning.document import line_log
from nova_pinning.document import schema
from nova_pinning import errors
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import cpu_layout
from nova_pinning.instance_bench import experiment_file
from nova_pinning.instance_bench import instance_clock
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench import results_file
from nova_pinning.instance_bench import run_edges
from nova_pinning.instance_bench import schedule
from nova_pinning.instance_bench import session
from nova_pinning.instance_bench.workloads import programs

_Platforms = Mapping[bench_model.PlatformName, platform_interface.Platform]


class RunWatcher(Protocol):
    """Who is told how a run goes."""

    def begin(self, unit: schedule.CaseRound, seconds_left: float) -> None: ...

    def step(self, text: str) -> None: ...

    def measured(self, measurement: bench_model.Measurement) -> None: ...

    def failed(self, failure: bench_model.Failure) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunTotals:
    """What a run came to.

    :param measured: repetitions
    :param failed: units, each a case in a round
    """

    measured: int
    failed: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentRunner:
    """What runs experiments.

    :param make: a platform by its name
    :param conditions: what the host is like now
    :param deadline_seconds: after which a command has failed
    """

    make: Callable[[bench_model.PlatformName], platform_interface.Platform]
    conditions: Callable[[], bench_model.Conditions]
    edges: run_edges.Edges
    watcher: RunWatcher
    deadline_seconds: float

    def run(self, prepared: experiment_file.Prepared,
            units: Sequence[schedule.CaseRound],
            writer: results_file.ResultsWriter) -> RunTotals:
        """Measure what is left.

        :raises nova_pinning.errors.InputError: if platforms lack something,
            before anything is started, if results cannot be written, or if
            a platform could not put back what it had changed; or if the
            file has results of the host as it was before a change
        """
        if not units:
            return RunTotals(measured=0, failed=0)
        names = sorted(frozenset().union(*(unit.platforms for unit in units)))
        requests = [cpu_layout.requests(unit.case, prepared.layout,
                                        prepared.workloads) for unit in units]
        try:
            with contextlib.ExitStack() as stack:
                platforms = self._enter(names, stack)
                for name in {tenant.workload for unit in units
                             for tenant in unit.case.tenants}:
                    programs.require(
                        f'the peer of workload {name}, on this host,',
                        prepared.workloads[name].peer_programs)
                # Rounds ask for the same again.
                _check(platforms, list({
                    unit.case.name: request for unit, request
                    in zip(units, requests)}.values()))
                # The load is that before anything is started.
                log = _Log(writer, self.conditions(), platforms)
                # What guests run on is dear to ask.
                if writer.before.conditions:
                    results_file.check_same(writer.path, writer.before,
                                            log.now())
                return self._measure(prepared, units, requests, platforms, log)
        except bench_errors.BenchError as error:
            # What goes wrong in a case is a failure: this is a platform's end.
            raise errors.InputError(str(error), advice=error.advice) from error

    def _enter(self, names: Sequence[bench_model.PlatformName],
               stack: contextlib.ExitStack) -> _Platforms:
        """Open platforms, which stay open over the run."""
        platforms = {}
        troubles: dict[str, errors.InputError] = {}
        for name in names:
            with _noting(troubles, name):
                platforms[name] = stack.enter_context(self.make(name))
        schema.raise_all(troubles.values())
        return platforms

    def _measure(
        self, prepared: experiment_file.Prepared,
        units: Sequence[schedule.CaseRound],
        requests: Sequence[Sequence[platform_interface.InstanceRequest]],
        platforms: _Platforms, log: '_Log',
    ) -> RunTotals:
        # Units come in any order: what was done is soon a sample of them all.
        took = expected = 0.0
        measured = failed = 0

        def add(line: bench_model.Measurement
                | instance_clock.ClockCheck) -> None:
            nonlocal measured
            log.add(line)
            if isinstance(line, bench_model.Measurement):
                measured += 1
                self.watcher.measured(line)

        for index, (unit, own) in enumerate(zip(units, requests)):
            log.is_new = True
            self.watcher.begin(unit, sum(
                one.seconds for one in units[index:]) * (
                    took / expected if expected else 1.0))
            started, begun = self.edges.now(), self.edges.monotonic()
            try:
                session.CaseSession(
                    unit=unit, experiment=prepared.experiment,
                    layout=prepared.layout, requests=own, platforms=platforms,
                    edges=self.edges, deadline_seconds=self.deadline_seconds,
                    step=self.watcher.step).measure(add)
            except line_log.LogWriteError:
                raise
            except (bench_errors.BenchError, errors.InputError,
                    errors.CloudError, OSError) as error:
                failed += 1
                failure = bench_model.Failure(
                    factors=unit.case.factors, round=unit.round,
                    started=started, message=_message(error))
                log.add(failure)
                self.watcher.failed(failure)
            else:
                took += self.edges.monotonic() - begun
                expected += unit.seconds
        return RunTotals(measured=measured, failed=failed)


class _Log:
    """Results with the conditions that they were measured in.

    Conditions go before the first result, and again before one for which
    platforms tell of more versions, since some know these only when they have
    launched something.

    :ivar is_new: that there are new instances since the last result
    """

    def __init__(self, writer: results_file.ResultsWriter,
                 conditions: bench_model.Conditions,
                 platforms: _Platforms) -> None:
        self._writer = writer
        self._conditions = conditions
        self._platforms = platforms
        self._told: bench_model.Conditions | None = None
        self.is_new = True

    def add(self, line: bench_model.Measurement | instance_clock.ClockCheck
            | bench_model.Failure) -> None:
        if self.is_new and (now := self.now()) != self._told:
            results_file.check_same(self._writer.path, self._writer.before,
                                    now)
            self._writer.add(now)
            self._told = now
        self.is_new = False
        self._writer.add(line)

    def now(self) -> bench_model.Conditions:
        versions = dict(self._conditions.versions)
        for platform in self._platforms.values():
            versions |= platform.versions()
        # Hosts of a cloud are not asked, and may be others than this one.
        boot_id = ('' if bench_model.PlatformName.NOVA in self._platforms
                   else self._conditions.boot_id)
        return dataclasses.replace(
            self._conditions, versions=versions, boot_id=boot_id,
            emulated=versions.get('accelerator') == 'tcg')


def _check(
        platforms: _Platforms,
        requests: Sequence[Sequence[platform_interface.InstanceRequest]]
) -> None:
    """See that all instances can be obtained.

    :raises nova_pinning.errors.InputError: all that is missing
    """
    troubles: dict[str, errors.InputError] = {}
    for own in requests:
        for name, platform in platforms.items():
            here = [request for request in own
                    if request.tenant.platform is name]
            if here:
                with _noting(troubles, name):
                    platform.check(here)
    schema.raise_all(troubles.values())


@contextlib.contextmanager
def _noting(troubles: dict[str, errors.InputError],
            name: bench_model.PlatformName) -> Iterator[None]:
    """Note what is wrong with a platform, each trouble once."""
    try:
        yield
    except errors.InputErrors as error:
        troubles |= {str(problem): problem for problem in error.errors}
    except errors.InputError as error:
        troubles[str(error)] = error
    except (bench_errors.BenchError, errors.CloudError) as error:
        told = errors.InputError(
            f'platform {name}: {error}', advice=getattr(error, 'advice', ''))
        troubles[str(told)] = told


def _message(error: Exception) -> str:
    advice = getattr(error, 'advice', '')
    if isinstance(error, bench_errors.BenchError) and advice:
        return f'{error}; {advice}'
    return str(error)
