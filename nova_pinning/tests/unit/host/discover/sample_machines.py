# SPDX-License-Identifier: Apache-2.0
"""The files of machines that nobody has: a builder."""

import pathlib

import fixtures

from nova_pinning import cpuset
from nova_pinning.host import machine_files

CPU = 'sys/devices/system/cpu'
NODE = 'sys/devices/system/node'
PCI = 'sys/bus/pci/devices'


def mask(cpus, digits=0):
    """CPUs as the kernel writes a mask: '0000,00000011,11111111'."""
    text = f'{cpus.mask:x}'.zfill(digits or 1)
    groups = []
    while text:
        groups.insert(0, text[-8:])
        text = text[:-8]
    return ','.join(groups)


def cpus(text):
    return cpuset.CpuSet.parse(text)


class Machine(fixtures.Fixture):
    """A directory that is filled as /sys and /proc are."""

    def _setUp(self):
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def tree(self):
        return machine_files.Tree(self.root)

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{text}\n')

    def link(self, path, target):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def cpu(self, number, siblings=None, package=0, die=None, **more):
        """A CPU that is online."""
        path = f'{CPU}/cpu{number}/topology'
        self.write(f'{path}/physical_package_id', package)
        self.write(f'{path}/thread_siblings',
                   mask(cpus(siblings or str(number))))
        if die is not None:
            self.write(f'{path}/die_id', die)
        for name, text in more.items():
            self.write(f'{CPU}/cpu{number}/{name}', text)

    def cache(self, number, index, level, kind, size, shared, digits=0):
        path = f'{CPU}/cpu{number}/cache/index{index}'
        self.write(f'{path}/level', level)
        self.write(f'{path}/type', kind)
        if size:
            self.write(f'{path}/size', size)
        self.write(f'{path}/shared_cpu_map', mask(cpus(str(shared)), digits))

    def node(self, number, own, memory_kib=1048576, distances=None,
             pages=None):
        path = f'{NODE}/node{number}'
        self.write(f'{path}/cpulist', own)
        self.write(f'{path}/meminfo',
                   f'Node {number} MemTotal:  {memory_kib} kB\n'
                   f'Node {number} MemFree:  12 kB')
        if distances:
            self.write(f'{path}/distance', distances)
        for size_kib, count in (pages or {}).items():
            self.write(f'{path}/hugepages/hugepages-{size_kib}kB/'
                       'nr_hugepages', count)

    def pci(self, address, number, vendor='8086', product='1521', **more):
        """A PCI device of a class; more are files of it."""
        path = f'{PCI}/{address}'
        for name, text in {'class': f'0x{number}', 'vendor': f'0x{vendor}',
                           'device': f'0x{product}', 'numa_node': -1,
                           'irq': 0, **more}.items():
            self.write(f'{path}/{name}', text)
        return path

    def small(self):
        """Two cores of two threads, one node: for what is not about CPUs."""
        for number in range(4):
            self.cpu(number, f'{number % 2},{number % 2 + 2}')
        self.write(f'{CPU}/online', '0-3')
        self.node(0, '0-3')
        return self
