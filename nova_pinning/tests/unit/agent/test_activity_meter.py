# SPDX-License-Identifier: Apache-2.0
"""Where memory of guests is."""

import os
import pathlib

import fixtures

from nova_pinning.agent import activity_meter
from nova_pinning.agent import kernel_files
from nova_pinning.tests.unit import unit_base

GIB = 1 << 30


class GuestMemoryTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.files = kernel_files.WritableTree(self.root)

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def group(self, pid, text, entry='0::', root='sys/fs/cgroup'):
        """A guest's control group as libvirt makes it."""
        scope = f'/machine.slice/machine-{pid}.scope'
        self.write(f'proc/{pid}/cgroup',
                   f'2:cpu:/x\n{entry}{scope}/libvirt/emulator\n')
        self.write(f'{root}{scope}/memory.numa_stat', text)

    def test_cgroup_2(self):
        self.group(7, f'anon N0={GIB} N1=4096\nfile N0=9 N1=9\n'
                      'shmem N0=0 N1=4096\n')
        self.assertEqual({0: GIB, 1: 8192},
                         activity_meter.node_memory(self.files, 7))

    def test_cgroup_1(self):
        self.group(7, 'total=9 N0=9 N1=0\nhierarchical_total=3 N0=1 N1=2\n',
                   '4:memory:', 'sys/fs/cgroup/memory')
        page = os.sysconf('SC_PAGE_SIZE')
        self.assertEqual({0: page, 1: 2 * page},
                         activity_meter.node_memory(self.files, 7))

    def test_not_known(self):
        """The root group's figures are not the guest's."""
        self.write('sys/fs/cgroup/memory.numa_stat', 'anon N0=1')
        for text in ('0::/\n', '', 'nonsense\n', '0::/gone\n'):
            self.write('proc/7/cgroup', text)
            self.assertEqual({}, activity_meter.node_memory(self.files, 7))
