# SPDX-License-Identifier: Apache-2.0
"""Values of our classes are made of JSON.

Each type is looked at once and made a function of. Reading stops at the first
thing that is wrong; ``typed_document`` tells all that is.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import enum
import functools
import operator
import re
import types
import typing
from typing import Annotated
from typing import Any

from nova_pinning import cpuset
from nova_pinning.document import codec

_CHECKS: dict[str, Callable[[Any], codec.Convert]] = {
    'minimum': lambda least: functools.partial(operator.le, least),
    'maximum': lambda most: functools.partial(operator.ge, most),
    'exclusiveMinimum': lambda bound: functools.partial(operator.lt, bound),
    'minLength': lambda least: lambda value: len(value) >= least,
    'maxLength': lambda most: lambda value: len(value) <= most,
    # Python's $ also matches before a newline at the end.
    'pattern': lambda text: re.compile(re.sub(r'\$$', r'\\Z', text)).search,
    'enum': lambda members: members.__contains__,
    'minItems': lambda least: lambda value: len(value) >= least,
    'maxItems': lambda most: lambda value: len(value) <= most,
}


def decode(kind: Any, value: Any) -> Any:
    """The value of a type that JSON stands for.

    :raises codec.MisfitError: if it stands for none
    """
    tables = codec.tables_of(kind)
    if not tables or not isinstance(value, dict):
        return READERS.of(kind)(value)
    scope = codec.Scope(_reader)
    value = dict(value)
    for name, inner in tables.items():
        scope.tables[name] = list(below(
            name, scope.of(types.GenericAlias(tuple, (inner, ...))),
            value.pop(name, [])))
    return scope.of(kind)(value)


def _reader(kind: Any, scope: codec.Scope) -> codec.Convert:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in codec.NAMES:
        return _plain_reader(kind)
    if kind is Any:
        return lambda value: value
    if origin is Annotated:
        return _annotated_reader(arguments[0], kind.__metadata__, scope)
    if kind is cpuset.CpuSet:
        return _form_reader(codec.CPUS, scope)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        members = {member.value: member for member in kind}
        return lambda value: member(value, members)
    if codec.is_record(kind):
        return _record_reader(kind, (), scope)
    if origin is typing.Literal:
        return lambda value: member(
            value, {literal: literal for literal in arguments})
    if origin in (tuple, frozenset):
        return _list_reader(origin, arguments, scope)
    if codec.is_union(origin):
        return _union_reader(arguments, scope)
    return _mapping_reader(*map(scope.of, arguments))


def _plain_reader(kind: Any) -> codec.Convert:
    # A number with a decimal point is a class of its own when it is read.
    classes = (float, int) if kind is float else kind

    def read(value: Any) -> Any:
        if type(value) is kind:
            return value
        if not isinstance(value, classes) or isinstance(value, bool):
            raise codec.MisfitError(f'{value!r} is not a {codec.NAMES[kind]}')
        return float(value) if kind is float else value

    return read


def member(value: Any, members: Mapping[Any, Any]) -> Any:
    """What a text or a whole number stands for.

    :raises codec.MisfitError: if it stands for nothing
    """
    # True is equal to 1.
    if not isinstance(value, (str, int)) or value not in members or (
            isinstance(value, bool)):
        raise codec.MisfitError(
            f'{value!r} is none of {", ".join(map(str, members))}')
    return members[value]


def _annotated_reader(kind: Any, notes: tuple[Any, ...],
                      scope: codec.Scope) -> codec.Convert:
    read = (_record_reader(kind, notes, scope) if codec.is_record(kind)
            else scope.of(kind))
    for note in notes:
        if isinstance(note, codec.Form):
            read = _form_reader(note, scope)
        elif isinstance(note, codec.Limit):
            read = limited(note, read)
        elif isinstance(note, codec.Shared):
            read = _shared_reader(note.table, scope.tables[note.table])
    return read


def _shared_reader(name: str, table: list[Any]) -> codec.Convert:
    def read(value: Any) -> Any:
        if type(value) is not int or value < 0:
            raise codec.MisfitError(f'{value!r} is not a position in {name}')
        if value >= len(table):
            raise codec.MisfitError(
                f'there is no {name}[{value}]; {name} has {len(table):,}, '
                'counted from 0')
        return table[value]

    return read


def limited(limit: codec.Limit, inner: codec.Convert | None) -> codec.Convert:
    """A function that refuses what is out of its limits.

    :param inner: makes the value of what it is given; None if it is that
    """
    checks = [_CHECKS[key](bound) for key, bound in limit.keywords.items()
              if key in _CHECKS]
    expected = limit.keywords.get('title', 'within its limits')

    def read(value: Any) -> Any:
        found = value if inner is None else inner(value)
        for check in checks:
            if not check(found):
                raise codec.MisfitError(f'{value!r} is not {expected}')
        return found

    return read


def _form_reader(form: codec.Form, scope: codec.Scope) -> codec.Convert:
    outer, inner = form.read, scope.of(form.kind)

    def read(value: Any) -> Any:
        found = inner(value)
        try:
            return outer(found)
        except codec.MisfitError:
            raise
        except ValueError as error:
            raise codec.MisfitError(str(error)) from None

    return read


def _record_reader(kind: Any, notes: tuple[Any, ...],
                   scope: codec.Scope) -> codec.Convert:
    parts = codec.attributes(kind, *notes)
    readers = {one.name: scope.of(one.hint) for one in parts}
    required = {one.name for one in parts if one.default is codec.NO_DEFAULT}
    omitted = {name: usual for note in notes if isinstance(note, codec.Fields)
               for name, usual in note.omitted.items()}

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise codec.MisfitError(f'{value!r} is not a mapping')
        found = omitted.copy()
        key = ''
        try:
            for key, item in value.items():
                found[key] = readers[key](item)
        except codec.MisfitError as error:
            raise error.below(key) from None
        except KeyError:
            if key in readers:
                raise
            raise codec.MisfitError(
                f'{key} is not known here', key) from None
        if not required <= found.keys():
            missing = next(key for key in readers
                           if key in required and key not in found)
            raise codec.MisfitError(f'{missing} is missing')
        try:
            return kind(**found)
        except codec.MisfitError:
            raise
        except ValueError as error:
            raise codec.MisfitError(str(error)) from None

    return read


def _list_reader(origin: Any, kinds: tuple[Any, ...],
                 scope: codec.Scope) -> codec.Convert:
    convert = scope.of(kinds[0])
    readers = (list(map(scope.of, kinds))
               if origin is tuple and kinds[1:] != (...,) else None)

    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise codec.MisfitError(f'{value!r} is not a list')
        if readers is None:
            found = origin(each(convert, value))
        elif len(value) != len(readers):
            raise codec.MisfitError(f'is not a list of {len(readers)}')
        else:
            found = tuple(map(below, range(len(value)), readers, value))
        if len(found) < len(value):
            raise codec.MisfitError(
                'is a list in which something stands twice')
        return found

    return read


def each(convert: codec.Convert, values: Iterable[Any]) -> list[Any]:
    """What becomes of each; errors say which of them it is."""
    found = []
    number = 0
    try:
        for number, item in enumerate(values):
            found.append(convert(item))
    except codec.MisfitError as error:
        raise error.below(number) from None
    return found


def below(key: str | int, convert: codec.Convert, value: Any) -> Any:
    """What becomes of what stands under a key, which errors name."""
    try:
        return convert(value)
    except codec.MisfitError as error:
        raise error.below(key) from None


def _mapping_reader(read_key: codec.Convert,
                    read: codec.Convert) -> codec.Convert:
    def found(value: Any) -> Any:
        if not isinstance(value, dict):
            raise codec.MisfitError(f'{value!r} is not a mapping')
        return {below(key, read_key, key): below(key, read, item)
                for key, item in value.items()}

    return found


def _union_reader(kinds: tuple[Any, ...], scope: codec.Scope) -> codec.Convert:
    # A whole number is read as one, if it may be.
    readers = [scope.of(kind) for kind in sorted(
        kinds, key=lambda kind: bool(kind is float))
        if kind is not types.NoneType]
    if len(readers) == 1 and types.NoneType in kinds:
        only = readers[0]
        return lambda value: None if value is None else only(value)
    has_none = types.NoneType in kinds

    def read(value: Any) -> Any:
        if value is None and has_none:
            return None
        failures = []
        for convert in readers:
            try:
                return convert(value)
            except codec.MisfitError as error:
                failures.append(error)
        raise max(failures, key=lambda error: len(error.path))

    return read


#: Of types that have no tables.
READERS = codec.Scope(_reader)
