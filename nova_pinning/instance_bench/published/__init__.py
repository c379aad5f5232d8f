# SPDX-License-Identifier: Apache-2.0
"""What others have published of the experiments, with where and how.

figures.yaml has the facts. They stand below measured figures, and are never
mixed with them.
"""

from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
from importlib import resources

from nova_pinning.document import source
from nova_pinning.document import typed_document

_FILE = 'figures.yaml'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Where something was published.

    :param year: 0 if it is not stated
    :param published_in: '' if the address says it all
    :param url: '' if it is not to be had on the web
    """

    authors: str
    title: str
    year: int = 0
    published_in: str = ''
    url: str = ''

    def __str__(self) -> str:
        parts = [self.authors, self.title, self.published_in,
                 str(self.year or '')]
        return ', '.join(part for part in parts if part)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFigure:
    """A figure, or a finding without one.

    :param table: of the report, as in bench_model.Experiment
    :param figure: with its unit, '' if there is none
    :param conditions: under which it was found or holds
    :param source: the key of its publication
    """

    table: str
    what: str
    figure: str = ''
    conditions: str
    source: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """Figures of a whole table.

    :param table: of the report, as in bench_model.Experiment
    :param workload: that they are of, or how its name begins; '' for any
    :param source: the key of their publication
    :param rows: by what the report calls the like, a figure for each column
    :param note: what they are of, and where they were measured
    :param disagrees: what the source says elsewhere, '' if it agrees with
        itself
    """

    table: str
    workload: str
    source: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float, ...]]
    note: str
    disagrees: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class _Shipped:
    sources: Mapping[str, Publication]
    tables: tuple[PublishedTable, ...]
    figures: tuple[PublishedFigure, ...]


def figures(table: str) -> Sequence[PublishedFigure]:
    """What is published for one of the report's tables; may be nothing.

    :param table: as in bench_model.Experiment
    """
    return [figure for figure in shipped().figures if figure.table == table]


def tables(table: str,
           workloads: Collection[str]) -> Sequence[PublishedTable]:
    """What tables there are for one of the report's.

    :param workloads: that it has
    """
    return [found for found in shipped().tables if found.table == table
            and any(name.startswith(found.workload) for name in workloads)]


def sources() -> Mapping[str, Publication]:
    """All sources by their keys."""
    return shipped().sources


@functools.cache
def shipped() -> _Shipped:
    text = resources.files(__package__).joinpath(_FILE).read_text('utf-8')
    found: _Shipped = typed_document.read(
        _Shipped, source.parse(text, _FILE))
    return found
