# SPDX-License-Identifier: Apache-2.0
"""Which devices have no driver of the host from boot on."""

import dataclasses

import ddt
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import render
from nova_pinning.host.render import drivers
from nova_pinning.host.render import nova_conf
from nova_pinning.host.render import options
from nova_pinning.tests.unit.host.render import render_samples

GPU = host_model.PciDevice(
    '0000:5c:00.0', '10de', '2330', 1, 'gpu', kind=hardware.PciKind.GPU,
    companions=('0000:5c:00.1',))
FUNCTION = dataclasses.replace(
    GPU, address='0000:5c:00.4', companions=(), physical_function=GPU.address)


def files(*devices, **chosen):
    return render.files(render_samples.planned(pci_devices=devices),
                        options.RenderOptions(**chosen))


@ddt.ddt
class TestDrivers(oslotest.BaseTestCase):

    @ddt.data(
        ((GPU,), ['0000:5c:00.0', '0000:5c:00.1']),
        ((dataclasses.replace(GPU, alias=''),), []),
        # libvirt takes care of these by itself.
        ((dataclasses.replace(GPU, kind=hardware.PciKind.NVME),),
         ['0000:5c:00.1']),
        ((dataclasses.replace(GPU, kind=hardware.PciKind.NVME,
                              companions=()),), []),
        # The maker's driver divides it.
        ((dataclasses.replace(GPU, alias='', mdev_type='nvidia-699'),), []),
        ((dataclasses.replace(GPU, alias=''), dataclasses.replace(
            FUNCTION, vgpu_type='1155')), []),
        ((dataclasses.replace(GPU, alias=''), FUNCTION), ['0000:5c:00.4']))
    @ddt.unpack
    def test_rules(self, devices, expected):
        found = files(*devices)
        self.assertEqual(bool(expected), drivers.RULES_PATH in found)
        self.assertEqual(bool(expected), drivers.MODULES_PATH in found)
        if expected:
            self.assertEqual([
                f'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="{address}", '
                'ATTR{driver_override}="vfio-pci"' for address in expected],
                [line for line in
                 found[drivers.RULES_PATH].text.splitlines()
                 if not line.startswith('#')])
            self.assertIn('initramfs', found['README.txt'].text)

    def test_variants(self):
        variant = 'nvgrace_gpu_vfio_pci'
        found = files(dataclasses.replace(GPU, vfio_driver=variant))
        rules = found[drivers.RULES_PATH].text
        for address, driver in (('0', variant), ('1', 'vfio-pci')):
            self.assertIn(f'KERNEL=="0000:5c:00.{address}", '
                          f'ATTR{{driver_override}}="{driver}"\n', rules)
        self.assertNotIn('is not known', rules)
        self.assertEqual([variant, 'vfio-pci'], [
            line for line in found[drivers.MODULES_PATH].text.splitlines()
            if not line.startswith('#')])
        # It is said of which devices nothing tells.
        rules = ' '.join(
            files(GPU)[drivers.RULES_PATH].text.replace('#', '').split())
        self.assertIn('of it for 0000:5c:00.0 is not known', rules)

    def test_parts_of_gpus_keep_their_driver(self):
        found = files(dataclasses.replace(GPU, alias=''), dataclasses.replace(
            FUNCTION, vgpu_type='1155'))
        self.assertIn('{"address": "0000:5c:00.4", "managed": "no"}',
                      found[nova_conf.PATH].text)

    def test_what_placement_cannot_count(self):
        classed = dict(resource_class='CUSTOM_GPU')
        error = self.assertRaises(
            errors.InputError, files, dataclasses.replace(GPU, **classed),
            dataclasses.replace(FUNCTION, alias='part', **classed))
        self.assertIn('0000:5c:00.0 and its virtual function 0000:5c:00.4',
                      str(error))
        # Its device_spec would take in functions that have no alias, too.
        error = self.assertRaises(
            errors.InputError, files, dataclasses.replace(GPU, **classed),
            dataclasses.replace(FUNCTION, alias=''))
        self.assertIn('would both be for guests', str(error))
        error = self.assertRaises(
            errors.InputError, files, dataclasses.replace(GPU, alias=''),
            dataclasses.replace(FUNCTION, **classed), dataclasses.replace(
                FUNCTION, address='0000:5c:00.5', alias='other',
                resource_class='CUSTOM_OTHER'))
        self.assertIn('the virtual functions of 0000:5c:00.0', str(error))

    def test_openstack_ansible(self):
        found = files(
            dataclasses.replace(GPU, resource_class='CUSTOM_GPU', traits=(
                'CUSTOM_GPU_SWITCH_0',)),
            dataclasses.replace(GPU, address='0000:5d:00.0', alias='',
                                mdev_type='nvidia-699'),
            format=options.RenderFormat.OPENSTACK_ANSIBLE, group='gpus')
        text = found['group_vars/gpus/nova_pinning.yml'].text
        for part in ("report_in_placement: 'true'", 'resource_class: '
                     'CUSTOM_GPU', 'traits: CUSTOM_GPU_SWITCH_0',
                     'enabled_mdev_types: nvidia-699', 'mdev_nvidia-699:'):
            self.assertIn(part, text)
