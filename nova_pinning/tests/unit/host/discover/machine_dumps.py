# SPDX-License-Identifier: Apache-2.0
"""Files of real machines, from archives that lie beside the project.

They are those of hwloc's own tests (BSD-3-Clause). Where they are is said by
NOVA_PINNING_DATA, else they are looked for in shared/data beside the checkout.
"""

import atexit
import functools
import os
import pathlib
import re
import shutil
import tarfile
import tempfile

_ROOT = pathlib.Path(__file__).parents[5]
# Links to the blocks of memory of each node, by the thousand.
_MEMORY_BLOCK = re.compile(r'/node\d+/memory\d+$')
# Tests have a temporary directory each, and what is unpacked serves several.
_TEMPORARY = tempfile.gettempdir()
#: What is there, and the directory in it that is the machine's root.
NAMES = {
    '16em64t-4s2c2t-offlines': '16em64t-4s2c2t-offlines',
    '32em64t-2n8c+dax+nvme+mic+dimms': '32em64t-2n8c+1mic',
    '40intel64-2g2n4c+pcilocality': '40intel64-2g2n4c+pci',
    '64amd64-4s2n4ca2co': '64amd64-4s2n4ca2co',
    'fakecpuid1f-64intel64-2p4d2n2c2t': 'fakecpuid1f-64intel64-2p4d2n2c2t',
    'offline-cpu0-node0': 'offline-cpu0-node0',
}


def directory():
    """Where the archives are, or would be."""
    data = os.environ.get('NOVA_PINNING_DATA') or _ROOT.parent / 'shared/data'
    return pathlib.Path(data) / 'sysfs'


def root(test, name):
    """The root directory of a machine; skips the test if there is none."""
    archive = directory() / f'{name}.tar.bz2'
    if not archive.is_file():
        test.skipTest(f'there is no {archive}; NOVA_PINNING_DATA says where '
                      'the dumps of real machines are')
    return unpacked(archive) / NAMES[name]


@functools.cache
def unpacked(archive):
    """Where its files are, until this process ends."""
    target = tempfile.mkdtemp(prefix='nova-pinning-', dir=_TEMPORARY)
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    with tarfile.open(archive) as files:
        files.extractall(target, filter=_wanted)
    return pathlib.Path(target)


def _wanted(member, target):
    """Leave out what takes long and is not needed: owners, times, links."""
    if _MEMORY_BLOCK.search(member.name):
        return None
    return tarfile.tar_filter(member, target).replace(
        uid=None, gid=None, uname=None, gname=None, mtime=None, deep=False)
