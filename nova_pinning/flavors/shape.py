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
"""One size of one family, with all that the catalogue says about it."""

from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_pinning.document import source
from nova_pinning import errors

#: A value and the path to it in the document.
Setting = tuple[Any, source.Path]

#: Mappings to which a size adds key by key. It replaces other settings.
GROUPS = ('throttles', 'pci_devices', 'extra_specs')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What becomes one flavor.

    :param family_path: leads to the family
    :param path: leads to what defines this size
    :param settings: what the size says itself, else what its family says;
        with 'vcpus' and 'memory_mib' as numbers
    :param groups: the same for each of GROUPS, by the keys in it
    :param numa_cell: vCPUs and MiB that a host NUMA cell offers, if the
        catalogue says
    """

    document: source.Document
    family: str
    size: str
    family_path: source.Path
    path: source.Path
    settings: Mapping[str, Setting]
    groups: Mapping[str, Mapping[str, Setting]]
    numa_cell: tuple[int, int] | None

    @property
    def vcpus(self) -> int:
        return int(self.settings['vcpus'][0])

    @property
    def memory_mib(self) -> int:
        return int(self.settings['memory_mib'][0])

    def get(self, key: str, default: Any = None) -> Any:
        return self.settings[key][0] if key in self.settings else default

    def path_of(self, key: str) -> source.Path:
        """Where a setting comes from; where the size does if it is unset."""
        return self.settings[key][1] if key in self.settings else self.path

    def group(self, name: str) -> Iterator[tuple[str, Any, source.Path]]:
        for key, (value, path) in self.groups[name].items():
            yield key, value, path

    def where(self, path: source.Path) -> errors.Location:
        return self.document.locate(path)

    def error(self, message: str, path: source.Path,
              advice: str = '') -> errors.InputError:
        """An error that says which size of which family it is about."""
        return self.document.error(
            f'for size {self.size} of family {self.family}, {message}', path,
            advice)


def merge(
    family: Mapping[str, Any], family_path: source.Path,
    size: Mapping[str, Any], size_path: source.Path,
) -> tuple[dict[str, Setting], dict[str, dict[str, Setting]]]:
    """The settings and groups of a size, on top of those of its family."""
    settings: dict[str, Setting] = {}
    groups: dict[str, dict[str, Setting]] = {name: {} for name in GROUPS}
    for values, path in ((family, family_path), (size, size_path)):
        for key, value in values.items():
            if key in groups:
                groups[key].update(
                    (name, (one, (*path, key, name)))
                    for name, one in value.items())
            else:
                settings[key] = value, (*path, key)
    return settings, groups
