# SPDX-License-Identifier: Apache-2.0
"""Advice: rules, what one's own results make of them, and the flavor.

A flavor is named only if it agrees with all answers, so that these and it
cannot contradict each other. All of it is a function of what it is given.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import enum
import functools
from importlib import resources
import math
from typing import Any

from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning.flavors.checks import checked
from nova_pinning.flavors import flavor_model
from nova_pinning.host import engine
from nova_pinning.host import host_model
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench import published
from nova_pinning.instance_bench import statistics
from nova_pinning import model
from nova_pinning.model import hostclass

#: What is advised on, in this order: the key of its rules, for people.
TOPICS: Mapping[str, str] = {
    'class': 'class', 'size': 'size', 'emulator': 'emulator threads',
    'multiqueue': 'multi-queue', 'pages': 'memory pages',
    'cells': 'NUMA cells', 'threads': 'thread policy',
    'realtime': 'realtime'}
OWN = 'own results'
#: A gain of less is not worth a CPU of one's own.
WORTH = 0.02
#: Overhead that nobody minds, beyond that of the best size.
_HARDLY = 0.05
#: Of two densities of vCPUs, the larger by the smaller, that count as one.
_ALIKE = 1.25
_GUESTS = frozenset((bench_model.PlatformName.GUEST,
                     bench_model.PlatformName.NOVA))
#: What is compared for a topic: what tenants differ in, and the answers.
_COMPARED: Mapping[str, tuple[str, Mapping[Any, str]]] = {
    'class': ('provisioning', {
        bench_model.Provisioning.PINNED: 'dedicated',
        bench_model.Provisioning.VANILLA: 'shared'}),
    'emulator': ('emulator_threads', {
        bench_model.EmulatorThreads.SHARE: 'share',
        bench_model.EmulatorThreads.ISOLATE: 'isolate',
        bench_model.EmulatorThreads.VCPUS: 'on-vcpus'}),
    # The same threads on so many CPUs.
    'size': ('workload', {'mutex-up': '1', 'mutex-smp': '2'})}
_SMALL_PAGES = frozenset(('', 'small', '4', '4kb', '4kib'))
# Above rounding: 0.14 of 50 CPUs is 7, not a bit more.
_ROUNDING = 1e-9


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
    bench_model.WorkloadClass.SYNCHRONISATION: WorkloadBound.LOCK_BOUND,
    bench_model.WorkloadClass.WEB: WorkloadBound.IO,
    bench_model.WorkloadClass.NOSQL: WorkloadBound.VERY_IO,
    bench_model.WorkloadClass.CPU: WorkloadBound.CPU,
    bench_model.WorkloadClass.MEMORY: WorkloadBound.MEMORY,
    bench_model.WorkloadClass.NETWORK: WorkloadBound.NETWORK,
    bench_model.WorkloadClass.DISK: WorkloadBound.DISK,
    bench_model.WorkloadClass.LATENCY: WorkloadBound.LATENCY}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be run.

    :param workload: its name, '' for any of workload_class
    :param is_steady: that its level has to be the same whatever neighbours do
    :param host: that it is to run on, taken to be empty; None for any
    """

    workload: str = ''
    workload_class: bench_model.WorkloadClass
    load: WorkloadBound
    platform: bench_model.PlatformName = bench_model.PlatformName.NOVA
    is_steady: bool = False
    host: host_model.HostDescription | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AdviceLine:
    """The answer on one topic.

    :param answers: each of which does, the best first; empty for sizes
    :param low: of a size, None if that is open
    :param high: None if there is no upper bound
    :param unit: of a size: 'vCPU', or 'CHR' if that takes a host to tell
    :param strength: 'own results', or that of the rule
    :param holds: where that was found, or what it does not cover
    :param remark: what else there is to be said
    """

    topic: str
    answers: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    unit: str = 'vCPU'
    why: str
    strength: str
    holds: str = ''
    sources: tuple[published.Publication, ...] = ()
    remark: str = ''

    def __str__(self) -> str:
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
    def sources(self) -> tuple[published.Publication, ...]:
        """Each once, in the order in which they are first named."""
        return tuple(dict.fromkeys(
            each for line in self.lines for each in line.sources))


@functools.cache
def shipped() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The rules of the project by topic, as in their file."""
    text = resources.files(__package__).joinpath('rules.yaml').read_text(
        'utf-8')
    return read(source.parse(text, 'rules.yaml'))


def read(
    document: source.YamlDocument,
) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The rules of a document.

    :raises nova_pinning.errors.InputError: for what the schema forbids, or a
        source that is not there
    """
    schema.validate(document, schema.shipped(__package__, 'rules-1.json'))
    rules: dict[str, list[dict[str, Any]]] = document.value['rules']
    known = published.sources()
    for topic, of_topic in rules.items():
        for index, rule in enumerate(of_topic):
            for number, key in enumerate(rule['sources']):
                if key not in known:
                    raise document.error(
                        f'there is no source called {key}',
                        ('rules', topic, index, 'sources', number),
                        schema.nearest(key, known))
    return rules


def advise(
    question: Question, *, flavors: Sequence[flavor_model.Flavor] = (),
    summaries: Sequence[statistics.RunSummary] = (),
    refusals: Callable[[Sequence[flavor_model.Flavor]], Mapping[str, str]]
    = lambda flavors: {},
) -> Advice:
    """What to run a workload on.

    :param flavors: to choose from
    :param summaries: of one's own results, which override rules where their
        intervals decide
    :param refusals: why flavors do not go on the host, by their names; those
        that do are left out
    """
    host = question.host
    facts = {'workload': question.workload, 'load': str(question.load),
             'platform': str(question.platform),
             'is_steady': question.is_steady}
    if host is not None:
        facts |= {'has_shared_cpus': bool(host.nova.shared_cpus),
                  'has_siblings': host.has_threads}
    found = _own_findings(summaries, question)
    lines: list[AdviceLine] = []
    for topic in TOPICS:
        rule = next((rule for rule in shipped()[topic]
                     if _applies(rule['when'], facts)), None)
        if rule is None:
            continue
        lines.append(_line(topic, rule, found.get(topic), facts))
        if topic == 'class':
            facts['class'] = lines[0].answers[0]
        elif topic == 'size':
            lines[-1] = _sized(lines[-1], host, str(facts['class']))
    if question.platform is bench_model.PlatformName.CONTAINER:
        return Advice(question=question, lines=tuple(lines))
    names, why = _choose(flavors, lines, host, refusals)
    return Advice(question=question, lines=tuple(lines), flavors=names,
                  why=why)


def _applies(when: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Whether a rule's conditions are met; what is not known meets none."""
    return all(key in facts and (
        facts[key] in value if isinstance(value, list)
        else facts[key] is value) for key, value in when.items())


def _line(topic: str, rule: Mapping[str, Any],
          finding: AdviceLine | None,
          facts: Mapping[str, Any]) -> AdviceLine:
    """What was found if that decides and nova can have it, else the rule."""
    # Whatever was measured: --steady asks for more than a level, and nova
    # refuses policies for shared guests.
    if topic == 'class' and facts['is_steady'] or (
            topic == 'emulator' and facts['class'] == 'shared'):
        finding = None
    if finding is not None and (finding.answers or finding.low is not None):
        return finding
    low, high = rule.get('vcpus') or rule.get('chr') or (None, None)
    return AdviceLine(
        topic=topic, answers=tuple(rule.get('answer', ())), low=low,
        high=high, unit='CHR' if 'chr' in rule else 'vCPU', why=rule['why'],
        strength=rule['strength'], holds=rule.get('holds', ''),
        sources=tuple(published.sources()[key] for key in rule['sources']),
        remark=f'{OWN} do not decide: {finding.why} ({finding.holds})'
        if finding else '')


@dataclasses.dataclass(frozen=True, slots=True)
class _Measured:
    """A row with the run that it is from."""

    row: statistics.FigureRow
    run: statistics.RunSummary

    @property
    def tenant(self) -> bench_model.Tenant:
        return self.row.tenant

    @property
    def cpus(self) -> int:
        """Of the host."""
        return self.run.results.conditions[-1].cpus

    @property
    def where(self) -> str:
        """What the figures were taken on, and what is doubtful about them."""
        here = self.run.results.conditions[-1]
        return ', '.join(text for text, is_so in (
            (f'{self.run.experiment.name} on {self.cpus} CPUs', True),
            ('guests that were emulated', here.emulated),
            ('a host that is a guest itself', here.virtualised),
            ('with doubtful measurements', self.row.flagged)) if is_so)

    @property
    def density(self) -> float:
        """vCPUs for each CPU that it may run on, 0 if that is not known."""
        layout = self.run.results.conditions[-1].layout
        cpus = layout.get(self.tenant.guest_class) or ()
        return sum(
            tenant.count * tenant.size.vcpus
            for tenant in self.row.case.tenants
            if set(layout.get(tenant.guest_class, ())) & set(cpus)
        ) / len(cpus) if cpus else 0.0

    @property
    def vcpus(self) -> int:
        """Of all that ran."""
        return sum(tenant.count * tenant.size.vcpus
                   for tenant in self.row.case.tenants)

    def is_like(self, other: '_Measured') -> bool:
        """Whether as much ran beside both, for the CPUs that there were."""
        pairs = (self.density, other.density), (self.vcpus, other.vcpus)
        return min(pairs[0]) > 0 and all(
            max(pair) <= _ALIKE * min(pair) for pair in pairs)

    def times(self, other: '_Measured') -> intervals.Interval:
        """How much worse the other is: above 1 if it is."""
        return statistics.ratio(
            other.row.estimate.sample, self.row.estimate.sample,
            self.run.experiment.seed, self.row.figure.better,
            is_paired=self.run is other.run,
        ).stretched(max(self.run.stretch, other.run.stretch))


def is_about(workload: bench_model.Workload, tenant: bench_model.Tenant,
             question: Question) -> bool:
    """Whether what was measured of a tenant counts for a question.

    Lock-bound threads are measured by several workloads that belong
    together; guests of libvirt and of nova are one platform.
    """
    is_same = workload.workload_class is question.workload_class
    if question.workload and question.load is not WorkloadBound.LOCK_BOUND:
        is_same = workload.name == question.workload
    platforms = {tenant.platform, question.platform}
    return (is_same and tenant.role is bench_model.Role.MEASURED
            and (len(platforms) == 1 or platforms <= _GUESTS))


def _own_findings(summaries: Sequence[statistics.RunSummary],
                  question: Question) -> dict[str, AdviceLine]:
    """What own results say, by topic, of the first figure of workloads."""
    rows = [_Measured(row, run) for run in summaries for row in run.rows
            if row.figure == run.results.workloads[
                row.tenant.workload].figures[0]
            and is_about(run.results.workloads[row.tenant.workload],
                         row.tenant, question)]
    lines = (_least_size(rows, question),
             *(_compared(topic, rows) for topic in _COMPARED))
    return {line.topic: line for line in lines if line is not None}


def _compared(topic: str,
              rows: Sequence[_Measured]) -> AdviceLine | None:
    """What instances differ in that are alike in all else, density included.

    Beside an instance that floats over CPUs sold several times a pinned one
    gains what the other lost by that, so these are not compared. Of the
    others the fullest CPUs count, and of these the fullest host.
    """
    attribute, answers = _COMPARED[topic]

    def kind(measured: _Measured) -> bench_model.Tenant:
        changes: dict[str, Any] = {
            'name': '', 'count': 1, 'flavor': '', attribute: None,
            'guest_class': hostclass.HostClass.DEDICATED}
        return dataclasses.replace(measured.tenant, **changes)

    for fullest in sorted(rows, key=lambda row: (-row.density, -row.vcpus)):
        # The first of each is what is left: the fullest goes before all.
        sides = {answers[value]: row for row in (*reversed(rows), fullest)
                 if (value := getattr(row.tenant, attribute)) in answers
                 and kind(row) == kind(fullest) and row.is_like(fullest)}
        if len(sides) > 1:
            break
    else:
        return None
    names = sorted(
        sides, key=lambda name: sides[name].row.estimate.mean,
        reverse=fullest.row.figure.better is bench_model.Better.HIGHER)[:2]
    if topic == 'class':
        names = ['dedicated', 'shared']
    best, other = (sides[name] for name in names)
    times = best.times(other)
    answer = ''
    if times.low > 1 + WORTH:
        answer = names[0]
    elif topic == 'class' and times.high < 1 + WORTH:
        answer = 'shared'
    size = int(answer) if answer and topic == 'size' else None
    return AdviceLine(
        topic=topic, strength=OWN, low=size, high=size,
        answers=(answer,) if answer and size is None else (),
        holds=best.where,
        why=f'{names[0]} is {times.value:.3g} times as good as {names[1]} '
            f'({times.low:.3g} to {times.high:.3g}), with '
            f'{_vcpus(fullest.density)} for each CPU: '
            f'{best.tenant.workload}, {best.row.case.name}')


def _vcpus(number: float) -> str:
    return f'{number:.2g} ' + ('vCPU' if number == 1 else 'vCPUs')


def _least_size(rows: Sequence[_Measured],
                question: Question) -> AdviceLine | None:
    """The smallest size with hardly more overhead than the best has.

    On a host with another number of CPUs it does not decide: nobody knows
    what of it goes by the size, and what by its ratio to the host's.
    """
    by_kind: dict[tuple[str, ...], dict[int, _Measured]] = {}
    for each in rows:
        if each.row.overhead is not None and each.row.overhead.is_known:
            by_kind.setdefault((
                each.tenant.workload, each.tenant.platform,
                each.tenant.provisioning), {})[each.tenant.size.vcpus] = each
    sizes = max(by_kind.values(), default={}, key=len)
    overheads = [(vcpus, each.row.overhead) for vcpus, each
                 in sorted(sizes.items()) if each.row.overhead]
    if len(overheads) < 2:
        return None
    lowest = min(overhead.value for _vcpus, overhead in overheads)
    vcpus, overhead = next(pair for pair in overheads
                           if pair[1].low <= (1 + _HARDLY) * lowest)
    least, host = sizes[vcpus], question.host
    return AdviceLine(
        topic='size', strength=OWN, holds=least.where,
        low=vcpus if host is None or len(host.cpus) == least.cpus else None,
        why=f'with {vcpus} vCPUs it takes {overhead.value:.3g} times '
            f'({overhead.low:.3g} to {overhead.high:.3g}) what the baseline '
            f'takes, and with more hardly less: {least.row.case.name}')


def _sized(line: AdviceLine, host: host_model.HostDescription | None,
           guest_class: str) -> AdviceLine:
    """A ratio as CPUs of the host; no more than it has of the class."""
    if host is None or line.low is None or line.high is None or (
            line.unit != 'CHR'):
        return line
    there = len(engine.dedicated_cpus(host) if guest_class == 'dedicated'
                else engine.shared_cpus(host))
    cpus = len(host.cpus)
    low = max(1, math.ceil(line.low * cpus - _ROUNDING))
    high = max(low, math.floor(line.high * cpus + _ROUNDING))
    return dataclasses.replace(
        line, low=low, high=max(low, min(high, there)), unit='vCPU',
        remark=line.remark if low <= there else
        f'{host.name} has {there} {guest_class} CPUs, fewer than that',
        why=f'{line.why}; {line} of the {cpus} CPUs of {host.name}')


def _choose(
    flavors: Sequence[flavor_model.Flavor], lines: Sequence[AdviceLine],
    host: host_model.HostDescription | None,
    refusals: Callable[[Sequence[flavor_model.Flavor]], Mapping[str, str]],
) -> tuple[tuple[str, ...], str]:
    """The flavors that agree with all answers, or what stands in the way.

    Devices are for who asks for them, which nobody can here.
    """
    ranked = []
    for flavor in flavors:
        if checked.CheckedFlavor(flavor).devices:
            continue
        values = flavor_values(flavor, host)
        way = [f'{TOPICS[line.topic]} {line}, it has {values[line.topic]}'
               for line in lines if not line.takes(values[line.topic])]
        # Of the class above all; then what is best, then what is smallest.
        ranked.append((
            not lines[0].takes(values['class']), len(way), sum(
                line.answers.index(str(values[line.topic])) for line in lines
                if values[line.topic] in line.answers),
            flavor.vcpus, flavor.memory_mib, flavor.name, way))
    if not ranked:
        return (), 'there are no flavors without devices'
    ranked.sort()
    refused = refusals(flavors)
    fitting = tuple(name for *_rank, name, way in ranked
                    if not way and name not in refused)
    if fitting:
        others = f'; so do {", ".join(fitting[1:])}' if fitting[1:] else ''
        return fitting, f'it agrees with all answers{others}'
    nearest, way = ranked[0][-2:]
    if nearest in refused:
        way = [*way, refused[nearest]]
    return (), f'{nearest} comes nearest; in the way: {"; ".join(way)}'


def flavor_values(
    flavor: flavor_model.Flavor,
    host: host_model.HostDescription | None = None,
) -> Mapping[str, str | int]:
    """What a flavor has on each topic, in the words of the answers.

    :param host: without which no more than one cell is known to be needed
    """
    subject = checked.CheckedFlavor(flavor)
    page = (subject.value('mem_page_size') or '').strip().lower()
    cells = checked.whole_number(subject.value('numa_nodes')) or int(
        subject.is_pinned or bool(page))
    fewest = 1 if host is None else max(1, *(
        -(-flavor.vcpus // max(1, max(
            len(cell.dedicated_cpus) for cell in engine.engine_cells(host)))),
        -(-flavor.memory_mib // max(
            node.memory_mib for node in host.nodes))))
    is_dedicated = subject.host_class == 'dedicated'
    return {
        'class': 'another' if subject.cpu_policy is model.CpuPolicy.MIXED
        or subject.is_pinned != is_dedicated else subject.host_class,
        'size': flavor.vcpus,
        'emulator': subject.emulator_policy or 'on-vcpus',
        'multiqueue': _on(subject.value('vif_multiqueue_enabled')),
        'pages': 'small' if page in _SMALL_PAGES else
        page if page == 'any' else 'huge',
        'cells': 'none' if not cells else 'fewest' if cells <= fewest
        else f'{cells} where {fewest} would do',
        'threads': str(subject.thread_policy),
        'realtime': _on(subject.value('cpu_realtime'))}


def _on(text: str | None) -> str:
    return 'on' if checked.is_true(text) else 'off'
