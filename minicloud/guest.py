# SPDX-License-Identifier: Apache-2.0
"""The image that servers are booted from.

It is a boot sector that says so on the serial console, lists the PCI devices
that the guest has, and halts: that costs no CPU time even where a guest's
instructions are emulated, and who wants to see where a guest's threads run
needs no more. Give nova an image of your own for anything else.
"""

import struct

from minicloud import api
from minicloud import service

NAME = 'minicloud'
GREETING = 'minicloud guest is up'
SECTOR_BYTES = 512
PARTITIONS_AT = 446
IMAGE_BYTES = 1024 * 1024


# 16-bit code, which the BIOS puts at 0x7c00; the texts follow. Devices are
# found as the PCI Local Bus Specification has it (3.2.2.3.2, configuration
# mechanism 1): an address goes to port 0xcf8, what is there comes from 0xcfc.
CODE = bytes.fromhex(
    'fa 31c0 8ed8 bc007c 8ed0'  # cli; ds = ss = 0; sp = 0x7c00
    'be7b7c e84300'  # si = greeting; call say
    '66bb00000080'  # ebx = bus 0, device 0, function 0
    '6689d8 baf80c 66ef b2fc 66ed'  # look: out 0xcf8, ebx; in eax, 0xcfc
    '83f8ff 7415'  # ax = -1, nothing there: next
    'e83300 b03a e84700 66c1e810 e82700'  # hex; put ':'; eax >>= 16; hex
    'be907c e81700'  # si = end of line; call say
    'fec7 75d6'  # next: next function, if the bus has one: look
    '6681c300000100 6681fb00002080 72c6'  # next bus, up to 32: look
    'f4 ebfd'  # hlt forever: no interrupt shall wake the CPU
    'ac 84c0 741d e81b00 ebf6'  # say: al = next of si; 0: ret; put; say
    'b90400 c1c004 6650'  # hex: four times: rol ax, 4; push eax;
    '240f 3c0a 1c69 2f 0c20 e80500'  # al = its last digit in ASCII; put;
    '6658 e2eb c3'  # pop eax; ret
    'baf803 ee c3')  # put: out COM1, al; ret


def boot_sector() -> bytes:
    """Return code that writes GREETING and devices to COM1 and halts.

    A device is a line such as 8086:10d3, its vendor and product.
    """
    text = f'{GREETING}\r\n'.encode() + b'\0'
    # Glance refuses a boot sector that knows of no partition.
    rest = IMAGE_BYTES // SECTOR_BYTES - 1
    partition = struct.pack('<B3xB3xII', 0x80, 0x83, 1, rest)
    return ((CODE + text).ljust(PARTITIONS_AT, b'\0')
            + partition.ljust(SECTOR_BYTES - 2 - PARTITIONS_AT, b'\0')
            + b'\x55\xaa')


def image() -> bytes:
    """Return a raw disk."""
    return boot_sector().ljust(IMAGE_BYTES, b'\0')


class Image(service.Task):
    """The image, in Glance, for everybody."""

    name = 'image'
    requires = ('glance',)

    def do(self) -> None:
        glance = api.Api(self.state, self.settings)
        made = glance.send('glance', 'POST', '/images', {
            'name': NAME, 'disk_format': 'raw', 'container_format': 'bare',
            'visibility': 'public', 'min_disk': 0, 'min_ram': 0})
        glance.send('glance', 'PUT', f'/images/{made["id"]}/file', image())
