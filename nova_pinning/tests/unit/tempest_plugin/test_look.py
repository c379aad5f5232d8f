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

"""Tests of nova_pinning.tempest_plugin.look."""

import os
import uuid

from nova_pinning.tempest_plugin import look
from nova_pinning.tempest_plugin import runner
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.tempest_plugin import samples

LIVE = '<domain><vcpu>1</vcpu><cputune>{}</cputune></domain>'
PIN = "<vcpupin vcpu='0' cpuset='{}'/>"

# Stands in for virsh: it knows one domain.
VIRSH = """#!/bin/sh
case $1 in
list) printf '%s\\n\\n' {known} ;;
dumpxml) test "$2" = --inactive && echo '{persistent}' || echo '{live}' ;;
*) exit 9
esac
"""


class LookTest(base.TestCase):
    """The script, with a virsh of our own and the kernel of this machine."""

    def setUp(self):
        super().setUp()
        self.server_id = str(uuid.uuid4())
        self.runner = runner.Runner('sh -c', {})

    def _virsh(self, text):
        path = self.create_tempfiles([('virsh', text)], ext='')[0]
        os.chmod(path, 0o700)
        return path

    def _look(self, virsh):
        return look.at_guest(self.runner, 'a', virsh, self.server_id)

    def test_a_guest_that_does_not_run(self):
        found = self._look(self._virsh(VIRSH.format(
            known=self.server_id,
            live=LIVE.format(PIN.format(1)).replace("'", '"'),
            persistent=LIVE.format(PIN.format(2)).replace("'", '"'))))
        self.assertEqual({0: samples.cpus('1')}, found.live.vcpu_pins)
        self.assertEqual({0: samples.cpus('2')}, found.persistent.vcpu_pins)
        self.assertIsNone(found.qemu)

    def test_no_guest(self):
        self.assertIsNone(self._look(self._virsh(VIRSH.format(
            known=samples.UUID, live='', persistent=''))))

    def test_no_libvirt(self):
        """That nothing is seen does not mean that nothing is there."""
        error = self.assertRaises(
            runner.CommandError, self._look,
            self._virsh('#!/bin/sh\necho failed to connect >&2\nexit 1\n'))
        self.assertIn('failed to connect', str(error))

    def test_a_domain_that_goes_away_meanwhile(self):
        self.assertRaises(runner.CommandError, self._look, self._virsh(
            f'#!/bin/sh\ntest $1 = list && echo {self.server_id}\n'))

    def test_a_process_without_a_domain(self):
        threads = samples.proc(100, [(100, 'qemu-system-x86', '0', 0, 0)])
        error = self.assertRaises(
            ValueError, look.parse,
            f'@@ domains\n@@ threads\n{threads}', self.server_id)
        self.assertIn('of which libvirt knows nothing', str(error))

    def test_a_running_guest(self):
        threads = samples.proc(100, [(100, 'qemu-system-x86', '0', 0, 0)])
        xml = LIVE.format('')
        found = look.parse(
            f'@@ domains\n{samples.UUID}\n@@ live\n{xml}\n@@ persistent\n'
            f'{xml}\n@@ threads\n{threads}', samples.UUID)
        self.assertEqual(100, found.qemu.pid)
