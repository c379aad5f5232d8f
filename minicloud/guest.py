# SPDX-License-Identifier: Apache-2.0
"""The image that servers are booted from.

It is a boot sector that says so on the serial console and then halts: that
costs no CPU time even where a guest's instructions are emulated, and who
wants to see where a guest's threads run needs no more. Give nova an image of
your own for anything else.
"""

import struct

from minicloud import api
from minicloud import service

NAME = 'minicloud'
GREETING = 'minicloud guest is up'
SECTOR_BYTES = 512
PARTITIONS_AT = 446
IMAGE_BYTES = 1024 * 1024


def boot_sector() -> bytes:
    """Return 16-bit code that writes GREETING to COM1 and halts forever."""
    code = bytes([
        0xfa,                    # cli: no interrupt shall wake the CPU
        0x31, 0xc0,              # xor ax, ax
        0x8e, 0xd8,              # mov ds, ax
        0xbe, 0x18, 0x7c,        # mov si, text
        0xba, 0xf8, 0x03,        # mov dx, 0x3f8: COM1
        0xac,                    # next: lodsb
        0x84, 0xc0,              # test al, al
        0x74, 0x03,              # jz halt
        0xee,                    # out dx, al
        0xeb, 0xf8,              # jmp next
        0xf4,                    # halt: hlt
        0xeb, 0xfd,              # jmp halt
    ])
    code += bytes(0x18 - len(code))
    text = f'{GREETING}\r\n'.encode() + b'\0'
    # Glance refuses a boot sector that knows of no partition.
    rest = IMAGE_BYTES // SECTOR_BYTES - 1
    partition = struct.pack('<B3xB3xII', 0x80, 0x83, 1, rest)
    return ((code + text).ljust(PARTITIONS_AT, b'\0')
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
