# SPDX-License-Identifier: Apache-2.0
"""What devices can be divided into, and how far they are.

See Documentation/driver-api/vfio-mediated-device.rst of the kernel, and
NVIDIA's vGPU User Guide for virtual functions without mediated devices and for
MIG, of which /proc has a directory for each GPU instance.
"""

from collections.abc import Iterator
import re

from nova_pinning.host.discover import text
from nova_pinning.host import hardware
from nova_pinning.host import machine_files

_CREATABLE = re.compile(r'\s*(\d{1,10})\s*:\s*(.*?)\s*', re.ASCII)
_MINOR = re.compile(r'^Device Minor:\s*(\d{1,5})\s*$', re.ASCII | re.M)
_INSTANCE = re.compile(r'gi\d{1,5}', re.ASCII)


def mdev_types(tree: machine_files.Tree,
               path: str) -> tuple[hardware.VirtualGpuType, ...]:
    """The types of mediated devices of a device.

    :param path: of the device
    """
    path = f'{path}/mdev_supported_types'
    return tuple(
        hardware.VirtualGpuType(
            text.clean(name),
            text.clean(tree.text(f'{path}/{name}/name') or ''),
            tree.count(f'{path}/{name}/available_instances'))
        for name in tree.names(path))


def vgpu_types(
        tree: machine_files.Tree,
        path: str) -> tuple[tuple[hardware.VirtualGpuType, ...], str]:
    """The types that a virtual function can be of, and the id of its own."""
    current = tree.count(f'{path}/nvidia/current_vgpu_type')
    lines = tree.text(f'{path}/nvidia/creatable_vgpu_types') or ''
    return tuple(_creatable(lines)), str(current or '')


def _creatable(lines: str) -> Iterator[hardware.VirtualGpuType]:
    for match in map(_CREATABLE.fullmatch, lines.splitlines()):
        if match:
            yield hardware.VirtualGpuType(match[1], text.clean(match[2]))


def mig_instances(tree: machine_files.Tree, address: str) -> int | None:
    """How many GPU instances a GPU is divided into, None if not told."""
    minor = _MINOR.search(
        tree.text(f'/proc/driver/nvidia/gpus/{address}/information') or '')
    path = (f'/proc/driver/nvidia/capabilities/gpu{minor[1]}/mig' if minor
            else '')
    if not path or not tree.exists(path):
        return None
    return sum(map(bool, map(_INSTANCE.fullmatch, tree.names(path))))
