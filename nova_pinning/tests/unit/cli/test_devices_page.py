# SPDX-License-Identifier: Apache-2.0
"""The page on devices, as somebody reads it who has no such server."""

import io
import itertools
import os
import pathlib
import re
import shlex
import shutil
import sys
from unittest import mock

from nova_pinning.cli import shell
from nova_pinning.tests import road_page
from nova_pinning.tests.unit.cli import cli_case

_DOC = (pathlib.Path(__file__).parents[4] / 'doc' / 'source' / 'admin')


class TestDevicesPage(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        if not _DOC.is_dir():
            self.skipTest('not run from a checkout')
        self.addCleanup(os.chdir, os.getcwd())
        for name in ('gpu-1.yaml', 'gpu-flavors.yaml'):
            shutil.copy(_DOC / name, self.dir)
        os.chdir(self.dir)

    def test_commands(self):
        # If their output is as it is to be, take over what they write.
        commands = [shlex.split(command.command) for command
                    in itertools.chain.from_iterable(
                        road_page.commands(block) for block
                        in road_page.blocks(_DOC / 'devices.rst'))
                    if not command.host]
        said = {}
        for program, *argv in commands:
            self.assertEqual('nova-pinning', program)
            done = self.run_command(*argv)
            # Flavors of eight GPUs get a warning, P309.
            self.assertEqual(int(argv[:2] == ['flavor', 'check']),
                             done.status, done)
            said[' '.join(argv[:2])] = re.sub('(?m) +$', '', done.out)
        for command, name in (
                ('host show', 'gpu-1-drawing.inc'),
                ('capacity fleet.json', 'gpu-1-capacity.inc')):
            shown, _, _ = said[command].partition('\n\n')
            if command != 'host show':
                shown = said[command]
            self.assertEqual((_DOC / name).read_text().strip(),
                             shown.strip(), name)
        self.assertIn('P309', said['flavor check'])
        self.assertIn('below no switch', ' '.join(
            said['guest show'].split()))
        # The traits of a group are none of the host's own provider.
        self.assertIn('CUSTOM_H100 1, with CUSTOM_H100_SWITCH_2', ' '.join(
            said['guest show'].split()))

    def test_signs_that_the_encoding_lacks(self):
        """What is drawn is drawn with others, as wide."""
        out = io.TextIOWrapper(io.BytesIO(), 'ascii')
        with mock.patch.object(sys, 'stdout', out):
            self.assertEqual(0, shell.main(['host', 'show', 'gpu-1.yaml']))
            self.assertEqual(0, shell.main([
                'guest', 'show', '--flavor', 'vcpus=1 ram=1GiB',
                '--host-file', 'gpu-1.yaml']))
        text = out.buffer.getvalue()
        self.assertIn(b'  | GPU: ', text)
        self.assertIn(b'  ` NIC: ', text)
        self.assertNotIn(rb'\u', text)
