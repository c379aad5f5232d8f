# SPDX-License-Identifier: Apache-2.0
"""The preview against running services: hosts in use, hosts of other kinds,
and all flavors that ship.
"""

import itertools
import pathlib

from demo import hosts
from nova_pinning import cpuset
from nova_pinning.flavors import catalogue
from nova_pinning.host import host_model
from nova_pinning.tests import forms
from nova_pinning.tests.functional import preview_running

GIB = 1024  # in MiB

CATALOGUE = (pathlib.Path(__file__).parents[3] /
             'etc' / 'nova-pinning' / 'flavors.yaml')


class TestUsedHost(preview_running.TestCase):

    def used(self, host):
        """The CPUs that nova counts as pinned on a host."""
        return str(cpuset.union(
            cpuset.CpuSet(cell.pinned_cpus)
            for cell in self.nova.host_topology(host).cells))

    def check(self, fillers, guests, shape):
        """Compare guests on a host, after each of the fillers.

        After the first of them the comparison is exact. Later the order in
        which nova takes the threads of a core depends on how many guests it
        has counted. In CI it is after the first, and of two guests after the
        last.
        """
        self.start_host('host', shape)
        cores = [core for cell in shape.cells for core in cell.cores]
        for number, filler in enumerate(fillers):
            self.assertIsNotNone(self.boot(filler, 'host'))
            used = self.used('host')
            self.assertNotEqual('', used)
            if forms.SHORT and number:
                if number < len(fillers) - 1:
                    continue
                guests = guests[:2]
            for wanted in guests:
                different, _why = self.compare(
                    wanted, 'host', used=used, cores=cores if number else ())
                self.assertEqual([], different)

    def test_two_sockets(self):
        dedicated = {'hw__cpu_policy': 'dedicated'}
        self.check(
            fillers=(
                preview_running.flavor('odd', 3, GIB, **dedicated),
                preview_running.flavor(
                    'wide', 6, 2 * GIB, **dedicated, hw__numa_nodes='2'),
                preview_running.flavor(
                    'emulator', 3, GIB, **dedicated,
                    hw__emulator_threads_policy='isolate')),
            guests=(
                preview_running.flavor('any', 4, GIB, **dedicated),
                preview_running.flavor(
                    'cores', 4, GIB, **dedicated,
                    hw__cpu_thread_policy='require'),
                preview_running.flavor(
                    'two-cells', 6, 2 * GIB, **dedicated,
                    hw__numa_nodes='2'),
                preview_running.flavor('too-big', 12, GIB, **dedicated)),
            shape=hosts.HostShape(
                sockets=2, cores_per_cell=8, memory_mib=64 * GIB,
                dedicated='2-15,18-31', shared='0-1,16-17'))

    def test_four_cells(self):
        specs = {'hw__cpu_policy': 'mixed', 'hw__cpu_dedicated_mask': '^0'}
        self.check(
            fillers=(preview_running.flavor('mixed', 4, GIB, **specs),
                     preview_running.flavor(
                         'three-cells', 6, 3 * GIB, hw__numa_nodes='3',
                         hw__cpu_policy='dedicated')),
            guests=(preview_running.flavor('mixed', 4, GIB, **specs),
                    preview_running.flavor(
                        'one-cell', 3, GIB, hw__cpu_policy='dedicated',
                        hw__cpu_thread_policy='isolate'),
                    preview_running.flavor(
                        'uneven', 4, 2 * GIB, hw__cpu_policy='dedicated',
                        hw__numa_nodes='2', hw__numa_cpus__0='0-2',
                        hw__numa_mem__0='1024', hw__numa_cpus__1='3',
                        hw__numa_mem__1='1024')),
            shape=hosts.HostShape(
                sockets=2, cells_per_socket=2, cores_per_cell=6, threads=1,
                memory_mib=64 * GIB, cpu_allocation_ratio=4.0,
                dedicated='1-5,7-11,13-17,19-23', shared='0,6,12,18'))


class TestOtherHosts(preview_running.TestCase):

    def check(self, guests, **shape):
        self.start_host('host', hosts.HostShape(**shape))
        outcomes = []
        for wanted in guests:
            different, why = self.compare(wanted, 'host')
            self.assertEqual([], different)
            outcomes.append('refused' if why else 'runs')
        return outcomes

    def test_without_cpu_sets(self):
        # Where nova.conf says nothing, pinned and floating guests share all
        # CPUs, and Placement is asked for VCPU in place of PCPU.
        self.assertEqual(['runs', 'runs', 'refused', 'runs'], self.check(
            (preview_running.flavor('pinned', 4, GIB,
                                    hw__cpu_policy='dedicated'),
             preview_running.flavor('floating', 4, GIB),
             preview_running.flavor('too-big', 24, GIB),
             preview_running.flavor('disks', 2, GIB, ephemeral_gib=2,
                                    swap_mib=512, disk_gib=0)),
            sockets=2, cores_per_cell=4, memory_mib=16 * GIB))

    def test_without_shared_cpus(self):
        # Nova finds out about the first only when it writes the XML.
        realtime = {'hw__cpu_policy': 'dedicated', 'hw__cpu_realtime': 'yes',
                    'hw__cpu_realtime_mask': '^0'}
        self.assertEqual(['refused', 'runs', 'refused'], self.check(
            (preview_running.flavor('realtime', 4, GIB, **realtime,
                                    hw__emulator_threads_policy='share'),
             preview_running.flavor('realtime', 4, GIB, **realtime),
             preview_running.flavor('floating', 1, GIB)),
            cores_per_cell=4, memory_mib=16 * GIB, dedicated='0-7'))

    def test_oversubscribed(self):
        self.assertEqual(['runs', 'refused', 'refused', 'refused'], self.check(
            (preview_running.flavor('all-cpus', 16, GIB),
             # Though three times as much is for sale.
             preview_running.flavor('more-cpus', 17, GIB),
             preview_running.flavor('memory', 2, 16 * GIB),
             preview_running.flavor('pinned', 2, GIB,
                                    hw__cpu_policy='dedicated')),
            sockets=2, cores_per_cell=4, memory_mib=16 * GIB, shared='0-15',
            cpu_allocation_ratio=3.0, reserved_memory_mib=512))


class TestCatalogue(preview_running.TestCase):

    def check(self, family, names, others):
        """Compare all sizes of a family.

        In CI that is the first on the last host, and the last on the first.

        :param names: hosts on which they may run
        :param others: hosts on which Placement lets none of them run
        """
        flavors = [flavor for flavor in catalogue.load(str(CATALOGUE)).flavors
                   if flavor.extra_specs['pinning:family'] == family]
        self.assertNotEqual([], flavors)
        pairs = itertools.product(flavors, names)
        if forms.SHORT:
            flavors = [flavors[0], flavors[-1]]
            pairs = zip(flavors, (names[-1], names[0]))
        different, running = [], set()
        for wanted, host in pairs:
            found, why = self.compare(wanted, host)
            different += found
            if not why:
                running.add(wanted.name)
        self.assertEqual([], different, '\n'.join(different))
        self.assertEqual(
            {flavor.name for flavor in flavors}, running, 'some run nowhere')
        for host in others:
            shown, _why = self.preview(flavors[0], host, {})
            self.assertIn('CUSTOM_PINNING_DEDICATED',
                          str(shown.placement_refusal))
            self.assertIsNone(self.boot(flavors[0], host))

    def start(self):
        nvme = tuple(
            host_model.PciDevice(
                f'0000:{bus}:00.0', '144d', 'a80a', node, 'nvme')
            for node, buses in enumerate((('3b', '3c', '3d'),
                                          ('86', '87', '88')))
            for bus in buses)
        self.start_host(
            'large', hosts.HostShape(
                sockets=2, cores_per_cell=40, memory_mib=1024 * GIB,
                dedicated='2-79,82-159', shared='0-1,80-81',
                huge_pages={2048: 128 * 512, 1048576: 256}),
            nvme, ('CUSTOM_PINNING_DEDICATED', 'CUSTOM_CPU_SHARED_SET'))
        # Too small for some of them, with threads that are numbered in turn
        # and one device that belongs to no node.
        self.start_host(
            'small', hosts.HostShape(
                sockets=2, cells_per_socket=2, cores_per_cell=8,
                numbering=hosts.Numbering.ADJACENT, memory_mib=256 * GIB,
                dedicated='2-63', shared='0-1', huge_pages={2048: 48 * 512}),
            (*nvme[:1], host_model.PciDevice(
                '0000:05:00.0', '144d', 'a80a', None, 'nvme')),
            ('CUSTOM_PINNING_DEDICATED', 'CUSTOM_CPU_SHARED_SET'))
        self.start_host(
            'shared', hosts.HostShape(
                sockets=2, cores_per_cell=40, memory_mib=1024 * GIB,
                shared='0-159', cpu_allocation_ratio=3.0),
            traits=('CUSTOM_PINNING_SHARED',))

    def test_families(self):
        """One cloud for all of them, since to start one takes long."""
        self.start()
        self.check('enterprise', ('large', 'small'), ('shared',))
        self.check('shared', ('shared',), ('large',))
        self.check('latency', ('large', 'small'), ('shared',))
        self.check('local-nvme', ('large', 'small'), ())
