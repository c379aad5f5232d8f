# SPDX-License-Identifier: Apache-2.0
"""Whole machines: written as files, discovered, and compared."""

import os
import random
import struct

import ddt
import fixtures
import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.host import discover
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import hostfile
from nova_pinning.host import hostfile_writer
from nova_pinning.tests.unit.host.discover import sample_machines
from nova_pinning.tests.unit import unit_base

_UNIFIED = hardware.CacheKind.UNIFIED


@strategies.composite
def topologies(draw):
    """Sockets of dies of nodes of cores of threads, numbered anyhow.

    :returns: CPUs of each core, by (socket, die, node), and offline CPUs
    """
    threads = draw(strategies.integers(1, 4))
    counts = [draw(strategies.integers(1, most)) for most in (3, 2, 3, 5)]
    per_socket, per_die, per_node = counts[1:]
    first = draw(strategies.sampled_from([0, 5]))
    step = draw(strategies.sampled_from([1, 4]))
    places = [(socket * step, die, node)
              for socket in range(counts[0])
              for die in range(per_socket)
              for node in range(per_die)]
    places = [(socket, die, first + number * step)
              for number, (socket, die, _node) in enumerate(places)]
    size = len(places) * per_node * threads
    shuffle = random.Random(draw(strategies.integers(0, 10 ** 6)))
    ids = shuffle.sample(range(draw(strategies.sampled_from(
        [size, size + 300]))), size)
    switched_off = frozenset(
        cpu for cpu in ids if shuffle.random() < draw(
            strategies.sampled_from([0, 0, 0.1])))
    switched_off -= {ids[0]}
    cores = {}
    for place in places:
        for _core in range(per_node):
            core, ids = ids[:threads], ids[threads:]
            cores.setdefault(place, []).append(frozenset(core))
    return cores, switched_off


def write(machine, cores, offline, with_lists):
    """The files of a machine of these cores."""
    every = cpuset.CpuSet(
        cpu for own in cores.values() for core in own for cpu in core)
    off = cpuset.CpuSet(offline)
    machine.write(f'{sample_machines.CPU}/present', every)
    machine.write(f'{sample_machines.CPU}/online', every - off)
    for (socket, die, node), own in cores.items():
        node_cpus = cpuset.CpuSet(cpu for core in own for cpu in core)
        name, text = (('cpulist', node_cpus) if with_lists else
                      ('cpumap', sample_machines.mask(node_cpus, 70)))
        machine.write(f'{sample_machines.NODE}/node{node}/{name}', text)
        machine.write(f'{sample_machines.NODE}/node{node}/meminfo',
                      f'Node {node} MemTotal: {1048576 * (node + 1)} kB')
        machine.write(f'{sample_machines.NODE}/node{node}/distance', ' '.join(
            '10' if other == node else str(20 + abs(other - node))
            for _socket, _die, other in sorted(
                cores, key=lambda place: place[2])))
        for core in own:
            for cpu in core:
                path = f'{sample_machines.CPU}/cpu{cpu}'
                if cpu in offline:
                    machine.write(f'{path}/online', 0)
                    continue
                threads = cpuset.CpuSet(core) - off
                name, text = (('_list', threads) if with_lists else
                              ('', sample_machines.mask(threads, 70)))
                machine.write(f'{path}/topology/thread_siblings{name}', text)
                machine.write(f'{path}/topology/physical_package_id', socket)
                machine.write(f'{path}/topology/die_id', die)
                machine.cache(cpu, 0, 2, 'Unified', '512K', threads, 70)
                machine.cache(cpu, 1, 3, 'Unified', '8192K',
                              node_cpus - off, 70)


def expected_nodes(cores, offline):
    off = cpuset.CpuSet(offline)
    numbers = sorted(node for _socket, _die, node in cores)
    for (socket, _die, node), own in sorted(
            cores.items(), key=lambda item: item[0][2]):
        online = [cpuset.CpuSet(core) - off for core in own]
        domain = cpuset.union(online)
        yield host_model.NumaNode(
            # Where all CPUs are switched off nothing tells the socket.
            id=node, socket=socket if domain else 0,
            cores=tuple(sorted(tuple(core) for core in online if core)),
            memory_mib=1024 * (node + 1),
            l3_domains=(domain,) if domain else (),
            distances=tuple(10 if other == node else 20 + abs(other - node)
                            for other in numbers))


@ddt.ddt
class TestDiscover(oslotest.BaseTestCase):

    @unit_base.settings(max_examples=25)
    @hypothesis.given(topologies(), strategies.booleans())
    def test_any_machine(self, topology, with_lists):
        cores, offline = topology
        with sample_machines.Machine() as machine:
            write(machine, cores, offline, with_lists)
            found = discover.discover_host(machine.tree(), 'any')
        self.assertEqual(tuple(expected_nodes(cores, offline)), found.nodes)
        self.assertEqual(cpuset.CpuSet(offline), found.offline_cpus)
        dies = {}
        for (socket, die, _node), own in cores.items():
            online = cpuset.CpuSet(
                cpu for core in own for cpu in core if cpu not in offline)
            if online:
                dies[socket, die] = dies.get(
                    (socket, die), cpuset.CpuSet()) | online
        several = len(dies) > len({socket for socket, _die in dies})
        self.assertEqual(
            tuple(hardware.Die(*place, own)
                  for place, own in sorted(dies.items())) if several else (),
            found.dies)
        self.assertEqual((
            hardware.Caches(2, _UNIFIED, 512, tuple(sorted(
                cpuset.CpuSet(core) for node in found.nodes
                for core in node.cores))),
            hardware.Caches(3, _UNIFIED, 8192, tuple(sorted(
                domain for node in found.nodes
                for domain in node.l3_domains)))), found.caches)
        self.assertEqual(found, hostfile.read(
            source.parse(hostfile_writer.dump(found), 'host.yaml')))

    def test_a_large_machine(self):
        cores = {(socket, 0, node): [
            frozenset((core, core + 192))
            for core in range(96 * node, 96 * (node + 1))]
            for node, socket in enumerate((0, 1))}
        machine = self.useFixture(sample_machines.Machine())
        write(machine, cores, (), with_lists=False)
        text = hostfile_writer.dump(
            discover.discover_host(machine.tree(), 'big'))
        self.assertIn("cpus: '0-95,192-287'", text)
        self.assertIn('domains: cores', text)
        self.assertLess(len(text.splitlines()), 30)

    @ddt.data('', 'sys/devices/system/node/online', 'proc/cpuinfo')
    def test_no_machine(self, path):
        machine = self.useFixture(sample_machines.Machine())
        if path:
            machine.write(path, '')
        error = self.assertRaises(
            errors.InputError, discover.discover_host, machine.tree())
        self.assertEqual(str(machine.root), error.where.source)
        self.assertIn("not a machine's root", str(error))

    def test_no_cpu_online(self):
        machine = self.useFixture(sample_machines.Machine())
        machine.write(f'{sample_machines.CPU}/online', '')
        self.assertRaises(
            errors.InputErrors, discover.discover_host, machine.tree())

    def test_contradictions_are_told(self):
        machine = self.useFixture(sample_machines.Machine()).small()
        machine.node(0, '0-3', pages={1048576: 2})
        error = self.assertRaises(
            errors.InputErrors, discover.discover_host, machine.tree())
        self.assertIn('2048 MiB', str(error))

    @ddt.data(
        ('node0/cpulist', '0-3\n\0', "'0-3\\\\n\\\\x00'"),
        ('node0/cpumap', '0000000g', "'0000000g'"),
        ('node0/distance', '1' * 5000, "'1111"),
        ('node0/distance', '10 \u0661', "'10 \u0661'"),
        ('node0/distance', '256', "'256'"),
        ('node0/meminfo', 'Node 0 MemTotal: much', "'Node 0 MemTotal: much'"),
        ('node0/hugepages/hugepages-2048kB/nr_hugepages', 'many', "'many'"),
        ('online', '0 1', "'0 1'"))
    @ddt.unpack
    def test_nonsense_fails(self, name, text, shown):
        """What is there but makes no sense is not taken for absent."""
        machine = self.useFixture(sample_machines.Machine()).small()
        path = f'{sample_machines.NODE}/{name}'
        machine.write(path, text)
        error = self.assertRaises(
            errors.InputErrors, discover.discover_host, machine.tree())
        self.assertEqual(1, len(error.errors))
        self.assertIn(f'/{path}', str(error))
        self.assertIn(shown.replace('\\\\', '\\'), str(error))
        self.assertLess(len(str(error)), 300)

    @ddt.data(
        ('x86_64', (2048,), '', 4, ''),
        ('s390x', (1024,), '', 4, ''),
        ('aarch64', (64, 2048, 32768, 1048576), '', 4, ''),
        ('aarch64', (2048, 32768, 1048576), '', 16, ''),
        ('aarch64', (2048, 524288, 16777216), '', 64, ''),
        ('aarch64', (), '', 4, '4 KiB are taken for aarch64'),
        ('aarch64', (), '<', 64, ''),
        ('ppc64le', (16384, 16777216), '', 64, '64 KiB are taken for ppc64'),
        ('ppc64le', (16384, 16777216), '<', 64, ''),
        ('s390x', (1024,), '>', 64, ''))
    @ddt.unpack
    def test_smallest_pages(self, arch, sizes, order, expected, said):
        machine = self.useFixture(sample_machines.Machine()).small()
        machine.node(0, '0-3', pages=dict.fromkeys(sizes, 0))
        machine.write('proc/sys/kernel/arch', arch)
        if order:
            (machine.root / 'proc/1').mkdir(parents=True)
            (machine.root / 'proc/1/auxv').write_bytes(struct.pack(
                f'{order}6Q', 33, 2 ** 40, 6, 65536, 0, 0))
        found = discover.discover_host(machine.tree())
        self.assertEqual((expected, set(sizes)), (
            found.system.page_size_kib, set(found.nodes[0].huge_pages)))
        self.assertIn(said, found.description)
        self.assertEqual(bool(said), bool(found.description))
        self.assertEqual(found, hostfile.read(
            source.parse(hostfile_writer.dump(found), 'host.yaml')))

    def test_two_last_caches(self):
        machine = self.useFixture(sample_machines.Machine()).small()
        for index, kind in ((2, 'Unified'), (3, 'Unified'), (4, 'Data')):
            machine.cache(2, index, min(index, 3), kind, '1M', 2)
        error = self.assertRaises(
            errors.InputErrors, discover.discover_host, machine.tree())
        self.assertEqual(1, len(error.errors))
        self.assertIn('cpu2/cache/index4', str(error))

    def test_a_node_whose_memory_nobody_tells(self):
        machine = self.useFixture(sample_machines.Machine()).small()
        machine.write(f'{sample_machines.NODE}/node1/cpulist', '')
        error = self.assertRaises(
            errors.InputErrors, discover.discover_host, machine.tree())
        self.assertIn('node1/meminfo makes no sense: it is not there',
                      str(error))

    def test_what_has_no_end(self):
        """A dump may have anything in the place of a file."""
        machine = self.useFixture(sample_machines.Machine()).small()
        (machine.root / 'proc').mkdir()
        os.mkfifo(machine.root / 'proc/cpuinfo')
        machine.link('proc/meminfo', '/dev/zero')
        with open(machine.root / 'proc/cmdline', 'wb') as file:
            file.truncate(20 * 2 ** 30)
        machine.link(f'{sample_machines.CPU}/present', '/dev/zero')
        error = self.assertRaises(
            errors.InputErrors, discover.discover_host, machine.tree())
        self.assertEqual(
            ['cmdline', 'cpuinfo', 'present'], sorted(
                one.message.split()[0].rpartition('/')[2]
                for one in error.errors))
        self.assertIn('21,474,836,480 bytes', str(error))

    def test_nodes_that_share_cpus(self):
        machine = self.useFixture(sample_machines.Machine()).small()
        machine.node(0, '0-2')
        machine.node(3, '1-3')
        error = self.assertRaises(
            errors.InputErrors, discover.discover_host, machine.tree())
        self.assertEqual(
            f'{machine.root}: /sys/devices/system/node/node3/cpulist has '
            'CPUs 1-2, which /sys/devices/system/node/node0/cpulist has as '
            'well: nodes 0 and 3 cannot share CPUs', str(error))

    def test_the_least(self):
        machine = self.useFixture(sample_machines.Machine())
        machine.write(f'{sample_machines.CPU}/cpu0/uevent', '')
        self.useFixture(fixtures.MonkeyPatch(
            'nova_pinning.host.discover.system.name', lambda tree: 'least'))
        self.assertEqual(host_model.HostDescription(
            'least', (host_model.NumaNode(0, 0, ((0,),), 0),)),
            discover.discover_host(machine.tree()))

    def test_a_node_of_several_sockets(self):
        machine = self.useFixture(sample_machines.Machine())
        for number in range(4):
            machine.cpu(number, package=number // 2)
        machine.node(0, '0-3')
        self.assertEqual(
            {0: '0-1', 1: '2-3'},
            {die.socket: str(die.cpus)
             for die in discover.discover_host(machine.tree()).dies})
