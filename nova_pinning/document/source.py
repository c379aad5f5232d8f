# SPDX-License-Identifier: Apache-2.0
"""YAML and JSON as plain values that know where in the file they stand.

YAML is read by PyYAML's events, which have marks, for two reasons: what a
hostile or broken file can cost is bounded (PyYAML's own composer crashes on
deep nesting), and plain scalars can be taken as YAML 1.2 takes them. So ``no``
and ``1:30`` are text, not False and 90; so is what readers of YAML do not
agree about, such as ``010`` and ``1e3``.

JSON is read as what it nearly is, a kind of YAML.
"""

import collections
from collections.abc import Callable
import dataclasses
import math
import os
import re
from typing import Any
from typing import NoReturn

import yaml
from yaml import reader

from nova_pinning import errors

MAX_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 64
#: Values in a document, with what aliases repeat counted each time.
MAX_VALUES = 100_000
_MAX_DIGITS = 30
# Of the path to what is nested too deep.
_KEYS_SHOWN = 4

#: The way to a value: the keys and list positions that lead to it.
Path = tuple[str | int, ...]

_LOADER = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)
_TAG = 'tag:yaml.org,2002:'
_ODD_CHARACTER = 'found character that cannot start any token'
# Control characters, which quoted text can spell out as escapes: what is read
# here is shown on terminals, and goes to nova.
_NO_TEXT = reader.Reader.NON_PRINTABLE

# Of floats only what YAML 1.1 takes for a number too: 12e4 may well be
# someone's id.
_PLAIN = re.compile(
    r'(?P<null>|~|null|Null|NULL)|(?P<bool>true|True|TRUE|false|False|FALSE)'
    r'|(?P<int>[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+)'
    r'|(?P<float>(?:\.[0-9]+|[-+]?(?:0|[1-9][0-9]*)\.[0-9]*)'
    r'(?:[eE][-+][0-9]+)?)')
_READERS: dict[str, Callable[[str], Any]] = {
    'null': lambda text: None, 'bool': lambda text: text[0] in 'tT',
    'int': lambda text: int(text, 16 if text.startswith('0x') else 10),
    'float': float}


@dataclasses.dataclass(frozen=True, slots=True)
class YamlDocument:
    """What a file holds.

    :param value: None, bool, int, float, str, and lists and dicts of them.
        The keys of a dict are always str.
    :param source: the file's name
    :param find: line and column of the value at a path, or of its key if so
        asked, counted from 1 (0 if not known); if the path leads nowhere,
        those of the last value on the way
    """

    value: Any
    source: str
    find: Callable[[Path, bool], tuple[int, int]] = dataclasses.field(
        repr=False, compare=False)

    def locate(self, path: Path = (), key: bool = False) -> errors.Location:
        """Where a value stands, or its key.

        :param path: keys and list positions; if it leads nowhere, the place
            is that of the last value on the way
        :param key: for the place of the key instead of the value
        """
        return errors.Location(self.source, *self.find(path, key),
                               key_text(path))

    def error(self, message: str, path: Path = (), advice: str = '',
              key: bool = False) -> errors.InputError:
        """An error about the value, or the key, at a path; for raising."""
        return errors.InputError(message, self.locate(path, key), advice)


def key_text(path: Path) -> str:
    """A path as errors show it: ``families.enterprise.sizes[2].vcpus``."""
    text = ''
    for part in path:
        if isinstance(part, int):
            text += f'[{part}]'
        else:
            text += f'.{part}' if text else part
    return text


def load(path: str | os.PathLike[str]) -> YamlDocument:
    """Read a YAML or JSON file.

    :raises errors.InputError: if it cannot be read, is not YAML, or is
        larger, deeper or more intricate than a file of ours can be
    """
    return parse(read(path), os.fspath(path))


def read_bytes(path: str | os.PathLike[str], most: int) -> bytes:
    """What a file holds.

    :param most: bytes that it may have, whole MiB
    :raises errors.InputError: if it cannot be read, or is larger
    """
    where = errors.Location(os.fspath(path))
    try:
        with open(path, 'rb') as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, 'strerror', None) or str(error)
        raise errors.InputError(f'cannot be read: {reason}', where) from None
    if len(data) > most:
        raise errors.InputError(f'is larger than {most >> 20} MiB', where)
    return data


def read(path: str | os.PathLike[str]) -> str:
    """The text of a file of at most MAX_BYTES.

    :raises errors.InputError: if it cannot be read, or is not UTF-8
    """
    return decode(read_bytes(path, MAX_BYTES), os.fspath(path))


def decode(data: bytes, source_name: str) -> str:
    """The text of a file's bytes.

    :raises errors.InputError: if it is not UTF-8
    """
    try:
        return data.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        line = data.count(b'\n', 0, error.start) + 1
        raise errors.InputError('is not UTF-8 text', errors.Location(
            source_name, line)) from None


def parse(text: str, source_name: str) -> YamlDocument:
    """Read YAML or JSON from text.

    :param source_name: what errors call it
    :raises errors.InputError: as :func:`load` does
    """
    bad = _NO_TEXT.search(text)
    if bad:
        raise errors.InputError(_no_text(bad), errors.Location(
            source_name, *line_column(text, bad.start())))
    reading = _Reader(text, source_name)
    try:
        return reading.document()
    except yaml.MarkedYAMLError as error:
        raise reading.syntax_error(error, text) from None
    except yaml.YAMLError as error:
        raise errors.InputError(
            f'is not YAML: {error}', errors.Location(source_name)) from None


def line_column(text: str, position: int) -> tuple[int, int]:
    """Where a character stands, both counted from 1."""
    return (text.count('\n', 0, position) + 1,
            position - text.rfind('\n', 0, position))


def _no_text(bad: re.Match[str]) -> str:
    return f'has a character that no text has, U+{ord(bad[0]):04X}'


class _Reader:
    """Reads one document from the events of PyYAML."""

    def __init__(self, text: str, source_name: str) -> None:
        self._source = source_name
        self._parsed = yaml.parse(text, Loader=_LOADER)
        # What aliases stand for, and comes before the next that is parsed.
        self._repeated: collections.deque[Any] = collections.deque()
        # The events of each anchor's value; none until it is whole.
        self._anchors: dict[str, list[Any]] = {}
        # Those of the innermost that is not whole.
        self._kept: list[Any] | None = None
        self._path: list[str | int] = []
        self._count = 0
        # The marks of each key, or else of the value, and of the value.
        self._marks: dict[Path, tuple[Any, Any]] = {}
        self._merged: dict[Path, Path] = {}

    def document(self) -> YamlDocument:
        self._next()
        event = self._next()
        value = None
        if not isinstance(event, yaml.StreamEndEvent):
            event = self._next()
            value = self._node(event)
        if value is None:
            self._fail('is empty', event)
        self._next()
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            self._fail('has a second YAML document', event,
                       'put it into a file of its own')
        return YamlDocument(value, self._source, self._find)

    def _find(self, path: Path, key: bool) -> tuple[int, int]:
        at = path if path in self._marks else ()
        for part in path[len(at):]:
            below = self._merged.get((*at, part), (*at, part))
            if below not in self._marks:
                key = False
                break
            at = below
        mark = self._marks[at][not key]
        return mark.line + 1, mark.column + 1

    def _next(self) -> Any:
        event = (self._repeated.popleft() if self._repeated
                 else next(self._parsed))
        if self._kept is not None:
            self._kept.append(event)
        return event

    def _node(self, event: Any, key: Any = None) -> Any:
        """The value that begins with an event.

        :param key: the event of its key, if it has one
        """
        if isinstance(event, yaml.AliasEvent):
            events = self._anchors.get(str(event.anchor))
            if not events:
                self._fail(f'&{event.anchor} refers to itself'
                           if event.anchor in self._anchors else
                           f'there is no anchor &{event.anchor} above', event)
            if self._kept is not None:
                self._kept.pop()
            self._repeated.extendleft(reversed(events))
            event = self._next()
        path = tuple(self._path)
        self._marks[path] = (key or event).start_mark, event.start_mark
        self._count += 1
        if self._count > MAX_VALUES:
            self._fail(f'more than {MAX_VALUES:,} values up to here, with '
                       'what aliases repeat', event)
        if len(path) >= MAX_DEPTH:
            del self._path[_KEYS_SHOWN:]
            self._fail(f'is nested more than {MAX_DEPTH} levels deep', event)
        if not event.anchor:
            return self._value(event)
        self._anchors[event.anchor] = []
        outer, self._kept = self._kept, [event]
        value = self._value(event)
        self._anchors[event.anchor] = self._kept
        if outer is not None:
            outer += self._kept[1:]
        self._kept = outer
        return value

    def _value(self, event: Any) -> Any:
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if isinstance(event, yaml.MappingStartEvent):
            self._check_tag(event, 'map')
            return self._mapping()
        self._check_tag(event, 'seq')
        values: list[Any] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            self._path.append(len(values))
            values.append(self._node(event))
            self._path.pop()
        return values

    def _mapping(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        merged: list[tuple[Path, Any]] = []
        while not isinstance(key := self._next(), yaml.MappingEndEvent):
            self._check_key(key)
            self._path.append(key.value)
            event = self._next()
            path = tuple(self._path)
            if path in self._marks:
                self._fail(
                    f'the key {key.value} appears here a second time', key,
                    f'the first is in line {self._marks[path][0].line + 1}')
            value = self._node(event, key)
            if key.value != '<<' or not key.implicit[0]:
                values[key.value] = value
            elif isinstance(value, list):
                merged += (((*path, number), other)
                           for number, other in enumerate(value))
            else:
                merged.append((path, value))
            if not all(isinstance(other, dict) for _path, other in merged):
                self._fail('only mappings can be merged', event)
            self._path.pop()
        # What the mapping does not say itself.
        for path, other in merged:
            for name in filter(lambda name: name not in values, other):
                values[name] = other[name]
                self._merged[*self._path, name] = self._merged.get(
                    (*path, name), (*path, name))
        return values

    def _scalar(self, event: Any) -> Any:
        self._check_text(event)
        text, tag = event.value, event.tag
        if tag == '!' or tag is None and not event.implicit[0]:
            return text
        match = _PLAIN.fullmatch(text)
        kind = written = str(match.lastgroup if match else 'str')
        if tag is not None:
            kind = tag.removeprefix(_TAG)
            if kind == 'str':
                return text
            if kind not in _READERS:
                self._check_tag(event, 'str')
            if (written, kind) != ('int', 'float') and written != kind:
                self._fail(f'{text!r} is not a !!{kind}', event)
        if written == 'int' and len(text) > _MAX_DIGITS:
            self._fail('is too long for a number', event)
        value = _READERS[written](text) if match else text
        if kind == 'float' and math.isinf(value := float(value)):
            self._fail(f'{text} is too large for a number', event)
        return value

    def _check_key(self, event: Any) -> None:
        if not isinstance(event, yaml.ScalarEvent):
            self._fail('a key must be plain text', event)
        self._check_tag(event, 'str')
        self._check_text(event)
        if '\n' in event.value:
            self._fail('a key must stand on one line', event)
        if event.anchor:
            self._fail('an anchor on a key is not understood', event)

    def _check_tag(self, event: Any, kind: str) -> None:
        if event.tag not in (None, '!', _TAG + kind):
            tag = event.tag.replace(_TAG, '!!')
            self._fail(f'{tag} is a tag that is not understood', event,
                       'leave it out')

    def _check_text(self, event: Any) -> None:
        bad = _NO_TEXT.search(event.value)
        if bad:
            self._fail(_no_text(bad), event)

    def _fail(self, message: str, event: Any, advice: str = '') -> NoReturn:
        raise errors.InputError(
            message, self._location(event.start_mark), advice)

    def _location(self, mark: Any) -> errors.Location:
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        return errors.Location(self._source, line, column,
                               key_text(tuple(self._path)))

    def syntax_error(self, error: yaml.MarkedYAMLError,
                     text: str) -> errors.InputError:
        """What PyYAML says of its input, in our words."""
        begun, mark = error.context_mark, error.problem_mark
        message = ' '.join(filter(None, (error.context, error.problem)))
        if begun and mark and begun.line != mark.line:
            message += f' (it began in line {begun.line + 1})'
        advice = ''
        if error.problem == _ODD_CHARACTER and mark:
            # As YAML counts lines.
            line = re.split('\r\n|[\r\n\x85\u2028\u2029]', text)[mark.line]
            character = line[mark.column:mark.column + 1]
            message = 'a tab where YAML wants spaces'
            if character != '\t':
                message = f'{character!r} cannot begin a value'
                advice = 'put the text into quotes'
        return errors.InputError(
            f'is not YAML: {message}', self._location(mark or begun), advice)
