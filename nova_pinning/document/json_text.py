# SPDX-License-Identifier: Apache-2.0
"""JSON that programs write: strict, and read in a fraction of a second.

What :mod:`nova_pinning.document.source` reads may be written by people; it
keeps the place of every value, which is too dear for a document of many
megabytes. Here Python's json module reads, and the place of a value is looked
for when an error needs it, with the same module for all that is passed over.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import json
import re
from typing import Any
from typing import NoReturn

from nova_pinning.document import source
from nova_pinning import errors

# Between the values and keys of what is known to be JSON.
_BETWEEN = re.compile(r'[ \t\n\r,:]*')
_MAX_SHOWN = 60


class _Number(float):
    """A number with a decimal point, which is never taken for a whole one.

    To JSON Schema 2.0 is one; to the code that reads it, it is not.
    """

    def is_integer(self) -> bool:
        return False


class _RefusedError(ValueError):
    """What Python reads, and RFC 8259 does not have or advises against."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise _RefusedError
    return values


def _constant(name: str) -> NoReturn:
    raise _RefusedError


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_Number,
                            parse_constant=_constant)


def parse(text: str, source_name: str,
          made_by: str = '') -> source.YamlDocument:
    """Read JSON as RFC 8259 has it, with every key of an object once.

    :param source_name: what errors call it
    :param made_by: what to say where it is nothing like JSON
    :raises errors.InputError: if it is something else; keys that stand twice
        and NaN are something else
    """
    try:
        value = _read(text, source_name)
    except RecursionError:
        raise errors.InputError(
            'is nested too deep', errors.Location(source_name)) from None
    except errors.InputError as error:
        if text.lstrip().startswith('{'):
            raise
        raise errors.InputError(
            error.message, error.where, made_by) from None
    return source.YamlDocument(value, source_name,
                               lambda path, key: _find(text, path, key))


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The text of a document, with a line for each thing in a list of it."""
    write = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    opening = '{'
    for key, value in document.items():
        yield f'{opening}\n{json.dumps(key)}: '
        if isinstance(value, list) and value:
            yield '[\n'
            yield ',\n'.join(map(write, value))
            yield '\n]'
        else:
            yield write(value)
        opening = ','
    yield '\n}\n'


def _read(text: str, source_name: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise errors.InputError(
            f'is not JSON: {_what(text, error)}', errors.Location(
                source_name, error.lineno, error.colno)) from None
    except ValueError:
        message, at = _refusal(text)
        raise errors.InputError(message, errors.Location(
            source_name, *source.line_column(text, at))) from None


def _what(text: str, error: json.JSONDecodeError) -> str:
    if not text.strip():
        return 'it is empty'
    if not text[error.pos:].strip() or error.msg.startswith('Unterminated'):
        return 'it ends in the middle; it may have been cut off'
    # Python's message has the place at its end, which is told anyway.
    return error.msg[:1].lower() + error.msg[1:]


def _refusal(text: str) -> tuple[str, int]:
    """What is refused in a text that is JSON otherwise, and where it is."""
    at = _next(text, 0)
    while text[at] in '[{':
        names: set[str | int] = set()
        try:
            for name, key_at, at in _items(text, at):
                if name in names:
                    return (f'the key {_shown(str(name))} stands twice in one '
                            'mapping'), key_at
                names.add(name)
        except ValueError:
            # It is in the value that was come to last.
            pass
    match = re.compile('-?[A-Za-z]+').match(text, at)
    if match:
        return f'is not JSON: {match[0]} is not a number that JSON has', at
    # Python reads no whole number of thousands of digits.
    return 'has a number that is too long', at


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN
                else f'{text[:_MAX_SHOWN]}...')


def _find(text: str, path: source.Path, key: bool) -> tuple[int, int]:
    """Where a value stands in a text that could be read."""
    at = _next(text, 0)
    try:
        for depth, part in enumerate(path, 1):
            for name, key_at, value_at in _items(text, at):
                if name == part:
                    break
            else:
                break
            at = key_at if key and depth == len(path) else value_at
    except RecursionError:
        # What could be read from higher up may be too deep from here.
        return 0, 0
    return source.line_column(text, at)


def _items(text: str, at: int) -> Iterator[tuple[str | int, int, int]]:
    """What a list or an object has: position or key, and where that is.

    :param at: where it begins; other values have nothing
    :returns: also where the value begins
    """
    is_object = text[at] == '{'
    if text[at] not in '[{':
        return
    at = _next(text, at + 1)
    position = 0
    while text[at] not in ']}':
        name: str | int = position
        key_at = at
        if is_object:
            name, at = _DECODER.raw_decode(text, at)
            at = _next(text, at)
        yield name, key_at, at
        _value, at = _DECODER.raw_decode(text, at)
        at = _next(text, at)
        position += 1


def _next(text: str, at: int) -> int:
    match = _BETWEEN.match(text, at)
    assert match
    return match.end()
