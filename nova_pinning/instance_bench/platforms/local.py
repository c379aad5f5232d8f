# SPDX-License-Identifier: Apache-2.0
"""What platforms have in common whose instances are processes of this host."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import pathlib
import subprocess
import time

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host.check import processes
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import instance_clock
from nova_pinning.instance_bench import kernel_counters
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import holder
from nova_pinning.instance_bench.platforms import polling
from nova_pinning.instance_bench.platforms import process
from nova_pinning.instance_bench.platforms import remote
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.instance_bench.workloads import programs
from nova_pinning.instance_bench import workspace

_SETTLED_SECONDS = 0.1
_ANSWER_SECONDS = 30.0
_END_SECONDS = 10.0


class LocalInstance:
    """An instance all of whose processes are in one PID namespace.

    :param cpus: where its processes may run
    :param directory: its own, with ``work`` in it
    :param root: what that directory is inside
    :param programs_directory: inside
    :param keeper: a command that makes it, with process.KEEPER as its first
        process, and ends with it; it writes the host's id of that process
        into pid_file()
    :raises bench_errors.InstanceError: if it does not come up
    """

    peer = '127.0.0.1'
    #: What to put before a command so that it runs inside.
    _enter: Sequence[str]

    def __init__(self, *, name: str, cpus: cpuset.CpuSet,
                 directory: pathlib.Path, root: str,
                 programs_directory: str, keeper: Sequence[str]) -> None:
        self.name = name
        self.cpus = cpus
        self.programs = programs_directory
        self.work = f'{root}/work'
        self._directory = directory
        self._tree = machine_files.Tree()
        self._jobs: list[process.ProcessJob] = []
        self._keeper = subprocess.Popen(
            keeper, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, errors='replace',
            start_new_session=True)
        try:
            self._pid = self._await_first()
        except BaseException:
            self._keeper.kill()
            self._keeper.communicate()
            raise

    def _await_first(self) -> int:
        """The instance's first process, by the host's ids."""
        for _look in polling.looks(_ANSWER_SECONDS, 0.01):
            with contextlib.suppress(OSError, ValueError):
                return int(pid_file(self._directory).read_text())
            if self._keeper.poll() is not None:
                break
        self._keeper.kill()
        _stdout, said = self._keeper.communicate()
        raise bench_errors.InstanceError(
            f'{self.name} does not start: '
            f'{self._reason(said) or "it does not say why"}')

    @staticmethod
    def _reason(said: str) -> str:
        """What the keeper gives as the reason why it has failed."""
        return said.strip()

    def _first(self) -> int:
        """The first process; 0 if it has ended."""
        return self._pid if self._keeper.poll() is None else 0

    def _end(self) -> None:
        """End all that runs inside, if anything does.

        The kernel ends a namespace with its first process, and tells of the
        end of that when all others have ended: see ``zap_pid_ns_processes``
        in kernel/pid_namespace.c.
        """
        try:
            self._keeper.communicate(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.communicate()
            raise bench_errors.InstanceError(
                f'process {self._pid} does not end',
                'kill it by hand') from None

    def start(self, command: str) -> process.ProcessJob:
        job = process.ProcessJob(
            enter=self._enter, command=command, work=self.work,
            directory=self._directory)
        self._jobs.append(job)
        return job

    def affinities(self) -> Sequence[bench_model.Affinity]:
        affinities = self._affinities()
        if not all(affinity.is_in_force for affinity in affinities):
            # What is just getting inside is not yet where it will be.
            time.sleep(_SETTLED_SECONDS)
            affinities = self._affinities()
        return affinities

    def clock(self) -> instance_clock.ClockReading:
        """One clock, asked once: time namespaces leave this one alone.

        See time_namespaces(7); it is what ``date`` shows.
        """
        now = time.time()
        return instance_clock.ClockReading(before=now, inside=now, after=now)

    def counters(self) -> dict[str, float]:
        # What a job has started has its own way in for a parent.
        return {'cpu_seconds': kernel_counters.cpu_seconds(
            self._tree, self._members()) + sum(
                job.cpu_seconds for job in self._jobs)}

    def close(self) -> None:
        # Each of these is done, whatever becomes of the others; the last
        # comes first.
        with contextlib.ExitStack() as stack:
            stack.callback(workspace.remove, self._directory)
            for job in self._jobs:
                stack.callback(job.forget)
            stack.callback(self._end)
        self._jobs.clear()

    def settle(self) -> None:
        """Wait until it runs commands.

        :raises bench_errors.InstanceError: if it does not
        """
        outcome = remote.wait(self.start(':'), _ANSWER_SECONDS,
                              f'{self.name} does not run commands')
        if outcome.status:
            raise bench_errors.InstanceError(
                f'{self.name} does not run commands: '
                f'{outcome.stderr.strip() or outcome.status}')

    def _affinities(self) -> tuple[bench_model.Affinity, ...]:
        return tuple(affinities_of(self._tree, self._members(), self.cpus))

    def _members(self) -> Sequence[int]:
        first = self._first()
        return process.members(self._tree, first) if first else ()


class LocalPlatform(holder.Holder):
    """Starts instances, and keeps their files; nothing has to be set."""

    #: What helps where none can be started.
    advice: str

    def __init__(self, _how: settings.PlatformSettings) -> None:
        super().__init__()
        self._packages: frozenset[str] = frozenset()
        self._tried = cpuset.CpuSet()

    def check(self,
              requests: Sequence[platform_interface.InstanceRequest]) -> None:
        for workload in {request.workload.name: request.workload
                         for request in requests}.values():
            programs.require(f'workload {workload.name}', workload.programs,
                             process.environment('/')['PATH'])
            programs.require_builder(workload)
            self._packages |= programs.packages(workload)
        self._try(requests)

    def _try(self,
             requests: Sequence[platform_interface.InstanceRequest]) -> None:
        """See that an instance starts, and gets all CPUs that these have.

        The kernel leaves out, and says nothing of, those that the control
        group of this process has not.
        """
        cpus = cpuset.union(request.instance_cpus.cpus for request in requests
                            if request.instance_cpus)
        if cpus.issubset(self._tried):
            return
        try:
            trial, = self.launch([dataclasses.replace(
                requests[0], name='a trial',
                instance_cpus=platform_interface.InstanceCpus(
                    vcpus=(cpus,), emulator=cpus))])
            with contextlib.closing(trial):
                seen = cpuset.union(
                    affinity.seen for affinity in trial.affinities())
        except bench_errors.BenchError as error:
            raise errors.InputError(
                str(error), None, error.advice or self.advice) from None
        if seen != cpus:
            raise errors.InputError(
                f'a trial got CPUs {seen} instead of {cpus}: the others are '
                'not in the control group (cpuset) of this process', None,
                'run it outside of containers and of services that are '
                'confined to some CPUs')
        self._tried |= cpus

    def launch(
        self, requests: Sequence[platform_interface.InstanceRequest],
    ) -> Sequence[platform_interface.Instance]:
        with contextlib.ExitStack() as stack:
            started = []
            for request in requests:
                assert request.instance_cpus is not None
                try:
                    started.append(self._start(
                        request, request.instance_cpus.cpus,
                        *self._prepared(request)))
                except OSError as error:
                    raise bench_errors.InstanceError(
                        f'{request.name} has no files: {error}',
                        'check the disk that '
                        f'{workspace.PARENT} is on') from None
                stack.callback(started[-1].close)
                started[-1].settle()
            stack.pop_all()
        self._instances += started
        return started

    def versions(self) -> dict[str, str]:
        return programs.versions(self._packages)

    def _start(self, request: platform_interface.InstanceRequest,
               cpus: cpuset.CpuSet, directory: pathlib.Path,
               built: pathlib.Path) -> LocalInstance:
        """:param built: the directory of its programs"""
        raise NotImplementedError

    def _prepared(
        self, request: platform_interface.InstanceRequest,
    ) -> tuple[pathlib.Path, pathlib.Path]:
        """The directory of an instance, and that of its programs.

        They are built once for all that run a workload.
        """
        directory = self._directory / str(next(self._numbers))
        (directory / 'work').mkdir(parents=True)
        built = self._directory / '.programs' / request.workload.name
        built.mkdir(parents=True, exist_ok=True)
        if not any(built.iterdir()):
            programs.build(request.workload, built)
        return directory, built


def pid_file(directory: pathlib.Path) -> pathlib.Path:
    """Where an instance's keeper writes the id of its first process."""
    return directory / 'pid'


def affinities_of(
        tree: machine_files.Tree, pids: Iterable[int],
        expected_cpus: cpuset.CpuSet) -> Iterator[bench_model.Affinity]:
    """One for each process, and for all of its threads.

    :param pids: those that have ended are left out
    :param expected_cpus: where all of them were to run
    """
    for pid in pids:
        threads = tuple(processes.threads(tree, pid))
        if threads:
            name = tree.text(f'/proc/{pid}/comm') or threads[0].name
            yield bench_model.Affinity(
                thread=f'process {pid} ({name})', asked=expected_cpus,
                seen=cpuset.union(thread.cpus for thread in threads))
