# SPDX-License-Identifier: Apache-2.0
"""Flavors side by side: what a family has in common, and where sizes differ.

Pure: tables are tuples of text.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import os.path
from typing import Any

from nova_pinning.document import quantities
from nova_pinning.flavors import flavor_model


#: What :func:`as_dict` has of each flavor.
FIELDS = ('name', 'id', 'vcpus', 'memory_mib', 'disk_gib', 'ephemeral_gib',
          'swap_mib', 'rxtx_factor', 'is_public', 'projects', 'description',
          'extra_specs')
#: What a flavor is unless it is said, by the names of its fields.
DEFAULTS = {field.name: field.default
            for field in dataclasses.fields(flavor_model.Flavor)
            if field.default is not dataclasses.MISSING}


@dataclasses.dataclass(frozen=True, slots=True)
class FamilyTable:
    """The flavors of one family, a column each.

    :param common: (extra spec, value) of all of them, if there are several
    :param prefix: what all names begin with, up to a separator
    :param columns: the flavors' names without it
    :param rows: a heading and a value for each flavor, '' where it has none
    """

    family: str
    common: tuple[tuple[str, str], ...]
    prefix: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def family_tables(flavors: Iterable[flavor_model.Flavor]) -> list[FamilyTable]:
    """A table for each family, in the order in which they come.

    Flavors that belong to none make a family called ''.
    """
    families: dict[str, list[flavor_model.Flavor]] = {}
    for flavor in flavors:
        family = flavor.extra_specs.get(flavor_model.FAMILY_KEY, '')
        families.setdefault(family, []).append(flavor)
    return [_family_table(*item) for item in families.items()]


def _family_table(family: str,
                  flavors: Sequence[flavor_model.Flavor]) -> FamilyTable:
    keys = list(dict.fromkeys(
        key for flavor in flavors for key in flavor.extra_specs))
    common = []
    rows = list(_size_rows(flavors))
    for key in keys:
        values = tuple(flavor.extra_specs.get(key, '') for flavor in flavors)
        if len(flavors) > 1 and len(set(values)) == 1:
            common.append((key, values[0]))
        else:
            rows.append((key, values))
    names = [flavor.name for flavor in flavors]
    prefix = _prefix(names)
    return FamilyTable(
        family, tuple(common), prefix,
        tuple(name.removeprefix(prefix) for name in names), tuple(rows))


def _prefix(names: Sequence[str]) -> str:
    """What several names begin with, if a '.', '-' or '_' ends it."""
    if len(names) < 2:
        return ''
    shared = os.path.commonprefix(names)
    return shared[:max(shared.rfind(separator) for separator in '.-_') + 1]


def _size_rows(flavors: Sequence[flavor_model.Flavor],
               ) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What is not an extra spec; only vCPUs, memory and disk if it is 0."""
    rows = (
        ('vCPUs', [str(flavor.vcpus) for flavor in flavors], True),
        ('memory', [
            quantities.shown_memory(flavor.memory_mib) for flavor in flavors
        ], True),
        ('disk', [_gib(flavor.disk_gib) for flavor in flavors], True),
        ('ephemeral disk', [_gib(flavor.ephemeral_gib) for flavor in flavors],
         any(flavor.ephemeral_gib for flavor in flavors)),
        ('swap', [
            quantities.shown_memory(flavor.swap_mib) if flavor.swap_mib else ''
            for flavor in flavors
        ], any(flavor.swap_mib for flavor in flavors)),
        ('projects', [_projects(flavor) for flavor in flavors],
         any(not flavor.is_public for flavor in flavors)))
    for heading, values, is_shown in rows:
        if is_shown:
            yield heading, tuple(values)


def _gib(size: int) -> str:
    return f'{size} GiB' if size else ''


def _projects(flavor: flavor_model.Flavor) -> str:
    if flavor.is_public:
        return 'all'
    return '\n'.join(flavor.projects) or 'none yet'


def as_dict(flavor: flavor_model.Flavor) -> dict[str, Any]:
    """A flavor for machines, in the units of its field names."""
    return {name: getattr(flavor, name) for name in FIELDS} | {
        'projects': list(flavor.projects),
        'extra_specs': dict(flavor.extra_specs)}
