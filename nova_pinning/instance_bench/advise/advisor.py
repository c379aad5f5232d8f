# SPDX-License-Identifier: Apache-2.0
"""Advice: rules, what one's own results make of them, and the flavor.

workloads.yaml has what people ask about, and what is published of it;
rules.yaml has the rules of each topic with their sources, conditions and
strengths. The first counts whose conditions are met, unless own results
decide; what follows from an answer follows from that one then.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
from importlib import resources
import math
import types
from typing import Any

from nova_pinning.document import source
from nova_pinning.document import typed_document
from nova_pinning.flavors import flavor_model
from nova_pinning.host import engine
from nova_pinning.host import host_model
from nova_pinning.instance_bench.advise import advice_model
from nova_pinning.instance_bench.advise import flavor_agreement
from nova_pinning.instance_bench.advise import own_results
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import statistics

# Above rounding: 0.14 of 50 CPUs is 7, not a bit more.
_ROUNDING = 1e-9


@functools.cache
def rules() -> Mapping[str, Sequence[advice_model.AdviceLine]]:
    """By topic, each with its conditions."""
    return {topic: [dataclasses.replace(line, topic=topic) for line in lines]
            for topic, lines in _read('rules.yaml', Mapping[
                str, tuple[advice_model.AdviceLine, ...]]).items()}


@functools.cache
def known_workloads() -> Mapping[str, advice_model.KnownWorkload]:
    """What people ask about, by each of its names."""
    return {word: dataclasses.replace(one, name=name)
            for name, one in _read('workloads.yaml', Mapping[
                str, advice_model.KnownWorkload]).items()
            for word in (name, *one.also)}


def _read(file: str, kind: Any) -> Any:
    text = resources.files(__package__).joinpath(file).read_text('utf-8')
    return typed_document.read(kind, source.parse(text, file))


def advise(
    question: advice_model.Question, *,
    flavors: Sequence[flavor_model.Flavor] = (),
    refused: Mapping[str, str] = types.MappingProxyType({}),
    summaries: Sequence[statistics.RunSummary] = (),
) -> advice_model.Advice:
    """What to run a workload on.

    :param flavors: to choose from
    :param refused: why flavors do not go on the host, by their names; those
        that do are left out
    :param summaries: of one's own results, which override rules where their
        intervals decide
    """
    host = question.host
    facts: dict[str, object] = {
        'workload': question.workload, 'load': str(question.load),
        'platform': str(question.platform), 'is_steady': question.is_steady}
    if host is not None:
        facts |= {'has_shared_cpus': bool(host.nova.shared_cpus),
                  'has_siblings': host.has_threads}
    found = own_results.findings(summaries, question)
    lines: list[advice_model.AdviceLine] = []
    for topic in advice_model.TOPICS:
        rule = next((line for line in rules()[topic]
                     if _are_met(line.when, facts)), None)
        if rule is None:
            continue
        line = _overridden(rule, found.get(topic), facts)
        if topic == 'class':
            facts['class'] = line.answers[0]
        elif topic == 'size' and host is not None:
            line = _sized(line, host, str(facts['class']))
        lines.append(line)
    if question.platform is bench_model.PlatformName.CONTAINER:
        return advice_model.Advice(question=question, lines=tuple(lines))
    names, why = flavor_agreement.choose(flavors, lines, host, refused)
    return advice_model.Advice(question=question, lines=tuple(lines),
                               flavors=names, why=why)


def _are_met(conditions: Mapping[str, Any],
             facts: Mapping[str, object]) -> bool:
    """What is not known meets no condition."""
    return all(key in facts and (
        facts[key] in value if isinstance(value, list)
        else facts[key] is value) for key, value in conditions.items())


def _overridden(rule: advice_model.AdviceLine,
                finding: advice_model.AdviceLine | None,
                facts: Mapping[str, object]) -> advice_model.AdviceLine:
    """What was found if that decides and nova can have it, else the rule."""
    # Whatever was measured: --steady asks for more than a level, and nova
    # refuses policies for shared guests.
    if finding is None or (
            rule.topic == 'class' and facts['is_steady']) or (
            rule.topic == 'emulator' and facts['class'] == 'shared'):
        return rule
    if finding.answers or finding.low is not None:
        return finding
    return dataclasses.replace(
        rule, remark=f'{own_results.STRENGTH} do not decide: {finding.why} '
                     f'({finding.holds})')


def _sized(line: advice_model.AdviceLine, host: host_model.HostDescription,
           guest_class: str) -> advice_model.AdviceLine:
    """A ratio as CPUs of the host; no more than it has of the class."""
    if line.low is None or line.high is None or line.unit != 'CHR':
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
