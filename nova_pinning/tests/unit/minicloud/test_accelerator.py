#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
from unittest import mock

import ddt
from oslotest import base as oslo_base

from minicloud import accelerator
from minicloud import errors
from minicloud import kernel
from minicloud import settings
from nova_pinning.tests.unit.minicloud import base

LONG_SECONDS = 60


def python(code):
    return [sys.executable, '-c', code]


class TestBoots(oslo_base.BaseTestCase):

    def test_sign_of_life(self):
        self.assertTrue(accelerator.boots(python(
            'import signal, sys; print("SeaBIOS\\n[0.0] Linux version 6.1");'
            'sys.stdout.flush(); signal.pause()'), LONG_SECONDS))

    def test_in_two_pieces(self):
        self.assertTrue(accelerator.boots(python(
            'import os; os.write(1, b"Linux ver"); os.write(1, b"sion 6")'),
            LONG_SECONDS))

    def test_ends_without(self):
        self.assertFalse(accelerator.boots(
            python('print("Could not access KVM kernel module")'),
            LONG_SECONDS))

    def test_hangs(self):
        made = []

        class Popen(subprocess.Popen):
            def __init__(self, *arguments, **options):
                super().__init__(*arguments, **options)
                made.append(self)

        with mock.patch('subprocess.Popen', Popen):
            # The alarm is for the case that nobody kills it.
            self.assertFalse(accelerator.boots(python(
                'import signal; signal.alarm(30); signal.pause()'), 0))
        self.assertEqual([-signal.SIGKILL],
                         [child.returncode for child in made])

    def test_keeps_talking(self):
        """The deadline holds for all of it, not for each line."""
        with mock.patch.object(accelerator, 'time') as time:
            time.monotonic.side_effect = range(0, 1000, 5)
            self.assertFalse(accelerator.boots(
                python('while True: print("SeaBIOS")'), 20))

    def test_no_such_program(self):
        self.assertFalse(accelerator.boots(['/no/such/program'], 1))


@ddt.ddt
class TestVirtType(base.StateTestCase):

    def setUp(self):
        super().setUp()
        self.boots = self.patch(accelerator, 'boots', return_value=True)
        self.patch(accelerator, 'usable', return_value=True)
        self.image = self.patch(
            kernel, 'boot_image', return_value=pathlib.Path('/vmlinuz'))
        self.version = self.patch(accelerator, 'version', return_value='7.2')

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
        self.patch(accelerator, 'usable', return_value=False)
        self.assertEqual('qemu', accelerator.virt_type(self.state))
        self.boots.assert_not_called()
        self.image.assert_not_called()

    def test_no_kernel_is_not_remembered(self):
        self.image.side_effect = errors.MiniCloudError('no kernel')
        self.assertRaises(errors.MiniCloudError, accelerator.virt_type,
                          self.state)
        self.assertEqual([], list(self.state.cache.iterdir()))


class TestUsable(oslo_base.BaseTestCase):

    def test_no_device(self):
        with mock.patch.object(accelerator, 'DEVICE', '/no/such/device'):
            self.assertFalse(accelerator.usable())

    def test_device(self):
        with mock.patch.object(accelerator, 'DEVICE', os.devnull):
            self.assertTrue(accelerator.usable())


class TestVersion(oslo_base.BaseTestCase):

    def test_not_there(self):
        with mock.patch.object(accelerator, 'QEMU', '/no/such/program'):
            self.assertEqual('', accelerator.version())

    def test_what_it_says(self):
        with mock.patch.object(accelerator, 'QEMU', sys.executable):
            self.assertEqual(f'Python {platform.python_version()}\n',
                             accelerator.version())
