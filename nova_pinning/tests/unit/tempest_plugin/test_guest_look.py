# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_pinning.tempest_plugin.guest_look."""

import os
import uuid

from nova_pinning.tempest_plugin import guest_look
from nova_pinning.tempest_plugin import runner
from nova_pinning.tests.unit.tempest_plugin import guest_samples
from nova_pinning.tests.unit import unit_base

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


class LookTest(unit_base.TestCase):
    """The script, with a virsh of our own and the kernel of this machine."""

    def setUp(self):
        super().setUp()
        self.server_id = str(uuid.uuid4())
        self.runner = runner.CommandRunner('sh -c', {})

    def _virsh(self, text):
        path = self.create_tempfiles([('virsh', text)], ext='')[0]
        os.chmod(path, 0o700)
        return path

    def _look(self, virsh):
        return guest_look.at_guest(self.runner, 'a', virsh, self.server_id)

    def test_a_guest_that_does_not_run(self):
        found = self._look(self._virsh(VIRSH.format(
            known=self.server_id,
            live=LIVE.format(PIN.format(1)).replace("'", '"'),
            persistent=LIVE.format(PIN.format(2)).replace("'", '"'))))
        self.assertEqual({0: guest_samples.cpus('1')}, found.live.vcpu_pins)
        self.assertEqual({0: guest_samples.cpus('2')},
                         found.persistent.vcpu_pins)
        self.assertIsNone(found.qemu)

    def test_no_guest(self):
        self.assertIsNone(self._look(self._virsh(VIRSH.format(
            known=guest_samples.UUID, live='', persistent=''))))

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
        threads = guest_samples.proc(100,
                                     [(100, 'qemu-system-x86', '0', 0, 0)])
        error = self.assertRaises(
            ValueError, guest_look.parse,
            f'@@ domains\n@@ threads\n{threads}', self.server_id)
        self.assertIn('of which libvirt knows nothing', str(error))

    def test_a_running_guest(self):
        threads = guest_samples.proc(100,
                                     [(100, 'qemu-system-x86', '0', 0, 0)])
        xml = LIVE.format('')
        found = guest_look.parse(
            f'@@ domains\n{guest_samples.UUID}\n@@ live\n{xml}\n'
            f'@@ persistent\n{xml}\n@@ threads\n{threads}', guest_samples.UUID)
        self.assertEqual(100, found.qemu.pid)
