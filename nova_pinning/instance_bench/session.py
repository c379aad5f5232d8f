# SPDX-License-Identifier: Apache-2.0
"""One case, measured on one set of instances."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import functools
import itertools
import shlex

from nova_pinning import cpuset
from nova_pinning.host import words
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import case_watch
from nova_pinning.instance_bench import cpu_layout
from nova_pinning.instance_bench import instance_clock
from nova_pinning.instance_bench import kernel_counters
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench import run_edges
from nova_pinning.instance_bench import schedule
from nova_pinning.instance_bench import timed_runs
from nova_pinning.instance_bench.workloads import command

#: Between two looks at a command: this part of the time it has run, so that
#: looking neither disturbs what runs for long nor is late for what does not.
_LOOK_PART = 0.01
_LEAST_LOOK_SECONDS = 0.05
_MOST_LOOK_SECONDS = 0.5
#: How much longer is slept than a look takes: one at a guest's agent costs
#: time of a CPU, which others have to do without.
_LOOK_REST = 4
_MOST_REST_SECONDS = 2.0
# What has interrupts of its own, which are not told from those of others.
_INTERRUPTED = {
    bench_model.WorkloadClass.NETWORK, bench_model.WorkloadClass.DISK,
    bench_model.WorkloadClass.WEB, bench_model.WorkloadClass.NOSQL}
# What starting a command takes beside what the way there and back does.
_LEAD_SECONDS = 0.02
_MOST_SAID = 500

# Runs until its command fails, and then says why.
_LOOP = """while (
{command}
) >/dev/null 2>{said}; do :; done
tail -c {most} {said} >&2
exit 1"""


@dataclasses.dataclass(frozen=True, slots=True)
class _Member:
    """An instance with what runs in it."""

    instance: platform_interface.Instance
    tenant: bench_model.Tenant
    workload: bench_model.Workload

    def fill(self, text: str) -> str:
        return command.fill(
            text, command.merge(self.workload, self.tenant.parameters),
            command.InstanceValues.of(self.instance, self.tenant.size))


@dataclasses.dataclass(frozen=True, slots=True)
class _Command:
    """A command for an instance.

    :param script: what is run in its place so that it is timed, '' for itself
    """

    member: _Member
    text: str
    script: str = ''

    def __str__(self) -> str:
        return f'{self.member.instance.name}: {self.text!r}'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CaseSession:
    """A case being measured.

    :param platforms: entered, by name
    :param deadline_seconds: after which a command has failed
    :param step: told what is being done, in words
    """

    unit: schedule.CaseRound
    experiment: bench_model.Experiment
    layout: cpu_layout.CpuLayout
    requests: Sequence[platform_interface.InstanceRequest]
    platforms: Mapping[bench_model.PlatformName, platform_interface.Platform]
    edges: run_edges.Edges
    deadline_seconds: float
    step: Callable[[str], None]

    def measure(self, add: Callable[[
            bench_model.Measurement | instance_clock.ClockCheck], None],
    ) -> None:
        """Launch, prepare, warm up and measure; all is ended at the end.

        :param add: given each measurement as it is made, and at the end what
            became of each instance's clock
        :raises bench_errors.BenchError: if it cannot be measured, or to its
            end; what platforms raise otherwise is not caught
        """
        troubles: list[Exception] = []
        with contextlib.ExitStack() as stack:
            members = self._launch(stack, troubles)
            measured = [member for member in members
                        if member.tenant.role is bench_model.Role.MEASURED]
            self.step('preparing')
            self._prepare(members)
            checks = [*self._peers(members, stack),
                      *self._start_neighbours(members)]
            if checks:
                self.edges.sleep(self.experiment.settle_seconds)
            _check_all(checks)
            first = clocks = _clocks(measured)
            for number in range(1, self.experiment.warm_ups + 1):
                self.step(f'warm-up {number}')
                self._run_all([_Command(member, member.fill(
                    member.workload.command)) for member in measured])
                _check_all(checks)
                clocks = _clocks(measured)
            for repetition in self.unit.repetitions:
                self.step(f'repetition {repetition}')
                measurement, clocks = self._repetition(
                    repetition, measured, members, clocks)
                # One without its neighbours is not what was asked for.
                _check_all(checks)
                add(measurement)
            for member, before, after in zip(measured, first, clocks):
                add(instance_clock.ClockCheck(
                    factors=self.unit.case.factors, round=self.unit.round,
                    instance=member.instance.name, first=before, last=after))
        if troubles:
            raise bench_errors.InstanceError(
                f'instances could not be ended cleanly: {troubles[0]}',
                'see what is left of them')

    def _launch(self, stack: contextlib.ExitStack,
                troubles: list[Exception]) -> list[_Member]:
        """Start all instances, platform by platform.

        :param troubles: is told of those that cannot be ended, which must not
            keep others from it
        """
        members = []
        for name in sorted(self.unit.platforms):
            own = [request for request in self.requests
                   if request.tenant.platform is name]
            self.step(f'starting {words.count(len(own), "instance")} on '
                      f'{name}')
            instances = self.platforms[name].launch(own)
            for instance in instances:
                stack.callback(_end, instance, troubles)
            members += [
                _Member(instance, request.tenant, request.workload)
                for instance, request in zip(instances, own)]
        return members

    def _prepare(self, members: Sequence[_Member]) -> None:
        """Run the commands that go first, in all instances at once."""
        for commands in itertools.zip_longest(
                *(member.workload.prepare for member in members)):
            self._run_all([_Command(member, member.fill(text)) for member, text
                           in zip(members, commands) if text])

    def _peers(self, members: Sequence[_Member],
               stack: contextlib.ExitStack) -> list[run_edges.Check]:
        """One for each command; several instances may share one."""
        commands = dict.fromkeys(
            member.fill(member.workload.peer) for member in members
            if member.workload.peer)
        return [stack.enter_context(self.edges.peer(
            text, self._spare or self.layout.cpus)) for text in commands]

    def _start_neighbours(
            self, members: Sequence[_Member]) -> list[run_edges.Check]:
        """Start the load of those that are not measured."""
        checks: list[run_edges.Check] = []
        for member in members:
            if member.tenant.role is bench_model.Role.NEIGHBOUR:
                self.step('starting the load of neighbours')
                job = member.instance.start(_LOOP.format(
                    command=member.fill(member.workload.command),
                    most=_MOST_SAID,
                    said=shlex.quote(f'{member.instance.work}/neighbour')))
                checks.append(functools.partial(
                    _check_loop, member.instance.name, job))
        return checks

    def _repetition(
        self, number: int, measured: Sequence[_Member],
        members: Sequence[_Member],
        clocks: Sequence[instance_clock.ClockReading],
    ) -> tuple[bench_model.Measurement, list[instance_clock.ClockReading]]:
        """A measurement, and handshakes after it.

        :param clocks: handshakes before it
        """
        started, load = self.edges.now(), self.edges.load()
        counted = members if self._are_processes else measured
        before = [member.instance.counters() for member in counted]
        stolen = self.edges.steal(self._cpus)
        outcomes, watch = self._run_all(self._timed(measured, clocks), members)
        stolen = kernel_counters.difference(
            stolen, self.edges.steal(self._cpus))
        busy = watch.busy_seconds()
        counters = {
            member.instance.name: kernel_counters.difference(
                earlier, member.instance.counters())
            for member, earlier in zip(counted, before)}
        for name, foreign in self._foreign(busy, counters).items():
            counters[name]['foreign_seconds'] = foreign
        clocks_after = _clocks(measured)
        lines = [timed_runs.ClockLine(*pair)
                 for pair in zip(clocks, clocks_after)]
        readings = self._readings(measured, outcomes, lines, counters)
        return bench_model.Measurement(
            factors=self.unit.case.factors, round=self.unit.round,
            repetition=number, started=started, load=load, readings=readings,
            affinities=watch.affinities,
            counters=stolen, utilisation=tuple(watch.utilisation), flags=(
                *watch.flags(), *self._peer_flags(members),
                *(f'{member.instance.name}: {line.doubt}' for member, line
                  in zip(measured, lines) if line.doubt))), clocks_after

    def _foreign(
        self, busy: Mapping[int, float],
        counters: Mapping[str, Mapping[str, float]],
    ) -> Mapping[str, float]:
        """What others took of the CPUs of instances, if that can be told.

        Where instances leave no CPU the controller and peers are on theirs.
        """
        if not (self._spare and self._are_processes):
            return {}
        return kernel_counters.foreign_seconds(busy, {
            request.name: (request.instance_cpus.cpus,
                           counters[request.name]['cpu_seconds'])
            for request in self.requests if request.instance_cpus})

    @property
    def _are_processes(self) -> bool:
        """Whether this host knows all CPU time that instances take."""
        return self.unit.platforms <= {bench_model.PlatformName.BARE_METAL,
                                       bench_model.PlatformName.CONTAINER}

    def _peer_flags(self, members: Sequence[_Member]) -> Iterator[str]:
        if not self._spare and any(member.workload.peer for member in members):
            yield (f'the peer on the host may have run on CPUs '
                   f'{self.layout.cpus}, which are those of instances')

    @property
    def _spare(self) -> cpuset.CpuSet:
        """CPUs of the host that instances leave."""
        return cpu_layout.spare(self.layout, self._places)

    @property
    def _cpus(self) -> cpuset.CpuSet:
        """Those of the host that instances run on."""
        return cpuset.union(place.cpus for place in self._places)

    @property
    def _places(self) -> list[platform_interface.InstanceCpus]:
        return [request.instance_cpus for request in self.requests
                if request.instance_cpus is not None]

    def _timed(
        self, measured: Sequence[_Member],
        clocks: Sequence[instance_clock.ClockReading],
    ) -> list[_Command]:
        """What each instance is to run; several begin at the same time."""
        seconds = start = 0.0
        if len(measured) > 1:
            start = self.edges.now() + sum(
                _LEAD_SECONDS + 4 * clock.uncertainty for clock in clocks)
            if not self.experiment.is_race:
                seconds = self.experiment.window_seconds
        return [_Command(member, text, timed_runs.script(
            text, seconds=seconds, start=start + clock.offset))
            for member, clock in zip(measured, clocks)
            if (text := member.fill(member.workload.command))]

    def _readings(
        self, measured: Sequence[_Member],
        outcomes: Sequence[platform_interface.CommandOutcome],
        clocks: Sequence[timed_runs.ClockLine],
        counters: Mapping[str, Mapping[str, float]],
    ) -> tuple[bench_model.Reading, ...]:
        """:raises bench_errors.WorkloadError: if a figure or time lacks"""
        every = {}
        for member, outcome, clock in zip(measured, outcomes, clocks):
            with _naming(member):
                every[member.instance.name] = timed_runs.by_controller(
                    timed_runs.parse(outcome.stdout), clock)
        counted = timed_runs.counted(every, self.experiment.is_race)
        readings = []
        for member in measured:
            name = member.instance.name
            with _naming(member):
                figures = timed_runs.mean_figures(member.workload,
                                                  counted[name])
            readings.append(bench_model.Reading(
                tenant=member.tenant.name, instance=name,
                command=member.fill(member.workload.command),
                figures=figures, started=every[name][0].started,
                ended=every[name][-1].ended, runs=len(counted[name]),
                counters=counters[name]))
        return tuple(readings)

    def _run_all(
        self, commands: Sequence[_Command], watched: Sequence[_Member] = (),
    ) -> tuple[list[platform_interface.CommandOutcome], case_watch.CaseWatch]:
        """Run commands at the same time, until all have ended.

        :param watched: what is looked at meanwhile
        """
        jobs = [one.member.instance.start(one.script or one.text)
                for one in commands]
        # What it has started by now is as it was without this.
        with self.edges.bind(self._spare):
            watch = case_watch.CaseWatch(
                self.edges, [member.instance for member in watched],
                not _INTERRUPTED.isdisjoint(
                    member.workload.workload_class for member in watched))
            return self._wait(commands, jobs, watch), watch

    def _wait(
        self, commands: Sequence[_Command],
        jobs: Sequence[platform_interface.RunningJob],
        watch: case_watch.CaseWatch,
    ) -> list[platform_interface.CommandOutcome]:
        edges = self.edges
        begun = edges.monotonic()
        outcomes: list[platform_interface.CommandOutcome | None] = [
            None for _job in jobs]
        while True:
            looked = edges.monotonic()
            outcomes = [outcome or job.poll()
                        for outcome, job in zip(outcomes, jobs)]
            ended = [outcome for outcome in outcomes if outcome]
            for one, outcome in zip(commands, outcomes):
                if outcome and outcome.status:
                    raise bench_errors.WorkloadError(
                        f'{one} ended with status {outcome.status}: '
                        f'{_said(outcome)}')
            if len(ended) == len(jobs):
                return ended
            now = edges.monotonic()
            passed = now - begun
            if passed > self.deadline_seconds:
                raise bench_errors.WorkloadError(
                    f'{commands[outcomes.index(None)]} has not ended after '
                    f'{self.deadline_seconds:g} s',
                    'give it less to do, or more time with --deadline')
            watch.look()
            pause = min(max(passed * _LOOK_PART, _LEAST_LOOK_SECONDS),
                        _MOST_LOOK_SECONDS)
            edges.sleep(max(pause, min(_LOOK_REST * (now - looked),
                                       _MOST_REST_SECONDS)))


def _clocks(members: Sequence[_Member]) -> list[instance_clock.ClockReading]:
    return [member.instance.clock() for member in members]


@contextlib.contextmanager
def _naming(member: _Member) -> Iterator[None]:
    """Say in errors which instance they are about."""
    try:
        yield
    except bench_errors.WorkloadError as error:
        raise bench_errors.WorkloadError(
            f'{member.instance.name}: {error}', error.advice) from None


def _check_all(checks: Sequence[run_edges.Check]) -> None:
    for check in checks:
        check()


def _check_loop(name: str, job: platform_interface.RunningJob) -> None:
    """See that the load of a neighbour still runs."""
    outcome = job.poll()
    if outcome is not None:
        raise bench_errors.WorkloadError(
            f'the load of neighbour {name} has ended, status '
            f'{outcome.status}: {_said(outcome)}')


def _end(instance: platform_interface.Instance,
         troubles: list[Exception]) -> None:
    try:
        instance.close()
    except (bench_errors.BenchError, OSError) as error:
        troubles.append(error)


def _said(outcome: platform_interface.CommandOutcome) -> str:
    text = outcome.stderr.strip() or timed_runs.without_times(outcome.stdout)
    return ' '.join(text[-_MOST_SAID:].split()) or 'it said nothing'
