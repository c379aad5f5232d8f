# SPDX-License-Identifier: Apache-2.0
"""The comparison of two guests' XML must notice what matters."""

import ddt
from oslotest import base

from nova_pinning.tests import parity

XML = """
<domain type="kvm">
  <uuid>one</uuid>
  <memory>1024</memory>
  <numatune><memory mode="strict" nodeset="0"/></numatune>
  <memoryBacking>
    <hugepages><page size="2048" nodeset="0-1" unit="KiB"/></hugepages>
  </memoryBacking>
  <vcpu cpuset="0-3">2</vcpu>
  <features><acpi/></features>
  <cputune>
    <shares>10</shares>
    <emulatorpin cpuset="1,3"/>
    <vcpupin vcpu="0" cpuset="1"/>
    <vcpupin vcpu="1" cpuset="3"/>
    <vcpusched vcpus="0-1" scheduler="fifo" priority="1"/>
  </cputune>
  <cpu mode="host-model">
    <topology sockets="1" cores="1" threads="2"/>
    <numa><cell id="0" cpus="0-1" memory="1024"/></numa>
  </cpu>
  <devices>
    <disk>
      <source file="/one/disk"/>
      <iotune><read_iops_sec>500</read_iops_sec></iotune>
    </disk>
    <interface>
      <mac address="00:00"/><driver name="vhost" queues="2"/>
      <bandwidth><inbound average="1000"/></bandwidth>
    </interface>
    <hostdev>
      <source><address bus="0x3b" slot="0x00"/></source>
    </hostdev>
  </devices>
</domain>
"""


@ddt.ddt
class TestDifferences(base.BaseTestCase):

    def test_none(self):
        self.assertEqual([], parity.differences(XML, XML))

    @ddt.data(
        ('type="kvm"', 'type="qemu"'),
        ('<memory>1024', '<memory>2048'),
        ('nodeset="0"/>', 'nodeset="1"/>'),
        ('nodeset="0-1"', 'nodeset="0"'),
        ('cpuset="0-3"', 'cpuset="0-2"'),
        ('>2</vcpu>', '>3</vcpu>'),
        ('<acpi/>', ''),
        ('<shares>10', '<shares>11'),
        ('emulatorpin cpuset="1,3"', 'emulatorpin cpuset="1"'),
        ('vcpu="1" cpuset="3"', 'vcpu="1" cpuset="2"'),
        ('vcpus="0-1"', 'vcpus="1"'),
        ('threads="2"', 'threads="1"'),
        ('id="0" cpus="0-1"', 'id="0" cpus="0"'),
        ('<read_iops_sec>500</read_iops_sec>', ''),
        ('queues="2"', 'queues="4"'),
        ('average="1000"', 'average="999"'),
        ('bus="0x3b"', 'bus="0x3c"'),
        ('<hostdev>', '<hostdev managed="no">'),
    )
    @ddt.unpack
    def test_noticed(self, before, after):
        self.assertEqual(1, XML.count(before))
        changed = XML.replace(before, after)
        self.assertNotEqual([], parity.differences(XML, changed))
        self.assertNotEqual([], parity.differences(changed, XML))

    @ddt.data(
        ('<uuid>one', '<uuid>two'),
        ('file="/one/disk"', 'file="/two/disk"'),
        ('address="00:00"', 'address="00:01"'),
        ('cpuset="0-3"', 'cpuset="0,1,2-3"'),
        ('vcpus="0-1" scheduler="fifo" priority="1"/>',
         'vcpus="0" scheduler="fifo" priority="1"/>'
         '<vcpusched vcpus="1" scheduler="fifo" priority="1"/>'),
        ('<vcpupin vcpu="0" cpuset="1"/>\n    <vcpupin vcpu="1" cpuset="3"/>',
         '<vcpupin vcpu="1" cpuset="3"/><vcpupin vcpu="0" cpuset="1"/>'),
        ('<page size="2048" nodeset="0-1" unit="KiB"/>',
         '<page size="2048" nodeset="0" unit="KiB"/>'
         '<page size="2048" nodeset="1" unit="KiB"/>'),
    )
    @ddt.unpack
    def test_all_the_same(self, before, after):
        self.assertEqual(1, XML.count(before))
        changed = XML.replace(before, after)
        self.assertEqual([], parity.differences(XML, changed))

    def test_says_which(self):
        self.assertEqual(
            ['only the first has shares(10)', 'only the second has shares(9)'],
            parity.differences(XML, XML.replace('>10<', '>9<')))

    def test_threads_of_a_core(self):
        swapped = XML.replace(
            'vcpu="0" cpuset="1"', 'vcpu="0" cpuset="x"').replace(
            'vcpu="1" cpuset="3"', 'vcpu="1" cpuset="1"').replace('"x"', '"3"')
        self.assertNotEqual([], parity.differences(XML, swapped))
        self.assertEqual(
            [], parity.differences(XML, swapped, cores=[(1, 3)]))
        self.assertNotEqual(
            [], parity.differences(XML, swapped, cores=[(0, 1), (2, 3)]))
