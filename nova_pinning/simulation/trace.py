# SPDX-License-Identifier: Apache-2.0
"""Traces: what arrived somewhere, as a CSV file.

The first line names the columns, which stand in any order:

* ``time``: seconds from any moment on, never decreasing;
* ``id``: unique;
* ``flavor``, the name of one, or ``vcpus`` and ``memory`` (MiB);
* ``class``: dedicated (where it is left out) or shared, for guests without a
  flavor;
* ``cells``: their NUMA cells, 1 where it is left out;
* ``pages``: the size of their memory pages, ``2MiB``, ``1GiB``, small, large
  or any; left out by those that do not ask;
* ``lifetime``: seconds; empty, or without the column, for a guest that stays.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import csv
import dataclasses
import functools
import math
from typing import Any
from typing import NamedTuple

from nova_pinning.admission import guest_request
from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import guests
from nova_pinning.simulation import spec

_MAX_SECONDS = 1e12
_MAX_VCPUS = 100_000
_MAX_MEMORY_MIB = 10 ** 10
_MAX_CELLS = 64


class TraceRow(NamedTuple):
    """A line of a trace.

    :param flavor: '' for a guest that is told by its size
    :param page_size_kib: as ``model.GuestCell`` has it
    """

    line: int
    time_seconds: float
    id: str
    lifetime_seconds: float | None
    flavor: str
    vcpus: int
    memory_mib: int
    guest_class: hostclass.HostClass
    cells: int = 1
    page_size_kib: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ArrivalTrace:
    """A trace that was looked through, to be read again and again.

    :param flavors: names, with where each is used first
    :param kinds: guests by the name of their flavor
    """

    path: str
    count: int
    flavors: Mapping[str, errors.Location]
    kinds: Mapping[str, guest_request.GuestRequest]

    def source(self, flavors: Mapping[str, guest_request.GuestRequest],
               _dedicated_cpus: int) -> 'ArrivalTrace':
        """What gives the arrivals.

        :param flavors: by name
        """
        return dataclasses.replace(self, kinds=flavors)

    def arrivals(self, _seed: int) -> Iterator[arrival_process.Arrival]:
        """The arrivals, the same for any seed.

        :raises errors.InputError: if the file has become another one
        """
        plain: dict[
            tuple[int, int, hostclass.HostClass, int, int | None],
            guest_request.GuestRequest] = {}
        for row in rows(self.path):
            if row.flavor:
                request = self.kinds.get(row.flavor)
                if request is None:
                    raise errors.InputError(
                        f'has another flavor {row.flavor!r} than before',
                        errors.Location(self.path, row.line),
                        'do not change the trace while it is simulated')
            else:
                size = (row.vcpus, row.memory_mib, row.guest_class, row.cells,
                        row.page_size_kib)
                request = plain.get(size)
                if request is None:
                    request = plain[size] = guests.plain(*size)
            yield arrival_process.Arrival(
                row.time_seconds, row.id, request, row.lifetime_seconds)


def scan(path: str) -> ArrivalTrace:
    """Look through a trace.

    :raises errors.InputError: for the first thing in it that is wrong
    """
    count = 0
    flavors: dict[str, errors.Location] = {}
    for row in rows(path):
        count += 1
        if row.flavor:
            flavors.setdefault(row.flavor, errors.Location(path, row.line))
    if not count:
        raise errors.InputError('has no arrivals', errors.Location(path))
    return ArrivalTrace(path, count, flavors, {})


def rows(path: str) -> Iterator[TraceRow]:
    """The lines of a trace, one at a time.

    :raises errors.InputError: at the first one that is wrong
    """
    reader = None
    try:
        with open(path, encoding='utf-8-sig', newline='') as file:
            reader = csv.DictReader(file, strict=True)
            yield from _rows(reader, path)
    except OSError as error:
        raise errors.InputError(f'cannot be read: {error.strerror}',
                                errors.Location(path)) from None
    except csv.Error as error:
        raise errors.InputError(f'is not CSV: {error}', errors.Location(
            path, reader.reader.line_num if reader else 0)) from None
    except UnicodeDecodeError:
        # Lines are decoded many at a time.
        raise errors.InputError(
            'is not UTF-8 text', errors.Location(path)) from None


def _rows(reader: 'csv.DictReader[str]', path: str) -> Iterator[TraceRow]:
    if not reader.fieldnames:
        raise errors.InputError('is empty', errors.Location(path))
    columns = reader.fieldnames = _header(
        reader.fieldnames, errors.Location(path, reader.line_num))
    seen: set[str] = set()
    last = -math.inf
    for cells in reader:
        where = errors.Location(path, reader.line_num)
        values = [*cells.values()]
        if None in cells or None in values:
            more = cells.get(None) or ()
            count = len(columns) - values.count(None) + len(more)
            raise errors.InputError(
                f'has {count} columns, the first line has {len(columns)}',
                where)
        row = _row({name: cell.strip() for name, cell in cells.items()}, where)
        if row.time_seconds < last:
            raise errors.InputError(
                f'time {row.time_seconds:g} is before {last:g}, that of '
                'the line before', where, 'sort the trace by time')
        if row.id in seen:
            raise errors.InputError(f'id {row.id!r} appears twice', where)
        last = row.time_seconds
        seen.add(row.id)
        yield row


def _header(cells: Sequence[str], where: errors.Location) -> list[str]:
    columns = [cell.strip().lower() for cell in cells]
    unknown = [name for name in columns if name not in _COLUMNS]
    if unknown:
        raise errors.InputError(
            f'{unknown[0]!r} is not a column of a trace', where,
            f'the first line names some of {", ".join(_COLUMNS)}')
    for name in columns:
        if columns.count(name) > 1:
            raise errors.InputError(f'column {name} appears twice', where)
    missing = [name for name in ('time', 'id') if name not in columns]
    if not missing and 'flavor' not in columns:
        missing = [name for name in ('vcpus', 'memory') if name not in columns]
    if missing:
        raise errors.InputError(
            f'column {missing[0]} is missing', where,
            'the first line names the columns')
    return columns


def _row(cells: Mapping[str, str], where: errors.Location) -> TraceRow:
    values: dict[str, Any] = {}
    for name, text in cells.items():
        try:
            values[name] = _COLUMNS[name](text) if text else None
        except ValueError as error:
            raise errors.InputError(f'{name} {error}', where) from None
    flavor = values.get('flavor') or ''
    for name in ('time', 'id', *(() if flavor else ('vcpus', 'memory'))):
        if values[name] is None:
            raise errors.InputError(f'{name} is empty', where)
    count = values.get('cells') or 1
    guest_class = spec.host_class(cells.get('class', ''))
    size: tuple[Any, ...] = 0, 0, guest_class
    if not flavor:
        size = values['vcpus'], values['memory'], guest_class, count, (
            values.get('pages'))
        for name in ('vcpus', 'memory'):
            if values[name] % count:
                raise errors.InputError(
                    f'cells {count}: {name} {values[name]} cannot be spread '
                    'evenly over so many', where)
    return TraceRow(where.line, values['time'], values['id'],
                    values.get('lifetime'), flavor, *size)


def _pages(text: str) -> int:
    word = model.PAGE_WORDS.get(text.lower())
    if word is not None:
        return word
    try:
        size_kib = quantities.page_size_kib(text, errors.Location(''))
    except errors.InputError as error:
        raise ValueError(f'{error.message}: write it like 2MiB, 1GiB, small, '
                         'large or any') from None
    if not size_kib:
        raise ValueError('0: a page of no size is none')
    return size_kib


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _MAX_SECONDS:
        raise ValueError(f'{text!r} is not a number of seconds, 0 or more')
    return seconds


_COLUMNS: Mapping[str, Callable[[str], Any]] = {
    'time': _seconds, 'id': str, 'flavor': str,
    'vcpus': functools.partial(spec.whole, most=_MAX_VCPUS),
    'memory': functools.partial(spec.whole, most=_MAX_MEMORY_MIB),
    'class': spec.host_class,
    'cells': functools.partial(spec.whole, most=_MAX_CELLS),
    'pages': _pages, 'lifetime': _seconds}
