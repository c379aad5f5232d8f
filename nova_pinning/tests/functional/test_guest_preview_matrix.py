# SPDX-License-Identifier: Apache-2.0
"""The preview against running services, for many kinds of guests.

Each combination either runs, and libvirt is told what the preview says, or
both refuse it.
"""

import random

from demo import hosts
from nova_pinning.host import host_model
from nova_pinning.tests import forms
from nova_pinning.tests.functional import preview_running

GIB = 1024  # in MiB

#: Huge pages of each cell: 4 GiB in each of both sizes.
PAGES = {2048: 2048, 1048576: 4}

#: Two sockets of 16 CPUs with two threads a core, 4 of them shared.
THREADED = hosts.HostShape(
    sockets=2, cores_per_cell=8, memory_mib=64 * GIB, huge_pages=PAGES,
    dedicated='2-7,10-15,18-23,26-31', shared='0-1,8-9,16-17,24-25',
    cpu_allocation_ratio=2.0)
#: Four cells in two sockets, 8 CPUs without threads each, 3 of them shared.
FLAT = hosts.HostShape(
    sockets=2, cells_per_socket=2, cores_per_cell=8, threads=1,
    memory_mib=64 * GIB, huge_pages=PAGES, reserved_memory_mib=512,
    reserved_huge_pages=('node:1,size:2048,count:512',),
    dedicated='3-7,11-15,19-23,27-31', shared='0-2,8-10,16-18,24-26',
    cpu_allocation_ratio=4.0)

DEVICES = tuple(
    host_model.PciDevice(address, vendor, product, node, alias)
    for address, vendor, product, node, alias in (
        ('0000:3b:00.0', '8086', '0a54', 0, 'nvme'),
        ('0000:3b:01.0', '8086', '0a54', 0, 'nvme'),
        ('0000:81:00.0', '8086', '0a54', 1, 'nvme'),
        ('0000:82:00.0', '10de', '20b0', 1, 'gpu')))

CHOICES = {
    'policy': (
        {'hw:cpu_policy': 'dedicated'}, {'hw:cpu_policy': 'dedicated'},
        {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '^0'},
        {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '2-3'},
        {'hw:cpu_policy': 'shared'}, {}),
    'threads': (
        {}, {'hw:cpu_thread_policy': 'prefer'},
        {'hw:cpu_thread_policy': 'require'},
        {'hw:cpu_thread_policy': 'require', 'hw:cpu_threads': '2',
         'hw:cpu_sockets': '1'},
        {'hw:cpu_thread_policy': 'isolate'}),
    'emulator': (
        {}, {'hw:emulator_threads_policy': 'share'},
        {'hw:emulator_threads_policy': 'isolate'}),
    'realtime': (
        {}, {},
        {'hw:cpu_realtime': 'yes', 'hw:cpu_realtime_mask': '^0'},
        {'hw:cpu_realtime': 'yes', 'hw:cpu_realtime_mask': '2-3'}),
    'cells': (
        {}, {'hw:numa_nodes': '1'}, {'hw:numa_nodes': '2'},
        {'hw:numa_nodes': '2', 'hw:numa_cpus.0': '0-2',
         'hw:numa_mem.0': '3072', 'hw:numa_cpus.1': '3',
         'hw:numa_mem.1': '1024'}),
    'pages': (
        {}, {}, {'hw:mem_page_size': 'small'}, {'hw:mem_page_size': 'large'},
        {'hw:mem_page_size': '2048'}, {'hw:mem_page_size': '1GB'},
        {'hw:mem_page_size': '2MB', 'hw:locked_memory': 'true'}),
    'devices': (
        {}, {}, {'pci_passthrough:alias': 'nvme:1'},
        {'pci_passthrough:alias': 'nvme:1',
         'hw:pci_numa_affinity_policy': 'required'},
        {'pci_passthrough:alias': 'nvme:2,gpu:1',
         'hw:pci_numa_affinity_policy': 'preferred'},
        {'pci_passthrough:alias': 'gpu:1',
         'hw:pci_numa_affinity_policy': 'socket'}),
    'queues': ({}, {'hw:vif_multiqueue_enabled': 'true'}),
    'quotas': (
        {}, {'quota:cpu_shares': '2048'},
        {'quota:cpu_period': '100000', 'quota:cpu_quota': '50000'},
        {'quota:disk_read_iops_sec': '500',
         'quota:disk_write_bytes_sec': '1048576'},
        {'quota:disk_total_iops_sec': '1000'},
        {'quota:vif_inbound_average': '1000',
         'quota:vif_outbound_average': '1000',
         'quota:vif_outbound_peak': '2000',
         'quota:vif_outbound_burst': '3000'}),
}
IMAGES = (
    {}, {}, {}, {'hw_machine_type': 'q35'}, {'os_type': 'windows'},
    {'hw_cpu_cores': '2'}, {'hw_vif_multiqueue_enabled': 'true'},
    {'hw_disk_bus': 'scsi', 'hw_scsi_model': 'virtio-scsi'},
    {'hw_mem_page_size': 'small'}, {'hw_cpu_policy': 'dedicated'},
    {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35'})


def combinations(seed, count):
    """Flavors with images, the same each time.

    Most are such as nova-api accepts.
    """
    chance = random.Random(seed)
    for number in range(count):
        picked = {name: chance.choice(choices)
                  for name, choices in CHOICES.items()}
        if picked['policy'].get('hw:cpu_policy') not in (
                'dedicated', 'mixed'):
            for name in ('threads', 'emulator', 'realtime'):
                picked[name] = {}
        specs = {}
        for one in picked.values():
            specs |= one
        if 'hw:cpu_realtime_mask' in specs:
            # The one mask says which vCPUs are dedicated, too.
            specs.pop('hw:cpu_dedicated_mask', None)
        yield preview_running.flavor(
            f'matrix-{seed}-{number}', vcpus=4, memory_mib=4 * GIB, **specs,
        ), chance.choice(IMAGES)


class TestMatrix(preview_running.TestCase):

    #: Of each seed's combinations; the rest are refused by both.
    COUNT = 5 if forms.SHORT else 20

    def check(self, seed):
        different, running = [], 0
        for wanted, image in combinations(seed, self.COUNT):
            found, why = self.compare(wanted, 'host', image)
            different += [f'{one} with image {image}' for one in found]
            running += not why
        self.assertEqual([], different, '\n'.join(different))
        self.assertGreaterEqual(running, self.COUNT * 3 / 10, seed)

    def test_threaded(self):
        self.start_host('host', THREADED, DEVICES)
        self.check(1)
        self.check(2)

    def test_flat(self):
        self.start_host('host', FLAT, DEVICES)
        self.check(3)
        self.check(4)
