# SPDX-License-Identifier: Apache-2.0
"""Values of our classes as JSON: what their types say of it.

Understood are texts, numbers, enumerations, sets of CPUs, tuples, frozen sets,
mappings, unions of these, and dataclasses and named tuples of them. So a class
and its form in a file cannot disagree. What a type does not say stands in an
``Annotated``: a :class:`Limit` for what JSON Schema calls keywords, a
:class:`Form` for values that are written as those of another type,
:class:`Fields` for attributes of a class that knows nothing of files, and
:class:`Shared` for what stands once however many have it. Attributes of which
equality takes no notice are not written.

``encoder`` writes them, ``decoder`` reads them, and ``typed_document`` has
their JSON Schema.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import functools
import types
import typing
from typing import Annotated
from typing import Any
from typing import TypeAlias

from nova_pinning import cpuset

Convert: TypeAlias = Callable[[Any], Any]

#: What JSON calls the types that are written as they are.
NAMES = {str: 'string', bool: 'boolean', int: 'integer', float: 'number',
         types.NoneType: 'null'}
#: The default of an attribute that has none.
NO_DEFAULT = object()
# Its argument is a value to mypy.
_ANNOTATED: Any = Annotated


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
    write: Convert
    read: Convert


class Fields:
    """What attributes of a class are in a file, where it does not say itself.

    :param omitted: the values of attributes that are always the same in a
        file, and are not written
    :param hints: types of attributes, by name; also of those that would not
        be written
    """

    def __init__(self, omitted: Mapping[str, Any] = types.MappingProxyType(
            {}), **hints: Any) -> None:
        self.omitted = omitted
        self.hints = hints


class Shared:
    """Values that many have alike: each stands once, in a table.

    In its place is its position there, counted from 0. They are hashable, or
    mappings of what is.

    :param table: the key of the table at the top of the document, which no
        attribute of it has
    """

    def __init__(self, table: str) -> None:
        self.table = table


#: How sets of CPUs are written.
CPUS = Form(Annotated[str, Limit(
    title='a list of CPUs such as 0-3,8',
    pattern='^[0-9]*([-,][0-9]+)*$')],
    # Many things have the same CPUs.
    functools.lru_cache(1024)(str), cpuset.CpuSet.parse)


@dataclasses.dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a class, with its default or NO_DEFAULT."""

    name: str
    hint: Any
    default: Any


class Scope:
    """The functions that are made of types, and the tables of a document.

    :param make: makes the function of a type
    :param is_sparse: whether attributes that have their defaults are left out
    """

    def __init__(self, make: Callable[[Any, Scope], Any],
                 is_sparse: bool = False) -> None:
        self._make = make
        self._made: dict[Any, Any] = {}
        self.is_sparse = is_sparse
        self.tables: dict[str, list[Any]] = {}

    def of(self, kind: Any) -> Any:
        """What is made of a type, when it is asked for first."""
        if kind not in self._made:
            self._made[kind] = self._make(kind, self)
        return self._made[kind]


@functools.cache
def tables_of(kind: Any) -> Mapping[str, Any]:
    """The types of what stands in the tables of a document, by their keys.

    A table comes after those that it refers to.
    """
    arguments = typing.get_args(kind)
    parts = [part for part in arguments if isinstance(part, type)
             or typing.get_origin(part)]
    found: dict[str, Any] = {}
    if typing.get_origin(kind) is Annotated:
        for note in kind.__metadata__:
            if isinstance(note, Form):
                parts = [note.kind]
            elif isinstance(note, Shared):
                parts = [without(kind, note)]
                found = {note.table: parts[0]}
        if is_record(parts[0]):
            parts = [one.hint for one in attributes(*arguments)]
    elif is_record(kind):
        parts = [one.hint for one in attributes(kind)]
    return {name: inner for part in parts
            for name, inner in tables_of(part).items()} | found


def without(kind: Any, note: Any) -> Any:
    """An ``Annotated`` type without one of its notes."""
    return functools.reduce(
        lambda inner, other: inner if other is note
        else _ANNOTATED[inner, other], kind.__metadata__, kind.__origin__)


def is_record(kind: Any) -> bool:
    """Whether it is a dataclass or a named tuple."""
    return isinstance(kind, type) and (
        dataclasses.is_dataclass(kind) or hasattr(kind, '_field_defaults'))


def is_union(origin: Any) -> bool:
    """Whether that is the origin of a union of types."""
    return origin in (types.UnionType, typing.Union)


@functools.cache
def attributes(kind: Any, *notes: Any) -> tuple[Attribute, ...]:
    """The attributes of a class that stand in files.

    :param notes: of the type
    """
    told = next((note for note in notes if isinstance(note, Fields)),
                Fields())
    hints = typing.get_type_hints(kind, include_extras=True) | told.hints
    defaults: dict[str, Any] = {
        field.name: _default(field) for field in dataclasses.fields(kind)
        if field.init and (field.compare or field.name in told.hints)
    } if dataclasses.is_dataclass(kind) else {
        name: kind._field_defaults.get(name, NO_DEFAULT)
        for name in kind._fields}
    return tuple(Attribute(name, hints[name], default)
                 for name, default in defaults.items()
                 if name not in told.omitted)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return (NO_DEFAULT if field.default is dataclasses.MISSING
            else field.default)
