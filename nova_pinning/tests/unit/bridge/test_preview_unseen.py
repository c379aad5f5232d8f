# SPDX-License-Identifier: Apache-2.0
"""What a preview shows, or says that it does not, besides CPUs and memory."""

import dataclasses
import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

from xml.etree import ElementTree

import ddt

from nova_pinning.bridge.preview import placement_parser
from nova_pinning import cpuset
from nova_pinning.host import host_loader
from nova_pinning.tests.unit.bridge import test_preview
from nova_pinning.tests.unit import unit_base

UEFI = {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35',
        'hw_firmware_stateless': 'true', 'hw_video_model': 'none'}


class TestShown(test_preview.TestCase):

    def domain(self, image=None, **specs):
        shown = self.preview(test_preview.flavor(vcpus=2, **specs),
                             image=image or UEFI)
        self.assertIsNone(shown.refusal)
        return shown, ElementTree.fromstring(shown.xml)

    def test_sev(self):
        shown, domain = self.domain(hw__mem_encryption='true')
        self.assertEqual('sev', domain.find('launchSecurity').get('type'))
        self.assertIn('MEM_ENCRYPTION_CONTEXT', shown.undecided)
        self.assertNotIn('does not show', ' '.join(shown.remarks))
        _shown, domain = self.domain()
        self.assertIsNone(domain.find('launchSecurity'))

    def test_vtpm(self):
        _shown, domain = self.domain(
            hw__tpm_version='2.0', hw__tpm_model='tpm-crb')
        tpm = domain.find('devices/tpm')
        self.assertEqual('tpm-crb', tpm.get('model'))
        self.assertEqual('2.0', tpm.find('backend').get('version'))

    def test_persistent_memory(self):
        shown, domain = self.domain(hw__pmem='4GB,16GB')
        self.assertEqual(
            2, len(domain.findall("devices/memory[@model='nvdimm']")))
        for label in ('4GB', '16GB'):
            self.assertIn(f'1 CUSTOM_PMEM_NAMESPACE_{label}',
                          ' '.join(shown.remarks))
        self.assertIn('made up', ' '.join(shown.remarks))

    def test_said_not_to_be_shown(self):
        for specs, words in (
                ({'resources__VGPU': '1'}, 'gets for 1 VGPU'),
                ({'resources__CUSTOM_X': '2'}, 'for 2 CUSTOM_X'),
                ({'accel__device_profile': 'fpga'}, 'device profile fpga')):
            shown, _domain = self.domain(**specs)
            remarks = ' '.join(shown.remarks)
            self.assertIn(words, remarks)
            self.assertIn('not show', remarks)

    def test_placement_refuses_the_query(self):
        shown = self.preview(test_preview.flavor(
            vcpus=2, trait1__HW_CPU_X86_AVX='required'))
        self.assertIn('refuses the query (status 400)', str(shown.refusal))
        self.assertIsNone(shown.xml)

    def test_more_vcpus_than_the_machine_takes(self):
        host = host_loader.load(str(
            test_preview.SHIPPED / 'hosts' / 'epyc-256-nps1.yaml'))
        host = dataclasses.replace(host, nova=dataclasses.replace(
            host.nova, dedicated_cpus=None,
            shared_cpus=cpuset.CpuSet(range(256))))
        q35 = {'hw_machine_type': 'q35'}
        for vcpus, image, more, words in (
                (255, {}, {}, ''), (256, {}, {}, 'at most 255'),
                (256, q35, {}, 'only with an IOMMU'),
                (256, q35, {'hw__viommu_model': 'intel'}, '')):
            shown = self.preview(
                test_preview.flavor(vcpus=vcpus, **more), host, image)
            told = '' if shown.refusal is None else str(shown.refusal)
            self.assertEqual(bool(words), bool(told), (vcpus, image, told))
            self.assertIn(words, told)
            self.assertEqual(not words, shown.xml is not None)


@ddt.ddt
class TestParser(unit_base.TestCase):

    @ddt.data(
        ('limit=10&resources=VCPU:2,MEMORY_MB:1024&required=CUSTOM_A', ''),
        ('resources=VCPU:2&resources1=CUSTOM_A:1&resources2=CUSTOM_A:1&'
         'group_policy=none', ''),
        ('resources=VCPU:2&resources1=CUSTOM_A:1&resources2=CUSTOM_A:1',
         'group_policy'),
        ('resources=VCPU:2&resources1=&required1=CUSTOM_A', 'resources'),
        ('resources=VCPU:2&required=CUSTOM_A,!CUSTOM_A', 'onflict'),
        ('resources=VCPU:0', 'VCPU'),
        ('resources=VCPU:2&odd=1', 'odd'))
    @ddt.unpack
    def test_queries(self, querystring, words):
        told = placement_parser.refusal(querystring)
        self.assertEqual(bool(words), bool(told), told)
        self.assertIn(words, told)
