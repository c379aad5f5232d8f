# SPDX-License-Identifier: Apache-2.0
"""Documents of our classes: all that is wrong is told, with its place."""

from collections.abc import Callable
from collections.abc import Collection
import enum
import inspect
import re
import typing
from typing import Annotated
from typing import Any

from nova_pinning import cpuset
from nova_pinning.document import codec
from nova_pinning.document import decoder
from nova_pinning.document import source

_PARAMETER = re.compile(r'^:param (\w+): (.*(?:\n {2,}.*)*)', re.MULTILINE)


def read(kind: Any, document: source.YamlDocument,
         version: int | None = None, ignored: Collection[str] = (),
         near: Callable[[source.Path], source.YamlDocument] | None = None,
         ) -> Any:
    """The value of a type that a document holds.

    :param kind: a dataclass or a named tuple, or a mapping
    :param version: that the document has to have, beside what it holds; None
        if such documents have none
    :param ignored: keys of the document that are nobody's concern
    :param near: the part of a large document that is looked at for all that
        is wrong, given where the first error is
    :raises errors.InputErrors: if it holds none, with the places
    """
    value = document.value
    try:
        if isinstance(value, dict) and (version is not None or ignored):
            value = {key: item for key, item in value.items()
                     if key not in ignored}
            if version is not None:
                decoder.member(value.pop('version', None), {version: version})
        return decoder.decode(kind, value)
    except codec.MisfitError as error:
        # It takes longer to import than most commands take otherwise.
        from nova_pinning.document import schema as json_schema

        expected = schema(kind, version)
        for key in ignored:
            expected['properties'][key] = {}
        json_schema.validate(
            near(error.path) if near else document, expected)
        raise document.error(str(error), error.path) from None


def schema(kind: Any, version: int | None = None) -> dict[str, Any]:
    """The JSON Schema of a document of a type.

    What has a default may be left out. Descriptions are those that the
    docstrings of classes give of their parameters.

    :param version: that the document has to have, None if it has none
    """
    found = _schema(kind)
    tables = codec.tables_of(kind)
    if tables:
        found['properties'] |= {
            name: {'type': 'array', 'items': _schema(inner)}
            for name, inner in tables.items()}
    if version is not None:
        found['properties'] = {
            'version': {'const': version}, **found['properties']}
        found['required'] = ['version', *found['required']]
    return found


def _schema(kind: Any) -> dict[str, Any]:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in codec.NAMES:
        return {'type': codec.NAMES[kind]}
    if kind is Any:
        return {}
    if origin is Annotated:
        return _annotated(arguments[0], kind.__metadata__)
    if kind is cpuset.CpuSet:
        return _schema(codec.CPUS.kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {'enum': [member.value for member in kind]}
    if codec.is_record(kind):
        return _record(kind)
    if origin is typing.Literal:
        return ({'const': arguments[0]} if len(arguments) == 1
                else {'enum': list(arguments)})
    if origin is tuple and arguments[1:] != (...,):
        return {'type': 'array', 'prefixItems': list(map(_schema, arguments)),
                'minItems': len(arguments), 'maxItems': len(arguments)}
    if origin in (tuple, frozenset):
        return {'type': 'array', 'items': _schema(arguments[0]),
                **({'uniqueItems': True} if origin is frozenset else {})}
    if codec.is_union(origin):
        return {'anyOf': list(map(_schema, arguments))}
    names = _schema(arguments[0])
    del names['type']
    return {'type': 'object', 'additionalProperties': _schema(arguments[1]),
            **({'propertyNames': names} if names else {})}


def _annotated(kind: Any, notes: tuple[Any, ...]) -> dict[str, Any]:
    found = _record(kind, *notes) if codec.is_record(kind) else _schema(kind)
    for note in notes:
        if isinstance(note, codec.Form):
            found = _schema(note.kind)
        elif isinstance(note, codec.Limit):
            found = found | note.keywords
        elif isinstance(note, codec.Shared):
            found = {'title': f'a position in {note.table}, counted from 0',
                     'type': 'integer', 'minimum': 0}
    return found


def _record(kind: Any, *notes: Any) -> dict[str, Any]:
    told = dict(_PARAMETER.findall(inspect.getdoc(kind) or ''))
    attributes = codec.attributes(kind, *notes)
    return {
        'type': 'object', 'additionalProperties': False,
        'properties': {
            one.name: _schema(one.hint) | ({'description': ' '.join(
                told[one.name].split())} if one.name in told else {})
            for one in attributes},
        'required': [one.name for one in attributes
                     if one.default is codec.NO_DEFAULT]}
