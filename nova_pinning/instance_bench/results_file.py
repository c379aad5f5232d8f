# SPDX-License-Identifier: Apache-2.0
"""Files of results: JSON Lines, version 2.

Each line is an object with one key. The first line is the ``head``, with the
experiment and its workloads; each session of a run adds its ``conditions``;
then there is a line for each ``measurement``, each ``clock`` that was checked
and each ``failure``. A run that has none of these leaves no file. A line
counts once its newline is there, and is on the disk before the next repetition
begins. What a crash leaves of a last line is not read, and is cut off before
more is written.
"""

from collections.abc import Mapping
import dataclasses
import json
import os
from typing import Any
from typing import Self

from nova_pinning.document import encoder
from nova_pinning.document import json_text
from nova_pinning.document import line_log
from nova_pinning.document import source
from nova_pinning.document import typed_document
from nova_pinning import errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import instance_clock
from nova_pinning.instance_bench import sessions

VERSION = 2
#: More is not read: no run makes files of this size.
MAX_BYTES = 512 * 1024 * 1024

# For mypy, to which a type is known beforehand.
_MAPPING: Any = Mapping
_Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    version: int
    experiment: bench_model.Experiment
    workloads: Mapping[str, bench_model.Workload]


_KINDS = {
    'head': _Head, 'conditions': bench_model.Conditions,
    'measurement': bench_model.Measurement, 'clock': instance_clock.ClockCheck,
    'failure': bench_model.Failure}


def read(path: _Path) -> bench_model.Results:
    """What a file of results holds, but for what a crash left of a line.

    :raises errors.InputError: if it cannot be read; the error names the line
    """
    return _parse(path, _lines(path))


def resumed(path: _Path, planned: bench_model.Results) -> bench_model.Results:
    """What a run would go on from: what is planned, if there is no file.

    :param planned: the run, of which there is nothing yet
    :raises errors.InputError: if the file is of another run, naming what
        differs, or of something else
    """
    content = _lines(path) if os.path.exists(path) else b''
    if not content:
        return planned
    written = _parse(path, content)
    differences = [
        field.name for field in dataclasses.fields(bench_model.Experiment)
        if getattr(written.experiment, field.name)
        != getattr(planned.experiment, field.name)]
    if written.workloads != planned.workloads:
        differences.append('workloads')
    if differences:
        raise errors.InputError(
            f'has results of experiment {written.experiment.name}, of which '
            f'these differ from this run: {", ".join(differences)}',
            errors.Location(os.fspath(path)), 'resume with the options that '
            'it was begun with, on the same host, or name another file')
    return written


def check_same(path: _Path, before: bench_model.Results,
               now: bench_model.Conditions) -> None:
    """See that a host is as it was in earlier sessions of a run.

    :raises line_log.LogWriteError: naming what is not
    """
    changes = sessions.changes(before.conditions, now)
    if changes:
        raise line_log.LogWriteError(
            'has results from before this host was changed, which cannot be '
            f'mixed with later ones: {"; ".join(changes)}',
            errors.Location(os.fspath(path)),
            'for a new run name another file with -o')


class ResultsWriter:
    """A file of results that is added to: a context manager.

    :param path: of the file; if it is there it must have results of the same
        experiment, which are in ``before``
    :param planned: the whole run, whatever part of it is made
    :raises errors.InputError: if the file is another run's, or of something
        else
    :raises line_log.LogWriteError: if it cannot be written
    """

    def __init__(self, path: _Path, planned: bench_model.Results) -> None:
        self.path = path
        self._log = line_log.LineLog(
            path, ('another run is writing to it',
                   'wait for it, or name another file'), MAX_BYTES)
        try:
            self.before = resumed(path, planned)
        except BaseException:
            self._log.close()
            raise
        self._is_new = not self._log.lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_unused: object) -> None:
        self._log.close()

    def add(
        self,
        line: bench_model.Conditions | bench_model.Measurement
        | instance_clock.ClockCheck | bench_model.Failure,
    ) -> None:
        """Write a line, and see that it is on the disk.

        :raises line_log.LogWriteError: if it cannot be; nothing of it is there
        """
        if self._is_new:
            self._append(_Head(
                version=VERSION, experiment=self.before.experiment,
                workloads=self.before.workloads))
            self._is_new = False
        self._append(line)

    def _append(self, record: Any) -> None:
        kind = next(name for name, kind in _KINDS.items()
                    if isinstance(record, kind))
        self._log.add(json.dumps({kind: encoder.encode(record)},
                                 allow_nan=False, ensure_ascii=False))


@dataclasses.dataclass(frozen=True)
class _Line(source.YamlDocument):
    """A line as its own document, whose errors name the line."""

    number: int

    def locate(self, path: source.Path = (),
               key: bool = False) -> errors.Location:
        return dataclasses.replace(super().locate(path, key), line=self.number)


def _lines(path: _Path) -> bytes:
    """The whole lines of a file.

    :raises errors.InputError: if it cannot be read, or is of something else
    """
    data = source.read_bytes(path, MAX_BYTES)
    whole = data[:data.rfind(b'\n') + 1]
    if data and not whole and not data.startswith(b'{"head"'[:len(data)]):
        # Not for us to cut off.
        raise errors.InputError(
            'has no results', errors.Location(os.fspath(path)))
    return whole


def _parse(path: _Path, content: bytes) -> bench_model.Results:
    """:raises errors.InputError: naming the line that cannot be read"""
    seen: dict[object, int] = {}
    values: dict[str, list[Any]] = {name: [] for name in _KINDS}
    for number, data in enumerate(content.splitlines(), 1):
        line = _line(os.fspath(path), number, data)
        kind = _kind(line)
        value = typed_document.read(_MAPPING[str, _KINDS[kind]], line)[kind]
        if isinstance(value, bench_model.Measurement):
            _check(line, value, seen)
        values[kind].append(value)
    if not values['head']:
        raise errors.InputError(
            'has no results', errors.Location(os.fspath(path)))
    head: _Head = values['head'][0]
    return bench_model.Results(
        experiment=head.experiment, workloads=head.workloads,
        conditions=tuple(values['conditions']),
        measurements=tuple(values['measurement']),
        failures=tuple(values['failure']), clocks=tuple(values['clock']))


def _check(line: _Line, measurement: bench_model.Measurement,
           seen: dict[object, int]) -> None:
    """Refuse what no run can have measured.

    :param seen: lines of measurements so far; this one is added
    :raises errors.InputError: if there is one of this repetition already, or
        a figure or a time is negative
    """
    name = measurement.key, measurement.round, measurement.repetition
    other = seen.setdefault(name, line.number)
    if other != line.number:
        raise line.error(
            f'round {measurement.round}, repetition {measurement.repetition} '
            f'of {" / ".join(measurement.factors.values())} is on line '
            f'{other} already', ('measurement', 'repetition'),
            'a figure that counts twice makes intervals too narrow: remove '
            'one of the two')
    for number, reading in enumerate(measurement.readings):
        path = 'measurement', 'readings', number
        if reading.ended <= reading.started:
            raise line.error('ends before it starts', (*path, 'ended'))
        for figure, value in reading.figures.items():
            if value < 0:
                raise line.error(f'{figure} is negative: {value:g}',
                                 (*path, 'figures', figure))


def _line(path: str, number: int, data: bytes) -> _Line:
    where = errors.Location(path, number)
    try:
        document = json_text.parse(data.decode(), path)
    except UnicodeDecodeError:
        raise errors.InputError('is not UTF-8', where) from None
    except errors.InputError as error:
        raise errors.InputError(error.message, where) from None
    return _Line(document.value, path, document.find, number)


def _kind(line: _Line) -> str:
    """What a line holds: the head is the first, and no other.

    :raises errors.InputError: if it holds nothing of ours
    """
    match line.value:
        case {'head': {'version': version}} if version != VERSION:
            raise line.error(
                f'version {version!r} is not supported', ('head', 'version'),
                f'this release reads version {VERSION}')
    kinds = ['head'] if line.number == 1 else list(_KINDS)[1:]
    for kind in kinds:
        if isinstance(line.value, dict) and [*line.value] == [kind]:
            return kind
    raise line.error(f'is none of {", ".join(kinds)}', advice='name a file '
                     'that nova-pinning bench run has written')
