# SPDX-License-Identifier: Apache-2.0
"""The words of the catalogue that stand for one extra spec each.

The table is read in both directions: it makes a flavor's extra specs, and
says a flavor that exists in the catalogue's words.
"""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import re
from typing import Any

from nova_pinning.document import quantities
from nova_pinning.flavors import cells
from nova_pinning.flavors import figures
from nova_pinning.flavors import shape

_Write = Callable[[shape.CatalogueEntry, shape.Placed[Any]], str | None]
_Read = Callable[[str], Any]

_MASK = re.compile(r'\^?\d+(-\d+)?(,\^?\d+(-\d+)?)*', re.ASCII)
_PAGES = ('large', 'small', 'any')


@dataclasses.dataclass(frozen=True, slots=True)
class Word:
    """A word of the catalogue and its extra spec.

    :param path: its key in a family, and one below it if there is any
    :param codec: gives the extra spec's value for a setting, None if it has
        none, and what the setting is for such a value, None if there is no
        word for that
    """

    path: tuple[str, ...]
    key: str
    codec: tuple[_Write, _Read]

    def read(self, value: str) -> Any:
        """What a catalogue says for an extra spec, None if it has no word."""
        said = self.codec[1](value)
        for below in reversed(self.path[1:]):
            said = said if said is None else {below: said}
        return said


def text(value: str | int | bool) -> str:
    """A value as nova's own documents write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def mask(size: shape.CatalogueEntry, of: shape.Placed[str]) -> str:
    """A mask of vCPUs as nova takes it, with its ``^``.

    :raises errors.InputError: if it is none
    """
    found = ''.join(of.value.split())
    if not _MASK.fullmatch(found):
        raise size.error(f'{of.value!r} is not a list of vCPUs', of,
                         "write it like '2-7' or '^0-1'")
    cells.vcpus_of(size, found, of)
    return found


def number(value: str) -> int | None:
    """A number as extra specs usually have it."""
    is_usual = re.fullmatch(r'0|[1-9][0-9]{0,14}', value, re.ASCII)
    return int(value) if is_usual else None


def _plain(_size: shape.CatalogueEntry, of: shape.Placed[Any]) -> str:
    return text(of.value)


def _one_of(*values: str) -> tuple[_Write, _Read]:
    return _plain, lambda value: value if value in values else None


def _amount(unit: str) -> tuple[_Write, _Read]:
    def read(value: str) -> str | None:
        count = number(value)
        if count is None:
            return None
        if unit == '8kbit':
            return (f'{8 * count}kbit' if 8 * count % 1000 or not count
                    else f'{8 * count // 1000}Mbit')
        size = count * figures.UNITS[unit]
        power = next(power for power in (3, 2, 1, 0)
                     if size % 1024 ** power == 0)
        return f'{size // 1024 ** power}{("B", "KiB", "MiB", "GiB")[power]}'

    return lambda size, of: str(figures.amount(size, of, unit)), read


def _page_size(size: shape.CatalogueEntry, of: shape.Placed[Any]) -> str:
    if of.value in _PAGES:
        return str(of.value)
    # A number of KiB: nova's check of names for units knows only some.
    kib = quantities.page_size_kib(of.value, of.where)
    if not kib:
        raise size.error('a page of no size is none', of)
    return str(kib)


def _page_text(value: str) -> str | None:
    kib = number(value)
    return (value if value in _PAGES else
            quantities.page_size_text(kib) if kib else None)


def _limit(size: shape.CatalogueEntry, of: shape.Placed[Any]) -> str:
    limit = figures.number(size, of)
    if not limit and isinstance(of.value, Mapping):
        raise size.error('it is rounded down to 0, which is no limit', of,
                         'add a min')
    return str(limit)


_TRUTH = _plain, {'true': True, 'false': False}.get
_YES = (lambda _size, _of: 'true'), {'true': True}.get
_COUNT = _plain, lambda value: number(value) or None
_TEXT = _plain, str
_FIGURE = _limit, number

# In the order in which a catalogue has them.
_TABLE: tuple[tuple[str, str, tuple[_Write, _Read]], ...] = (
    ('class', 'hw:cpu_policy', _one_of('dedicated', 'shared', 'mixed')),
    ('thread_policy', 'hw:cpu_thread_policy',
     _one_of('prefer', 'require', 'isolate')),
    ('emulator_threads', 'hw:emulator_threads_policy',
     _one_of('share', 'isolate')),
    ('cpu_topology_limits.sockets', 'hw:cpu_max_sockets', _COUNT),
    ('cpu_topology_limits.cores', 'hw:cpu_max_cores', _COUNT),
    ('cpu_topology_limits.threads', 'hw:cpu_max_threads', _COUNT),
    ('cpu_topology.sockets', 'hw:cpu_sockets', _COUNT),
    ('cpu_topology.cores', 'hw:cpu_cores', _COUNT),
    ('cpu_topology.threads', 'hw:cpu_threads', _COUNT),
    ('page_size', 'hw:mem_page_size', (_page_size, _page_text)),
    ('locked_memory', 'hw:locked_memory', _TRUTH),
    ('realtime', 'hw:cpu_realtime', _YES),
    ('realtime.vcpus', 'hw:cpu_realtime_mask', (mask, str)),
    ('secure_boot', 'os:secure_boot', _one_of('required', 'disabled')),
    ('tpm.version', 'hw:tpm_version', _TEXT),
    ('tpm.model', 'hw:tpm_model', _TEXT),
    ('tpm.secret_security', 'hw:tpm_secret_security', _TEXT),
    ('memory_encryption', 'hw:mem_encryption', _YES),
    ('memory_encryption', 'hw:mem_encryption_model', (
        lambda _size, of: None if of.value is True else str(of.value), str)),
    ('pci_devices.affinity', 'hw:pci_numa_affinity_policy',
     _one_of('required', 'preferred', 'legacy', 'socket')),
    ('nic_multiqueue', 'hw:vif_multiqueue_enabled', _TRUTH),
    ('cpu_priority', 'quota:cpu_shares', _FIGURE),
    ('throttles.disk_iops', 'quota:disk_total_iops_sec', _FIGURE),
    ('throttles.disk_read_iops', 'quota:disk_read_iops_sec', _FIGURE),
    ('throttles.disk_write_iops', 'quota:disk_write_iops_sec', _FIGURE),
    ('throttles.disk_bandwidth', 'quota:disk_total_bytes_sec',
     _amount('B')),
    ('throttles.disk_read_bandwidth', 'quota:disk_read_bytes_sec',
     _amount('B')),
    ('throttles.disk_write_bandwidth', 'quota:disk_write_bytes_sec',
     _amount('B')),
    ('throttles.network_in', 'quota:vif_inbound_average', _amount('8kbit')),
    ('throttles.network_in_peak', 'quota:vif_inbound_peak',
     _amount('8kbit')),
    ('throttles.network_in_burst', 'quota:vif_inbound_burst',
     _amount('KiB')),
    ('throttles.network_out', 'quota:vif_outbound_average',
     _amount('8kbit')),
    ('throttles.network_out_peak', 'quota:vif_outbound_peak',
     _amount('8kbit')),
    ('throttles.network_out_burst', 'quota:vif_outbound_burst',
     _amount('KiB')),
)

WORDS = tuple(Word(tuple(path.split('.')), key, codec)
              for path, key, codec in _TABLE)
