# SPDX-License-Identifier: Apache-2.0
"""What others have published of the experiments, with where and how.

figures.yaml has the facts, figures-1.json is its schema. They stand beside
measured figures for reference, and are never mixed with them.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import enum
import functools
from importlib import resources
from typing import Any

from nova_pinning.document import schema
from nova_pinning.document import source

_FILE = 'figures.yaml'
_SCHEMA = 'figures-1.json'


class Basis(enum.StrEnum):
    """What stands behind a figure."""

    MEASURED = 'measured'
    RECOMMENDED = 'recommended'
    #: Worked out from a rule that the source states.
    RECKONED = 'reckoned'
    #: How those were set up who measured.
    SET_UP = 'set-up'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Where something was published.

    :param year: 0 if it is not stated
    :param published_in: '' if the address says it all
    """

    key: str
    authors: str
    title: str
    year: int = 0
    published_in: str = ''
    url: str

    def __str__(self) -> str:
        parts = [self.authors, self.title, self.published_in,
                 str(self.year or '')]
        return ', '.join(part for part in parts if part)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFigure:
    """A published figure, or a finding without one.

    :param table: of the report, as in model.Experiment
    :param workload: and the three after it: what it is about, in the words
        of this project where it has some, '' for any
    :param what: of which low and high are the figure; a whole finding if
        there is none
    :param low: None if there is no figure; equal to high unless it is a range
    :param conditions: under which it was found or holds
    :param is_checked: that it was read in its source, or in the abstract;
        otherwise it was taken over from where it was cited
    """

    table: str
    workload: str = ''
    platform: str = ''
    provisioning: str = ''
    size: str = ''
    what: str
    low: float | None = None
    high: float | None = None
    unit: str = ''
    basis: Basis
    conditions: str
    source: Publication
    is_checked: bool

    @property
    def amount(self) -> str:
        """The figure for people: '0.07 to 0.14 CHR', '' if there is none."""
        if self.low is None or self.high is None:
            return ''
        text = _number(self.low)
        if self.high != self.low:
            text += f' to {_number(self.high)}'
        if self.unit == 'ratio':
            return text
        return f'{text}{"" if self.unit == "%" else " "}{self.unit}'


def _number(value: float) -> str:
    return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:g}'


def figures(table: str) -> Sequence[PublishedFigure]:
    """What is published for one of the report's tables; may be nothing.

    :param table: as in model.Experiment
    """
    return [figure for figure in _shipped()[1] if figure.table == table]


def sources() -> Mapping[str, Publication]:
    """All sources by their keys."""
    return _shipped()[0]


@functools.cache
def _shipped(
) -> tuple[Mapping[str, Publication], tuple[PublishedFigure, ...]]:
    text = resources.files(__package__).joinpath(_FILE).read_text('utf-8')
    return read(source.parse(text, _FILE))


def read(
    document: source.YamlDocument,
) -> tuple[Mapping[str, Publication], tuple[PublishedFigure, ...]]:
    """Sources and figures of a document.

    :raises nova_pinning.errors.InputError: for what the schema forbids, a
        range that is upside down, or a source that is not there
    """
    schema.validate(document, schema.shipped(__package__, _SCHEMA))
    sources = {key: Publication(key=key, **value)
               for key, value in document.value['sources'].items()}
    return sources, tuple(
        _figure(document, index, value, sources)
        for index, value in enumerate(document.value['figures']))


def _figure(document: source.YamlDocument, index: int, value: dict[str, Any],
            known: Mapping[str, Publication]) -> PublishedFigure:
    key = value['source']
    path: source.Path = 'figures', index
    if key not in known:
        raise document.error(f'there is no source called {key}',
                             (*path, 'source'), schema.nearest(key, known))
    if value.get('low', 0) > value.get('high', 0):
        raise document.error(f'{value["low"]} is more than {value["high"]}',
                             (*path, 'low'), 'write the smaller one as low')
    return PublishedFigure(**{**value, 'source': known[key],
                              'basis': Basis(value['basis'])})
