# SPDX-License-Identifier: Apache-2.0
"""A fleet snapshot as a file: one JSON document, version 1.

A file whose name ends in ``.zst`` is packed with Zstandard, ``-`` stands for
the standard input or output. Each host and each guest is one line.
"""

import dataclasses
import functools
import os
from typing import Any

from nova_pinning.document import json_text
from nova_pinning.document import packed
from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.fleet import decode
from nova_pinning.fleet import encode
from nova_pinning.fleet import snapshot

_SCHEMA = 'fleet-1.json'
# How many hosts or guests are looked at for more errors after the first.
_LOOKED_AT = 100
# What tells the things in a list of the document apart.
_NAMES = {'hosts': 'name', 'guests': 'uuid', 'flavors': 'name',
          'aggregates': 'name', 'server_groups': 'id'}

_MADE_BY = ('a fleet snapshot is made by nova-pinning fleet import, or fleet '
            'generate')

_Path = source.Path


def read(path: str | os.PathLike[str]) -> snapshot.Fleet:
    """Read a snapshot.

    :raises errors.InputError: if the file cannot be read, is not JSON, is not
        as the schema says or makes no sense: with the place
    """
    return loads(packed.read(path), packed.name(path))


def write(path: str | os.PathLike[str], fleet: snapshot.Fleet) -> None:
    """Replace a file by a snapshot, as a whole.

    :raises errors.InputError: if the file cannot be written, or the fleet is
        one that could not be read again
    """
    packed.write(path, dumps(fleet))


def loads(text: str, source_name: str = '') -> snapshot.Fleet:
    """A fleet from the text of its document.

    :param source_name: what errors call it
    :raises errors.InputError: as :func:`read` does
    """
    try:
        read = json_text.parse(text, source_name)
    except errors.InputError as error:
        if text.lstrip().startswith('{'):
            raise
        raise errors.InputError(
            error.message, error.where, _MADE_BY) from None
    document = _Document(read.value, read.source, read.find, read.value)
    if not isinstance(document.value, dict):
        raise document.error('is not a fleet snapshot', advice=_MADE_BY)
    if 'version' not in document.value:
        raise document.error('is not a fleet snapshot: it has no version',
                             advice=_MADE_BY)
    _schema().validate(document, _near)
    return decode.decode_fleet(document)


def dumps(fleet: snapshot.Fleet) -> str:
    """The text of a fleet's document; equal fleets have equal texts.

    Control characters in texts for people come out as question marks.

    :raises errors.InputError: if it is a fleet that could not be read again,
        because two hosts have one name, or something is out of its range
    :raises ValueError: if it is none that a snapshot can tell of, because
        something of a host is used without a guest, or a guest's fit is not
        that of its topology
    """
    value = encode.encode_fleet(fleet)
    text = ''.join(json_text.lines(value))
    if not _is_sound(value):
        loads(text, fleet.where.source or 'snapshot')
    return text


def _is_sound(value: dict[str, Any]) -> bool:
    """Whether a document that was just made can be read again."""
    return _schema().has(value) and all(
        len({entry[key] for entry in value.get(section, ())})
        == len(value.get(section, ())) for section, key in _NAMES.items())


@dataclasses.dataclass(frozen=True)
class _Document(source.YamlDocument):
    """A document whose errors name hosts and guests.

    :param whole: the value of all that stands in the file
    :param shift: by how much the positions in a list are larger than they
        seem, and the list
    """

    whole: Any
    shift: tuple[str, int] = ('', 0)

    def locate(self, path: _Path = (), key: bool = False) -> errors.Location:
        section, places = self.shift
        if len(path) > 1 and path[0] == section and isinstance(path[1], int):
            path = (section, path[1] + places, *path[2:])
        where = super().locate(path, key)
        name = self._name(path)
        if not name:
            return where
        begun, end = source.key_text(path[:2]), source.key_text(path[2:])
        return dataclasses.replace(
            where, key=f'{begun} ({name})' + (f'.{end}' if end else ''))

    def _name(self, path: _Path) -> str:
        if len(path) < 2 or path[0] not in _NAMES:
            return ''
        try:
            name = self.whole[path[0]][path[1]][_NAMES[path[0]]]
        except (KeyError, IndexError, TypeError):
            return ''
        return name if isinstance(name, str) and name.isprintable() else ''


@functools.cache
def _schema() -> schema.FastSchema:
    return schema.FastSchema(schema.shipped(__package__, _SCHEMA))


def _near(document: _Document, path: list[str]) -> _Document:
    """The document with nothing in its lists but what stands at a path.

    :param path: after its first element, keys and positions as text
    """
    value = document.value
    if not isinstance(value, dict):
        return document
    section = path[1] if len(path) > 1 else ''
    begun = (int(path[2]) if len(path) > 2
             and isinstance(value.get(section), list) else 0)
    part = {
        key: (below[begun:begun + _LOOKED_AT] if key == section else [])
        if isinstance(below, list) else below
        for key, below in value.items()}
    return dataclasses.replace(document, value=part, shift=(section, begun))
