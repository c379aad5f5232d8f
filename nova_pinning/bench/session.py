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

from nova_pinning.bench import errors
from nova_pinning.bench import layout as bench_layout
from nova_pinning.bench import model
from nova_pinning.bench.platforms import base
from nova_pinning.bench import schedule
from nova_pinning.bench.workloads import command
from nova_pinning.bench.workloads import figures
from nova_pinning.host import words

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


class Peer(Protocol):
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
    peer: Callable[[str], contextlib.AbstractContextManager[Peer]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Member:
    """An instance with what runs in it."""

    instance: base.Instance
    tenant: model.Tenant
    workload: model.Workload

    def fill(self, text: str) -> str:
        return command.fill(
            text, command.merge(self.workload, self.tenant.parameters),
            command.Values.of(self.instance, self.tenant.size))


def requests(case: model.Case, layout: bench_layout.Layout,
             workloads: Mapping[str, model.Workload],
             ) -> tuple[base.Request, ...]:
    """The instances of a case.

    :raises errors.BenchError: if there is no room for them
    """
    places = bench_layout.places(layout, [
        tenant for tenant in case.tenants
        if tenant.platform is not model.PlatformName.NOVA])
    return tuple(
        base.Request(
            name=f'{tenant.name}-{number}', tenant=tenant,
            place=places[tenant.name][number] if tenant.name in places
            else None,
            workload=workloads[tenant.workload])
        for tenant in case.tenants for number in range(tenant.count))


class Session:
    """A case being measured.

    :param platforms: entered, by name
    :param deadline_seconds: after which a command has failed
    :param step: told what is being done, in words
    """

    def __init__(
        self, unit: schedule.Unit, experiment: model.Experiment,
        wanted: Sequence[base.Request],
        platforms: Mapping[model.PlatformName, base.Platform],
        edges: Edges, deadline_seconds: float, step: Callable[[str], None],
    ) -> None:
        self._unit = unit
        self._experiment = experiment
        self._wanted = wanted
        self._platforms = platforms
        self._edges = edges
        self._deadline_seconds = deadline_seconds
        self._step = step
        self._troubles: list[BaseException] = []

    def measure(self, add: Callable[[model.Measurement], None]) -> None:
        """Launch, prepare, warm up and measure; all is ended at the end.

        :param add: given each measurement as it is made
        :raises errors.BenchError: if it cannot be measured, or to its end;
            what platforms raise otherwise is not caught
        """
        with contextlib.ExitStack() as stack:
            members = self._launch(stack)
            measured = [one for one in members
                        if one.tenant.role is model.Role.MEASURED]
            neighbours = [one for one in members
                          if one.tenant.role is model.Role.NEIGHBOUR]
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
                found = self._repetition(repetition, measured, members)
                # One without its neighbours is not what was asked for.
                check()
                add(found)
        if self._troubles:
            raise errors.InstanceError(
                f'instances were not ended as they should: '
                f'{self._troubles[0]}', 'see what is left of them')

    def _launch(self, stack: contextlib.ExitStack) -> list[_Member]:
        """Start all instances, platform by platform."""
        found = []
        for name in sorted(self._unit.platforms):
            wanted = [one for one in self._wanted
                      if one.tenant.platform is name]
            self._step(f'starting {words.count(len(wanted), "instance")} on '
                       f'{name}')
            instances = self._platforms[name].launch(wanted)
            for instance in instances:
                stack.callback(self._ending, instance.close)
            found += [
                _Member(instance, request.tenant, request.workload)
                for instance, request in zip(instances, wanted)]
        return found

    def _ending(self, end: Callable[[], None]) -> None:
        """End something; that this fails must not keep others from it."""
        try:
            end()
        except (errors.BenchError, OSError) as error:
            self._troubles.append(error)

    def _prepare(self, members: Sequence[_Member]) -> None:
        """Run the commands that go first, in all instances at once."""
        for commands in itertools.zip_longest(
                *(one.workload.prepare for one in members)):
            self._run_all([(member, text) for member, text
                           in zip(members, commands) if text], ())

    def _peers(self, members: Sequence[_Member],
               stack: contextlib.ExitStack) -> list[Peer]:
        """One for each command; several instances may share one."""
        commands = dict.fromkeys(
            one.fill(one.workload.peer) for one in members
            if one.workload.peer)
        return [stack.enter_context(self._edges.peer(text))
                for text in commands]

    def _start_neighbours(
        self, neighbours: Sequence[_Member], stack: contextlib.ExitStack,
    ) -> list[tuple[str, base.Job]]:
        found = []
        for one in neighbours:
            self._step('starting the load of neighbours')
            job = one.instance.start(_LOOP.format(
                command=one.fill(one.workload.command), most=_MOST_SAID,
                said=shlex.quote(f'{one.instance.work}/neighbour')))
            stack.callback(self._ending, job.stop)
            found.append((one.instance.name, job))
        return found

    def _repetition(self, number: int, measured: Sequence[_Member],
                    members: Sequence[_Member]) -> model.Measurement:
        started, load = self._edges.now(), self._edges.load()
        readings, seen = self._run(measured, members)
        affinities = seen.affinities
        return model.Measurement(
            factors=self._unit.case.factors, round=self._unit.round,
            repetition=number, started=started, load=load, readings=readings,
            affinities=affinities, flags=tuple(_flags(
                readings, affinities,
                [one.instance.name for one in members])))

    def _run(self, measured: Sequence[_Member], watched: Sequence[_Member],
             ) -> tuple[tuple[model.Reading, ...], '_Seen']:
        """Run the workload once, in all instances at once."""
        outcomes, seen = self._run_all(
            [(one, one.workload.command) for one in measured], watched)
        return tuple(itertools.starmap(_reading, outcomes)), seen

    def _run_all(
        self, wanted: Sequence[tuple[_Member, str]],
        watched: Sequence[_Member],
    ) -> tuple[list[tuple[_Member, str, base.Outcome]], '_Seen']:
        """Run commands at the same time, until all have ended.

        :param watched: whose affinities are looked at meanwhile
        """
        texts = [(member, member.fill(text)) for member, text in wanted]
        seen = _Seen()
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
        self, texts: Sequence[tuple[_Member, str]], jobs: Sequence[base.Job],
        watched: Sequence[_Member], seen: '_Seen',
    ) -> list[base.Outcome]:
        edges = self._edges
        begun = edges.monotonic()
        next_look = _FIRST_AFFINITY_SECONDS
        ended: dict[int, base.Outcome] = {}
        while True:
            looked = edges.monotonic()
            for place, job in enumerate(jobs):
                if place not in ended:
                    outcome = job.poll()
                    if outcome is not None:
                        _check_status(*texts[place], outcome)
                        ended[place] = outcome
            if len(ended) == len(jobs):
                return [ended[place] for place in range(len(jobs))]
            now = edges.monotonic()
            passed = now - begun
            if passed > self._deadline_seconds:
                late = next(place for place in range(len(jobs))
                            if place not in ended)
                raise errors.WorkloadError(
                    f'{texts[late][0].instance.name}: {texts[late][1]!r} has '
                    f'not ended after {self._deadline_seconds:g} s',
                    'give it less to do, or more time with --deadline')
            if watched and passed >= next_look:
                next_look = 2 * passed
                for one in watched:
                    seen.add(one.instance.name, one.instance.affinities())
            pause = min(max(passed * _LOOK_PART, _LEAST_LOOK_SECONDS),
                        _MOST_LOOK_SECONDS)
            edges.sleep(max(pause, min(_LOOK_REST * (now - looked),
                                       _MOST_REST_SECONDS)))


class _Seen:
    """Affinities as several looks have found them: the widest of each."""

    def __init__(self) -> None:
        self._found: dict[str, model.Affinity] = {}

    def add(self, instance: str, found: Sequence[model.Affinity]) -> None:
        for one in found:
            # What has ended meanwhile is nowhere.
            if not one.seen:
                continue
            name = f'{instance}: {one.thread}'
            before = self._found.get(name)
            self._found[name] = dataclasses.replace(
                one, thread=name,
                seen=one.seen | before.seen if before else one.seen)

    @property
    def affinities(self) -> tuple[model.Affinity, ...]:
        return tuple(self._found.values())


def _flags(readings: Sequence[model.Reading],
           affinities: Sequence[model.Affinity],
           instances: Sequence[str]) -> Iterator[str]:
    """What makes a measurement doubtful."""
    for reading in readings:
        if not reading.clocks_agree:
            yield (f'{reading.instance}: the command took '
                   f'{reading.outside_seconds:.3f} s outside and '
                   f'{reading.inside_seconds:.3f} s by the clock of the '
                   'instance')
    for one in affinities:
        if not one.is_in_force:
            yield (f'{one.thread} might run on CPUs {one.seen} and not on '
                   f'{one.asked} only')
    known = {one.thread.partition(': ')[0] for one in affinities}
    for name in instances:
        if name not in known:
            yield f'{name}: where it ran could not be seen'


def _reading(member: _Member, text: str,
             outcome: base.Outcome) -> model.Reading:
    """:raises errors.WorkloadError: if there is no figure in it"""
    return model.Reading(
        tenant=member.tenant.name, instance=member.instance.name,
        command=text, figures=figures.read(
            member.workload, outcome.stdout, outcome.outside_seconds),
        outside_seconds=outcome.outside_seconds,
        inside_seconds=outcome.inside_seconds,
        tolerance_seconds=outcome.tolerance_seconds)


def _check_status(member: _Member, text: str, outcome: base.Outcome) -> None:
    if outcome.status:
        raise errors.WorkloadError(
            f'{member.instance.name}: {text!r} ended with status '
            f'{outcome.status}: {_said(outcome)}')


def _check_loops(loops: Sequence[tuple[str, base.Job]]) -> None:
    """See that the load of all neighbours still runs."""
    for name, job in loops:
        outcome = job.poll()
        if outcome is not None:
            raise errors.WorkloadError(
                f'the load of neighbour {name} has ended, status '
                f'{outcome.status}: {_said(outcome)}')


def _said(outcome: base.Outcome) -> str:
    text = outcome.stderr.strip() or outcome.stdout.strip()
    return ' '.join(text[-_MOST_SAID:].split()) or 'it said nothing'
