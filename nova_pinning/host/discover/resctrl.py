# SPDX-License-Identifier: Apache-2.0
"""What of L3 caches and memory bandwidth the kernel can divide among guests.

See the kernel's Documentation/filesystems/resctrl.rst. All of it is there only
while resctrl is mounted.
"""

from collections.abc import Mapping
import re

from nova_pinning import cpuset
from nova_pinning.host.discover import processors
from nova_pinning.host import hardware
from nova_pinning.host import machine_files

ROOT = '/sys/fs/resctrl'
#: What CPUs call the abilities in /proc/cpuinfo.
CPU_FLAGS = ('cat_l3', 'mba')
_MASK = re.compile(r'[0-9a-f]{1,16}', re.IGNORECASE | re.ASCII)
_BANDWIDTH = re.compile(r'^\s*MB:(.*)$', re.MULTILINE)
_VALUE = re.compile(r'=\s*(\d{1,18})', re.ASCII)
# With code and data prioritization each kind has a mask of its own.
_L3 = ('L3', 'L3DATA')


def read(tree: machine_files.Tree,
         online: cpuset.CpuSet) -> hardware.Resctrl | None:
    """What can be divided, None if nothing can, or resctrl is not mounted."""
    l3, mb = cache(tree), bandwidth(tree)
    # Values above 100 are no per cent: AMD has eighths of GB/s, and mount
    # option mba_MBps has MiB/s.
    match = _BANDWIDTH.search(tree.text(f'{ROOT}/schemata') or '')
    if match and any(int(value) > 100 for value in _VALUE.findall(match[1])):
        mb = None
    if l3 is None and mb is None:
        return None
    return hardware.Resctrl(l3_domains(tree, online), l3, mb)


def unmounted(tree: machine_files.Tree, info: Mapping[str, str]) -> str:
    """What the CPUs could do if resctrl were mounted; '' if it is.

    :param info: what /proc/cpuinfo says of the first CPU
    """
    if tree.exists(f'{ROOT}/info'):
        return ''
    return ', '.join(flag for flag in CPU_FLAGS
                     if flag in info.get('flags', '').split())


def cache(tree: machine_files.Tree) -> hardware.CacheAllocation | None:
    """How L3 caches can be divided."""
    return next(filter(None, (_cache(tree, name) for name in _L3)), None)


def _cache(tree: machine_files.Tree,
           name: str) -> hardware.CacheAllocation | None:
    path = f'{ROOT}/info/{name}'
    mask = _mask(tree, f'{path}/cbm_mask')
    if mask is None:
        return None
    return hardware.CacheAllocation(
        mask, tree.number(f'{path}/min_cbm_bits') or 1,
        _mask(tree, f'{path}/shareable_bits') or 0,
        tree.number(f'{path}/num_closids') or 1, name != _L3[0])


def bandwidth(
    tree: machine_files.Tree,
) -> hardware.BandwidthAllocation | None:
    """How memory bandwidth can be limited, in whatever its values are."""
    path = f'{ROOT}/info/MB'
    least = tree.number(f'{path}/min_bandwidth')
    if not least:
        return None
    return hardware.BandwidthAllocation(
        least, tree.number(f'{path}/bandwidth_gran') or 1,
        tree.number(f'{path}/num_closids') or 1)


def _mask(tree: machine_files.Tree, path: str) -> int | None:
    text = tree.text(path)
    if text and not _MASK.fullmatch(text):
        tree.note_nonsense(path, text)
        return None
    return int(text, 16) if text else None


def l3_domains(tree: machine_files.Tree,
               online: cpuset.CpuSet) -> dict[int, cpuset.CpuSet]:
    """The CPUs of each L3 cache, by the number that a schemata has for it."""
    cpus: dict[int, list[int]] = {}
    for cpu in online:
        for path in processors.cache_paths(tree, cpu):
            number = tree.number(f'{path}/id')
            if tree.number(f'{path}/level') == 3 and number is not None:
                cpus.setdefault(number, []).append(cpu)
    return {number: cpuset.CpuSet(own) for number, own in sorted(
        cpus.items())}
