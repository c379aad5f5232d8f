# SPDX-License-Identifier: Apache-2.0
"""Values of our classes are made JSON.

Each type is looked at once and made a function of. What is out of its limits
is not written.
"""

from collections.abc import Mapping
import enum
import functools
import operator
import types
import typing
from typing import Annotated
from typing import Any

from nova_pinning import cpuset
from nova_pinning.document import codec
from nova_pinning.document import decoder


def encode(value: Any, sparse: bool = False) -> dict[str, Any]:
    """What json.dumps takes for a dataclass or a named tuple.

    :param sparse: whether attributes that have their defaults are left out,
        and mappings sorted, so that equal values are written alike
    :raises codec.MisfitError: if something is out of its limits
    """
    kind: Any = type(value)
    # Unless there are tables, what is made of types is made once.
    scope = (codec.Scope(_writer, sparse) if codec.tables_of(kind)
             else _WRITERS[sparse])
    found: dict[str, Any] = scope.of(kind)(value)
    return found | {name: table for name, table in scope.tables.items()
                    if table}


def _writer(kind: Any, scope: codec.Scope) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return _annotated_writer(arguments[0], kind.__metadata__, scope)
    if kind is cpuset.CpuSet:
        return codec.CPUS.write
    if codec.is_record(kind):
        return _record_writer(kind, (), scope)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return operator.attrgetter('value')
    if origin in (tuple, frozenset):
        return _list_writer(origin, arguments, scope)
    if codec.is_union(origin):
        return _union_writer(arguments, scope)
    if kind in codec.NAMES or kind is Any or origin is typing.Literal:
        return None
    return _mapping_writer(scope.of(arguments[0]), scope.of(arguments[1]),
                           sorted if scope.is_sparse else iter)


def _annotated_writer(kind: Any, notes: tuple[Any, ...],
                      scope: codec.Scope) -> Any:
    write = (_record_writer(kind, notes, scope) if codec.is_record(kind)
             else scope.of(kind))
    for note in notes:
        if isinstance(note, codec.Form):
            write = _chain(note.write, scope.of(note.kind))
        elif isinstance(note, codec.Shared):
            write = _shared_writer(
                write, scope.tables.setdefault(note.table, []))
        elif isinstance(note, codec.Limit):
            write = _chain(write, decoder.limited(note, (
                decoder.READERS.of(kind) if kind in codec.NAMES else None)))
    return write


def _chain(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return second or first
    return lambda value: second(first(value))


def _shared_writer(write: codec.Convert | None,
                   table: list[Any]) -> codec.Convert:
    # To find an object is quicker than to compare values. It is kept, so that
    # no other comes to have its id.
    places: dict[Any, int] = {}
    known: dict[int, tuple[int, Any]] = {}

    def position(value: Any) -> int:
        found = known.get(id(value))
        if found is not None:
            return found[0]
        key = (frozenset(value.items()) if isinstance(value, Mapping)
               else value)
        if key not in places:
            row = value if write is None else write(value)
            places[key] = len(table)
            table.append(row)
        known[id(value)] = places[key], value
        return places[key]

    return position


def _record_writer(kind: Any, notes: tuple[Any, ...],
                   scope: codec.Scope) -> codec.Convert:
    parts = [(one.name, scope.of(one.hint),
              one.default if scope.is_sparse else codec.NO_DEFAULT)
             for one in codec.attributes(kind, *notes)]
    names = [name for name, _convert, _default in parts]
    get_all: codec.Convert = operator.attrgetter(*names)
    if len(names) == 1:
        get_all = functools.partial(_single, get_all)
    omitted = [(name, operator.attrgetter(name), usual) for note in notes
               if isinstance(note, codec.Fields)
               for name, usual in note.omitted.items()]

    def write(value: Any) -> dict[str, Any]:
        found = {}
        for name, get, usual in omitted:
            if get(value) != usual:
                raise codec.MisfitError(
                    f'{get(value)} is not what a file takes it for', name)
        try:
            for (name, convert, default), item in zip(parts, get_all(value)):
                if item is not default and item != default:
                    found[name] = item if convert is None else convert(item)
        except codec.MisfitError as error:
            raise error.below(name) from None
        return found

    return write


def _single(get: codec.Convert, value: Any) -> tuple[Any]:
    return (get(value),)


def _list_writer(origin: Any, kinds: tuple[Any, ...],
                 scope: codec.Scope) -> codec.Convert:
    if origin is tuple and kinds[1:] != (...,):
        writers = list(map(scope.of, kinds))
        return lambda value: [
            item if write is None else write(item)
            for write, item in zip(writers, value, strict=True)]
    write = scope.of(kinds[0])
    ordered: codec.Convert = sorted if origin is frozenset else list
    if write is None:
        return ordered
    return lambda value: decoder.each(write, ordered(value))


def _mapping_writer(
    write_key: codec.Convert | None, write: codec.Convert | None,
    ordered: codec.Convert,
) -> codec.Convert:
    def written(value: Any) -> dict[str, Any]:
        return {key if write_key is None else write_key(key):
                item if write is None else decoder.below(key, write, item)
                for key, item in ordered(value.items())}

    return written


def _union_writer(kinds: tuple[Any, ...],
                  scope: codec.Scope) -> codec.Convert | None:
    writers = {_class_of(kind): convert for kind in kinds
               if (convert := scope.of(kind))}
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


_WRITERS = {sparse: codec.Scope(_writer, sparse) for sparse in (False, True)}
