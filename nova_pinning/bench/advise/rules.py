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

"""The advisor's rules."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
from importlib import resources
from typing import Any

from nova_pinning.bench.advise import model
from nova_pinning.bench import published
from nova_pinning.document import schema
from nova_pinning.document import source

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
class Rule:
    """Advice, and when it is given.

    :param when: by what of a situation it depends on, which values it may
        have; one that is not named may have any
    """

    name: str
    topic: model.Topic
    when: Mapping[str, frozenset[Any]]
    value: model.Value
    why: str
    held: str
    sources: tuple[published.Source, ...]
    is_checked: bool

    def applies(self, situation: Situation) -> bool:
        return all(getattr(situation, key) in values
                   for key, values in self.when.items())

    @property
    def line(self) -> model.Line:
        return model.Line(
            topic=self.topic, value=self.value, why=self.why, held=self.held,
            rule=self.name, sources=self.sources,
            evidence=model.Evidence.PUBLISHED if self.is_checked
            else model.Evidence.CITED)


@functools.cache
def shipped() -> tuple[Rule, ...]:
    """The rules of the project, in their order."""
    text = resources.files(__package__).joinpath(_FILE).read_text('utf-8')
    return read(source.parse(text, _FILE))


def read(document: source.Document) -> tuple[Rule, ...]:
    """The rules of a document.

    :raises nova_pinning.errors.InputError: for what the schema forbids, a
        name that is there twice, or a source that is not there
    """
    schema.validate(document, schema.shipped(__package__, _SCHEMA))
    known = published.sources()
    found: dict[str, Rule] = {}
    for place, value in enumerate(document.value['rules']):
        path: source.Path = 'rules', place
        if value['name'] in found:
            raise document.error('is the name of two rules', (*path, 'name'))
        for number, key in enumerate(value['sources']):
            if key not in known:
                raise document.error(
                    f'there is no source called {key}',
                    (*path, 'sources', number), schema.nearest(key, known))
        found[value['name']] = Rule(
            name=value['name'], topic=model.Topic(value['topic']),
            when=dict(_conditions(value['when'])),
            value=model.Value(**{
                key: value[key] for key in (
                    'choice', 'low', 'high', 'unit', 'text')
                if key in value}),
            why=value['why'], held=value.get('held', ''),
            sources=tuple(known[key] for key in value['sources']),
            is_checked=value['is_checked'])
    return tuple(found.values())


def _conditions(
    when: Mapping[str, Any],
) -> Iterator[tuple[str, frozenset[Any]]]:
    for key, value in when.items():
        yield ('guest_class' if key == 'class' else key,
               frozenset(value if isinstance(value, list) else [value]))


def find(rules: Sequence[Rule], topic: model.Topic,
         situation: Situation) -> model.Line:
    """The line of the first rule of a topic that applies; there is one."""
    return next(rule.line for rule in rules
                if rule.topic is topic and rule.applies(situation))


def cautions(rules: Sequence[Rule],
             situation: Situation) -> tuple[model.Line, ...]:
    """The lines of all rules of that topic that apply."""
    return tuple(rule.line for rule in rules
                 if rule.topic is model.Topic.CAUTION
                 and rule.applies(situation))
