# SPDX-License-Identifier: Apache-2.0
"""The advisor's rules."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
from importlib import resources
from typing import Any

from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning.instance_bench.advise import model
from nova_pinning.instance_bench import published

_FILE = 'rules.yaml'
_SCHEMA = 'rules-1.json'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What rules look at.

    :param guest_class: 'dedicated' or 'shared'; '' before it is decided
    :param has_shared_cpus: of the host; True if it is not known
    """

    load: str
    platform: str
    is_steady: bool = False
    has_shared_cpus: bool = True
    guest_class: str = ''


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AdviceRule:
    """Advice, and when it is given.

    :param when: by what of a situation it depends on, which values it may
        have; one that is not named may have any
    """

    name: str
    topic: model.Topic
    when: Mapping[str, frozenset[Any]]
    value: model.AdvisedValue
    why: str
    held: str
    sources: tuple[published.Publication, ...]
    is_checked: bool

    def applies(self, situation: Situation) -> bool:
        return all(getattr(situation, key) in values
                   for key, values in self.when.items())

    @property
    def line(self) -> model.AdviceLine:
        return model.AdviceLine(
            topic=self.topic, value=self.value, why=self.why, held=self.held,
            rule=self.name, sources=self.sources,
            evidence=model.AdviceEvidence.PUBLISHED if self.is_checked
            else model.AdviceEvidence.CITED)


@functools.cache
def shipped() -> tuple[AdviceRule, ...]:
    """The rules of the project, in their order."""
    text = resources.files(__package__).joinpath(_FILE).read_text('utf-8')
    return read(source.parse(text, _FILE))


def read(document: source.YamlDocument) -> tuple[AdviceRule, ...]:
    """The rules of a document.

    :raises nova_pinning.errors.InputError: for what the schema forbids, a
        name that is there twice, or a source that is not there
    """
    schema.validate(document, schema.shipped(__package__, _SCHEMA))
    known = published.sources()
    rules: dict[str, AdviceRule] = {}
    for index, value in enumerate(document.value['rules']):
        path: source.Path = 'rules', index
        if value['name'] in rules:
            raise document.error('is the name of two rules', (*path, 'name'))
        for number, key in enumerate(value['sources']):
            if key not in known:
                raise document.error(
                    f'there is no source called {key}',
                    (*path, 'sources', number), schema.nearest(key, known))
        rules[value['name']] = AdviceRule(
            name=value['name'], topic=model.Topic(value['topic']),
            when=dict(_conditions(value['when'])),
            value=model.AdvisedValue(**{
                key: value[key] for key in (
                    'choice', 'low', 'high', 'unit', 'text')
                if key in value}),
            why=value['why'], held=value.get('held', ''),
            sources=tuple(known[key] for key in value['sources']),
            is_checked=value['is_checked'])
    return tuple(rules.values())


def _conditions(
    when: Mapping[str, Any],
) -> Iterator[tuple[str, frozenset[Any]]]:
    for key, value in when.items():
        yield ('guest_class' if key == 'class' else key,
               frozenset(value if isinstance(value, list) else [value]))


def find(rules: Sequence[AdviceRule], topic: model.Topic,
         situation: Situation) -> model.AdviceLine:
    """The line of the first rule of a topic that applies; there is one."""
    return next(rule.line for rule in rules
                if rule.topic is topic and rule.applies(situation))


def cautions(rules: Sequence[AdviceRule],
             situation: Situation) -> tuple[model.AdviceLine, ...]:
    """The lines of all rules of that topic that apply."""
    return tuple(rule.line for rule in rules
                 if rule.topic is model.Topic.CAUTION
                 and rule.applies(situation))
