# SPDX-License-Identifier: Apache-2.0
"""How values of our classes stand in files that people write.

A form is both ways: what a file has for a value, and the value that it has
for that. What a class has by default is left out. People write what can be
meant in several ways and make several mistakes at once, so readers take either
and go on after a mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import enum
import types
import typing
from typing import Any

from nova_pinning import cpuset
from nova_pinning.document import codec
from nova_pinning.document import quantities
from nova_pinning.document import source
from nova_pinning import errors


class DocumentReader:
    """Reads values of a document, and keeps note of what is wrong.

    What cannot be read is empty, or 0.

    :ivar errors: what is wrong, with the places
    """

    def __init__(self, document: source.YamlDocument) -> None:
        self.document = document
        self.errors: list[errors.InputError] = []

    def fail(self, message: str, path: source.Path, advice: str = '',
             key: bool = False) -> None:
        """Add an error.

        :param key: whether it is the key of the place that is wrong
        """
        self.errors.append(self.document.error(message, path, advice, key))

    def cpus(self, value: str | int, path: source.Path) -> cpuset.CpuSet:
        """A list of CPUs."""
        try:
            return cpuset.CpuSet.parse(str(value))
        except ValueError as error:
            self.fail(str(error), path)
            return cpuset.CpuSet()

    def amount(
        self, read: Callable[[Any, errors.Location], int], value: str | int,
        path: source.Path,
    ) -> int:
        """A number with a unit, as one of ``quantities`` reads it."""
        try:
            return read(value, self.document.locate(path))
        except errors.InputError as error:
            self.errors.append(error)
            return 0


_BY_CLASS = object()


@dataclasses.dataclass(frozen=True, slots=True)
class DocumentForm:
    """How one kind of values stands in a file.

    :param read: the value of what stands at a path
    :param write: plain values, but CPUs are a CpuSet
    :param key: '' for the name of the attribute
    :param default: is left out, in the place of the class's own
    :param is_written: even if it is as it would be by default
    """

    read: Callable[[DocumentReader, Any, source.Path], Any]
    write: Callable[[Any], Any]
    key: str = ''
    default: Any = _BY_CLASS
    is_written: bool = False

    def at(self, key: str) -> DocumentForm:
        """The same at a key that is not named as the attribute is."""
        return dataclasses.replace(self, key=key)

    def always(self) -> DocumentForm:
        """The same, written in any case."""
        return dataclasses.replace(self, is_written=True)

    def unless(self, default: Any) -> DocumentForm:
        """The same with a default that the class does not have."""
        return dataclasses.replace(self, default=default)


#: Forms that types do not tell, by class and attribute; None for attributes
#: that are not read and written here.
SpecialForms = Mapping[type, Mapping[str, DocumentForm | None]]


class RecordForm:
    """A mapping for a dataclass.

    Keys stand in the order of the attributes. Attributes of which equality
    takes no notice do not stand in a file.
    """

    def __init__(self, kind: Any, special: SpecialForms) -> None:
        self._kind = kind
        own = special.get(kind, {})
        self._forms: dict[str, DocumentForm] = {}
        self._defaults = {}
        for one in codec.attributes(kind):
            form = own.get(one.name) or derived(one.hint, special)
            if one.name not in own or own[one.name] is not None:
                self._forms[one.name] = form
                self._defaults[one.name] = (
                    one.default if form.default is _BY_CLASS else form.default)

    def read(self, reader: DocumentReader, value: Mapping[str, Any],
             path: source.Path, **others: Any) -> Any:
        """The dataclass.

        :param others: attributes that are not read here
        """
        found = {}
        for name, form in self._forms.items():
            key = form.key or name
            if key in value:
                found[name] = form.read(reader, value[key], (*path, key))
            elif form.default is not _BY_CLASS:
                found[name] = form.default
        return self._kind(**found | others)

    def write(self, value: Any) -> dict[str, Any]:
        """The mapping, without what is as it would be by default."""
        return {
            form.key or name: form.write(item)
            for name, form in self._forms.items()
            if (item := getattr(value, name)) != self._defaults[name]
            or form.is_written}


def derived(hint: Any, special: SpecialForms) -> DocumentForm:
    """The form of a type: a dataclass, a set of CPUs, a word, any of many."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if codec.is_union(origin):
        (hint,) = set(arguments) - {types.NoneType}
        return derived(hint, special)
    if codec.is_record(hint):
        record = RecordForm(hint, special)
        return DocumentForm(record.read, record.write)
    if origin is tuple:
        return listed(derived(arguments[0], special))
    if origin is frozenset:
        return converted(frozenset, sorted)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return (by_number if arguments[0] is int else by_key)(
            derived(arguments[1], special))
    if hint is cpuset.CpuSet:
        return CPUS
    if issubclass(hint, enum.Enum):
        return converted(hint, str)
    return converted(float, float) if hint is float else PLAIN


def listed(form: DocumentForm) -> DocumentForm:
    """A list for a tuple."""
    return DocumentForm(
        lambda reader, value, path: tuple(
            form.read(reader, item, (*path, index))
            for index, item in enumerate(value)),
        lambda value: list(map(form.write, value)))


def by_key(form: DocumentForm) -> DocumentForm:
    """A mapping by text."""
    return DocumentForm(
        lambda reader, value, path: {
            key: form.read(reader, item, (*path, key))
            for key, item in value.items()},
        lambda value: {key: form.write(item) for key, item in value.items()})


def by_number(form: DocumentForm) -> DocumentForm:
    """A mapping by numbers, which JSON has as text; ascending."""
    texts = by_key(form)
    return DocumentForm(
        lambda reader, value, path: {
            int(key): item
            for key, item in texts.read(reader, value, path).items()},
        lambda value: texts.write(dict(sorted(value.items()))))


def amount(
    read: Callable[[Any, errors.Location], int], write: Callable[[int], str],
) -> DocumentForm:
    """A number with a unit."""
    return DocumentForm(
        lambda reader, value, path: reader.amount(read, value, path), write)


def converted(read: Callable[[Any], Any],
              write: Callable[[Any], Any]) -> DocumentForm:
    """What goes right if the schema has been kept to."""
    return DocumentForm(lambda reader, value, path: read(value), write)


PLAIN = converted(lambda value: value, lambda value: value)
#: Hexadecimal digits and the like, which YAML may have taken for a number.
LOWER = converted(lambda value: str(value).lower(), str)
MASK = converted(lambda value: int(str(value), 16), lambda mask: f'{mask:x}')
CPUS = DocumentForm(DocumentReader.cpus, lambda cpus: cpus)
MEMORY_MIB = amount(quantities.memory_mib, quantities.text)
PAGE_SIZE_KIB = amount(quantities.page_size_kib, quantities.page_size_text)
