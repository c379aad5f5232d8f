# SPDX-License-Identifier: Apache-2.0

import io
import pathlib
import stat

import hypothesis
from hypothesis import strategies as st
from oslotest import base as oslo_base

from minicloud import initramfs
from nova_pinning.tests.unit.minicloud import minicloud_case
from nova_pinning.tests.unit import unit_base

NAMES = st.text('abcdef', min_size=1, max_size=6)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map('/'.join)


def read(data):
    """Return what a kernel would make of an archive, in its order.

    :returns: list of path, mode and content
    """
    stream = io.BytesIO(data)
    found = []
    while True:
        header = stream.read(110)
        fields = [int(header[6 + i:14 + i], 16) for i in range(0, 104, 8)]
        assert header[:6] == b'070701', header
        name = stream.read(fields[11])
        stream.seek(-(110 + len(name)) % 4, io.SEEK_CUR)
        content = stream.read(fields[6])
        stream.seek(-len(content) % 4, io.SEEK_CUR)
        assert name.endswith(b'\0')
        path = name[:-1].decode()
        if path == 'TRAILER!!!':
            assert not stream.read(), 'something after the end'
            return found
        found.append((path, fields[1], content))


class TestArchive(oslo_base.BaseTestCase):

    @unit_base.settings(200)
    @hypothesis.given(st.dictionaries(PATHS, st.binary(max_size=9)))
    def test_read_again(self, contents):
        # What is a file cannot be a directory too.
        kept = {path: content for path, content in contents.items()
                if not any(other.startswith(f'{path}/')
                           for other in contents)}
        found = read(initramfs.archive(kept))
        files = {path: content for path, mode, content in found
                 if stat.S_ISREG(mode)}
        self.assertEqual(kept, files)
        # A kernel makes no directory by itself.
        seen = {'.'}
        for path, mode, _ in found:
            self.assertIn(str(pathlib.PurePath(path).parent), seen)
            self.assertNotIn(path, seen)
            if stat.S_ISDIR(mode):
                seen.add(path)

    def test_init_can_be_run(self):
        (_, mode, _), = read(initramfs.archive({'init': b''}))
        self.assertEqual(stat.S_IFREG | 0o755, mode)

    def test_directory_given_is_there_once(self):
        found = read(initramfs.archive({'dev/null': b''}, ['dev', 'proc']))
        self.assertEqual(1, [path for path, *_ in found].count('dev'))
        self.assertIn(('proc', stat.S_IFDIR | 0o755, b''), found)


class TestModules(minicloud_case.DirectoryTestCase):

    def setUp(self):
        super().setUp()
        self.root = self.directory / '6.1.0'
        self.root.mkdir()
        self.dependencies({
            'kernel/net/9p.ko': ['kernel/net/9pnet.ko', 'kernel/fs/cache.ko'],
            'kernel/net/9pnet.ko': [],
            'kernel/fs/cache.ko': [],
            'kernel/drivers/vfio-pci.ko.xz': [],
            'kernel/drivers/other.ko': ['kernel/net/9pnet.ko'],
        })

    def dependencies(self, needs):
        lines = [f'{path}: {" ".join(needed)}\n'
                 for path, needed in needs.items()]
        (self.root / 'modules.dep').write_text(''.join(lines))
        for path in needs:
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(path)

    def names(self, *modules):
        return {pathlib.PurePath(path).name
                for path in initramfs.modules(self.root, modules)}

    def test_what_a_module_needs_comes_with_it(self):
        self.assertEqual({'modules.dep', '9p.ko', '9pnet.ko', 'cache.ko'},
                         self.names('9p'))

    def test_names_as_modprobe_takes_them(self):
        self.assertEqual({'modules.dep', 'vfio-pci.ko.xz'},
                         self.names('vfio_pci'))

    def test_built_in(self):
        self.assertEqual({'modules.dep'}, self.names('virtio'))

    def test_modules_dep_names_what_is_there(self):
        others = initramfs.modules(self.root, ('9p',))
        lines = others.pop('lib/modules/6.1.0/modules.dep'
                           ).decode().splitlines()
        named = {path for line in lines
                 for path in line.replace(':', '').split()}
        prefix = 'lib/modules/6.1.0/'
        self.assertEqual({f'{prefix}{path}' for path in named},
                         set(others))
        self.assertEqual(len(others), len(lines))
        for path, content in others.items():
            self.assertEqual(path, prefix + content.decode())
