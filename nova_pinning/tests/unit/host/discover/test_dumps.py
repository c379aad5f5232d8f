# SPDX-License-Identifier: Apache-2.0
"""What is discovered of real machines, beside what hwloc says of them."""

import functools
import shutil
import subprocess
from xml.etree import ElementTree

import ddt
from oslotest import base

from nova_pinning import cpuset
from nova_pinning.document import source
from nova_pinning.host import discover
from nova_pinning.host import engine
from nova_pinning.host import hardware
from nova_pinning.host import hostfile
from nova_pinning.host import hostfile_writer
from nova_pinning.host import machine_files
from nova_pinning.tests.unit.host.discover import machine_dumps

MACHINE = '/'
_LSTOPO = shutil.which('lstopo-no-graphics') or shutil.which('lstopo')
# CPUs that share what AMD calls a compute unit are siblings to the kernel,
# to libvirt and to nova, but cores of their own to hwloc.
_COMPUTE_UNITS = ('64amd64-4s2n4ca2co',)
_CACHE_TYPES = {'0': 'unified', '1': 'data', '2': 'instruction'}

# Counted in lstopo's drawings and in the files: online CPUs, offline ones,
# cores, sockets, nodes with memory, L3 caches, dies where they matter, PCI
# devices.
FACTS = {
    '16em64t-4s2c2t-offlines': ('0-1,3-4,6-12,15', '2,5,13-14', 7, 4, 1, 4,
                                4, 0),
    '32em64t-2n8c+dax+nvme+mic+dimms': ('0-15', '', 16, 2, 2, 2, 0, 6),
    '40intel64-2g2n4c+pcilocality': ('0-39', '', 40, 4, 4, 4, 0, 6),
    '64amd64-4s2n4ca2co': ('0-63', '', 32, 4, 8, 8, 0, 0),
    'fakecpuid1f-64intel64-2p4d2n2c2t': ('0-63', '', 32, 4, 16, 8, 8, 0),
    'offline-cpu0-node0': ('4-20', '0-3,21-23', 17, 2, 1, 2, 0, 0),
}


def found(test, name):
    return _discover(MACHINE if name ==
                     MACHINE else machine_dumps.root(test, name))


@functools.cache
def _discover(root):
    return discover.discover_host(machine_files.Tree(root))


@functools.cache
def _lstopo(*options):
    return subprocess.run(
        [_LSTOPO, *options, '--of', 'xml', '--disallowed', '--whole-io'],
        check=True, capture_output=True, timeout=60).stdout


def sockets(host):
    if host.dies:
        return {die.socket for die in host.dies}
    return {node.socket for node in host.nodes if node.cores}


@ddt.ddt
class TestDumps(base.BaseTestCase):

    def test_all_that_there_are(self):
        if not machine_dumps.directory().is_dir():
            self.skipTest(f'there is no {machine_dumps.directory()}')
        self.assertEqual(set(machine_dumps.NAMES), {
            path.name.removesuffix('.tar.bz2')
            for path in machine_dumps.directory().glob('*.tar.bz2')})
        self.assertEqual(set(machine_dumps.NAMES), set(FACTS))

    @ddt.data(*machine_dumps.NAMES)
    def test_facts(self, name):
        host = found(self, name)
        last = [domain for caches in host.caches if caches.level == 3
                for domain in caches.domains]
        self.assertEqual(FACTS[name], (
            str(host.cpus), str(host.offline_cpus),
            sum(len(node.cores) for node in host.nodes), len(sockets(host)),
            sum(node.memory_mib > 0 for node in host.nodes), len(last),
            len(host.dies), len(host.pci_devices)))

    @ddt.data(MACHINE, *machine_dumps.NAMES)
    def test_what_is_written_reads_the_same(self, name):
        host = found(self, name)
        for text in (hostfile_writer.dump(host),
                     hostfile_writer.dump_json(host)):
            self.assertEqual(
                host, hostfile.read(source.parse(text, 'host.yaml')))

    @ddt.data(MACHINE, *machine_dumps.NAMES)
    def test_what_is_written_is_short(self, name):
        lines = hostfile_writer.dump(found(self, name)).splitlines()
        if name != MACHINE:
            self.assertLess(len(lines), 200)
        # Only what cannot be broken goes beyond it: a key with a word.
        for line in lines:
            self.assertLess(len(line.rsplit(' ', 2)[0]), 80, line)

    @ddt.data(*machine_dumps.NAMES)
    def test_the_engine_takes_it(self, name):
        host = found(self, name)
        self.assertEqual(len(host.nodes), len(engine.engine_cells(host)))

    def test_devices(self):
        host = found(self, '32em64t-2n8c+dax+nvme+mic+dimms')
        disk, nic, other_nic, console, infiniband, phi = host.pci_devices
        self.assertEqual(
            ('0000:00:02.0', '8086', '0953', None, hardware.PciKind.NVME,
             'nvme', ('nvme0n1',), tuple(range(46, 54)), ''),
            (disk.address, disk.vendor_id, disk.product_id, disk.numa_node,
             disk.kind, disk.driver, disk.names, disk.interrupts,
             disk.in_use))
        self.assertEqual(
            (hardware.PciKind.NIC, ('eth0',), 8, 1000, 0),
            (nic.kind, nic.names, nic.queues, nic.speed_mbps,
             nic.numa_node))
        # It is down.
        self.assertEqual((('eth1',), 0),
                         (other_nic.names, other_nic.speed_mbps))
        self.assertEqual((hardware.PciKind.GPU, 'console', ()),
                         (console.kind, console.in_use, console.interrupts))
        self.assertEqual((hardware.PciKind.NIC, ('ib0',), 1), (
            infiniband.kind, infiniband.names, infiniband.numa_node))
        self.assertEqual((hardware.PciKind.OTHER, 'mic'),
                         (phi.kind, phi.driver))

    def test_a_node_that_is_offline(self):
        host = found(self, 'offline-cpu0-node0')
        missing, node = host.nodes
        self.assertEqual((0, 0, '4,6,8,10,12,14,16,18,20', ()), (
            missing.id, missing.memory_mib, str(missing.cpus),
            missing.distances))
        self.assertEqual((1, ()), (node.id, node.distances))
        self.assertIn(str(missing.cpus), host.description)

    def test_kernel(self):
        system = found(self, 'fakecpuid1f-64intel64-2p4d2n2c2t').system
        self.assertEqual('on', system.smt)
        self.assertEqual('Mitigation: PTI', system.mitigations['meltdown'])
        system = found(self, '32em64t-2n8c+dax+nvme+mic+dimms').system
        self.assertEqual({'performance': cpuset.CpuSet(range(16))},
                         system.governors)
        self.assertEqual('acpi-cpufreq', system.cpufreq_driver)


@ddt.ddt
class TestHwloc(base.BaseTestCase):
    """Field by field, what lstopo says of the same files.

    Of the machine itself that is but its CPUs: memory and devices come and go
    while it runs, and of some CPUs hwloc has views of its own.
    """

    def setUp(self):
        super().setUp()
        if _LSTOPO is None:
            self.skipTest('lstopo is not installed (package hwloc-nox)')

    def look(self, name):
        """The host, and hwloc's objects, each with those it is in."""
        host = found(self, name)
        root = MACHINE if name == MACHINE else machine_dumps.root(self, name)
        objects = []
        waiting = [(one, ()) for one in ElementTree.fromstring(
            _lstopo('--input', root)).findall('object')]
        while waiting:
            one, parents = waiting.pop()
            objects.append((one, parents))
            waiting += [(below, (*parents, one))
                        for below in one.findall('object')]
        return host, objects

    @ddt.data(MACHINE, *machine_dumps.NAMES)
    def test_cpus(self, name):
        host, objects = self.look(name)
        self.assertEqual(host.cpus, cpuset.CpuSet(
            int(one.get('os_index')) for one, _in in of(objects, 'PU')))

    @ddt.data(*machine_dumps.NAMES)
    def test_cores(self, name):
        host, objects = self.look(name)
        ours = {cpuset.CpuSet(core)
                for node in host.nodes for core in node.cores}
        theirs = sets(objects, 'Core')
        if name in _COMPUTE_UNITS:
            theirs = {core for core in ours
                      if core == cpuset.union(
                          their for their in theirs if their.issubset(core))}
        self.assertEqual(theirs, ours)

    @ddt.data(*machine_dumps.NAMES)
    def test_sockets(self, name):
        host, objects = self.look(name)
        theirs = {int(one.get('os_index')): cpus_of(one)
                  for one, _in in of(objects, 'Package')}
        ours = {}
        for socket, cpus in (
                [(die.socket, die.cpus) for die in host.dies]
                or [(node.socket, node.cpus) for node in host.nodes]):
            if cpus:
                ours[socket] = ours.get(socket, cpuset.CpuSet()) | cpus
        self.assertEqual(theirs, ours)

    @ddt.data(*machine_dumps.NAMES)
    def test_dies(self, name):
        host, objects = self.look(name)
        theirs = sets(objects, 'Die')
        # Where there is one in each socket, hwloc may not tell of it.
        packages = sets(objects, 'Package')
        ours = {die.cpus for die in host.dies}
        self.assertEqual(theirs - packages, ours - packages)

    @ddt.data(*machine_dumps.NAMES)
    def test_nodes(self, name):
        host, objects = self.look(name)
        theirs = {
            int(one.get('os_index')): (
                cpus_of(one), int(one.get('local_memory')) >> 20,
                {int(page.get('size')) >> 10: int(page.get('count'))
                 for page in one.findall('page_type')
                 if page.get('size') != '4096'})
            for one, _in in of(objects, 'NUMANode')}
        self.assertEqual(theirs, {
            node.id: (node.cpus, node.memory_mib, dict(node.huge_pages))
            for node in host.nodes if node.memory_mib})

    @ddt.data(*machine_dumps.NAMES)
    def test_caches(self, name):
        host, objects = self.look(name)
        theirs = {
            (int(one.get('depth')), _CACHE_TYPES[one.get('cache_type')],
             int(one.get('cache_size')) >> 10, cpus_of(one))
            for one, _in in objects if one.get('cache_size')}
        self.assertEqual(theirs, {
            (caches.level, str(caches.kind), caches.size_kib, domain)
            for caches in host.caches for domain in caches.domains})

    @ddt.data(*machine_dumps.NAMES)
    def test_bridges(self, name):
        host, objects = self.look(name)
        theirs = {
            one.get('pci_busid'): [
                parent.get('pci_busid') for parent in reversed(parents)
                if parent.get('type') == 'Bridge' and parent.get('pci_busid')]
            for one, parents in of(objects, 'PCIDev')}
        self.assertEqual(
            {device.address: theirs[device.address]
             for device in host.pci_devices},
            {device.address: [bridge.address for bridge in host.bridges_above(
                device.parent)] for device in host.pci_devices})

    @ddt.data(*machine_dumps.NAMES)
    def test_devices(self, name):
        host, objects = self.look(name)
        theirs = {}
        for one, parents in of(objects, 'PCIDev'):
            number, ids, *_rest = one.get('pci_type').split()
            if number[:2] in ('02', '03', '12') or number in (
                    '0108', '0c06', '0b40'):
                near = [cpus_of(parent) for parent in parents
                        if parent.get('cpuset')][-1]
                theirs[one.get('pci_busid')] = ids.strip('[]'), near
        self.assertEqual(
            {address: ids for address, (ids, _near) in theirs.items()},
            {device.address: f'{device.vendor_id}:{device.product_id}'
             for device in host.pci_devices})
        if len(host.nodes) == 1:
            return
        for device in host.pci_devices:
            near = theirs[device.address][1]
            nodes = {node.id for node in host.nodes
                     if near.issubset(node.cpus)}
            # Hwloc goes by local_cpus, nova by numa_node, and some firmware
            # gives but one of them.
            if device.numa_node is None:
                continue
            if not nodes:
                nodes = {node.id for node in host.nodes
                         if node.cpus.issubset(near)}
                self.assertIn(device.numa_node, nodes)
            else:
                self.assertEqual(nodes, {device.numa_node}, device.address)

    @ddt.data(*machine_dumps.NAMES)
    def test_names_of_devices(self, name):
        host, objects = self.look(name)
        # 0 are disks, 2 are network interfaces.
        theirs = {
            one.get('name'): parents[-1].get('pci_busid')
            for one, parents in of(objects, 'OSDev')
            if one.get('osdev_type') in ('0', '2')}
        for device in host.pci_devices:
            for own in device.names:
                self.assertEqual(device.address, theirs.get(own), own)


def of(objects, kind):
    return ((one, parents) for one, parents in objects
            if one.get('type') == kind)


def sets(objects, kind):
    return {cpus_of(one) for one, _in in of(objects, kind)}


def cpus_of(one):
    """'0x0000ffff,,0xffffffff', a part of which is 32 CPUs."""
    mask = 0
    for part in one.get('cpuset').split(','):
        mask = mask << 32 | int(part or '0', 16)
    return cpuset.CpuSet.from_mask(mask)
