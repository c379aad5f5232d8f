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
from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning.document import typed_document
from nova_pinning import errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import sessions

VERSION = 2
#: More is not read: no run makes files of this size.
MAX_BYTES = 512 * 1024 * 1024

# For mypy, to which a type is known beforehand.
_MAPPING: Any = Mapping
_Path = str | os.PathLike[str]
_KINDS = {
    'conditions': bench_model.Conditions,
    'measurement': bench_model.Measurement,
    'clock': bench_model.ClockCheck,
    'failure': bench_model.Failure}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    version: int
    experiment: bench_model.Experiment
    workloads: Mapping[str, bench_model.Workload]


def read(path: _Path) -> bench_model.Results:
    """What a file of results holds, but for what a crash left of a line.

    :raises errors.InputError: if it cannot be read; the error names the line
    """
    return _parse(path, _lines(path))


def resumed(
        path: _Path, experiment: bench_model.Experiment,
        workloads: Mapping[str, bench_model.Workload]) -> bench_model.Results:
    """What a run would go on from: nothing if there is no file.

    :raises errors.InputError: as Writer does
    """
    nothing = _nothing(experiment, workloads)
    if not os.path.exists(path):
        return nothing
    return _resumed(path, _lines(path), nothing)


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


def _nothing(
        experiment: bench_model.Experiment,
        workloads: Mapping[str, bench_model.Workload]) -> bench_model.Results:
    return bench_model.Results(experiment=experiment, workloads=workloads,
                               conditions=(), measurements=())


def _resumed(path: _Path, content: bytes,
             planned: bench_model.Results) -> bench_model.Results:
    """What there is of a run.

    :param content: of the file, in whole lines
    :param planned: the run, of which there is nothing yet
    :raises errors.InputError: if it is of another, naming what differs
    """
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


class ResultsWriter:
    """A file of results that is added to: a context manager.

    :param path: of the file; if it is there it must have results of the same
        experiment, which are in ``before``
    :param experiment: the whole of it, whatever part of it is run
    :param workloads: those that it uses
    :raises errors.InputError: if the file is another run's, or of something
        else
    :raises line_log.LogWriteError: if it cannot be written
    """

    def __init__(self, path: _Path, experiment: bench_model.Experiment,
                 workloads: Mapping[str, bench_model.Workload]) -> None:
        self._path = path
        self.before = _nothing(experiment, workloads)
        self._log = line_log.LineLog(
            path, ('another run is writing to it',
                   'wait for it, or name another file'), MAX_BYTES)
        try:
            lines = _lines(path)
            self._is_new = not lines
            self.before = _resumed(path, lines, self.before)
        except BaseException:
            self._log.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_unused: object) -> None:
        self._log.close()

    def check_same(self, now: bench_model.Conditions) -> None:
        """:raises line_log.LogWriteError: if the host is not as it was"""
        check_same(self._path, self.before, now)

    def add(
        self,
        line: bench_model.Conditions | bench_model.Measurement
        | bench_model.ClockCheck | bench_model.Failure,
    ) -> None:
        """Write a line, and see that it is on the disk.

        :raises line_log.LogWriteError: if it cannot be; nothing of it is there
        """
        kind = next(name for name, record in _KINDS.items()
                    if isinstance(line, record))
        if self._is_new:
            self._append('head', _Head(
                version=VERSION, experiment=self.before.experiment,
                workloads=self.before.workloads))
            self._is_new = False
        self._append(kind, line)

    def _append(self, kind: str, record: Any) -> None:
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
    head: _Head | None = None
    seen: dict[object, int] = {}
    values: dict[str, list[Any]] = {name: [] for name in _KINDS}
    for number, data in enumerate(content.splitlines(), 1):
        line = _line(os.fspath(path), number, data)
        if head is None:
            head = _head(line)
            continue
        kind = _kind(line)
        value = typed_document.read(_MAPPING[str, _KINDS[kind]], line)[kind]
        if isinstance(value, bench_model.Measurement):
            _check(line, value, seen)
        values[kind].append(value)
    if head is None:
        raise errors.InputError(
            'has no results', errors.Location(os.fspath(path)))
    return bench_model.Results(
        experiment=head.experiment, workloads=head.workloads,
        conditions=tuple(values['conditions']),
        measurements=tuple(values['measurement']),
        failures=tuple(values['failure']), clocks=tuple(values['clock']))


def _check(line: '_Line', measurement: bench_model.Measurement,
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


def _head(line: _Line) -> _Head:
    value = line.value.get('head') if isinstance(line.value, dict) else None
    if not isinstance(value, dict) or 'version' not in value:
        raise line.error('is not the head of a results file', advice='name a '
                         'file that nova-pinning bench run has written')
    if value['version'] != VERSION:
        raise line.error(
            f'version {value["version"]!r} is not supported',
            ('head', 'version'), f'this release reads version {VERSION}')
    head: _Head = typed_document.read(Mapping[str, _Head], line)['head']
    return head


def _kind(line: _Line) -> str:
    """What a line after the first holds."""
    if not isinstance(line.value, dict) or len(line.value) != 1 or (
            line.value.keys() - _KINDS):
        schema.validate(line, {
            'title': 'one of conditions, measurement and failure',
            'type': 'object', 'maxProperties': 1, 'minProperties': 1,
            'additionalProperties': False,
            'properties': dict.fromkeys(_KINDS, {})})
    return str(next(iter(line.value)))
