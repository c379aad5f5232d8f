#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

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
from nova_pinning.flavors import model


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


def family_tables(flavors: Iterable[model.Flavor]) -> list[FamilyTable]:
    """A table for each family, in the order in which they come.

    Flavors that belong to none make a family called ''.
    """
    families: dict[str, list[model.Flavor]] = {}
    for flavor in flavors:
        family = flavor.extra_specs.get(model.FAMILY_KEY, '')
        families.setdefault(family, []).append(flavor)
    return [_family_table(*item) for item in families.items()]


def _family_table(family: str,
                  flavors: Sequence[model.Flavor]) -> FamilyTable:
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
    return shared[:max(shared.rfind(one) for one in '.-_') + 1]


def _size_rows(flavors: Sequence[model.Flavor],
               ) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What is not an extra spec; only vCPUs, memory and disk if it is 0."""
    rows = (
        ('vCPUs', [str(one.vcpus) for one in flavors], True),
        ('memory', [quantities.shown_memory(one.memory_mib)
                    for one in flavors], True),
        ('disk', [_gib(one.disk_gib) for one in flavors], True),
        ('ephemeral disk', [_gib(one.ephemeral_gib) for one in flavors],
         any(one.ephemeral_gib for one in flavors)),
        ('swap', [quantities.shown_memory(one.swap_mib) if one.swap_mib else ''
                  for one in flavors], any(one.swap_mib for one in flavors)),
        ('projects', [_projects(one) for one in flavors],
         any(not one.is_public for one in flavors)),
    )
    for heading, values, is_shown in rows:
        if is_shown:
            yield heading, tuple(values)


def _gib(size: int) -> str:
    return f'{size} GiB' if size else ''


def _projects(flavor: model.Flavor) -> str:
    if flavor.is_public:
        return 'all'
    return '\n'.join(flavor.projects) or 'none yet'


def as_dict(flavor: model.Flavor) -> dict[str, Any]:
    """A flavor for machines, in the units of its field names."""
    return {
        'name': flavor.name,
        'id': flavor.id,
        'vcpus': flavor.vcpus,
        'memory_mib': flavor.memory_mib,
        'disk_gib': flavor.disk_gib,
        'ephemeral_gib': flavor.ephemeral_gib,
        'swap_mib': flavor.swap_mib,
        'rxtx_factor': flavor.rxtx_factor,
        'is_public': flavor.is_public,
        'projects': list(flavor.projects),
        'description': flavor.description,
        'extra_specs': dict(flavor.extra_specs),
    }
