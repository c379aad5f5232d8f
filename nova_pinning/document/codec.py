# SPDX-License-Identifier: Apache-2.0
"""Dataclasses as JSON, by their types: what is written, its schema, and back.

What the model's classes are made of is all that is understood: texts,
numbers, enumerations, sets of CPUs, tuples of one type, mappings from text,
and dataclasses of these. So a class and its form in a file cannot disagree.
"""

from collections.abc import Mapping
import dataclasses
import enum
import functools
import types
import typing
from typing import Any
from typing import TypeVar

from nova_pinning import cpuset

_T = TypeVar('_T')

_PLAIN: dict[Any, dict[str, Any]] = {
    str: {'type': 'string'},
    bool: {'type': 'boolean'},
    int: {'type': 'integer'},
    float: {'type': 'number'},
    types.NoneType: {'type': 'null'},
    cpuset.CpuSet: {'title': 'a list of CPUs such as 0-3,8',
                    'type': 'string', 'pattern': '^[0-9]*([-,][0-9]+)*$'},
}


def encode(value: Any) -> Any:
    """What json.dumps takes for a value."""
    if dataclasses.is_dataclass(value):
        return {field.name: encode(getattr(value, field.name))
                for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, cpuset.CpuSet):
        return str(value)
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    return value


def decode(kind: type[_T], value: Any) -> _T:
    """The value of a type that JSON, which matches its schema, stands for.

    :raises ValueError: for CPUs that cannot be read
    """
    decoded: _T = _decode(kind, value)
    return decoded


def schema(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a type; what has a default may be left out."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    # Kept from mypy, to which instances are dataclasses too.
    is_record = dataclasses.is_dataclass(kind)
    if is_record:
        return {
            'type': 'object', 'additionalProperties': False,
            'properties': {name: schema(hint)
                           for name, hint in _hints(kind).items()},
            'required': [
                field.name for field in dataclasses.fields(kind)
                if field.default is dataclasses.MISSING
                and field.default_factory is dataclasses.MISSING]}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {'enum': [member.value for member in kind]}
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return {'type': 'array', 'items': schema(arguments[0])}
    if origin is types.UnionType:
        return {'anyOf': [schema(argument) for argument in arguments]}
    return {'type': 'object', 'additionalProperties': schema(arguments[1])}


# There is one call for each object of a file.
@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode(kind: Any, value: Any) -> Any:
    if kind is cpuset.CpuSet:
        return cpuset.CpuSet.parse(value)
    if isinstance(kind, type):
        if not dataclasses.is_dataclass(kind):
            return kind(value)
        hints = _hints(kind)
        return kind(**{
            key: _decode(hints[key], item) for key, item in value.items()})
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return tuple(_decode(arguments[0], item) for item in value)
    if origin is types.UnionType:
        return _decode_union(arguments, value)
    return {key: _decode(arguments[1], item) for key, item in value.items()}


def _decode_union(kinds: tuple[Any, ...], value: Any) -> Any:
    """The first of some types that a value is of; unions are of plain ones."""
    if value is None:
        return None
    for kind in (bool, int, float, str):
        if kind in kinds and isinstance(value, kind):
            return kind(value)
    kind = next(kind for kind in kinds if kind is not types.NoneType)
    return _decode(kind, value)
