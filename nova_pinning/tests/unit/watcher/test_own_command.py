# SPDX-License-Identifier: Apache-2.0

import subprocess
from unittest import mock

from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.watcher import own_command


class TestOwnCommand(oslotest.BaseTestCase):

    def test_error_of_the_command(self):
        error = self.assertRaises(
            errors.InputError, own_command.run, 'fleet', 'show', '/not/there')
        self.assertIn('nova-pinning fleet show: /not/there: ', str(error))
        self.assertNotIn('Warning', str(error))

    def test_unknown_command(self):
        self.assertRaises(errors.InputError, own_command.run, 'nothing')

    def test_warnings_are_given(self):
        for status in (0, 1):
            with mock.patch('subprocess.run', return_value=mock.Mock(
                    spec=subprocess.CompletedProcess, returncode=status,
                    stderr='warning: odd\n')):
                self.assertEqual('warning: odd', own_command.run(
                    'x', statuses=(0, 1)))

    def test_killed_without_a_word(self):
        with mock.patch('subprocess.run', return_value=mock.Mock(
                spec=subprocess.CompletedProcess, returncode=-9, stderr='')):
            error = self.assertRaises(
                errors.InputError, own_command.run, 'x')
        self.assertIn('ended with status -9', str(error))
