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

"""JSON that programs write: strict, and read in a fraction of a second.

What :mod:`nova_pinning.document.source` reads may be written by people; it
keeps the place of every value, which is too dear for a document of many
megabytes. Here the place of a value is looked for when an error needs it.
"""

import dataclasses
import json
from json import decoder
from json import scanner
import re
from typing import Any
from typing import NoReturn

from nova_pinning.document import source
from nova_pinning import errors

_BLANK = re.compile(r'[ \t\n\r]*')
_MAX_SHOWN = 60

_Path = source.Path


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """What a JSON file holds, to be used as a ``source.Document`` is.

    :param source: the file's name
    """

    value: Any
    source: str
    text: str = dataclasses.field(repr=False, compare=False)

    def locate(self, path: _Path = (),
               key: bool = False) -> errors.Location:
        """Where a value stands, or its key.

        It reads all that stands before.

        :param path: keys and list positions; if it leads nowhere, the place
            is that of the last value on the way
        """
        try:
            at = _find(self.text, path, key)
        except RecursionError:
            # What could be read from higher up may be too deep from here.
            at = -1
        return errors.Location(self.source, *_line_column(self.text, at),
                               source.key_text(path))

    def error(self, message: str, path: _Path = (), advice: str = '',
              key: bool = False) -> errors.InputError:
        """An error about the value, or the key, at a path; for raising."""
        return errors.InputError(message, self.locate(path, key), advice)


class _Number(float):
    """A number with a decimal point, which is never taken for a whole one.

    To JSON Schema 2.0 is one; to the code that reads it, it is not.
    """

    def is_integer(self) -> bool:
        return False


def parse(text: str, source_name: str) -> Document:
    """Read JSON as RFC 8259 has it, with every key of an object once.

    :param source_name: what errors call it
    :raises errors.InputError: if it is something else; keys that stand twice
        and NaN are something else
    """
    try:
        value = json.loads(text, object_pairs_hook=_object,
                           parse_float=_Number, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise errors.InputError(
            f'is not JSON: {_what(text, error)}', errors.Location(
                source_name, error.lineno, error.colno)) from None
    except _TwiceError as error:
        raise errors.InputError(
            f'the key {_shown(error.key)} stands twice in one mapping',
            errors.Location(source_name, *_line_column(
                text, _find_twice(text, error.key)))) from None
    except _ConstantError as error:
        raise errors.InputError(
            f'is not JSON: {error} is no number that JSON has',
            errors.Location(source_name, *_line_column(
                text, _find_constant(text, str(error))))) from None
    except RecursionError:
        raise errors.InputError(
            'is nested too deep', errors.Location(source_name)) from None
    except ValueError:
        # Python reads no number of thousands of digits.
        raise errors.InputError(
            'has a number that is too long', errors.Location(
                source_name, *_line_column(
                    text, _find_long_number(text)))) from None
    return Document(value, source_name, text)


class _TwiceError(Exception):

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class _ConstantError(Exception):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen = set()
        for key, _value in pairs:
            if key in seen:
                raise _TwiceError(key)
            seen.add(key)
    return found


def _constant(name: str) -> NoReturn:
    raise _ConstantError(name)


def _what(text: str, error: json.JSONDecodeError) -> str:
    if not text.strip():
        return 'it is empty'
    if not text[error.pos:].strip() or error.msg.startswith('Unterminated'):
        return 'it ends in the middle; it may have been cut off'
    # Python's message has the place at its end, which is told anyway.
    return error.msg[:1].lower() + error.msg[1:]


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN
                else f'{text[:_MAX_SHOWN]}...')


def _line_column(text: str, at: int) -> tuple[int, int]:
    """Both counted from 1; (0, 0) for a place that is not known."""
    if at < 0:
        return 0, 0
    return text.count('\n', 0, at) + 1, at - text.rfind('\n', 0, at)


def _find(text: str, path: _Path, key: bool) -> int:
    """Where in a text that is known to be JSON a value stands."""
    # Nothing of what is passed over is kept.
    passing = decoder.JSONDecoder(object_pairs_hook=lambda pairs: None)
    at = _skip(text, 0)
    for position, part in enumerate(path):
        is_last = position == len(path) - 1
        found = _find_part(text, at, part, passing, key and is_last)
        if found is None:
            break
        at = found
    return at


def _find_part(text: str, at: int, part: str | int,
               passing: decoder.JSONDecoder, key: bool) -> int | None:
    """Where one value of a list or an object stands, if it is there.

    :param at: where the list or the object begins
    """
    is_object = text[at] == '{'
    if text[at] not in '[{' or is_object is not isinstance(part, str):
        return None
    at = _skip(text, at + 1)
    number = 0
    while text[at] not in ']}':
        name: str | int = number
        begun = at
        if is_object:
            name, at = passing.raw_decode(text, at)
            # Past the colon.
            at = _skip(text, _skip(text, at) + 1)
        if name == part:
            return begun if key else at
        _value, at = passing.raw_decode(text, at)
        at = _skip(text, at)
        if text[at] == ',':
            at = _skip(text, at + 1)
        number += 1
    return None


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    assert match
    return match.end()


# What follows looks at strings and numbers only, whatever stands around them.
_TOKENS = re.compile(
    r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|-?[A-Za-z]+|[{}\[\]]', re.DOTALL)


def _find_constant(text: str, name: str) -> int:
    for match in _TOKENS.finditer(text):
        if match[0] == name:
            return match.start()
    return -1


def _find_long_number(text: str) -> int:
    for match in _TOKENS.finditer(text):
        if match[0][0] in '-0123456789' and scanner.NUMBER_RE.fullmatch(
                match[0]):
            try:
                int(match[0])
            except ValueError:
                if '.' not in match[0] and 'e' not in match[0].lower():
                    return match.start()
    return -1


def _find_twice(text: str, key: str) -> int:
    """Where a key stands the second time in the first object to end with it.

    That is the object of which Python told.
    """
    open_objects: list[list[int]] = []
    for match in _TOKENS.finditer(text):
        token = match[0]
        if token in ('{', '['):
            open_objects.append([])
        elif token in ('}', ']'):
            places = open_objects.pop()
            if len(places) > 1:
                return places[1]
        elif token[0] == '"':
            colon = _skip(text, match.end())
            if text[colon] == ':' and json.loads(token) == key:
                open_objects[-1].append(match.start())
    return -1
