# SPDX-License-Identifier: Apache-2.0
"""A fleet snapshot as a file: one JSON document, version 2.

Its form is that of the types of :mod:`nova_pinning.fleet.snapshot`, as
:mod:`nova_pinning.document.codec` has it.

A file whose name ends in ``.zst`` is packed with Zstandard, ``-`` stands for
the standard input or output. Each host and each guest is one line.
"""

from collections.abc import Callable
from collections.abc import Iterator
import dataclasses
import operator
import os
from typing import Any

from nova_pinning.document import codec
from nova_pinning.document import encoder
from nova_pinning.document import json_text
from nova_pinning.document import packed
from nova_pinning.document import source
from nova_pinning.document import typed_document
from nova_pinning import errors
from nova_pinning.fleet import snapshot

VERSION = 2
# How many hosts or guests are looked at for more errors after the first.
_LOOKED_AT = 100
# What tells the things in a list of the document apart.
_NAMES = {'hosts': 'name', 'guests': 'uuid', 'flavors': 'name',
          'aggregates': 'name', 'server_groups': 'id'}

_MADE_BY = ('a fleet snapshot is made by nova-pinning fleet import, or fleet '
            'generate')

_PROVIDERS = ('a host itself is provider 0, the first of its children 1, and '
              'parents come first')

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
    read = json_text.parse(text, source_name, _MADE_BY)
    document = _Document(read.value, read.source, read.find, read.value)
    value = document.value
    if not isinstance(value, dict):
        raise document.error('is not a fleet snapshot', advice=_MADE_BY)
    if 'version' not in value:
        raise document.error('is not a fleet snapshot: it has no version',
                             advice=_MADE_BY)
    fleet: snapshot.Fleet = typed_document.read(
        snapshot.Fleet, document, VERSION, near=document.near)
    for message, path, advice in _faults(fleet):
        raise document.error(message, path, advice)
    return dataclasses.replace(
        fleet, where=errors.Location(document.source),
        flavors=tuple(
            dataclasses.replace(flavor, where=errors.Location(
                document.source, key=f'flavors[{number}]'))
            for number, flavor in enumerate(fleet.flavors)))


def dumps(fleet: snapshot.Fleet) -> str:
    """The text of a fleet's document; equal fleets have equal texts.

    Control characters in texts for people come out as question marks.

    :raises errors.InputError: if it is a fleet that could not be read again,
        because two hosts have one name, something is out of its range, or
        something of a host is used without a guest
    """
    name = fleet.where.source or 'snapshot'
    try:
        value = encoder.encode(fleet, sparse=True)
    except codec.MisfitError as error:
        raise errors.InputError(str(error), errors.Location(
            name, key=_key(
                error.path, _name(getattr, fleet, error.path)))) from None
    for message, path, advice in _faults(fleet):
        raise errors.InputError(
            message, errors.Location(name, key=source.key_text(path)), advice)
    # The many lines come last.
    hosts, guests = value.pop('hosts'), value.pop('guests', [])
    return ''.join(json_text.lines({
        'version': VERSION, **value, 'hosts': hosts, 'guests': guests}))


def _faults(
    fleet: snapshot.Fleet,
) -> Iterator[tuple[str, source.Path, str]]:
    """What types cannot tell: what is wrong, where, and advice."""
    for section, key in _NAMES.items():
        first: dict[str, int] = {}
        for number, entry in enumerate(getattr(fleet, section)):
            name = getattr(entry, key)
            if first.setdefault(name, number) != number:
                yield (f'{name} appears here a second time',
                       (section, number, key),
                       f'the first is {section}[{first[name]}]')
    children = {host.name: len(host.children) for host in fleet.hosts}
    for number, host in enumerate(fleet.hosts):
        for place, child in enumerate(host.children):
            if child.parent is not None and child.parent > place:
                yield ('is no provider before it', (
                    'hosts', number, 'children', place, 'parent'), _PROVIDERS)
        if any(pool.provider is not None and pool.provider > children[
                host.name] for pool in host.pci_pools):
            yield ('has a pool of a provider that the host does not have',
                   ('hosts', number, 'pci_pools'), _PROVIDERS)
    for number, guest in enumerate(fleet.guests):
        if any(index > children.get(guest.host, index)
               for index, _amounts in guest.allocations):
            yield ('has some of a provider that its host does not have',
                   ('guests', number, 'allocations'), _PROVIDERS)
        if guest.topology is None or guest.fit is None:
            if (guest.topology is None) is not (guest.fit is None):
                yield ('of topology and fit one is missing',
                       ('guests', number), '')
        elif len(guest.topology.cells) != len(guest.fit.cells):
            yield (f'places {len(guest.fit.cells)} cells, where the topology '
                   f'has {len(guest.topology.cells)}',
                   ('guests', number, 'fit'), '')


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
        return dataclasses.replace(
            super().locate(path, key), key=_key(
                path, _name(operator.getitem, self.whole, path)))

    def near(self, path: _Path) -> '_Document':
        """The document with nothing in its lists but what stands at a path.
        """
        section, begun = (*path, 0, 0)[:2]
        if not isinstance(self.value, dict) or not isinstance(begun, int):
            return self
        part = {
            key: (below[begun:begun + _LOOKED_AT] if key == section else [])
            if isinstance(below, list) else below
            for key, below in self.value.items()}
        return dataclasses.replace(
            self, value=part, shift=(str(section), begun))


def _name(get: Callable[[Any, str], Any], fleet: Any, path: _Path) -> str:
    """Of the host or guest that a path leads to, '' if to none.

    :param get: an attribute of the fleet, or what stands under a key
    """
    try:
        section = str(path[0])
        name = get(get(fleet, section)[path[1]], _NAMES[section])
    except (AttributeError, KeyError, IndexError, TypeError):
        return ''
    return name if isinstance(name, str) and name.isprintable() else ''


def _key(path: _Path, name: str) -> str:
    """A path with the name of what it leads to."""
    if not name:
        return source.key_text(path)
    begun, end = source.key_text(path[:2]), source.key_text(path[2:])
    return f'{begun} ({name})' + (f'.{end}' if end else '')
