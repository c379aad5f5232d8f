# SPDX-License-Identifier: Apache-2.0
"""What the preview says of guests on described hosts."""

import dataclasses
import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

import itertools
import json
import logging
import pathlib
import subprocess
from urllib import parse
from xml.etree import ElementTree

import ddt
import fixtures
import nova.conf
from nova import exception
from nova import objects
from nova.pci import request as pci_request
from nova.virt import hardware
from nova.virt.libvirt import host as libvirt_host
from oslo_config import cfg

from nova_pinning.bridge import claim
from nova_pinning.bridge.offline import nova_capabilities
from nova_pinning.bridge import preview
from nova_pinning.bridge.preview import machine
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning import fit
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import flavor_model
from nova_pinning.host import engine
from nova_pinning.host import host_loader
from nova_pinning.host import host_model
from nova_pinning import model
from nova_pinning.tests.unit import unit_base

CONF = nova.conf.CONF
GIB = 1024  # in MiB
SHIPPED = pathlib.Path(__file__).parents[4] / 'etc' / 'nova-pinning'
WHERE = errors.Location('flavors.yaml', 7, key='families.a')
PACKING = 'packing_host_numa_cells_allocation_strategy'
HOST_WHERE = errors.Location('host.yaml', 1)


def cpus(text):
    return cpuset.CpuSet.parse(text)


def host(threads=2, devices=(), arch='x86_64', traits=(), **settings):
    """Two nodes of 8 cores, 16 GiB each, 4 GiB of them in pages of 2 MiB."""
    nodes = tuple(
        host_model.NumaNode(
            node, node, tuple(
                tuple(core + 16 * thread for thread in range(threads))
                for core in range(8 * node, 8 * node + 8)),
            16 * GIB, {2048: 2048})
        for node in range(2))
    settings = {'dedicated_cpus': cpus('2-15,18-31') if threads == 2 else
                cpus('2-15'), 'shared_cpus': cpus('0-1')} | settings
    return host_model.HostDescription(
        'host', nodes, cpu_model=host_model.CpuModel(arch=arch),
        pci_devices=tuple(devices), nova=host_model.NovaSettings(**settings),
        traits=frozenset(traits), where=HOST_WHERE)


def flavor(vcpus=4, memory_mib=4 * GIB, origins=None, **extra_specs):
    specs = {key.replace('__', ':', 1): value
             for key, value in extra_specs.items()}
    return flavor_model.Flavor(
        name='guest', vcpus=vcpus, memory_mib=memory_mib, disk_gib=10,
        extra_specs=specs, where=WHERE, origins=origins or {})


def device(address, node=0, alias='nvme', product='0a54'):
    return host_model.PciDevice(address, '8086', product, node, alias)


def pins(xml):
    return {int(pin.get('vcpu')): cpus(pin.get('cpuset'))
            for pin in ElementTree.fromstring(xml).iterfind(
                'cputune/vcpupin')}


class TestCase(unit_base.TestCase):

    def preview(self, wanted, described=None, image=None, used='',
                libvirt=None):
        return preview.preview_guest(
            wanted, image or {}, described or host(), cpus(used), libvirt)

    def refuse(self, *arguments, **keywords):
        return self.assertRaises(
            errors.InputError, self.preview, *arguments, **keywords)


class TestVersions(TestCase):

    def test_what_hangs_on_libvirt(self):
        wanted = flavor(hw__cpu_policy='dedicated',
                        hw__viommu_model='auto')
        q35 = {'hw_machine_type': 'q35'}
        later = self.preview(wanted, image=q35)
        self.assertIn('model="virtio"', later.xml.split('<iommu')[1])
        self.assertIn('libvirt is 8.3.0 or later', ' '.join(later.remarks))
        older = self.preview(wanted, image=q35, libvirt=(8, 0, 0))
        self.assertIn('model="intel"', older.xml.split('<iommu')[1])
        self.assertNotIn('8.3.0', ' '.join(older.remarks))
        self.assertNotIn('libvirt', ' '.join(self.preview(
            flavor(vcpus=1)).remarks))

    def test_nodes_of_devices(self):
        described = host(devices=[device('0000:81:00.0')])
        for kind, place in (('pc', 'the root bus'),
                            ('q35', 'a root port of its own')):
            shown = self.preview(
                flavor(hw__cpu_policy='dedicated', hw__numa_nodes='2',
                       pci_passthrough__alias='nvme:1'), described,
                image={'hw_machine_type': kind})
            self.assertIn(
                f'In the guest each of its PCI devices is on {place}, below '
                'no switch and on no NUMA node: 0000:81:00.0 (nvme, host '
                'node 0)', shown.remarks)
            self.assertNotIn('pxb', shown.xml)
            self.assertEqual({'0000:81:00.0'}, shown.placement.devices)


class TestFit(TestCase):

    def test_dedicated(self):
        shown = self.preview(flavor(
            hw__cpu_policy='dedicated', hw__cpu_thread_policy='require',
            hw__mem_page_size='2MB'))

        self.assertIsNone(shown.refusal)
        self.assertIsInstance(shown.fit, model.Fit)
        cell, = shown.fit.cells
        self.assertEqual(2048, cell.page_size_kib)
        told = {vcpu: cpuset.CpuSet([cpu]) for vcpu, cpu in cell.pins}
        self.assertEqual(told, pins(shown.xml))
        self.assertEqual(told, dict(shown.placement.vcpu_cpus))
        self.assertEqual({0: cell.host_cell},
                         dict(shown.placement.memory_nodes))
        self.assertEqual(cpuset.union(told.values()),
                         shown.placement.emulator_cpus)
        self.assertEqual('guest', shown.placement.name)
        self.assertEqual((), shown.remarks)

    def test_two_cells(self):
        shown = self.preview(flavor(
            hw__cpu_policy='dedicated', hw__numa_nodes='2'))

        self.assertEqual({0, 1},
                         set(shown.placement.memory_nodes.values()))
        for cell, node in shown.placement.memory_nodes.items():
            for vcpu in (2 * cell, 2 * cell + 1):
                cpu, = shown.placement.vcpu_cpus[vcpu]
                self.assertEqual(node, cpu % 16 // 8)

    def test_floating(self):
        shown = self.preview(flavor(vcpus=2))

        self.assertIsNone(shown.fit)
        self.assertIsNone(shown.refusal)
        self.assertEqual({0: cpus('0-1'), 1: cpus('0-1')},
                         dict(shown.placement.vcpu_cpus))
        self.assertEqual({}, dict(shown.placement.memory_nodes))

    def test_mixed(self):
        shown = self.preview(flavor(
            hw__cpu_policy='mixed', hw__cpu_dedicated_mask='^0'))

        placed = shown.placement.vcpu_cpus
        self.assertEqual(cpus('0-1'), placed[0])
        self.assertEqual([1, 1, 1], [len(placed[one]) for one in (1, 2, 3)])

    def test_emulator(self):
        shown = self.preview(flavor(
            vcpus=3, hw__cpu_policy='dedicated',
            hw__emulator_threads_policy='isolate'))

        cell, = shown.fit.cells
        self.assertEqual(cpuset.CpuSet(cell.emulator_cpus),
                         shown.placement.emulator_cpus)
        self.assertEqual(4, shown.query.resources['PCPU'])

    def test_used(self):
        wanted = flavor(hw__cpu_policy='dedicated')
        free = self.preview(wanted).placement.vcpu_cpus
        taken = cpuset.union(free.values())

        shown = self.preview(wanted, used=str(taken))

        self.assertTrue(taken.isdisjoint(
            cpuset.union(shown.placement.vcpu_cpus.values())))
        self.assertEqual(
            (f'What else the guests on CPUs {taken} use is not known: memory '
             f'and devices are taken to be free',), shown.remarks)

    def test_used_but_not_dedicated(self):
        shown = self.preview(flavor(vcpus=2), used='0,2,99')
        self.assertEqual(2, len(shown.remarks))
        self.assertIn('the guests on CPUs 2 use', shown.remarks[0])
        self.assertIn('CPUs 0,99 are said to be used', shown.remarks[1])

    def test_no_room_in_a_cell(self):
        shown = self.preview(flavor(
            vcpus=4, hw__cpu_policy='dedicated'), used='2-13,18-31')

        # Placement counts all CPUs together, as many as 2.
        self.assertIs(model.Reason.FREE_CPUS, shown.fit.reason)
        self.assertIs(shown.fit, shown.refusal)
        self.assertIsNone(shown.xml)
        self.assertIsNone(shown.placement)

    def test_isolate_on_threads(self):
        wanted = flavor(hw__cpu_policy='dedicated',
                        hw__cpu_thread_policy='isolate')
        self.assertIs(model.Reason.ISOLATE_ON_THREADS,
                      self.preview(wanted).refusal.reason)
        self.assertIsNone(self.preview(wanted, host(threads=1)).refusal)

    def test_nova_would_go_wrong(self):
        wrong = model.Refusal(model.Reason.NOVA_WRONG, detail='so it is')
        self.useFixture(fixtures.MockPatchObject(
            claim, 'predict_claim', lambda *_arguments: wrong))
        # Cells that nova is known to get wrong at times. And not what comes
        # first in order, about which there is no question.
        self.useFixture(fixtures.MockPatchObject(
            fit.CellChoice, 'is_first', False))
        shown = self.preview(flavor(
            vcpus=3, hw__cpu_policy='dedicated', hw__numa_nodes='2',
            **{'hw__numa_cpus.0': '0', 'hw__numa_cpus.1': '1,2',
               'hw__numa_mem.0': '2048', 'hw__numa_mem.1': '2048'}))
        self.assertIs(wrong, shown.refusal)
        self.assertIsNone(shown.xml)

    def test_nova_would_not_start_it(self):
        # What depends on flavor or image and host, nova sees only then.
        realtime = flavor(
            hw__cpu_policy='dedicated', hw__cpu_realtime='yes',
            hw__cpu_realtime_mask='^0', hw__emulator_threads_policy='share')
        for shown, words in (
                (self.preview(realtime, host(shared_cpus=None)),
                 'cpu_shared_set, which is not set on the host'),
                (self.preview(flavor(vcpus=2),
                              image={'hw_machine_type': 'q53'}),
                 "'q53' is no machine type"),
                (self.preview(flavor(vcpus=2),
                              image={'hw_architecture': 'mips'}),
                 'None is no machine type')):
            self.assertIs(model.Reason.NOVA_START, shown.refusal.reason)
            self.assertIn(words, str(shown.refusal))
            self.assertIsNone(shown.xml)
        self.assertIsNone(self.preview(realtime).refusal)

    def test_other_architectures(self):
        """Nova takes the machine type of the host's, unless images tell."""
        # Up to 2025.2 nova looks for the firmware, which aarch64 guests have.
        pc_refused = ('UEFI is not supported'
                      if hasattr(libvirt_host.Host, 'get_loader') else
                      "'pc' is not a machine type of aarch64 guests")
        for properties, refused in (
                ({'hw_emulation_architecture': 'aarch64'}, pc_refused),
                ({'hw_emulation_architecture': 'aarch64',
                  'hw_machine_type': 'pc'}, pc_refused),
                ({'hw_machine_type': 'virt'}, "'virt' is not a machine type"),
                ({'hw_emulation_architecture': 'aarch64',
                  'hw_machine_type': 'virt'}, ''),
                ({'hw_architecture': 'aarch64'}, '')):
            shown = self.preview(flavor(vcpus=2), image=properties)
            if refused:
                self.assertIn(refused, str(shown.refusal))
                continue
            self.assertIsNone(shown.refusal)
            self.assertEqual('it is not known whether it has QEMU for aarch64',
                             shown.undecided)
            self.assertIn('arch="aarch64" machine="virt"', shown.xml)

    def test_firmware_of_earlier_releases(self):
        described = machine.DescribedHost(host())
        self.assertEqual('/usr/share/AAVMF/AAVMF_CODE.fd',
                         described.get_loader('aarch64', 'virt', False)[0])
        self.assertRaises(exception.UEFINotSupported, described.get_loader,
                          'aarch64', 'pc', False)

    def test_reserved_pages(self):
        wanted = flavor(hw__mem_page_size='2MB')
        self.assertIsNone(self.preview(
            wanted, host(shared_cpus=cpus('0-1,16-17'))).refusal)
        shown = self.preview(wanted, host(
            shared_cpus=cpus('0-1,16-17'),
            reserved_huge_pages={(0, 2048): 1, (1, 2048): 1}))
        self.assertIs(model.Reason.PAGES, shown.refusal.reason)

    def test_same_each_time(self):
        wanted = flavor(hw__cpu_policy='dedicated', hw__numa_nodes='2')
        shown = self.preview(wanted)
        self.assertEqual(shown, self.preview(wanted))
        self.assertIn('1970-01-01', shown.xml)

    def test_another_architecture(self):
        shown = self.preview(flavor(), host(
            threads=1, arch='aarch64', shared_cpus=cpus('0-7')))
        kind = ElementTree.fromstring(shown.xml).find('os/type')
        self.assertEqual(('aarch64', 'virt'),
                         (kind.get('arch'), kind.get('machine')))


class TestXml(TestCase):

    def domain(self, wanted, **image):
        return ElementTree.fromstring(self.preview(wanted, image=image).xml)

    def test_quotas(self):
        domain = self.domain(flavor(
            vcpus=2, quota__cpu_shares='2048', quota__disk_read_iops_sec='500',
            quota__vif_inbound_average='1000',
            hw__vif_multiqueue_enabled='true'))

        self.assertEqual('2048', domain.findtext('cputune/shares'))
        self.assertEqual(
            '500', domain.findtext('devices/disk/iotune/read_iops_sec'))
        interface = domain.find('devices/interface')
        self.assertEqual(
            '1000', interface.find('bandwidth/inbound').get('average'))
        self.assertEqual('2', interface.find('driver').get('queues'))

    def test_image(self):
        domain = self.domain(
            flavor(vcpus=2), hw_machine_type='q35', os_type='windows')
        self.assertEqual('q35', domain.find('os/type').get('machine'))
        self.assertIsNotNone(domain.find('features/hyperv'))

    def test_image_asks_for_dedicated(self):
        self.assertEqual(4, len(pins(self.preview(
            flavor(), image={'hw_cpu_policy': 'dedicated'}).xml)))

    def test_virtual_tpm(self):
        domain = self.domain(
            flavor(vcpus=2), hw_tpm_version='2.0', hw_tpm_model='tpm-crb')
        self.assertEqual('tpm-crb', domain.find('devices/tpm').get('model'))

    def test_disks(self):
        wanted = flavor_model.Flavor(
            name='disks', vcpus=1, memory_mib=512, ephemeral_gib=1,
            swap_mib=64)
        self.assertEqual(
            ['vda', 'vdb', 'vdc'],
            [target.get('dev') for target in ElementTree.fromstring(
                self.preview(wanted).xml).iterfind('devices/disk/target')])


class TestCpuTopologies(unit_base.TestCase):

    def test_against_nova(self):
        nova = hardware._get_possible_cpu_topologies
        ours = machine.possible_cpu_topologies
        for vcpus, most, threads in itertools.product(
                (1, 2, 7, 12, 24), itertools.product((1, 2, 4, 99), repeat=3),
                (True, False)):
            limits = objects.VirtCPUTopology(
                sockets=most[0], cores=most[1], threads=most[2])
            try:
                expected = nova(vcpus, limits, threads)
            except exception.ImageVCPULimitsRangeImpossible:
                self.assertRaises(
                    exception.ImageVCPULimitsRangeImpossible, ours, vcpus,
                    limits, threads)
                continue
            self.assertEqual(
                [str(one) for one in expected],
                [str(our) for our in ours(vcpus, limits, threads)])

    def test_very_many(self):
        # Nova's own would take hours.
        limits = objects.VirtCPUTopology(
            sockets=65536, cores=65536, threads=65536)
        found = machine.possible_cpu_topologies(4096, limits, True)
        self.assertEqual(
            (4096, 1, 1),
            (found[0].sockets, found[0].cores, found[0].threads))


class TestQuery(TestCase):

    def test_dedicated(self):
        shown = self.preview(flavor(
            hw__cpu_policy='dedicated', hw__cpu_thread_policy='require',
            trait__CUSTOM_PINNING_DEDICATED='required'))

        self.assertEqual({'PCPU': 4, 'MEMORY_MB': 4096, 'DISK_GB': 10},
                         shown.query.resources)
        self.assertEqual(
            ('CUSTOM_PINNING_DEDICATED', 'HW_CPU_HYPERTHREADING',
             *(['OWNER_NOVA'] if nova_capabilities.REQUIRES_OWNER else [])),
            shown.query.required)
        self.assertEqual(('COMPUTE_STATUS_DISABLED',), shown.query.forbidden)
        self.assertEqual({'VCPU': 4, 'MEMORY_MB': 4096, 'DISK_GB': 10},
                         shown.fallback.resources)

    def test_shared(self):
        shown = self.preview(flavor(
            vcpus=2, trait__CUSTOM_PINNING_DEDICATED='forbidden'))
        self.assertEqual(2, shown.query.resources['VCPU'])
        self.assertIsNone(shown.fallback)
        self.assertIn('CUSTOM_PINNING_DEDICATED', shown.query.forbidden)

    def test_querystring(self):
        query = self.preview(flavor(
            resources1__CUSTOM_DISK='2', trait1__CUSTOM_FAST='required',
            trait__CUSTOM_A='required')).query

        asked = parse.parse_qs(query.querystring)
        for group in query.asked.groups:
            self.assertEqual(
                {f'{name}:{amount}'
                 for name, amount in group.resources},
                set(asked['resources' + group.suffix][0].split(',')))
            self.assertEqual(
                set(group.required),
                set(asked.get('required' + group.suffix, [''])[0].split(',')) -
                {''})
        self.assertEqual(
            {*query.asked.root_required, *(
                '!' + one for one in query.asked.root_forbidden)},
            set(asked['root_required'][0].split(',')))
        self.assertEqual(2, query.resources['CUSTOM_DISK'])

    def test_too_many_pinned(self):
        shown = self.preview(flavor(
            vcpus=29, hw__cpu_policy='dedicated', hw__numa_nodes='1'))
        self.assertIs(model.Reason.ALLOCATION, shown.placement_refusal.reason)
        self.assertIn('28 PCPU left of 28, 29 needed',
                      str(shown.placement_refusal))
        self.assertIsNone(shown.xml)

    def test_used_cpus_are_gone(self):
        shown = self.preview(
            flavor(hw__cpu_policy='dedicated'), used='4-15,18-31')
        self.assertIn('2 PCPU left of 28, 4 needed',
                      str(shown.placement_refusal))

    def test_one_guest_has_no_more_than_all(self):
        described = host(cpu_allocation_ratio=4.0)
        self.assertIsNone(self.preview(flavor(vcpus=2), described).refusal)
        self.assertIn('2 VCPU left of 2, 3 needed', str(
            self.preview(flavor(vcpus=3), described).refusal))

    def test_memory(self):
        wanted = flavor(vcpus=1, memory_mib=32 * GIB)
        self.assertIsNone(self.preview(wanted).refusal)
        shown = self.preview(wanted, host(reserved_memory_mib=1))
        self.assertIn('32,767 MEMORY_MB left of 32,768, 32,768 needed',
                      str(shown.refusal))
        self.assertIsNone(shown.fit)
        self.assertIsNone(shown.xml)

    def test_threads(self):
        isolate = flavor(hw__cpu_policy='dedicated',
                         hw__cpu_thread_policy='isolate')
        require = flavor(hw__cpu_policy='dedicated',
                         hw__cpu_thread_policy='require')
        for wanted, threads, trait in (
                (isolate, 2, 'has trait HW_CPU_HYPERTHREADING'),
                (require, 1, 'has no trait HW_CPU_HYPERTHREADING')):
            self.assertIn(trait, str(
                self.preview(wanted, host(threads)).placement_refusal))
            self.assertIsNone(
                self.preview(wanted, host(3 - threads)).placement_refusal)

    def test_fallback(self):
        described = host(dedicated_cpus=None, shared_cpus=None)
        self.assertIsNone(self.preview(
            flavor(hw__cpu_policy='dedicated'), described).refusal)

    def test_traits_of_the_host(self):
        wanted = flavor(
            vcpus=2, trait__CUSTOM_A='required', trait__CUSTOM_B='forbidden',
            trait__HW_CPU_X86_AVX2='required')
        # As Placement would have it, where the description knows.
        shown = self.preview(wanted, host(traits=['CUSTOM_A']))
        self.assertIsNone(shown.refusal)
        self.assertEqual(
            'it is not known whether it has trait HW_CPU_X86_AVX2',
            shown.undecided)
        self.assertEqual(
            'has no trait CUSTOM_A, which is required; has trait CUSTOM_B, '
            'which is forbidden',
            self.preview(
                wanted, host(traits=['CUSTOM_B'])).placement_refusal.detail)
        # A description without any traits is one that does not know.
        shown = self.preview(wanted, host())
        self.assertIsNone(shown.refusal)
        self.assertEqual(
            {'CUSTOM_A', 'CUSTOM_B', 'HW_CPU_X86_AVX2', 'DISK_GB'},
            {doubt.about for doubt in shown.doubts})

    def test_resources_that_the_file_does_not_tell(self):
        shown = self.preview(flavor(vcpus=2, resources__VGPU='1'))
        self.assertIsNone(shown.refusal)
        self.assertIn('how much VGPU it has', shown.undecided)
        # Nor does it tell of disks, which is said and no more.
        self.assertIn('DISK_GB', {doubt.about for doubt in shown.doubts})
        self.assertEqual('', self.preview(flavor(vcpus=2)).undecided)


@ddt.ddt
class TestDevices(TestCase):

    DEVICES = (device('0000:3b:00.0', 0), device('0000:3c:00.0', 0),
               device('0000:86:00.0', 1),
               device('0000:87:00.0', 1, 'gpu', '1111'),
               device('0000:88:00.0', None, '', '2222'))

    def hostdevs(self, alias, **extra_specs):
        shown = self.preview(
            flavor(vcpus=2, pci_passthrough__alias=alias, **extra_specs),
            host(devices=self.DEVICES))
        self.assertIsNone(shown.refusal)
        return shown, self.buses(shown)

    def buses(self, shown):
        return [f'{int(one.get("bus"), 16):x}'
                for one in ElementTree.fromstring(shown.xml).iterfind(
                    'devices/hostdev/source/address')]

    def test_by_alias(self):
        self.assertEqual(['87'], self.hostdevs('gpu:1')[1])
        found = self.hostdevs('nvme:2,gpu:1')[1]
        self.assertEqual(3, len(set(found)))
        self.assertLess({'87'}, set(found))

    def test_of_a_group(self):
        """Placement is asked for its trait, and nova takes what it chose."""
        grouped = host(devices=[dataclasses.replace(
            one, resource_class='CUSTOM_NVME',
            traits=(f'CUSTOM_NVME_SWITCH_{number // 2}',))
            for number, one in enumerate((
                *self.DEVICES[:3], device('0000:87:00.0', 1)))])
        for policy in ('required', 'legacy'):
            for group, buses in ((0, ['3b', '3c']), (1, ['86', '87'])):
                shown = self.preview(flavor(
                    vcpus=2, pci_passthrough__alias=f'nvme-switch-{group}:2',
                    hw__cpu_policy='dedicated',
                    hw__pci_numa_affinity_policy=policy), grouped)
                self.assertIsNone(shown.refusal)
                self.assertEqual(buses, sorted(self.buses(shown)))
        self.assertIn('below no switch', ' '.join(shown.remarks))
        self.assertEqual({'CUSTOM_NVME_SWITCH_1'}, {
            name for name in shown.query.required if 'NVME' in name})
        refused = self.preview(flavor(
            vcpus=2, pci_passthrough__alias='nvme-switch-1:3'), grouped)
        self.assertIn('2 CUSTOM_NVME with CUSTOM_NVME_SWITCH_1 left, 3 needed',
                      str(refused.refusal))

    def test_affinity(self):
        shown, found = self.hostdevs(
            'nvme:1', hw__cpu_policy='dedicated',
            hw__pci_numa_affinity_policy='required')
        node, = shown.placement.memory_nodes.values()
        self.assertIn(found[0], ('3b', '3c') if node == 0 else ('86',))

    @ddt.data('nvme:4', 'fpga:1', 'gpu:1,fpga:1')
    def test_too_few(self, alias):
        for specs in ({}, {'hw__cpu_policy': 'dedicated'}):
            shown = self.preview(
                flavor(vcpus=2, pci_passthrough__alias=alias, **specs),
                host(devices=self.DEVICES))
            self.assertIs(model.Reason.PCI, shown.refusal.reason)
            self.assertRegex(str(shown.refusal),
                             r'alias \w+: [14] wanted, [03] (on|free)')

    def test_not_near(self):
        # The devices' node has no CPUs left.
        def refusal(policy):
            return self.preview(
                flavor(vcpus=2, pci_passthrough__alias='gpu:1',
                       hw__cpu_policy='dedicated',
                       hw__pci_numa_affinity_policy=policy),
                host(devices=self.DEVICES), used='8-15,24-31').refusal

        self.assertIs(model.Reason.PCI, refusal('required').reason)
        self.assertIs(model.Reason.PCI, refusal('legacy').reason)
        self.assertIsNone(refusal('preferred'))

    def test_two_products_under_one_alias(self):
        shown = self.preview(
            flavor(vcpus=2, pci_passthrough__alias='nvme:2'), host(devices=(
                device('0000:3b:00.0'),
                device('0000:3c:00.0', product='0a55'))))
        self.assertEqual(2, shown.xml.count('<hostdev'))

    @ddt.data('nvme', 'nvme:x', ':', 'nvme:1,')
    def test_odd_text(self, alias):
        where = errors.Location('flavors.yaml', 9)
        error = self.refuse(
            flavor(pci_passthrough__alias=alias,
                   origins={'pci_passthrough:alias': where}),
            host(devices=self.DEVICES))
        self.assertEqual(where, error.where)


@ddt.ddt
class TestBadInput(TestCase):

    def test_image_overrides_flavor(self):
        error = self.refuse(
            flavor(hw__cpu_policy='shared'),
            image={'hw_cpu_policy': 'dedicated'})
        self.assertIn('hw_cpu_policy', error.message)
        self.assertEqual(errors.Location(
            '--image-property', key='hw_cpu_policy'), error.where)

    def test_flavor(self):
        where = errors.Location('flavors.yaml', 8, key='cpu_policy')
        error = self.refuse(flavor(
            hw__cpu_policy='pinned', origins={'hw:cpu_policy': where}))
        self.assertIn('guest', error.message)
        self.assertFalse(error.message.endswith('.'))

    @ddt.data(
        {'hw__numa_nodes': 'two'}, {'hw__cpu_realtime': 'yes'},
        {'hw__mem_page_size': '16 apples'}, {'hw__cpu_sockets': 'x'},
        {'hw__locked_memory': 'true'},
        {'hw__cpu_policy': 'mixed'}, {'quota__cpu_shares': 'many'})
    def test_extra_specs(self, specs):
        error = self.refuse(flavor(vcpus=2, **specs))
        self.assertEqual('flavors.yaml', error.where.source)

    def test_extra_specs_of_what_does_not_fit(self):
        error = self.refuse(flavor(vcpus=99, hw__cpu_sockets='x'))
        self.assertEqual('flavors.yaml', error.where.source)

    @ddt.data({'hw_cpu_policy': 'pinned'}, {'hw_cpu_cores': 'many'},
              {'hw_mem_page_size': 'x'})
    def test_image(self, image):
        error = self.refuse(flavor(vcpus=2), image=image)
        self.assertIn(next(iter(image.values())), str(error))

    def test_host(self):
        error = self.refuse(flavor(), host(dedicated_cpus=cpus('2-99')))
        self.assertIn('cpu_dedicated_set', error.message)
        self.assertEqual(HOST_WHERE, error.where)


@ddt.ddt
class TestShipped(TestCase):
    """The flavors and hosts that ship."""

    @ddt.data(*sorted((SHIPPED / 'hosts').glob('*.yaml')))
    def test_host(self, path):
        described = host_loader.load(str(path))
        dedicated = engine.dedicated_cpus(described)
        flavors = catalogue.load(str(SHIPPED / 'flavors.yaml')).flavors
        fitting = 0
        for wanted in flavors:
            shown = self.preview(wanted, described)
            if shown.refusal is not None:
                self.assertNotEqual('', str(shown.refusal))
                self.assertIsNone(shown.xml)
                continue
            fitting += 1
            placed = shown.placement
            self.assertEqual(set(range(wanted.vcpus)), set(placed.vcpu_cpus))
            if wanted.extra_specs['hw:cpu_policy'] == 'shared':
                continue
            taken = cpuset.union(placed.vcpu_cpus.values())
            self.assertEqual(wanted.vcpus, len(taken))
            self.assertTrue(taken.issubset(dedicated))
            self.assertEqual(int(wanted.extra_specs['hw:numa_nodes']),
                             len(set(placed.memory_nodes.values())))
            # Sibling threads are next to each other in the guest.
            cores = {core for node in described.nodes for core in node.cores}
            for vcpu in range(0, wanted.vcpus, 2):
                pair = placed.vcpu_cpus[vcpu] | placed.vcpu_cpus[vcpu + 1]
                self.assertIn(tuple(pair), cores)
        self.assertNotEqual(0, fitting)


class TestCapabilities(TestCase):

    def test_nova_reads_them(self):
        described = host()
        caps = machine.DescribedHost(described).get_capabilities()
        self.assertEqual('x86_64', caps.host.cpu.arch)
        self.assertEqual(
            [[set(core) for core in node.cores for _cpu in core]
             for node in described.nodes],
            [sorted((cpu.siblings for cpu in cell.cpus), key=min)
             for cell in caps.host.topology.cells])
        for node, cell in zip(described.nodes, caps.host.topology.cells):
            self.assertEqual(node.id, cell.id)
            self.assertEqual(node.memory_mib * 1024, cell.memory)
            self.assertEqual(
                {4: (12 * GIB * 1024) // 4, 2048: 2048},
                {pages.size: pages.total for pages in cell.mempages})
            self.assertEqual({node.socket},
                             {cpu.socket_id for cpu in cell.cpus})

    def test_no_connection(self):
        self.assertRaises(exception.HypervisorUnavailable,
                          machine.DescribedHost(host()).get_connection)


@ddt.ddt
class TestSettings(TestCase):

    @ddt.data(False, True)
    def test_order_of_nodes(self, is_set):
        """The host file counts, or what nova-api has where it is silent."""
        CONF.set_override(PACKING, is_set, 'compute')
        self.addCleanup(CONF.clear_override, PACKING, 'compute')
        for said, expected in ((None, is_set), (False, False), (True, True)):
            shown = self.preview(
                flavor(hw__cpu_policy='dedicated', vcpus=4),
                host(packs_cells=said), used='8-12,24-28')
            cell, = shown.fit.cells
            self.assertEqual(int(expected), cell.host_cell)


class TestNothingStays(TestCase):

    def state(self):
        """All options that are set, and how nova logs."""
        found = {}
        for info, group in CONF._all_opt_infos():
            found[group and group.name, info['opt'].dest] = info.get(
                'override', 'not set')
        logger = logging.getLogger('nova')
        return found, logger.level, logger.filters[:], logger.disabled

    def test_options_and_log(self):
        self.preview(flavor())  # nova registers some options late
        CONF.set_override('cpu_shared_set', '7', 'compute')
        self.addCleanup(CONF.clear_override, 'cpu_shared_set', 'compute')
        before = self.state()
        self.preview(flavor(hw__cpu_policy='dedicated'))
        self.assertEqual(before, self.state())
        self.refuse(flavor(hw__cpu_policy='mixed'))
        self.assertEqual(before, self.state())
        self.assertEqual('7', CONF.compute.cpu_shared_set)
        self.assertIsNone(CONF.compute.cpu_dedicated_set)

    def test_options_are_as_little_read_as_before(self):
        if CONF._namespace is not None:
            self.skipTest('something else has read nova.conf already')
        self.preview(flavor())
        self.assertRaises(cfg.NotInitializedError, CONF.find_file, 'x')

    def test_aliases(self):
        read = pci_request.get_alias_from_config
        self.preview(flavor(pci_passthrough__alias='other:1'))
        self.assertEqual({}, read())
        self.addCleanup(read.cache_clear)
        self.assertIsNone(self.preview(
            flavor(vcpus=2, pci_passthrough__alias='nvme:1'),
            host(devices=[device('0000:3b:00.0')])).refusal)

    def test_log_level(self):
        logger = logging.getLogger('nova')
        self.addCleanup(logger.setLevel, logger.level)
        logger.setLevel(logging.INFO)
        self.preview(flavor())
        self.assertEqual(logging.INFO, logger.level)

    def test_quiet(self):
        with unit_base.log_records('nova') as said:
            self.preview(flavor(hw__cpu_policy='dedicated'))
        self.assertEqual([], said)

    def test_process(self):
        # What a preview loads into its own process.
        program = '''
import json
from nova_pinning.bridge.offline import nova_capabilities
from nova_pinning.bridge import preview
from nova_pinning.flavors import flavor_model
from nova_pinning.host import host_model
import sys
shown = preview.preview_guest(
    flavor_model.Flavor(name='a', vcpus=1, memory_mib=64), {},
    host_model.HostDescription('host', (
        host_model.NumaNode(0, 0, ((0,), (1,)), 1024),)))
assert shown.xml, shown
patched = 'eventlet' in sys.modules and __import__(
    'eventlet.patcher').patcher.already_patched
json.dump({'modules': sorted(sys.modules), 'patched': bool(patched)},
          sys.stdout)
'''
        ran = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', program],
            capture_output=True, text=True)
        self.assertEqual('', ran.stderr)
        told = json.loads(ran.stdout)
        loaded = {name for name in told['modules']
                  if name.split('.')[0] == 'libvirt' or
                  name.startswith('nova.tests')}
        self.assertEqual(set(), loaded)
        self.assertFalse(told['patched'])
