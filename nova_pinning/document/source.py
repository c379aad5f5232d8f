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

"""YAML and JSON as plain values that know where in the file they stand.

YAML is read by its events, for three reasons: the places of values and keys
are kept, what a hostile or broken file can cost is bounded (PyYAML's own
composer crashes on deep nesting), and plain scalars can be taken as YAML 1.2
takes them. So ``no`` and ``1:30`` are text, not False and 90; so is what
readers of YAML do not agree about, such as ``010`` and ``1e3``.

JSON is read as what it nearly is, a kind of YAML.
"""

from collections.abc import Iterator
import dataclasses
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
_MERGE = '<<'
# Control characters, which quoted text can spell out as escapes: what is read
# here is shown on terminals, and goes to nova.
_NO_TEXT = reader.Reader.NON_PRINTABLE

_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(('', '~', 'null', 'Null', 'NULL')),
    **dict.fromkeys(('true', 'True', 'TRUE'), True),
    **dict.fromkeys(('false', 'False', 'FALSE'), False),
}
_INT = re.compile(r'[-+]?(?:0|[1-9][0-9]*)')
_HEX = re.compile(r'0x[0-9a-fA-F]+')
# Only what YAML 1.1 takes for a number too: 12e4 may well be someone's id.
_FLOAT = re.compile(
    r'(?:\.[0-9]+|[-+]?(?:0|[1-9][0-9]*)\.[0-9]*)(?:[eE][-+][0-9]+)?')
_KINDS = {'null': type(None), 'bool': bool, 'int': int, 'float': float,
          'str': str}


class _Node:
    """A value with its place and what is below it."""

    __slots__ = ('value', 'line', 'column', 'below', 'keys', 'size', 'height')

    def __init__(self, value: Any, mark: Any) -> None:
        self.value = value
        # Counted from 1.
        self.line: int = mark.line + 1
        self.column: int = mark.column + 1
        self.below: dict[str | int, _Node] = {}
        # Line and column of each key of a mapping.
        self.keys: dict[str | int, tuple[int, int]] = {}
        self.size = 1
        self.height = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """What a file holds.

    :param value: None, bool, int, float, str, and lists and dicts of them.
        The keys of a dict are always str. What an alias names is one object
        wherever it is named, so do not change it.
    :param source: the file's name
    """

    value: Any
    source: str
    _root: _Node = dataclasses.field(repr=False, compare=False)

    def locate(self, path: Path = (), key: bool = False) -> errors.Location:
        """Where a value stands, or its key.

        :param path: keys and list positions; if it leads nowhere, the place
            is that of the last value on the way
        :param key: for the place of the key instead of the value
        """
        node = self._root
        line, column = node.line, node.column
        for position, part in enumerate(path):
            below = node.below.get(part)
            if below is None:
                break
            line, column = below.line, below.column
            if key and position == len(path) - 1:
                line, column = node.keys.get(part, (line, column))
            node = below
        return errors.Location(self.source, line, column, key_text(path))

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


def load(path: str | os.PathLike[str]) -> Document:
    """Read a YAML or JSON file.

    :raises errors.InputError: if it cannot be read, is no YAML, or is
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
    data = read_bytes(path, MAX_BYTES)
    try:
        return data.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        line = data.count(b'\n', 0, error.start) + 1
        raise errors.InputError(
            'is not UTF-8 text', errors.Location(os.fspath(path), line),
        ) from None


def parse(text: str, source_name: str) -> Document:
    """Read YAML or JSON from text.

    :param source_name: what errors call it
    :raises errors.InputError: as :func:`load` does
    """
    bad = _NO_TEXT.search(text)
    if bad:
        before = text[:bad.start()]
        raise errors.InputError(_no_text(bad), errors.Location(
            source_name, before.count('\n') + 1,
            bad.start() - before.rfind('\n')))
    return _Builder(text, source_name).document()


def _no_text(bad: re.Match[str]) -> str:
    return f'has a character that no text has, U+{ord(bad[0]):04X}'


class _Builder:
    """Builds the values of one document from the events of PyYAML."""

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        # As YAML counts lines.
        self._lines = re.split('\r\n|[\r\n\x85\u2028\u2029]', text)
        self._events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self._anchors: dict[str, _Node | None] = {}
        self._path: list[str | int] = []
        self._size = 0

    def document(self) -> Document:
        try:
            self._next()
            event = self._next()
            if isinstance(event, yaml.StreamEndEvent):
                self._fail('is empty', event)
            root = self._node(self._next())
            self._next()
            event = self._next()
            if not isinstance(event, yaml.StreamEndEvent):
                self._fail('has a second YAML document', event,
                           'put it into a file of its own')
        except yaml.MarkedYAMLError as error:
            raise self._syntax_error(error) from None
        except yaml.YAMLError as error:
            raise errors.InputError(
                f'is not YAML: {error}', errors.Location(self._source),
            ) from None
        if root.value is None:
            raise errors.InputError('is empty', errors.Location(
                self._source, root.line))
        return Document(root.value, self._source, root)

    def _next(self) -> Any:
        return next(self._events)

    def _fail(self, message: str, event: yaml.Event,
              advice: str = '') -> NoReturn:
        mark: Any = event.start_mark
        raise errors.InputError(message, errors.Location(
            self._source, mark.line + 1, mark.column + 1,
            key_text(tuple(self._path))), advice)

    def _syntax_error(self, error: yaml.MarkedYAMLError) -> errors.InputError:
        mark = error.problem_mark or error.context_mark
        where = errors.Location(
            self._source, mark.line + 1 if mark else 0,
            mark.column + 1 if mark else 0, key_text(tuple(self._path)))
        message = ' '.join(filter(None, (error.context, error.problem)))
        begun = error.context_mark
        if begun and mark and begun.line != mark.line:
            message += f' (it began in line {begun.line + 1})'
        advice = ''
        if error.problem == _ODD_CHARACTER and mark:
            message, advice = self._odd_character(mark)
        return errors.InputError(f'is not YAML: {message}', where, advice)

    def _odd_character(self, mark: yaml.Mark) -> tuple[str, str]:
        character = self._lines[mark.line][mark.column:mark.column + 1]
        if character == '\t':
            return 'a tab where YAML wants spaces', ''
        return (f'{character!r} cannot begin a value',
                'put the text into quotes')

    def _node(self, event: Any) -> _Node:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        self._count(1, event)
        if len(self._path) >= MAX_DEPTH:
            self._fail_deep(event)
        if event.anchor:
            # Until it is whole, nothing may refer to it.
            self._anchors[event.anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            node = _Node(self._scalar(event), event.start_mark)
        elif isinstance(event, yaml.MappingStartEvent):
            self._check_tag(event, 'map')
            node = self._mapping(event)
        else:
            self._check_tag(event, 'seq')
            node = self._sequence(event)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _alias(self, event: yaml.AliasEvent) -> _Node:
        if event.anchor not in self._anchors:
            self._fail(f'there is no anchor &{event.anchor} above', event)
        node = self._anchors[event.anchor]
        if node is None:
            self._fail(f'&{event.anchor} refers to itself', event)
        if len(self._path) + node.height > MAX_DEPTH:
            self._fail_deep(event)
        self._count(node.size, event)
        return node

    def _fail_deep(self, event: yaml.Event) -> NoReturn:
        del self._path[_KEYS_SHOWN:]
        self._fail(f'is nested more than {MAX_DEPTH} levels deep', event)

    def _count(self, size: int, event: yaml.Event) -> None:
        self._size += size
        if self._size > MAX_VALUES:
            self._fail(f'more than {MAX_VALUES:,} values up to here, with '
                       'what aliases repeat', event)

    def _check_tag(self, event: Any, kind: str) -> None:
        if event.tag not in (None, '!', _TAG + kind):
            tag = event.tag.replace(_TAG, '!!')
            self._fail(f'{tag} is a tag that is not understood', event,
                       'leave it out')

    def _scalar(self, event: Any) -> Any:
        text = event.value
        self._check_text(event)
        if not event.implicit[0] and event.tag is None or event.tag == '!':
            return text
        if event.tag == _TAG + 'str':
            return text
        value = self._plain(text, event)
        if event.tag is not None:
            kind = event.tag.removeprefix(_TAG)
            if kind not in _KINDS:
                self._check_tag(event, 'str')
            if kind == 'float' and type(value) is int:
                return float(value)
            if type(value) is not _KINDS[kind]:
                self._fail(f'{text!r} is no !!{kind}', event)
        return value

    def _check_text(self, event: yaml.ScalarEvent) -> None:
        bad = _NO_TEXT.search(event.value)
        if bad:
            self._fail(_no_text(bad), event)

    def _plain(self, text: str, event: yaml.ScalarEvent) -> Any:
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if text[0] not in '-+.0123456789':
            return text
        if _INT.fullmatch(text) or _HEX.fullmatch(text):
            if len(text) > _MAX_DIGITS:
                self._fail('is too long for a number', event)
            return int(text, 16 if text.startswith('0x') else 10)
        if _FLOAT.fullmatch(text):
            number = float(text)
            if number in (float('inf'), float('-inf')):
                self._fail(f'{text} is too large for a number', event)
            return number
        return text

    def _sequence(self, event: Any) -> _Node:
        value: list[Any] = []
        node = _Node(value, event.start_mark)
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            self._path.append(len(value))
            below = self._node(event)
            self._path.pop()
            self._attach(node, len(value), below)
            value.append(below.value)
        return node

    def _mapping(self, event: Any) -> _Node:
        value: dict[str, Any] = {}
        node = _Node(value, event.start_mark)
        merged: list[_Node] = []
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._key(event)
            if key in node.below:
                first, _column = node.keys[key]
                self._path.append(key)
                self._fail(f'the key {key} stands here a second time', event,
                           f'the first is in line {first}')
            is_merge = key == _MERGE and event.implicit[0]
            self._path.append(key)
            event_below = self._next()
            below = self._node(event_below)
            if is_merge:
                merged += self._to_merge(below, event_below)
                self._path.pop()
                continue
            self._path.pop()
            mark = event.start_mark
            node.keys[key] = mark.line + 1, mark.column + 1
            self._attach(node, key, below)
            value[key] = below.value
        for other in merged:
            self._merge(node, other)
        return node

    def _key(self, event: Any) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            self._fail('a key must be plain text', event)
        if event.tag not in (None, '!', _TAG + 'str'):
            self._check_tag(event, 'str')
        self._check_text(event)
        if '\n' in event.value:
            self._fail('a key must stand on one line', event)
        if event.anchor:
            self._fail('an anchor on a key is not understood', event)
        return str(event.value)

    def _to_merge(self, node: _Node, event: yaml.Event) -> list[_Node]:
        nodes = (list(node.below.values()) if isinstance(node.value, list)
                 else [node])
        if not all(isinstance(one.value, dict) for one in nodes):
            self._fail('only mappings can be merged', event)
        return nodes

    def _merge(self, node: _Node, other: _Node) -> None:
        """Take over from ``<<`` what the mapping does not say itself."""
        for key, below in other.below.items():
            if key not in node.below:
                node.keys[key] = other.keys[key]
                self._attach(node, key, below)
                node.value[key] = below.value

    def _attach(self, node: _Node, part: str | int, below: _Node) -> None:
        node.below[part] = below
        node.size += below.size
        node.height = max(node.height, below.height + 1)
