# SPDX-License-Identifier: Apache-2.0

import json
import pathlib

import ddt

from minicloud import accelerator
from minicloud import errors
from minicloud import kernel
from minicloud import settings
from nova_pinning import kvm
from nova_pinning.tests.unit.minicloud import minicloud_case


@ddt.ddt
class TestVirtType(minicloud_case.StateTestCase):

    def setUp(self):
        super().setUp()
        self.boots = self.patch(kvm, 'boots', return_value=True)
        self.patch(kvm, 'usable', return_value=True)
        self.image = self.patch(
            kernel, 'boot_image', return_value=pathlib.Path('/vmlinuz'))
        self.version = self.patch(kvm, 'version', return_value='7.2')

    @ddt.data((True, 'kvm'), (False, 'qemu'))
    @ddt.unpack
    def test_tried_once(self, boots, expected):
        self.boots.return_value = boots
        for _ in range(3):
            self.assertEqual(expected, accelerator.virt_type(self.state))
        self.boots.assert_called_once()
        self.assertIn('/vmlinuz', self.boots.call_args.args[0])

    def test_part(self):
        accelerator.VirtType(
            self.state, settings.Settings(hosts=())).up()
        self.boots.assert_called_once()

    def test_tried_again_with_another_qemu(self):
        accelerator.virt_type(self.state)
        self.version.return_value = '8.2'
        accelerator.virt_type(self.state)
        self.assertEqual(2, self.boots.call_count)

    def test_tried_again_after_a_boot_of_the_machine(self):
        accelerator.virt_type(self.state)
        boot_id = self.state.root / 'boot_id'
        boot_id.write_text('another\n')
        self.patch(accelerator, 'BOOT_ID', new=boot_id)
        accelerator.virt_type(self.state)
        self.assertEqual(2, self.boots.call_count)

    @ddt.data('', '[]', 'null', '{}', '{"made_from": 1}')
    def test_damaged_cache(self, text):
        path = self.state.cache / 'virt-type.json'
        path.write_text(text)
        self.assertEqual('kvm', accelerator.virt_type(self.state))
        self.assertEqual('kvm', json.loads(path.read_text())['virt_type'])

    def test_nothing_to_try(self):
        self.patch(kvm, 'usable', return_value=False)
        self.assertEqual('qemu', accelerator.virt_type(self.state))
        self.boots.assert_not_called()
        self.image.assert_not_called()

    def test_no_kernel_is_not_remembered(self):
        self.image.side_effect = errors.MiniCloudError('no kernel')
        self.assertRaises(errors.MiniCloudError, accelerator.virt_type,
                          self.state)
        self.assertEqual([], list(self.state.cache.iterdir()))
