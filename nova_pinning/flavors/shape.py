# SPDX-License-Identifier: Apache-2.0
"""One size of one family, with all that the catalogue says about it."""

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

# What is a keyword of Python.
_FIELDS = {'class': 'cpu_policy'}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """What becomes one flavor.

    What the size says itself, else what its family says; None for what
    neither does.

    :param catalogue: the name of the catalogue
    :param key: where the key of what defines this size stands
    :param numa_cell: vCPUs and MiB that a host NUMA cell offers, if the
        catalogue says
    :param cpu_policy: its class
    """

    catalogue: Placed[str]
    family: Placed[str]
    size: str
    key: errors.Location
    numa_cell: tuple[int, int] | None
    vcpus: Placed[int]
    memory_mib: Placed[int]
    flavor_name: Placed[str] | None = None
    name: Placed[str] | None = None
    description: Placed[str] | None = None
    disk: Placed[str | int] | None = None
    ephemeral: Placed[str | int] | None = None
    swap: Placed[str | int] | None = None
    rxtx_factor: Placed[float] | None = None
    access: Placed[Any] | None = None
    cpu_policy: Placed[str] | None = None
    thread_policy: Placed[str] | None = None
    emulator_threads: Placed[str] | None = None
    dedicated_vcpus: Placed[Any] | None = None
    numa_nodes: Placed[Any] | None = None
    cpu_topology: Placed[Any] | None = None
    page_size: Placed[str | int] | None = None
    locked_memory: Placed[bool] | None = None
    realtime: Placed[Any] | None = None
    nic_multiqueue: Placed[bool] | None = None
    cpu_priority: Placed[Any] | None = None
    cpu_cap: Placed[Group] | None = None
    l3_ways: Placed[Any] | None = None
    memory_bandwidth: Placed[Any] | None = None
    traits: Placed[Mapping[str, Placed[list[Placed[str]]]]] | None = None
    secure_boot: Placed[str] | None = None
    tpm: Placed[Group] | None = None
    memory_encryption: Placed[str | bool] | None = None
    cpu_topology_limits: Placed[Group] | None = None
    throttles: Group
    pci_devices: Group
    resources: Group
    extra_specs: Group
    ignore: Group

    def error(self, message: str, of: Placed[Any],
              advice: str = '') -> errors.InputError:
        """An error that says which size of which family it is about."""
        return errors.InputError(
            f'for size {self.size} of family {self.family.value}, {message}',
            of.where, advice)


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


def merge(family: Group, size: Group) -> dict[str, Any]:
    """The settings of a size on top of those of its family, by field.

    What is null is left out.
    """
    fields: dict[str, Any] = {name: {} for name in GROUPS}
    for settings in (family, size):
        for key, setting in settings.items():
            field = _FIELDS.get(key, key)
            if key in GROUPS:
                fields[key] = {} if setting.value is None else {
                    name: below
                    for name, below in (fields[key] | setting.value).items()
                    if below.value is not None}
            elif setting.value is None:
                fields.pop(field, None)
            else:
                fields[field] = setting
    return fields
