# SPDX-License-Identifier: Apache-2.0
"""A real machine with devices behind switches and such that are split.

It is a virtual host of the minicloud (``--virtual-host 2x2x1``), a QEMU 7.2
with Linux 6.1: what discovery reads of its /sys and /proc, as it was there.
"""

import json
import pathlib

import fixtures

from nova_pinning.host import machine_files

#: A catalogue for its devices, to which sizes of the family can be added.
FLAVORS = """\
version: 2
name: devices
families:
  d:
    class: dedicated
    sizes:
      pair: {vcpus: 1, memory: 64MiB, pci_devices: {
        disk: 2, together: {switch: 2}, affinity: required}}
"""
_RECORD = pathlib.Path(__file__).with_name('qemu_machine.json')


class QemuMachine(fixtures.Fixture):
    """Lays the files out."""

    def _setUp(self):
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        listed = []
        for name, recorded in json.loads(_RECORD.read_text()).items():
            path = self.root / name.lstrip('/')
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(recorded, str):
                path.write_text(recorded)
            elif 'link' in recorded:
                path.symlink_to(recorded['link'])
                # Files are read by way of it.
                if recorded['link'].startswith('../../../devices/'):
                    path.resolve().mkdir(parents=True, exist_ok=True)
            elif 'bytes' in recorded:
                path.write_bytes(_bytes(**recorded))
            else:
                path.mkdir(exist_ok=True)
                listed += [path / entry for entry in recorded['names']]
        for path in listed:
            if not path.is_symlink():
                # Of what is not looked into the name is enough.
                path.touch()

    def tree(self):
        return machine_files.Tree(self.root)


def _bytes(size, bytes):
    """A file of zeros but for some rows."""
    content = bytearray(size)
    for position, row in bytes.items():
        start = int(position, 16)
        content[start:start + len(row) // 2] = bytearray.fromhex(row)
    return content
