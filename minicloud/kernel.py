# SPDX-License-Identifier: Apache-2.0
"""A Linux kernel to boot guests with, taken from Debian's packages.

The packages are downloaded and extracted, not installed: this machine may
well be a container, or boot its own kernel.
"""

import pathlib
import re
import tempfile

from minicloud import errors
from minicloud import process
from minicloud import settings

# Depends on the kernel of the day.
KERNEL_PACKAGE = 'linux-image-amd64'
BUSYBOX_PACKAGE = 'busybox-static'


def boot_image(state: settings.State) -> pathlib.Path:
    """Return the path of a kernel, vmlinuz.

    :raises: MiniCloudError if there is none yet and it cannot be had
    """
    return _only(_extracted(state), 'boot/vmlinuz-*')


def modules_dir(state: settings.State) -> pathlib.Path:
    """Return the path of that kernel's modules, /lib/modules/RELEASE.

    It has a modules.dep, so modprobe works there.

    :raises: MiniCloudError if there are none yet and they cannot be had
    """
    return _only(_extracted(state), 'lib/modules/*')


def busybox(state: settings.State) -> pathlib.Path:
    """Return the path of a statically linked busybox.

    :raises: MiniCloudError if there is none yet and it cannot be had
    """
    return _only(_extracted(state), 'bin/busybox')


def _extracted(state: settings.State) -> pathlib.Path:
    """Return the directory that holds the packages' files, made if need be."""
    root = state.cache / 'kernel'
    if not root.exists():
        with tempfile.TemporaryDirectory(dir=state.cache) as made:
            directory = pathlib.Path(made)
            _extract(directory)
            (directory / 'root').rename(root)
    return root


def _extract(directory: pathlib.Path) -> None:
    """Fill directory/root with the files of the packages."""
    root = directory / 'root'
    _run(['apt-get', '-o', 'APT::Sandbox::User=root', 'download',
          _kernel_package(), BUSYBOX_PACKAGE], directory)
    for package in sorted(directory.glob('*.deb')):
        _run(['dpkg-deb', '-x', str(package), str(root)])
    for name in ('bin', 'lib'):
        if not (root / name).exists():
            # Newer packages hold usr/bin and usr/lib only.
            (root / name).symlink_to(f'usr/{name}')
    release = _only(root, 'lib/modules/*').name
    _run([str(_only(root, 'bin/busybox')), 'depmod', '-b', str(root),
          release])


def _kernel_package() -> str:
    text = _run(['apt-cache', 'depends', '--important', KERNEL_PACKAGE])
    match = re.search(r'Depends: (linux-image-\S+)', text)
    if not match:
        raise errors.MiniCloudError(
            f'apt names no kernel that {KERNEL_PACKAGE} depends on',
            'Run: apt-get update', text)
    return match[1]


def _run(command: list[str], directory: pathlib.Path | None = None) -> str:
    return process.run(
        command, f'{command[0]} failed for the kernel to boot guests with',
        'Run: apt-get update', directory=directory,
        missing='The kernel comes from a Debian package: this needs Debian')


def _only(root: pathlib.Path, pattern: str) -> pathlib.Path:
    paths = sorted(root.glob(pattern))
    if not paths:
        raise errors.MiniCloudError(
            f'the packages in {root} hold no {pattern}',
            f'Delete {root} and try again')
    return paths[0]
