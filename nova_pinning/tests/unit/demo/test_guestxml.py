# SPDX-License-Identifier: Apache-2.0

from oslotest import base as oslotest

from demo import guestxml
from nova_pinning import cpuset

PINNED = """
<domain type="kvm">
  <vcpu>2</vcpu>
  <cputune>
    <emulatorpin cpuset="2,42"/>
    <vcpupin vcpu="1" cpuset="42"/>
    <vcpupin vcpu="0" cpuset="2"/>
  </cputune>
  <numatune>
    <memory mode="strict" nodeset="0-1"/>
    <memnode cellid="0" mode="strict" nodeset="1"/>
    <memnode cellid="1" mode="strict" nodeset="0"/>
  </numatune>
  <cpu><topology sockets="1" cores="1" threads="2"/></cpu>
</domain>
"""


class TestRead(oslotest.BaseTestCase):

    def test_pinned(self):
        found = guestxml.read(PINNED)
        self.assertEqual(2, found.vcpus)
        self.assertEqual(
            ((0, cpuset.CpuSet([2])), (1, cpuset.CpuSet([42]))), found.pins)
        self.assertEqual('2,42', str(found.cpus))
        self.assertEqual('2,42', str(found.emulator))
        self.assertEqual((0, 1), found.host_cells)
        self.assertEqual((1, 1, 2), found.topology)
        self.assertFalse(found.floats_over)

    def test_floating(self):
        found = guestxml.read(
            '<domain><vcpu cpuset="0-79">8</vcpu></domain>')
        self.assertEqual(8, found.vcpus)
        self.assertEqual('0-79', str(found.floats_over))
        self.assertEqual((), found.pins)
        self.assertEqual((), found.host_cells)
        self.assertIsNone(found.topology)

    def test_broken(self):
        for xml, complaint in (
                ('<domain>', 'no XML'),
                ('<pool/>', 'not a pool'),
                ('<domain/>', 'number of vCPUs'),
                ('<domain><vcpu cpuset="x">1</vcpu></domain>', "'x'")):
            self.assertRaisesRegex(ValueError, complaint, guestxml.read, xml)
