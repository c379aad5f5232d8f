# SPDX-License-Identifier: Apache-2.0
"""One case, measured on one set of instances."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import itertools
import shlex
from typing import Protocol

from nova_pinning.host import words
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import cpu_layout
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench import schedule
from nova_pinning.instance_bench.workloads import command
from nova_pinning.instance_bench.workloads import figures

#: Between two looks at a command: this part of the time it has run, so that
#: looking neither disturbs what runs for long nor is late for what does not.
_LOOK_PART = 0.01
_LEAST_LOOK_SECONDS = 0.05
_MOST_LOOK_SECONDS = 0.5
#: How much longer is slept than a look takes: one at a guest's agent costs
#: time of a CPU, which others have to do without.
_LOOK_REST = 4
_MOST_REST_SECONDS = 2.0
#: When affinities are looked at first; each look is twice as late as the one
#: before it.
_FIRST_AFFINITY_SECONDS = 0.1
_MOST_SAID = 500

# Runs until its command fails, and then says why.
_LOOP = """while {{
{command}
}} >/dev/null 2>{said}; do :; done
tail -c {most} {said} >&2
exit 1"""


class CheckedPeer(Protocol):
    def check(self) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """What a run needs of the world.

    :param monotonic: a clock in seconds, as ``time.monotonic``
    :param now: seconds since the epoch
    :param load: of the host, one minute's
    :param peer: runs a command of the shell on the host
    """

    monotonic: Callable[[], float]
    now: Callable[[], float]
    sleep: Callable[[float], None]
    load: Callable[[], float]
    peer: Callable[[str], contextlib.AbstractContextManager[CheckedPeer]]


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


def requests(case: bench_model.Case, layout: cpu_layout.CpuLayout,
             workloads: Mapping[str, bench_model.Workload],
             ) -> tuple[platform_interface.InstanceRequest, ...]:
    """The instances of a case.

    :raises errors.BenchError: if there is no room for them
    """
    cpus_of = cpu_layout.instance_cpus(layout, [
        tenant for tenant in case.tenants
        if tenant.platform is not bench_model.PlatformName.NOVA])
    return tuple(
        platform_interface.InstanceRequest(
            name=f'{tenant.name}-{number}', tenant=tenant,
            instance_cpus=(cpus_of[tenant.name][number]
                           if tenant.name in cpus_of else None),
            workload=workloads[tenant.workload])
        for tenant in case.tenants for number in range(tenant.count))


class CaseSession:
    """A case being measured.

    :param platforms: entered, by name
    :param deadline_seconds: after which a command has failed
    :param step: told what is being done, in words
    """

    def __init__(
        self, unit: schedule.CaseRound, experiment: bench_model.Experiment,
        requests: Sequence[platform_interface.InstanceRequest],
        platforms: Mapping[bench_model.PlatformName,
                           platform_interface.Platform],
        edges: Edges, deadline_seconds: float, step: Callable[[str], None],
    ) -> None:
        self._unit = unit
        self._experiment = experiment
        self._requests = requests
        self._platforms = platforms
        self._edges = edges
        self._deadline_seconds = deadline_seconds
        self._step = step
        self._troubles: list[BaseException] = []

    def measure(self, add: Callable[[bench_model.Measurement], None]) -> None:
        """Launch, prepare, warm up and measure; all is ended at the end.

        :param add: given each measurement as it is made
        :raises errors.BenchError: if it cannot be measured, or to its end;
            what platforms raise otherwise is not caught
        """
        with contextlib.ExitStack() as stack:
            members = self._launch(stack)
            measured = [member for member in members
                        if member.tenant.role is bench_model.Role.MEASURED]
            neighbours = [member for member in members
                          if member.tenant.role is bench_model.Role.NEIGHBOUR]
            self._step('preparing')
            self._prepare(members)
            peers = self._peers(members, stack)
            loops = self._start_neighbours(neighbours, stack)
            if peers or loops:
                self._edges.sleep(self._experiment.settle_seconds)

            def check() -> None:
                for peer in peers:
                    peer.check()
                _check_loops(loops)

            check()
            for number in range(1, self._experiment.warm_ups + 1):
                self._step(f'warm-up {number}')
                self._run(measured, ())
                check()
            for repetition in self._unit.repetitions:
                self._step(f'repetition {repetition}')
                measurement = self._repetition(repetition, measured, members)
                # One without its neighbours is not what was asked for.
                check()
                add(measurement)
        if self._troubles:
            raise bench_errors.InstanceError(
                f'instances could not be ended cleanly: {self._troubles[0]}',
                'see what is left of them')

    def _launch(self, stack: contextlib.ExitStack) -> list[_Member]:
        """Start all instances, platform by platform."""
        members = []
        for name in sorted(self._unit.platforms):
            own = [request for request in self._requests
                   if request.tenant.platform is name]
            self._step(f'starting {words.count(len(own), "instance")} on '
                       f'{name}')
            instances = self._platforms[name].launch(own)
            for instance in instances:
                stack.callback(self._ending, instance.close)
            members += [
                _Member(instance, request.tenant, request.workload)
                for instance, request in zip(instances, own)]
        return members

    def _ending(self, end: Callable[[], None]) -> None:
        """End something; that this fails must not keep others from it."""
        try:
            end()
        except (bench_errors.BenchError, OSError) as error:
            self._troubles.append(error)

    def _prepare(self, members: Sequence[_Member]) -> None:
        """Run the commands that go first, in all instances at once."""
        for commands in itertools.zip_longest(
                *(member.workload.prepare for member in members)):
            self._run_all([(member, text) for member, text
                           in zip(members, commands) if text], ())

    def _peers(self, members: Sequence[_Member],
               stack: contextlib.ExitStack) -> list[CheckedPeer]:
        """One for each command; several instances may share one."""
        commands = dict.fromkeys(
            member.fill(member.workload.peer) for member in members
            if member.workload.peer)
        return [stack.enter_context(self._edges.peer(text))
                for text in commands]

    def _start_neighbours(
        self, neighbours: Sequence[_Member], stack: contextlib.ExitStack,
    ) -> list[tuple[str, platform_interface.RunningJob]]:
        loops = []
        for neighbour in neighbours:
            self._step('starting the load of neighbours')
            job = neighbour.instance.start(
                _LOOP.format(
                    command=neighbour.fill(neighbour.workload.command),
                    most=_MOST_SAID,
                    said=shlex.quote(f'{neighbour.instance.work}/neighbour')))
            stack.callback(self._ending, job.stop)
            loops.append((neighbour.instance.name, job))
        return loops

    def _repetition(self, number: int, measured: Sequence[_Member],
                    members: Sequence[_Member]) -> bench_model.Measurement:
        started, load = self._edges.now(), self._edges.load()
        readings, seen = self._run(measured, members)
        affinities = seen.affinities
        return bench_model.Measurement(
            factors=self._unit.case.factors, round=self._unit.round,
            repetition=number, started=started, load=load, readings=readings,
            affinities=affinities, flags=tuple(_flags(
                readings, affinities,
                [member.instance.name for member in members])))

    def _run(self, measured: Sequence[_Member], watched: Sequence[_Member],
             ) -> tuple[tuple[bench_model.Reading, ...], '_SeenAffinities']:
        """Run the workload once, in all instances at once."""
        outcomes, seen = self._run_all(
            [(member, member.workload.command) for member in measured],
            watched)
        return tuple(itertools.starmap(_reading, outcomes)), seen

    def _run_all(
        self, commands: Sequence[tuple[_Member, str]],
        watched: Sequence[_Member],
    ) -> tuple[list[tuple[_Member, str, platform_interface.CommandOutcome]],
               '_SeenAffinities']:
        """Run commands at the same time, until all have ended.

        :param watched: whose affinities are looked at meanwhile
        """
        texts = [(member, member.fill(text)) for member, text in commands]
        seen = _SeenAffinities()
        with contextlib.ExitStack() as stack:
            jobs = []
            for member, text in texts:
                job = member.instance.start(text)
                stack.callback(self._ending, job.stop)
                jobs.append(job)
            outcomes = self._wait(texts, jobs, watched, seen)
        return [(member, text, outcome) for (member, text), outcome
                in zip(texts, outcomes)], seen

    def _wait(
        self, texts: Sequence[tuple[_Member, str]],
        jobs: Sequence[platform_interface.RunningJob],
        watched: Sequence[_Member], seen: '_SeenAffinities',
    ) -> list[platform_interface.CommandOutcome]:
        edges = self._edges
        begun = edges.monotonic()
        next_look = _FIRST_AFFINITY_SECONDS
        ended: dict[int, platform_interface.CommandOutcome] = {}
        while True:
            looked = edges.monotonic()
            for index, job in enumerate(jobs):
                if index not in ended:
                    outcome = job.poll()
                    if outcome is not None:
                        _check_status(*texts[index], outcome)
                        ended[index] = outcome
            if len(ended) == len(jobs):
                return [ended[index] for index in range(len(jobs))]
            now = edges.monotonic()
            passed = now - begun
            if passed > self._deadline_seconds:
                late = next(index for index in range(len(jobs))
                            if index not in ended)
                raise bench_errors.WorkloadError(
                    f'{texts[late][0].instance.name}: {texts[late][1]!r} has '
                    f'not ended after {self._deadline_seconds:g} s',
                    'give it less to do, or more time with --deadline')
            if watched and passed >= next_look:
                next_look = 2 * passed
                for instance in (member.instance for member in watched):
                    seen.add(instance.name, instance.affinities())
            pause = min(max(passed * _LOOK_PART, _LEAST_LOOK_SECONDS),
                        _MOST_LOOK_SECONDS)
            edges.sleep(max(pause, min(_LOOK_REST * (now - looked),
                                       _MOST_REST_SECONDS)))


class _SeenAffinities:
    """Affinities as several looks have found them: the widest of each."""

    def __init__(self) -> None:
        self._affinities: dict[str, bench_model.Affinity] = {}

    def add(self, instance: str,
            affinities: Sequence[bench_model.Affinity]) -> None:
        for affinity in affinities:
            # What has ended meanwhile is nowhere.
            if not affinity.seen:
                continue
            name = f'{instance}: {affinity.thread}'
            before = self._affinities.get(name)
            self._affinities[name] = dataclasses.replace(
                affinity, thread=name,
                seen=affinity.seen | before.seen if before else affinity.seen)

    @property
    def affinities(self) -> tuple[bench_model.Affinity, ...]:
        return tuple(self._affinities.values())


def _flags(readings: Sequence[bench_model.Reading],
           affinities: Sequence[bench_model.Affinity],
           instances: Sequence[str]) -> Iterator[str]:
    """What makes a measurement doubtful."""
    for reading in readings:
        if not reading.clocks_agree:
            yield (f'{reading.instance}: the command took '
                   f'{reading.outside_seconds:.3f} s outside and '
                   f'{reading.inside_seconds:.3f} s by the clock of the '
                   'instance')
    for affinity in affinities:
        if not affinity.is_in_force:
            yield (f'{affinity.thread} might run on CPUs {affinity.seen} and '
                   f'not on {affinity.asked} only')
    known = {affinity.thread.partition(': ')[0] for affinity in affinities}
    for name in instances:
        if name not in known:
            yield f'{name}: where it ran could not be seen'


def _reading(
        member: _Member, text: str,
        outcome: platform_interface.CommandOutcome) -> bench_model.Reading:
    """:raises errors.WorkloadError: if there is no figure in it"""
    return bench_model.Reading(
        tenant=member.tenant.name, instance=member.instance.name,
        command=text, figures=figures.read(
            member.workload, outcome.stdout, outcome.outside_seconds),
        outside_seconds=outcome.outside_seconds,
        inside_seconds=outcome.inside_seconds,
        tolerance_seconds=outcome.tolerance_seconds)


def _check_status(member: _Member, text: str,
                  outcome: platform_interface.CommandOutcome) -> None:
    if outcome.status:
        raise bench_errors.WorkloadError(
            f'{member.instance.name}: {text!r} ended with status '
            f'{outcome.status}: {_said(outcome)}')


def _check_loops(
        loops: Sequence[tuple[str, platform_interface.RunningJob]]) -> None:
    """See that the load of all neighbours still runs."""
    for name, job in loops:
        outcome = job.poll()
        if outcome is not None:
            raise bench_errors.WorkloadError(
                f'the load of neighbour {name} has ended, status '
                f'{outcome.status}: {_said(outcome)}')


def _said(outcome: platform_interface.CommandOutcome) -> str:
    text = outcome.stderr.strip() or outcome.stdout.strip()
    return ' '.join(text[-_MOST_SAID:].split()) or 'it said nothing'
