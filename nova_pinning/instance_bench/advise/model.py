# SPDX-License-Identifier: Apache-2.0
"""What the advisor is asked, and what it says."""

from collections.abc import Mapping
import dataclasses
import enum

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import published


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


#: What workloads of each class are bound by, if nobody says otherwise.
LOADS: Mapping[bench_model.WorkloadClass, WorkloadBound] = {
    bench_model.WorkloadClass.CPU: WorkloadBound.CPU,
    bench_model.WorkloadClass.MEMORY: WorkloadBound.MEMORY,
    bench_model.WorkloadClass.SYNCHRONISATION: WorkloadBound.LOCK_BOUND,
    bench_model.WorkloadClass.NETWORK: WorkloadBound.NETWORK,
    bench_model.WorkloadClass.DISK: WorkloadBound.DISK,
    bench_model.WorkloadClass.WEB: WorkloadBound.IO,
    bench_model.WorkloadClass.NOSQL: WorkloadBound.VERY_IO,
    bench_model.WorkloadClass.LATENCY: WorkloadBound.LATENCY,
}


class Topic(enum.StrEnum):
    """What is advised on."""

    CLASS = 'class'
    SIZE = 'size'
    FLAVOR = 'flavor'
    EMULATOR = 'emulator'
    MULTIQUEUE = 'multiqueue'
    GAIN = 'gain'
    CAUTION = 'caution'


class AdviceEvidence(enum.StrEnum):
    """What advice rests on, the best first."""

    OWN = 'own results'
    PUBLISHED = 'published'
    #: Published, but taken over from where it was cited.
    CITED = 'cited'
    #: It follows from other advice.
    DERIVED = 'derived'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be run.

    :param workload: its name, '' for any of workload_class
    :param is_steady: that its level has to be the same whatever neighbours do
    """

    workload: str
    workload_class: bench_model.WorkloadClass
    load: WorkloadBound
    platform: bench_model.PlatformName = bench_model.PlatformName.NOVA
    is_steady: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AdvisedValue:
    """What is advised: one of a choice, a range, or words.

    :param choice: 'dedicated', 'shared'; 'share', 'isolate', 'on-vcpus';
        'on', 'off'; '' if it is a range or words
    :param low: of a range, equal to high for one value; None if there is none
    :param unit: of the range: 'CHR', 'vCPU' or '%'
    :param text: words, if it is neither
    """

    choice: str = ''
    low: float | None = None
    high: float | None = None
    unit: str = ''
    text: str = ''

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return self.choice or self.text
        text = f'{self.low:.3g}'
        if self.high != self.low:
            text += f' to {self.high:.3g}'
        return text + ('%' if self.unit == '%' else f' {self.unit}')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AdviceLine:
    """Advice on one topic.

    :param why: a sentence without a full stop
    :param held: the condition under which it was found, '' for what is
        always so
    :param rule: the name of the rule, '' for one's own results and what is
        derived
    :param thin: in what the evidence is thin, in words
    """

    topic: Topic
    value: AdvisedValue
    why: str
    evidence: AdviceEvidence
    held: str = ''
    rule: str = ''
    sources: tuple[published.Publication, ...] = ()
    thin: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """All lines, in the order of Topic.

    :param vcpus: the size, None if it is open, or not known without a host
    :param flavor: the name of the flavor that is nearest, '' if there is none
        or the size is not known
    """

    question: Question
    lines: tuple[AdviceLine, ...]
    vcpus: int | None
    flavor: str

    @property
    def sources(self) -> tuple[published.Publication, ...]:
        """Each once, in the order in which they are first named."""
        return tuple(dict.fromkeys(
            source for line in self.lines for source in line.sources))

    def line(self, topic: Topic) -> AdviceLine:
        """The line of a topic that has one."""
        return next(line for line in self.lines if line.topic is topic)
