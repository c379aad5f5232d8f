# SPDX-License-Identifier: Apache-2.0
"""What every platform offers: instances, and commands that run in them.

A platform is a context manager. What it started, bound or changed is ended
and put back when it is left, whatever happened in between; an instance is
ended by ``Instance.close``, which can be repeated.
"""

from collections.abc import Sequence
import dataclasses
from typing import Protocol
from typing import Self

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import instance_clock


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InstanceCpus:
    """Where on the host an instance's vCPUs run.

    :param vcpus: for each vCPU the host CPUs that it may use: one each if it
        is pinned, the same set for all if they float
    :param emulator: where the other threads of a guest run
    :param network: where its vhost threads run and what its link receives is
        handled, None to leave them where they are
    """

    vcpus: tuple[cpuset.CpuSet, ...]
    emulator: cpuset.CpuSet
    network: cpuset.CpuSet | None = None

    @property
    def are_pinned(self) -> bool:
        """Whether each vCPU has a CPU, and no other vCPU has it."""
        return (len(self.cpus) == len(self.vcpus)
                and all(len(cpus) == 1 for cpus in self.vcpus))

    @property
    def cpus(self) -> cpuset.CpuSet:
        """All CPUs that vCPUs may use."""
        return cpuset.union(self.vcpus)

    @property
    def all_cpus(self) -> cpuset.CpuSet:
        """And those that what serves them may."""
        return self.cpus | self.emulator | (self.network or cpuset.CpuSet())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRequest:
    """An instance to launch.

    :param name: unique among those that run: 'enterprise-0'
    :param instance_cpus: None on a cloud, where nova finds it
    :param workload: what will run, so that its programs are there
    """

    name: str
    tenant: bench_model.Tenant
    instance_cpus: InstanceCpus | None
    workload: bench_model.Workload


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommandOutcome:
    """How a command ended.

    :param status: its exit status; negative for a signal
    """

    status: int
    stdout: str
    stderr: str


class RunningJob(Protocol):
    """A command that is running; what of it still does ends with the instance.
    """

    def poll(self) -> CommandOutcome | None:
        """How it ended, None while it runs; that it ended is told once.

        :raises bench_errors.InstanceError: if the instance does not answer
        """


class Instance(Protocol):
    name: str
    #: CPUs as commands inside see them, in order.
    cpus: cpuset.CpuSet
    #: A directory inside for the programs of this project, and an empty one.
    programs: str
    work: str
    #: An address of the host that commands inside reach, '' if none.
    peer: str

    def start(self, command: str) -> RunningJob:
        """Run a command of /bin/sh inside.

        :raises bench_errors.InstanceError: if it cannot be started
        """

    def affinities(self) -> Sequence[bench_model.Affinity]:
        """Where its threads may run now, as the host's kernel says."""

    def clock(self) -> instance_clock.ClockReading:
        """Its clock and the controller's, the best of a few handshakes.

        ``date`` inside shows the same clock.

        :raises bench_errors.InstanceError: if it does not answer
        """

    def counters(self) -> dict[str, float]:
        """What the kernel has counted of it so far.

        :returns: those of :class:`bench_model.Reading` that can be had
        """

    def close(self) -> None:
        """End it with all that runs in it, and put back what was changed.
        """


class Platform(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(self, *_unused: object) -> None: ...

    def check(self, requests: Sequence[InstanceRequest]) -> None:
        """See that such instances can be obtained, before anything is started.

        :raises nova_pinning.errors.InputError: what is missing and how to
            get it: packages with the line that installs them, permissions,
            a connection, an image
        """

    def launch(self,
               requests: Sequence[InstanceRequest]) -> Sequence[Instance]:
        """Start instances that will run at the same time.

        Returns when each can run commands. If one fails all are ended.

        :raises bench_errors.InstanceError: if one does not come up
        """

    def versions(self) -> dict[str, str]:
        """Versions of what the platform runs on: {'qemu': '7.2.15'}.

        Asked after each launch, since some is known only then. A platform of
        guests says which 'accelerator' they have, 'kvm' or 'tcg'.
        """
