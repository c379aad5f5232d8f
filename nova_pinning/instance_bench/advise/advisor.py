# SPDX-License-Identifier: Apache-2.0
"""Advice from rules, results, a host and flavors; a function of these."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning.flavors import flavor_model
from nova_pinning.instance_bench.advise import advice_rules
from nova_pinning.instance_bench.advise import choose
from nova_pinning.instance_bench.advise import hosts
from nova_pinning.instance_bench.advise import model
from nova_pinning.instance_bench.advise import own_results
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import statistics
from nova_pinning.model import hostclass

_ONLY_PUBLISHED = 'not measured here'
_ONLY_CITED = 'not measured here, and taken over from where it was cited'
_NO_FIGURE = 'no figure is known'


def advise(
    question: model.Question, *,
    flavors: Sequence[flavor_model.Flavor] = (),
    room: hosts.BareHost | None = None,
    summaries: Sequence[statistics.RunSummary] = (),
    rules: Sequence[advice_rules.AdviceRule] | None = None,
) -> model.Advice:
    """What to run a workload on.

    :param flavors: to choose from
    :param room: the host, None if it is not known
    :param summaries: of one's own results, which count more than rules
    :param rules: the shipped ones unless given
    """
    if rules is None:
        rules = advice_rules.shipped()
    situation = advice_rules.Situation(
        load=question.load, platform=question.platform,
        is_steady=question.is_steady,
        has_shared_cpus=room is None or room.has_shared_set)
    near, _high = _range(advice_rules.find(
        rules, model.Topic.SIZE, situation).value, room)
    findings = own_results.find(summaries, question, room, near or 1)

    def line(topic: model.Topic) -> model.AdviceLine:
        return _line(advice_rules.find(rules, topic, situation),
                     findings.get(topic))

    of_class = line(model.Topic.CLASS)
    guest_class = hostclass.HostClass(of_class.value.choice)
    situation = dataclasses.replace(situation, guest_class=guest_class)
    size, emulator = line(model.Topic.SIZE), line(model.Topic.EMULATOR)
    if guest_class is hostclass.HostClass.SHARED:
        # Whatever was measured, nova would refuse a policy.
        emulator = _line(advice_rules.find(
            rules, model.Topic.EMULATOR, situation), None)
    multiqueue = line(model.Topic.MULTIQUEUE)
    low, high = _range(size.value, room)
    # It is for another host where this one has no CPUs of the class.
    host = room if room is not None and room.of(guest_class) else None
    match = None
    if question.platform is not bench_model.PlatformName.CONTAINER:
        match = choose.nearest(flavors, choose.AdvisedFlavor(
            guest_class=guest_class, low=low, high=high,
            emulator=emulator.value.choice,
            has_multiqueue=multiqueue.value.choice == 'on',
            is_realtime=question.load is model.WorkloadBound.LATENCY), host)
    vcpus = _vcpus(low, match, host, guest_class)
    return model.Advice(
        question=question, vcpus=vcpus,
        flavor=match.flavor.name if match and low is not None else '',
        lines=(of_class, _sized(size, low, high, vcpus, room, guest_class),
               *_flavor(question, match, guest_class, low is None, host),
               emulator, multiqueue, line(model.Topic.GAIN),
               *_elsewhere(room, guest_class),
               *advice_rules.cautions(rules, situation)))


def _line(rule: model.AdviceLine,
          own_finding: own_results.OwnFinding | None) -> model.AdviceLine:
    """One's own finding if it decides, else the rule."""
    if own_finding is not None and own_finding.value is not None:
        return model.AdviceLine(
            topic=rule.topic, value=own_finding.value, why=own_finding.why,
            evidence=model.AdviceEvidence.OWN, thin=own_finding.thin)
    thin = []
    if own_finding is not None:
        thin.append(f'own results do not decide: {own_finding.why}')
        thin += own_finding.thin
    elif rule.held:
        thin.append(_ONLY_CITED if rule.evidence is model.AdviceEvidence.CITED
                    else _ONLY_PUBLISHED)
    if rule.topic is model.Topic.GAIN and rule.value.low is None:
        thin.append(_NO_FIGURE)
    return dataclasses.replace(rule, thin=tuple(thin))


def _range(value: model.AdvisedValue,
           room: hosts.BareHost | None) -> tuple[int | None, int | None]:
    """Sizes in vCPUs; None if they are not known."""
    if value.low is None or value.high is None:
        return None, None
    if value.unit == 'vCPU':
        return int(value.low), int(value.high)
    if room is None:
        return None, None
    return room.vcpus(value)


def _vcpus(low: int | None, match: choose.FlavorMatch | None,
           room: hosts.BareHost | None,
           guest_class: hostclass.HostClass) -> int | None:
    """The size: a flavor's if there is one for it, what fits on the host."""
    if low is None:
        return None
    if match is not None and match.is_in_range:
        return match.flavor.vcpus
    if room is None:
        return low
    return min(low, room.of(guest_class))


def _sized(line: model.AdviceLine, low: int | None, high: int | None,
           vcpus: int | None, room: hosts.BareHost | None,
           guest_class: hostclass.HostClass) -> model.AdviceLine:
    """The line of the size with what it comes to on the host."""
    why, thin = line.why, list(line.thin)
    if low is None or high is None or vcpus is None:
        if room is None and line.value.low is not None:
            thin.append('no host is given, and CHR goes by its CPUs')
        return dataclasses.replace(line, thin=tuple(thin))
    if room is None:
        return line
    if line.value.unit == 'CHR':
        sizes = f'{low}' if low >= high else f'{low} to {high}'
        why += f'; {sizes} of the {room.cpus} CPUs of {room.name}'
        if high < low:
            thin.append('no whole number of CPUs is in the range on this '
                        'host')
    if 0 < room.of(guest_class) < low:
        thin.append(f'{room.name} has {room.of(guest_class)} {guest_class} '
                    'CPUs, fewer than that')
    if guest_class is hostclass.HostClass.DEDICATED and room.node_cpus:
        thin += _crossed(vcpus, room)
    return dataclasses.replace(
        line, why=why, thin=tuple(thin),
        value=model.AdvisedValue(low=vcpus, high=vcpus, unit='vCPU'))


def _elsewhere(room: hosts.BareHost | None,
               guest_class: hostclass.HostClass) -> Iterator[model.AdviceLine]:
    """What to mind of a host that has no CPUs of the class."""
    if room is not None and not room.of(guest_class):
        yield model.AdviceLine(
            topic=model.Topic.CAUTION, evidence=model.AdviceEvidence.DERIVED,
            value=model.AdvisedValue(
                text='it takes another host, or another plan '
                'for this one'),
            why=f'{room.name} has no {guest_class} CPUs')


def _crossed(vcpus: int, room: hosts.BareHost) -> Iterator[str]:
    """What guests of a size reach beyond."""
    if vcpus > room.node_cpus:
        yield (f'no NUMA node has more than {room.node_cpus} dedicated CPUs, '
               'so that it spans several')
    elif vcpus > room.l3_cpus > 0:
        yield (f'no L3 domain has more than {room.l3_cpus} dedicated CPUs, '
               'so that it spans several')


def _flavor(
    question: model.Question, match: choose.FlavorMatch | None,
    guest_class: hostclass.HostClass, is_any_size: bool,
    room: hosts.BareHost | None,
) -> tuple[model.AdviceLine, ...]:
    """The line of the flavor; containers have none."""
    if question.platform is bench_model.PlatformName.CONTAINER:
        return ()
    where = f' that fit on {room.name}' if room is not None else ''
    if match is None:
        return (model.AdviceLine(
            topic=model.Topic.FLAVOR, value=model.AdvisedValue(text='none'),
            evidence=model.AdviceEvidence.DERIVED,
            why=f'there are no {guest_class} flavors{where}'),)
    flavor = match.flavor
    text = flavor.name
    if is_any_size:
        text = f'like {flavor.name}, of the size'
    why = [f'of the {guest_class} flavors{where} it is the nearest']
    thin = () if match.is_in_range else (
        f'it has {flavor.vcpus} vCPUs, and none has as many as advised',)
    return (model.AdviceLine(
        topic=model.Topic.FLAVOR, value=model.AdvisedValue(text=text),
        evidence=model.AdviceEvidence.DERIVED, why='; '.join(
            (*why, *match.misses)), thin=thin),)


def as_dict(advice: model.Advice) -> Mapping[str, object]:
    """As JSON has it; amounts are numbers."""
    question = advice.question
    return {
        'version': 1,
        'workload': question.workload,
        'workload_class': question.workload_class.value,
        'load': question.load.value,
        'platform': question.platform.value,
        'is_steady': question.is_steady,
        'class': advice.line(model.Topic.CLASS).value.choice,
        'vcpus': advice.vcpus,
        'flavor': advice.flavor,
        'advice': list(map(line_as_dict, advice.lines)),
        'sources': {
            source.key: {
                'authors': source.authors,
                'title': source.title,
                'year': source.year or None,
                'published_in': source.published_in,
                'url': source.url}
            for source in advice.sources}}


def line_as_dict(line: model.AdviceLine) -> Mapping[str, object]:
    """A line of it, as JSON has it."""
    value = line.value
    return {
        'topic': line.topic.value,
        'value': str(value),
        'low': value.low, 'high': value.high, 'unit': value.unit,
        'why': line.why,
        'evidence': line.evidence.value,
        'held': line.held,
        'rule': line.rule,
        'sources': [source.key for source in line.sources],
        'thin': list(line.thin)}
