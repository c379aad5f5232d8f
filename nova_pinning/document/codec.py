# SPDX-License-Identifier: Apache-2.0
"""Values of our classes as JSON, by their types: written, read, and a schema.

Understood are texts, numbers, enumerations, sets of CPUs, tuples, frozen sets,
mappings, unions of these, and dataclasses and named tuples of them. So a class
and its form in a file cannot disagree. What a type does not say stands in an
``Annotated``: a :class:`Limit` for what JSON Schema calls keywords, a
:class:`Form` for values that are written as those of another type. Attributes
of which equality takes no notice are not written.

Each type is looked at once and made a function of. Reading stops at the first
thing that is wrong; :func:`read` then has the schema tell all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import enum
import functools
import inspect
import operator
import re
import types
import typing
from typing import Annotated
from typing import Any

from nova_pinning import cpuset

if typing.TYPE_CHECKING:
    from nova_pinning.document import source

_Convert = Callable[[Any], Any]

_NAMES = {str: 'string', bool: 'boolean', int: 'integer', float: 'number',
          types.NoneType: 'null'}
_CHECKS: dict[str, Callable[[Any], _Convert]] = {
    'minimum': lambda least: functools.partial(operator.le, least),
    'maximum': lambda most: functools.partial(operator.ge, most),
    'exclusiveMinimum': lambda bound: functools.partial(operator.lt, bound),
    'minLength': lambda least: lambda value: len(value) >= least,
    'maxLength': lambda most: lambda value: len(value) <= most,
    # Python's $ also matches before a newline at the end.
    'pattern': lambda text: re.compile(re.sub(r'\$$', r'\\Z', text)).search,
    'minItems': lambda least: lambda value: len(value) >= least,
    'maxItems': lambda most: lambda value: len(value) <= most,
}
_NO_DEFAULT = object()
_PARAMETER = re.compile(r'^:param (\w+): (.*(?:\n {2,}.*)*)', re.MULTILINE)


class MisfitError(ValueError):
    """A value is not of the type that it is to be read as.

    :param message: what is wrong, a sentence without a full stop
    :param path: keys and positions that lead to it
    """

    def __init__(self, message: str, *path: str | int) -> None:
        super().__init__(message)
        self.path = path

    def below(self, key: str | int) -> MisfitError:
        """The same as seen from one step further up."""
        return MisfitError(str(self), key, *self.path)


class Limit:
    """What a value has to be besides being of its type.

    :param keywords: of JSON Schema; a ``title`` says it in words
    """

    def __init__(self, **keywords: Any) -> None:
        self.keywords = keywords


@dataclasses.dataclass(frozen=True)
class Form:
    """How values are written that stand as those of another type in a file.

    :param kind: the type that is written
    :param write: makes one of it
    :param read: the way back; raises ValueError, or MisfitError to say where,
        for what has none
    """

    kind: Any
    write: _Convert
    read: _Convert


_CPUS = Form(Annotated[str, Limit(
    title='a list of CPUs such as 0-3,8',
    pattern='^[0-9]*([-,][0-9]+)*$')], str, cpuset.CpuSet.parse)


@dataclasses.dataclass(frozen=True, slots=True)
class _Attribute:
    name: str
    hint: Any
    default: Any


def encode(value: Any, sparse: bool = False) -> dict[str, Any]:
    """What json.dumps takes for a dataclass or a named tuple.

    :param sparse: whether attributes that have their defaults are left out
    """
    kind: Any = type(value)
    written: dict[str, Any] = _writer(kind, sparse)(value)
    return written


def decode(kind: Any, value: Any) -> Any:
    """The value of a type that JSON stands for.

    :raises MisfitError: if it stands for none
    """
    return _reader(kind)(value)


def read(kind: Any, document: source.YamlDocument,
         version: int | None = None, ignored: Collection[str] = ()) -> Any:
    """The value of a type that a document holds.

    :param kind: a dataclass or a named tuple, or a mapping
    :param version: that the document has to have, beside what it holds; None
        if such documents have none
    :param ignored: keys of the document that are nobody's concern
    :raises errors.InputErrors: if it holds none, with the places
    """
    value = document.value
    try:
        if isinstance(value, dict) and (version is not None or ignored):
            value = {key: item for key, item in value.items()
                     if key not in ignored}
            if version is not None:
                _member(value.pop('version', None), {version: version})
        return decode(kind, value)
    except MisfitError as error:
        # It takes longer to import than most commands take otherwise.
        from nova_pinning.document import schema as json_schema

        expected = schema(kind)
        if version is not None:
            expected['properties']['version'] = {'const': version}
        for key in ignored:
            expected['properties'][key] = {}
        json_schema.validate(document, expected)
        raise document.error(str(error), error.path) from None


def schema(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a type; what has a default may be left out.

    Descriptions are those that the docstrings of classes give of their
    parameters.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _NAMES:
        return {'type': _NAMES[kind]}
    if kind is Any:
        return {}
    if origin is Annotated:
        keywords: dict[str, Any] = {}
        for note in kind.__metadata__:
            if isinstance(note, Form):
                arguments = (note.kind,)
            elif isinstance(note, Limit):
                keywords |= note.keywords
        return schema(arguments[0]) | keywords
    if kind is cpuset.CpuSet:
        return schema(_CPUS.kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {'enum': [member.value for member in kind]}
    if _is_record(kind):
        told = dict(_PARAMETER.findall(inspect.getdoc(kind) or ''))
        attributes = _attributes(kind)
        return {
            'type': 'object', 'additionalProperties': False,
            'properties': {
                one.name: schema(one.hint) | ({'description': ' '.join(
                    told[one.name].split())} if one.name in told else {})
                for one in attributes},
            'required': [one.name for one in attributes
                         if one.default is _NO_DEFAULT]}
    if origin is typing.Literal:
        return ({'const': arguments[0]} if len(arguments) == 1
                else {'enum': list(arguments)})
    if origin is tuple and arguments[1:] != (...,):
        return {'type': 'array', 'prefixItems': list(map(schema, arguments)),
                'minItems': len(arguments), 'maxItems': len(arguments)}
    if origin in (tuple, frozenset):
        return {'type': 'array', 'items': schema(arguments[0]),
                **({'uniqueItems': True} if origin is frozenset else {})}
    if _is_union(origin):
        return {'anyOf': list(map(schema, arguments))}
    return {'type': 'object', 'additionalProperties': schema(arguments[1])}


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (
        dataclasses.is_dataclass(kind) or hasattr(kind, '_field_defaults'))


def _is_union(origin: Any) -> bool:
    return origin in (types.UnionType, typing.Union)


@functools.cache
def _attributes(kind: Any) -> tuple[_Attribute, ...]:
    hints = typing.get_type_hints(kind, include_extras=True)
    if not dataclasses.is_dataclass(kind):
        return tuple(
            _Attribute(name, hints[name],
                       kind._field_defaults.get(name, _NO_DEFAULT))
            for name in kind._fields)
    return tuple(
        _Attribute(field.name, hints[field.name], _default(field))
        for field in dataclasses.fields(kind) if field.compare and field.init)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return (_NO_DEFAULT if field.default is dataclasses.MISSING
            else field.default)


# Writing. A function for each type, None for what is written as it is.

@functools.cache
def _writer(kind: Any, sparse: bool) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        for note in kind.__metadata__:
            if isinstance(note, Form):
                return _formed(note, sparse)
        return _writer(arguments[0], sparse)
    if kind is cpuset.CpuSet:
        return _CPUS.write
    if _is_record(kind):
        return _record_writer(kind, sparse)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return operator.attrgetter('value')
    if origin in (tuple, frozenset):
        return _list_writer(origin, arguments, sparse)
    if _is_union(origin):
        return _union_writer(arguments, sparse)
    if kind in _NAMES or kind is Any or origin is typing.Literal:
        return None
    write = _writer(arguments[1], sparse)
    if write is None:
        return dict
    return lambda value: {key: write(item) for key, item in value.items()}


def _formed(form: Form, sparse: bool) -> _Convert:
    outer, inner = form.write, _writer(form.kind, sparse)
    return outer if inner is None else lambda value: inner(outer(value))


def _record_writer(kind: Any, sparse: bool) -> _Convert:
    parts = [(one.name, operator.attrgetter(one.name),
              _writer(one.hint, sparse),
              one.default if sparse else _NO_DEFAULT)
             for one in _attributes(kind)]

    def write(value: Any) -> dict[str, Any]:
        found = {}
        for name, get, convert, default in parts:
            item = get(value)
            if item is not default and item != default:
                found[name] = item if convert is None else convert(item)
        return found

    return write


def _list_writer(origin: Any, kinds: tuple[Any, ...],
                 sparse: bool) -> _Convert:
    if origin is tuple and kinds[1:] != (...,):
        writers = [_writer(kind, sparse) for kind in kinds]
        return lambda value: [
            item if write is None else write(item)
            for write, item in zip(writers, value, strict=True)]
    write = _writer(kinds[0], sparse)
    ordered: _Convert = sorted if origin is frozenset else list
    if write is None:
        return ordered
    return lambda value: [write(item) for item in ordered(value)]


def _union_writer(kinds: tuple[Any, ...], sparse: bool) -> _Convert | None:
    writers = {_class_of(kind): convert for kind in kinds
               if (convert := _writer(kind, sparse))}
    if not writers:
        return None
    if len(kinds) == 2 and types.NoneType in kinds:
        (only,) = writers.values()
        return lambda value: None if value is None else only(value)

    def write(value: Any) -> Any:
        convert = writers.get(type(value))
        return value if convert is None else convert(value)

    return write


def _class_of(kind: Any) -> Any:
    if typing.get_origin(kind) is Annotated:
        return _class_of(typing.get_args(kind)[0])
    return typing.get_origin(kind) or kind


# Reading. A function for each type.

@functools.cache
def _reader(kind: Any) -> _Convert:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _NAMES:
        return _plain_reader(kind)
    if kind is Any:
        return lambda value: value
    if origin is Annotated:
        return _annotated_reader(arguments[0], kind.__metadata__)
    if kind is cpuset.CpuSet:
        return _form_reader(_CPUS)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        members = {member.value: member for member in kind}
        return lambda value: _member(value, members)
    if _is_record(kind):
        return _record_reader(kind)
    if origin is typing.Literal:
        return lambda value: _member(
            value, {literal: literal for literal in arguments})
    if origin in (tuple, frozenset):
        return _list_reader(origin, arguments)
    if _is_union(origin):
        return _union_reader(arguments)
    return _mapping_reader(_reader(arguments[1]))


def _plain_reader(kind: Any) -> _Convert:
    # A number with a decimal point is a class of its own when it is read.
    classes = (float, int) if kind is float else kind

    def read(value: Any) -> Any:
        if not isinstance(value, classes) or (
                value is True or value is False) and kind is not bool:
            raise MisfitError(f'{value!r} is not a {_NAMES[kind]}')
        return float(value) if kind is float else value

    return read


def _member(value: Any, members: Mapping[Any, Any]) -> Any:
    # True is equal to 1.
    if not isinstance(value, (str, int)) or value not in members or (
            isinstance(value, bool)):
        raise MisfitError(f'{value!r} is none of '
                          f'{", ".join(map(str, members))}')
    return members[value]


def _annotated_reader(kind: Any, notes: tuple[Any, ...]) -> _Convert:
    read = _reader(kind)
    for note in notes:
        if isinstance(note, Form):
            read = _form_reader(note)
        elif isinstance(note, Limit):
            read = _limit_reader(note, read)
    return read


def _limit_reader(limit: Limit, inner: _Convert) -> _Convert:
    checks = [_CHECKS[key](bound) for key, bound in limit.keywords.items()
              if key in _CHECKS]
    expected = limit.keywords.get('title', 'within its limits')

    def read(value: Any) -> Any:
        found = inner(value)
        for check in checks:
            if not check(found):
                raise MisfitError(f'{value!r} is not {expected}')
        return found

    return read


def _form_reader(form: Form) -> _Convert:
    outer, inner = form.read, _reader(form.kind)

    def read(value: Any) -> Any:
        found = inner(value)
        try:
            return outer(found)
        except MisfitError:
            raise
        except ValueError as error:
            raise MisfitError(str(error)) from None

    return read


def _record_reader(kind: Any) -> _Convert:
    attributes = _attributes(kind)
    readers = {one.name: _reader(one.hint) for one in attributes}
    required = {one.name for one in attributes if one.default is _NO_DEFAULT}

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MisfitError(f'{value!r} is not a mapping')
        found = {}
        for key, item in value.items():
            convert = readers.get(key)
            if convert is None:
                raise MisfitError(f'{key} is not known here', key)
            try:
                found[key] = convert(item)
            except MisfitError as error:
                raise error.below(key) from None
        if not required <= found.keys():
            missing = next(key for key in readers
                           if key in required and key not in found)
            raise MisfitError(f'{missing} is missing')
        try:
            return kind(**found)
        except MisfitError:
            raise
        except ValueError as error:
            raise MisfitError(str(error)) from None

    return read


def _list_reader(origin: Any, kinds: tuple[Any, ...]) -> _Convert:
    convert = _reader(kinds[0])
    readers = (list(map(_reader, kinds))
               if origin is tuple and kinds[1:] != (...,) else None)

    def items(value: Any) -> Iterator[Any]:
        if not isinstance(value, list):
            raise MisfitError(f'{value!r} is not a list')
        if readers is not None and len(value) != len(readers):
            raise MisfitError(f'is not a list of {len(readers)}')
        for number, item in enumerate(value):
            yield _below(number, readers[number] if readers else convert, item)

    def read(value: Any) -> Any:
        found = origin(items(value))
        if len(found) < len(value):
            raise MisfitError('is a list in which something stands twice')
        return found

    return read


def _below(key: str | int, convert: _Convert, value: Any) -> Any:
    try:
        return convert(value)
    except MisfitError as error:
        raise error.below(key) from None


def _mapping_reader(convert: _Convert) -> _Convert:
    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MisfitError(f'{value!r} is not a mapping')
        return {key: _below(key, convert, item)
                for key, item in value.items()}

    return read


def _union_reader(kinds: tuple[Any, ...]) -> _Convert:
    # A whole number is read as one, if it may be.
    readers = [_reader(kind) for kind in sorted(
        kinds, key=lambda kind: bool(kind is float))
        if kind is not types.NoneType]
    has_none = types.NoneType in kinds

    def read(value: Any) -> Any:
        if value is None and has_none:
            return None
        failures = []
        for convert in readers:
            try:
                return convert(value)
            except MisfitError as error:
                failures.append(error)
        raise max(failures, key=lambda error: len(error.path))

    return read
