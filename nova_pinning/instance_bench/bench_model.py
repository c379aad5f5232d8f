# SPDX-License-Identifier: Apache-2.0
"""What is measured, where, and what came of it.

A workload is a command and the figures that are read from what it prints. A
case is a set of tenants, each so many equal instances of one size on one
platform that run one workload. An experiment is a list of cases. A
measurement is what one repetition of a case brought.
"""

from collections.abc import Mapping
import dataclasses
import enum

from nova_pinning import cpuset
from nova_pinning.instance_bench import instance_clock
from nova_pinning.model import hostclass

#: What a parameter of a workload's command can be.
Parameter = str | int | float
#: What tells a case from others.
CaseKey = tuple[tuple[str, str], ...]


class WorkloadClass(enum.StrEnum):
    """What of a machine a workload is after."""

    CPU = 'cpu'
    MEMORY = 'memory'
    SYNCHRONISATION = 'synchronisation'
    NETWORK = 'network'
    DISK = 'disk'
    WEB = 'web'
    NOSQL = 'nosql'
    LATENCY = 'latency'


class Better(enum.StrEnum):
    HIGHER = 'higher'
    LOWER = 'lower'


class PlatformName(enum.StrEnum):
    """Where instances run."""

    BARE_METAL = 'bm'
    CONTAINER = 'cn'
    GUEST = 'vm'
    CONTAINER_IN_GUEST = 'vmcn'
    NOVA = 'nova'


class Provisioning(enum.StrEnum):
    #: vCPUs float over all CPUs that instances of their class may use.
    VANILLA = 'vanilla'
    #: Each vCPU has its own host CPU.
    PINNED = 'pinned'


class Role(enum.StrEnum):
    MEASURED = 'measured'
    NEIGHBOUR = 'neighbour'


class EmulatorThreads(enum.StrEnum):
    """Where a guest's emulator threads run: nova's policies, and the worst."""

    SHARE = 'share'
    ISOLATE = 'isolate'
    #: On the CPUs of the guest's own vCPUs: what nova does without a policy.
    VCPUS = 'vcpus'

    @property
    def policy(self) -> str | None:
        """hw:emulator_threads_policy, None for none."""
        return None if self is EmulatorThreads.VCPUS else self.value


class NetworkCpus(enum.StrEnum):
    """Where the interrupts of the peer's link and vhost threads run."""

    #: In the L3 domain of the guest's CPUs, but not on these.
    SAME_CACHE = 'same-cache'
    OTHER_CACHE = 'other-cache'
    VCPUS = 'vcpus'


class NetworkQueues(enum.StrEnum):
    """Pairs of queues of a guest's network interface."""

    ONE = 'one'
    #: One for each vCPU: nova's hw:vif_multiqueue_enabled.
    VCPUS = 'vcpus'


class AgentScheme(enum.StrEnum):
    """What nova-pinning agent does meanwhile for guests of the host."""

    NONE = 'none'
    #: What serves pinned guests runs on CPUs that share their L3.
    STATIC = 'static'
    #: Floating guests, too, are kept in L3 domains of their own.
    DYNAMIC = 'dynamic'
    #: Pinned guests get ways of the L3 for themselves.
    WAYS = 'ways'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFigure:
    """A number that a workload yields.

    :param name: 'events', 'copy', ...; the first of a workload's is the one
        that comparisons are about unless they say otherwise
    :param unit: '1/s', 's', 'MB/s', 'us', ...
    :param pattern: a regular expression with one group, searched for in the
        standard output; the last match counts. None: the figure is the time
        that the command took, by the controller's clock
    :param scale: what the number read is multiplied by
    """

    name: str
    unit: str
    better: Better
    pattern: str | None
    scale: float = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A command that is run in instances.

    Commands are run by /bin/sh and may name parameters in braces: those in
    ``parameters``, and of the instance ``{vcpus}``, ``{cpus}`` (as the
    instance sees them, a kernel list), ``{cpu0}`` and ``{cpu1}`` (the first
    two of these), ``{memory_mib}``, ``{programs}`` (the directory of built
    programs), ``{work}`` (its own directory, empty at the start) and
    ``{peer}`` (an address on the host that a ``peer`` listens on).

    :param about: what it shows, one sentence
    :param programs: executables that the command needs, by name, each with
        the Debian package that has it
    :param packages: further Debian packages of the instance
    :param source: a C program of this project, in ``bench/programs``, that
        ``build`` turns into an executable in ``{programs}``; '' for none
    :param build: command that is run where source is, with {programs} for
        the directory to write to
    :param prepare: commands run once in an instance, before the warm-up
    :param peer: a server that runs on the host while the command does, ''
        for none; ends when it is terminated. It can name parameters,
        ``{vcpus}``, ``{memory_mib}``, ``{peer}`` and ``{sources}`` (the
        directory of this project's programs in source, on the host)
    :param peer_programs: what the peer needs on the host, as ``programs``
    :param command: what is timed
    :param parameters: defaults of what experiments can set
    :param seconds: how long a run takes about, for estimates
    """

    name: str
    workload_class: WorkloadClass
    about: str
    command: str
    figures: tuple[WorkloadFigure, ...]
    programs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    packages: tuple[str, ...] = ()
    source: str = ''
    build: str = ''
    prepare: tuple[str, ...] = ()
    peer: str = ''
    peer_programs: Mapping[str, str] = dataclasses.field(
        default_factory=dict)
    parameters: Mapping[str, Parameter] = dataclasses.field(
        default_factory=dict)
    seconds: float = 30.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSize:
    vcpus: int
    memory_mib: int


#: A CPU weight that is neither heavier nor lighter than others.
USUAL_WEIGHT = 100


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Equal instances with one workload.

    :param name: unique in its case, 'enterprise', 'neighbours', ...
    :param parameters: of the workload, where they differ from its defaults
    :param guest_class: decides which CPUs of the layout instances get
    :param count: how many instances
    :param weight: CPU weight, as nova's quota:cpu_shares
    :param emulator_threads: of a guest; None leaves it to the platform
    :param network_cpus: None leaves interrupts where they are
    :param queues: None leaves them to the platform
    :param agent: None if the case is not about it
    :param flavor: of a server in nova; '' to be found by class and size
    """

    name: str
    role: Role
    workload: str
    platform: PlatformName
    provisioning: Provisioning
    guest_class: hostclass.HostClass
    size: InstanceSize
    count: int = 1
    weight: int = USUAL_WEIGHT
    parameters: Mapping[str, Parameter] = dataclasses.field(
        default_factory=dict)
    emulator_threads: EmulatorThreads | None = None
    network_cpus: NetworkCpus | None = None
    queues: NetworkQueues | None = None
    agent: AgentScheme | None = None
    flavor: str = ''


def case_key(factors: Mapping[str, str]) -> CaseKey:
    """What tells a case from others, whatever the order of its factors."""
    return tuple(sorted(factors.items()))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Tenants that run at the same time.

    :param factors: what tells this case from the others of its experiment, in
        the order of the experiment's axes: {'scenario': 'enterprise alone',
        'workload': 'stream', 'platform': 'vm', 'size': '2', ...}; the values
        are for people. No two cases have the same
    :param skipped: why it cannot be run on this host ('needs 8 CPUs, there
        are 2'), '' if it can
    """

    factors: Mapping[str, str]
    tenants: tuple[Tenant, ...]
    skipped: str = ''

    @property
    def name(self) -> str:
        return ' / '.join(self.factors.values())

    @property
    def key(self) -> CaseKey:
        return case_key(self.factors)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Cases, and how often each is measured.

    :param table: which of the report's tables shows it: 'levels', 'mutex',
        'priority', 'ladder', 'overhead', 'multitask', 'network', 'latency',
        'neighbours', 'mine' or 'self-test'
    :param baseline: the factors of the cases that ratios are reckoned
        against: a case's baseline has these, and is like it in all others
    :param is_race: that instances measured at the same time run their command
        once, each to its end, and that their finish times are what counts;
        otherwise they run it over and over, and only what is done while all
        of them run counts
    :param window_seconds: for how long they do so
    :param warm_ups: runs of a case that are not counted
    :param repetitions: runs of a case that are, on the same instances
    :param rounds: how often all of this is done, each in another order and
        with new instances; intervals are over rounds
    :param settle_seconds: between the start of the neighbours and the first
        run
    """

    name: str
    about: str
    table: str
    cases: tuple[Case, ...]
    baseline: Mapping[str, str]
    is_race: bool = False
    window_seconds: float = 30.0
    seed: int = 1
    warm_ups: int = 1
    repetitions: int = 2
    rounds: int = 5
    settle_seconds: float = 2.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """Where an instance's threads might run, as the kernel said.

    :param thread: 'vCPU 0', 'emulator', 'process 4711 (sysbench)'
    :param asked: where it was to run
    :param seen: where it was allowed to run; empty if it was gone
    """

    thread: str
    asked: cpuset.CpuSet
    seen: cpuset.CpuSet

    @property
    def is_in_force(self) -> bool:
        return bool(self.seen) and self.seen.issubset(self.asked)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one instance brought in one repetition.

    :param instance: its name, 'enterprise-0'
    :param figures: by the name of the figure; of several runs of the command
        the mean, of what is better higher each weighted by how long it took
    :param started: when the instance began, in seconds since the epoch by the
        controller's clock
    :param ended: when it was done; for what ran over and over the end of its
        last run, counted or not
    :param runs: of the command, those that are counted
    :param counters: how much the kernel's counters of the instance went up
        meanwhile: 'run_delay_seconds', that threads of vCPUs waited for a CPU;
        'cpu_seconds', that processes had; 'foreign_seconds', that no instance
        had of the CPUs that they may use, the mean over these
    """

    tenant: str
    instance: str
    command: str
    figures: Mapping[str, float]
    started: float
    ended: float
    runs: int = 1
    counters: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UtilisationSample:
    """What CPUs of the host did since the sample before it.

    :param seconds: since the start of the measurement
    :param busy: the part of the time that each was busy, by its number
    """

    seconds: float
    busy: Mapping[str, float]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One repetition of a case.

    :param factors: of the case
    :param started: seconds since the epoch, to find it in other logs
    :param load: of the host, one minute's, before it started
    :param affinities: of all instances while it ran
    :param counters: of the CPUs that were measured: 'steal_seconds', that
        another guest of the same machine had
    :param utilisation: of the host's CPUs, in order of time
    :param flags: what makes it doubtful, in words: an affinity that was not
        in force, an instance that could not be seen, a clock that went wrong
    """

    factors: Mapping[str, str]
    round: int
    repetition: int
    started: float
    load: float
    readings: tuple[Reading, ...]
    affinities: tuple[Affinity, ...] = ()
    counters: Mapping[str, float] = dataclasses.field(default_factory=dict)
    utilisation: tuple[UtilisationSample, ...] = ()
    flags: tuple[str, ...] = ()

    @property
    def key(self) -> CaseKey:
        """That of its case."""
        return case_key(self.factors)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A case that could not be measured, or not to its end.

    It is tried again when the run is resumed.

    :param factors: of the case
    :param started: seconds since the epoch
    :param message: what went wrong, and what to do about it
    """

    factors: Mapping[str, str]
    round: int
    started: float
    message: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a reader needs to know of the host to trust its figures.

    :param cpu_model: as /proc/cpuinfo has it
    :param topology: '2 sockets, 2 NUMA nodes, 32 cores, 64 CPUs, 8 L3
        domains'
    :param governor: of CPU frequency, '' if the kernel has none
    :param mitigations: by the names under /sys/devices/system/cpu/
        vulnerabilities
    :param smt: 'on', 'off', 'notsupported', ...
    :param layout: CPUs by what they were for: 'dedicated', 'shared', 'host'
    :param versions: of the programs that matter, by name
    :param emulated: that guests ran without hardware virtualisation
    :param findings: of the host check, in words
    :param boot_id: of the kernel, '' if it is not known which boot this was
    """

    cpu_model: str
    topology: str
    cpus: int
    memory_mib: int
    kernel: str
    governor: str
    smt: str
    load: float
    mitigations: Mapping[str, str]
    layout: Mapping[str, cpuset.CpuSet]
    versions: Mapping[str, str]
    virtualised: str = ''
    emulated: bool = False
    findings: tuple[str, ...] = ()
    boot_id: str = ''


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a file of results holds.

    :param workloads: those that the experiment uses, by name
    """

    experiment: Experiment
    workloads: Mapping[str, Workload]
    conditions: tuple[Conditions, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    failures: tuple[Failure, ...] = ()
    clocks: tuple[instance_clock.ClockCheck, ...] = ()
