# SPDX-License-Identifier: Apache-2.0
"""The preview against running services: encrypted memory, a virtual TPM,
secure boot, and cells whose vCPUs are interleaved.

nova's own fake libvirt has all of that; what nova asks of the machine itself
and of a key manager is answered here.
"""

from unittest import mock

import fixtures

from demo import hosts
from nova_pinning.tests import forms
from nova_pinning.tests.functional import preview_running

from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import test_vtpm
from nova.virt.libvirt import driver
from nova.virt.libvirt import host as libvirt_host

GIB = 1024  # in MiB

SHAPE = hosts.HostShape(
    sockets=2, cores_per_cell=8, memory_mib=64 * GIB,
    huge_pages={2048: 2048},
    dedicated='2-7,10-15,18-23,26-31', shared='0-1,8-9,16-17,24-25',
    cpu_allocation_ratio=2.0)
UEFI = {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35'}
_INTERLEAVED = {
    'hw__numa_nodes': '2', 'hw__numa_cpus__0': '0,2',
    'hw__numa_mem__0': '1024',
    'hw__numa_cpus__1': '1,3', 'hw__numa_mem__1': '1024',
    'hw__mem_page_size': 'small'}


class TestSecurity(preview_running.TestCase):

    def setUp(self):
        self.useFixture(fixtures.MockPatchObject(
            driver.LibvirtDriver, '_check_vtpm_support'))
        connection = fakelibvirt.virConnect
        # Up to 2026.1 the TPM is among the devices.
        if hasattr(connection, '_domain_capability_tpm'):
            self.useFixture(fixtures.MockPatchObject(
                connection, '_domain_capability_tpm',
                connection._domain_capability_tpm_supported))
        else:
            self.useFixture(fixtures.MockPatchObject(
                connection, '_domain_capability_devices',
                connection._domain_capability_devices_with_tpm_supported))
        self.useFixture(fixtures.MockPatchObject(
            connection, '_domain_capability_features',
            connection._domain_capability_features_with_SEV))
        super().setUp()
        # Where nova names the files of the firmware, each system has its own.
        for loader in getattr(libvirt_host.Host, 'loaders', ()):
            if 'secure-boot' in loader['features']:
                loader['mapping']['executable']['filename'] = (
                    '/usr/share/OVMF/OVMF_CODE.ms.fd')
                loader['mapping']['nvram-template']['filename'] = (
                    '/usr/share/OVMF/OVMF_VARS.fd')
        # The fixture of nova's harness says that there is none.
        self.useFixture(fixtures.MockPatchObject(
            libvirt_host.Host, '_kernel_supports_amd_sev',
            lambda _host, model='sev': model == 'sev'))
        stage = self.nova.stage
        stage.flags(swtpm_enabled=True, group='libvirt')
        self.useFixture(fixtures.MockPatch(
            'nova.crypto._get_key_manager', mock.Mock(
                return_value=test_vtpm.FakeKeyManager(None))))
        self.start_host('host', SHAPE)

    def check(self, cases):
        """Compare guests that run, flavor with image each.

        In CI these are the last two, which have most of it.
        """
        different = []
        for specs, image in cases[-2:] if forms.SHORT else cases:
            found, why = self.compare(
                preview_running.flavor('guest', 4, 2 * GIB, **specs), 'host',
                image)
            self.assertEqual('', why, (specs, image, self.fault))
            different += found
        self.assertEqual([], different, '\n'.join(different))

    def test_all_of_it(self):
        """One cloud for all of it, since to start one takes long."""
        self.check_secure_boot_and_tpm()
        self.check_encryption()
        self.check_interleaved_cells()

    def check_secure_boot_and_tpm(self):
        dedicated = {'hw__cpu_policy': 'dedicated',
                     'hw__mem_page_size': 'large'}
        self.check([(specs, UEFI) for specs in (
            {}, {'os__secure_boot': 'required'},
            {'os__secure_boot': 'disabled', 'hw__tpm_version': '2.0'},
            {'os__secure_boot': 'required', 'hw__tpm_version': '2.0',
             'hw__tpm_model': 'tpm-crb', **dedicated})])

    def check_encryption(self):
        encrypted = {'hw__mem_encryption': 'true'}
        self.check([({**encrypted, **more}, UEFI) for more in (
            {}, {'hw__cpu_policy': 'dedicated'},
            {'hw__cpu_policy': 'dedicated', 'hw__numa_nodes': '2',
             'hw__mem_page_size': 'small'},
            {'hw__tpm_version': '2.0', 'os__secure_boot': 'required'})])

    def check_interleaved_cells(self):
        self.check([({**_INTERLEAVED, **more}, {}) for more in (
            {}, {'hw__cpu_policy': 'dedicated'},
            {'hw__cpu_policy': 'dedicated', 'hw__cpu_thread_policy': 'require',
             'hw__cpu_threads': '2', 'hw__cpu_sockets': '1'},
            {'hw__cpu_policy': 'mixed', 'hw__cpu_dedicated_mask': '2-3'},
            {'hw__cpu_policy': 'dedicated', 'hw__cpu_sockets': '2',
             'hw__cpu_threads': '1'})])
