# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import platform
import signal
import subprocess
import sys
from unittest import mock

import ddt
from oslotest import base as oslo_base

from nova_pinning import kvm

LONG_SECONDS = 60


def python(code):
    return [sys.executable, '-c', code]


class TestBoots(oslo_base.BaseTestCase):

    def test_sign_of_life(self):
        self.assertTrue(kvm.boots(python(
            'import signal, sys; print("SeaBIOS\\n[0.0] Linux version 6.1");'
            'sys.stdout.flush(); signal.pause()'), LONG_SECONDS))

    def test_in_two_pieces(self):
        self.assertTrue(kvm.boots(python(
            'import os; os.write(1, b"Linux ver"); os.write(1, b"sion 6")'),
            LONG_SECONDS))

    def test_ends_without(self):
        self.assertFalse(kvm.boots(
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
            self.assertFalse(kvm.boots(python(
                'import signal; signal.alarm(30); signal.pause()'), 0))
        self.assertEqual([-signal.SIGKILL],
                         [child.returncode for child in made])

    def test_keeps_talking(self):
        """The deadline holds for all of it, not for each line."""
        with mock.patch.object(kvm, 'time') as time:
            time.monotonic.side_effect = range(0, 1000, 5)
            self.assertFalse(kvm.boots(
                python('while True: print("SeaBIOS")'), 20))

    def test_no_such_program(self):
        self.assertFalse(kvm.boots(['/no/such/program'], 1))


class TestUsable(oslo_base.BaseTestCase):

    def test_no_device(self):
        with mock.patch.object(kvm, 'DEVICE', '/no/such/device'):
            self.assertFalse(kvm.usable())

    def test_device(self):
        with mock.patch.object(kvm, 'DEVICE', os.devnull):
            self.assertTrue(kvm.usable())


class TestVersion(oslo_base.BaseTestCase):

    def test_not_there(self):
        with mock.patch.object(kvm, 'QEMU', '/no/such/program'):
            self.assertEqual('', kvm.version())

    def test_what_it_says(self):
        with mock.patch.object(kvm, 'QEMU', sys.executable):
            self.assertEqual(f'Python {platform.python_version()}\n',
                             kvm.version())


@ddt.ddt
class TestWorks(oslo_base.BaseTestCase):

    @ddt.data((True, True, True), (True, False, False), (False, True, False))
    @ddt.unpack
    def test_works(self, is_usable, boots, expected):
        with (mock.patch.object(kvm, 'usable', return_value=is_usable),
              mock.patch.object(kvm, 'boots', return_value=boots) as tried):
            self.assertEqual(expected, kvm.works(pathlib.Path('/vmlinuz')))
        self.assertEqual(is_usable, tried.called)
