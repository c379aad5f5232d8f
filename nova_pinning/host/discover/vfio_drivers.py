# SPDX-License-Identifier: Apache-2.0
"""Which driver of VFIO the kernel has for a device: vfio-pci, or a variant.

Variants do more with some devices: they migrate them, or give guests the
memory of a GPU. Which devices they are for stands in modules.alias, where
libvirt looks as well (Documentation/driver-api/vfio-pci-device-specific-
driver-acceptance.rst of the kernel). They are named as their modules are.
"""

import fnmatch
import re

from nova_pinning.host import machine_files

_ALIAS = re.compile(r'^alias vfio_(pci:\S+) ([A-Za-z0-9_-]+)$', re.M | re.A)


class VfioDrivers:
    """The drivers of the kernel that runs."""

    def __init__(self, tree: machine_files.Tree) -> None:
        self._tree = tree
        release = tree.text('/proc/sys/kernel/osrelease')
        path = f'lib/modules/{release}/modules.alias'
        found = tree.text(f'/{path}') or tree.text(f'/usr/{path}') or ''
        self._is_known = bool(found)
        # What leaves least open first.
        self._aliases = sorted(_ALIAS.findall(found),
                               key=lambda alias: alias[0].count('*'))

    def of(self, path: str) -> str:
        """That of a device, '' if files do not tell.

        :param path: of the device in /sys
        """
        about = self._tree.text(f'{path}/modalias')
        if not self._is_known or not about:
            return ''
        return next((
            name for pattern, name in self._aliases
            if name != 'vfio_pci' and fnmatch.fnmatchcase(about, pattern)),
            'vfio-pci')
