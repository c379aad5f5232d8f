# SPDX-License-Identifier: Apache-2.0
"""What advice is asked for, and what it is."""

from collections.abc import Mapping
import dataclasses
import enum
import math
from typing import Any

from nova_pinning.host import host_model
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import published

#: What is advised on, in this order: the key of its rules, for people.
TOPICS: Mapping[str, str] = {
    'class': 'class', 'size': 'size', 'emulator': 'emulator threads',
    'multiqueue': 'multi-queue', 'pages': 'memory pages',
    'cells': 'NUMA cells', 'threads': 'thread policy',
    'realtime': 'realtime'}


class WorkloadBound(enum.StrEnum):
    """What a workload is bound by."""

    CPU = 'cpu'
    MEMORY = 'memory'
    #: Threads that contend for one lock.
    LOCK_BOUND = 'lock-bound'
    DISK = 'disk'
    #: Requests over the network, with disks behind them.
    IO = 'io'
    #: The same, with little else to do.
    VERY_IO = 'very-io'
    NETWORK = 'network'
    LATENCY = 'latency'


_LOADS = {
    bench_model.WorkloadClass.SYNCHRONISATION: WorkloadBound.LOCK_BOUND,
    bench_model.WorkloadClass.WEB: WorkloadBound.IO,
    bench_model.WorkloadClass.NOSQL: WorkloadBound.VERY_IO}


def usual_load(workload_class: bench_model.WorkloadClass) -> WorkloadBound:
    """What workloads of a class are bound by, if nobody says otherwise.

    Most classes are called by it.
    """
    return _LOADS.get(workload_class) or WorkloadBound(workload_class.value)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KnownWorkload:
    """What people ask about, and what is published of pinning it.

    :param also: other names of it
    :param figure: what pinning or isolation brought, '' if nobody has
        published that
    :param says: what its vendor or a measurement says, '' if nothing is known
    :param sources: keys of publications
    """

    name: str = ''
    also: tuple[str, ...] = ()
    workload_class: bench_model.WorkloadClass
    load: WorkloadBound
    figure: str = ''
    says: str = ''
    sources: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be run.

    :param workload: its name, '' for any of workload_class
    :param known: what is published of it, None if it is not in the table
    :param is_steady: that its level has to be the same whatever neighbours do
    :param host: that it is to run on, taken to be empty; None for any
    """

    workload: str = ''
    workload_class: bench_model.WorkloadClass
    load: WorkloadBound
    known: KnownWorkload | None = None
    platform: bench_model.PlatformName = bench_model.PlatformName.NOVA
    is_steady: bool = False
    host: host_model.HostDescription | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AdviceLine:
    """The answer on one topic, or a rule that gives it.

    :param when: what the question, the host or an earlier answer has to be
    :param answers: each of which does, the best first; empty for sizes
    :param otherwise: what is worse, and will do where no flavor has better;
        of a size so many vCPUs
    :param low: of a size, None if that is open
    :param high: None if there is no upper bound
    :param unit: of a size: 'vCPU', or 'CHR' if that takes a host to tell
    :param strength: 'own results', or that of the rule
    :param holds: where that was found, or what it does not cover
    :param sources: keys of publications
    :param remark: what else there is to be said
    """

    topic: str = ''
    when: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    answers: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    unit: str = 'vCPU'
    why: str
    strength: str
    holds: str = ''
    sources: tuple[str, ...] = ()
    remark: str = ''

    def __str__(self) -> str:
        text = self._best()
        return (f'{text}, otherwise {" or ".join(self.otherwise)}'
                if self.otherwise else text)

    def _best(self) -> str:
        if self.topic != 'size':
            return ' or '.join(self.answers)
        if self.low is None:
            return 'as large as it needs'
        text = f'{self.low:g}'
        if self.high is None:
            text += ' or more'
        elif self.high > self.low:
            text += f' to {self.high:g}'
        unit = self.unit
        if unit == 'vCPU' and (self.low, self.high) != (1, 1):
            unit = 'vCPUs'
        return f'{text} {unit}'

    def takes(self, value: str | float) -> bool:
        """Whether a flavor with this value agrees."""
        if str(value) in self.otherwise:
            return True
        if isinstance(value, str):
            return value in self.answers
        return self.low is None or self.unit == 'CHR' or (
            self.low <= value <= (self.high or math.inf))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Answers in the order of TOPICS, and the flavors that agree with all.

    :param flavors: names, the best first
    :param why: what is to be said of them; of a container nothing
    """

    question: Question
    lines: tuple[AdviceLine, ...]
    flavors: tuple[str, ...] = ()
    why: str = ''

    @property
    def sources(self) -> dict[str, published.Publication]:
        """Each once, in the order in which they are first named."""
        known = self.question.known
        return {key: published.sources()[key]
                for line in (*([known] if known else ()), *self.lines)
                for key in line.sources}
