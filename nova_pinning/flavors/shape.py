# SPDX-License-Identifier: Apache-2.0
"""One size of one family, with all that the catalogue says about it."""

from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
from typing import Any
from typing import Generic
from typing import TypeVar

from nova_pinning.document import source
from nova_pinning import errors

_Value = TypeVar('_Value')


@dataclasses.dataclass(frozen=True, slots=True)
class Placed(Generic[_Value]):
    """A value of the catalogue.

    :param value: what is below a mapping or a list is Placed itself
    :param where: where it stands
    :param key: where its key does
    """

    value: _Value
    where: errors.Location
    key: errors.Location


Group = Mapping[str, Placed[Any]]

#: Mappings to which a size adds key by key. It replaces other settings.
GROUPS = ('throttles', 'pci_devices', 'resources', 'extra_specs', 'ignore')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """What becomes one flavor.

    :param catalogue: the name of the catalogue
    :param key: where the key of what defines this size stands
    :param numa_cell: vCPUs and MiB that a host NUMA cell offers, if the
        catalogue says
    :param said: by its key, what the size says itself, else what its family
        says; without what neither does
    """

    catalogue: Placed[str]
    family: Placed[str]
    size: str
    key: errors.Location
    numa_cell: tuple[int, int] | None
    vcpus: Placed[int]
    memory_mib: Placed[int]
    said: Group

    def get(self, *path: str) -> Placed[Any] | None:
        """What it says under a key, or under one below that."""
        below: Any = self.said
        setting = None
        for key in path:
            setting = below.get(key) if isinstance(below, Mapping) else None
            below = setting and setting.value
        return setting

    def group(self, key: str) -> Group:
        """The settings below a key, none if there is none."""
        setting = self.said.get(key)
        return setting.value if setting else {}

    def says(self, key: str, *values: str) -> bool:
        """Whether one of some values stands under a key."""
        setting = self.said.get(key)
        return setting is not None and setting.value in values

    def error(self, message: str, of: Placed[Any],
              advice: str = '') -> errors.InputError:
        """An error that says which size of which family it is about."""
        return errors.InputError(
            f'for size {self.size} of family {self.family.value}, {message}',
            of.where, advice)


def by_group(said: Group) -> Iterator[tuple[str, Group]]:
    """A size once for each group that its PCI devices may be of.

    To nova a group is an alias, and no flavor asks for one of several.

    :param said: what it says
    :returns: what is added to its name, and what it says for that group
    """
    devices = said.get('pci_devices')
    together = devices and devices.value.get('together')
    if not devices or not together:
        yield '', said
        return
    (kind, groups), = together.value.items()
    for number in (range(groups.value) if isinstance(groups.value, int)
                   else [number.value for number in groups.value]):
        group = f'-{kind}-{number}'
        yield group, {
            **said, **{key: dataclasses.replace(said[key], value=(
                said[key].value + group)) for key in ('name',) if key in said},
            'pci_devices': dataclasses.replace(devices, value={
                key if key == 'affinity' else key + group: setting
                for key, setting in devices.value.items()
                if key != 'together'})}


def read(document: source.YamlDocument, path: source.Path,
         value: Any) -> Placed[Any]:
    """A value of a document, with all that is below it."""
    if isinstance(value, dict):
        value = read_mapping(document, path, value)
    elif isinstance(value, list):
        value = [read(document, (*path, position), below)
                 for position, below in enumerate(value)]
    return Placed(value, document.locate(path),
                  document.locate(path, key=True))


def read_mapping(document: source.YamlDocument, path: source.Path,
                 value: Mapping[str, Any]) -> dict[str, Placed[Any]]:
    """What is in a mapping of a document."""
    return {key: read(document, (*path, key), below)
            for key, below in value.items()}


def placed(value: Any) -> Placed[Any]:
    """A value that stands in no document, with all that is below it."""
    if isinstance(value, dict):
        value = {key: placed(below) for key, below in value.items()}
    elif isinstance(value, list):
        value = [placed(below) for below in value]
    nowhere = errors.Location('')
    return Placed(value, nowhere, nowhere)


def merge(family: Group, size: Group) -> dict[str, Placed[Any]]:
    """The settings of a size on top of those of its family.

    What is null is left out.
    """
    said: dict[str, Placed[Any]] = {}
    for settings in (family, size):
        for key, setting in settings.items():
            if setting.value is None:
                said.pop(key, None)
                continue
            if key in GROUPS:
                so_far = said[key].value if key in said else {}
                setting = dataclasses.replace(setting, value={
                    name: below
                    for name, below in (so_far | setting.value).items()
                    if below.value is not None})
            said[key] = setting
    return said
