# SPDX-License-Identifier: Apache-2.0
"""A bootable disk from a directory, without mounting anything.

An ext4 file system in the one partition of an MBR, with GRUB before it:
boot.img in the first sector, its core, in which all of its configuration is,
behind that.
"""

from collections.abc import Callable
from collections.abc import Sequence
import pathlib
import struct

from nova_pinning import errors
from nova_pinning.instance_bench import image_manifest

#: Of Debian's package grub-pc-bin.
GRUB = pathlib.Path('/usr/lib/grub/i386-pc')

SECTOR_BYTES = 512
FIRST_SECTOR = 2048
_MODULES = ('biosdisk', 'part_msdos', 'ext2', 'search_label', 'linux', 'boot')
_CONFIG = f"""\
search.fs_label {image_manifest.LABEL} root
linux /boot/{image_manifest.KERNEL} {image_manifest.KERNEL_ARGUMENTS}
initrd /boot/{image_manifest.INITRD}
boot
"""
# Of the MBR: behind the code are a number, the partitions and a mark.
_CODE_BYTES = 440
_PARTITIONS_AT = 446
_LINUX = 0x83
_BOOTABLE = 0x80
_NO_CYLINDERS = b'\xfe\xff\xff'

Run = Callable[[Sequence[str]], object]


def master_boot_record(code: bytes, sectors: int) -> bytes:
    """The first sector of a disk.

    :param code: GRUB's boot.img, of which the partitions are not taken
    :param sectors: of the whole disk
    """
    partition = struct.pack(
        '<B3sB3sII', _BOOTABLE, _NO_CYLINDERS, _LINUX, _NO_CYLINDERS,
        FIRST_SECTOR, sectors - FIRST_SECTOR)
    return (code[:_CODE_BYTES].ljust(_PARTITIONS_AT, b'\0')
            + partition.ljust(SECTOR_BYTES - 2 - _PARTITIONS_AT, b'\0')
            + b'\x55\xaa')


def make(root: pathlib.Path, target: pathlib.Path, size_gib: int,
         work: pathlib.Path, run: Run) -> None:
    """Make a disk of a file system's content.

    :param root: its directory
    :param target: qcow2 file to write
    :param work: directory for files that are needed meanwhile
    :param run: runs a command, raises if it fails
    :raises errors.InputError: if there is no room for the files
    """
    raw, core = work / 'disk.raw', work / 'core.img'
    size_bytes = size_gib * 2 ** 30
    with raw.open('wb') as file:
        file.truncate(size_bytes)
    first_byte = FIRST_SECTOR * SECTOR_BYTES
    # Whatever the kernel would write later, beside a workload, is written
    # now.
    run([
        'mke2fs', '-q', '-t', 'ext4', '-L', image_manifest.LABEL, '-d',
        str(root), '-E',
        f'offset={first_byte},lazy_itable_init=0,lazy_journal_init=0',
        str(raw), f'{(size_bytes - first_byte) // 1024}k'])
    config = work / 'grub.cfg'
    config.write_text(_CONFIG)
    run(['grub-mkimage', '--format', 'i386-pc', '--directory', str(GRUB),
         '--prefix', '(hd0,msdos1)/boot', '--config', str(config),
         '--output', str(core), *_MODULES])
    written = core.read_bytes()
    if len(written) > first_byte - SECTOR_BYTES:
        raise errors.InputError(
            f'the core of GRUB has {len(written)} bytes, which do not fit '
            'before the first partition')
    with raw.open('r+b') as file:
        file.write(master_boot_record((GRUB / 'boot.img').read_bytes(),
                                      size_bytes // SECTOR_BYTES))
        file.write(written)
    run(['qemu-img', 'convert', '-f', 'raw', '-O', 'qcow2', str(raw),
         str(target)])
    raw.unlink()
