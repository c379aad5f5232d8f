# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_pinning.host.domain_xml."""

import hypothesis
from hypothesis import strategies as st

from nova_pinning import cpuset
from nova_pinning.host import domain_xml
from nova_pinning.tests.unit.tempest_plugin import guest_samples
from nova_pinning.tests.unit import unit_base

FULL = """
<domain type='kvm' id='3'>
  <name>instance-00000007</name>
  <uuid>0f1c2b9e-3a57-4c11-9d5e-6f2a7b8c9d01</uuid>
  <memory unit='KiB'>131072</memory>
  <memoryBacking>
    <hugepages>
      <page size='2048' unit='KiB' nodeset='0'/>
      <page size='1048576' unit='KiB' nodeset='1'/>
    </hugepages>
    <nosharepages/>
    <locked/>
  </memoryBacking>
  <vcpu placement='static' cpuset='0-1'>3</vcpu>
  <iothreads>2</iothreads>
  <cputune>
    <shares>512</shares>
    <period>50000</period>
    <quota>25000</quota>
    <vcpupin vcpu='0' cpuset='0-1,^1'/>
    <vcpupin vcpu='2' cpuset='9'/>
    <emulatorpin cpuset='0-1'/>
    <iothreadpin iothread='1' cpuset='0'/>
    <iothreadpin iothread='2' cpuset='1'/>
    <vcpusched vcpus='1-2' scheduler='fifo' priority='1'/>
  </cputune>
  <numatune>
    <memory mode='strict' nodeset='0-1'/>
    <memnode cellid='1' mode='strict' nodeset='1'/>
    <memnode cellid='0' mode='strict' nodeset='0'/>
  </numatune>
  <cpu>
    <topology sockets='3' dies='1' cores='1' threads='1'/>
    <numa>
      <cell id='0' cpus='0-1' memory='65536' unit='KiB'/>
      <cell id='1' cpus='2' memory='65536' unit='KiB'/>
    </numa>
  </cpu>
  <devices>
    <disk type='file' device='disk'>
      <target dev='vda' bus='virtio'/>
      <iotune>
        <total_iops_sec>500</total_iops_sec>
        <read_bytes_sec>10485760</read_bytes_sec>
      </iotune>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x04'
               function='0x0'/>
    </disk>
    <disk type='file' device='cdrom'><target dev='hda' bus='ide'/></disk>
    <interface type='bridge'>
      <mac address='fa:16:3e:00:00:01'/>
      <driver name='vhost' queues='2'/>
      <bandwidth>
        <inbound average='10240' peak='20480'/>
        <outbound average='5120'/>
      </bandwidth>
    </interface>
    <interface type='bridge'><mac address='fa:16:3e:00:00:02'/></interface>
    <hostdev mode='subsystem' type='pci' managed='yes'>
      <source>
        <address domain='0x0000' bus='0x3b' slot='0x1f' function='0x6'/>
      </source>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x05'
               function='0x0'/>
    </hostdev>
    <hostdev mode='subsystem' type='usb'>
      <source><address bus='1' device='2'/></source>
    </hostdev>
  </devices>
</domain>
"""
LEAST = '<domain><vcpu>1</vcpu></domain>'


class ParseTest(unit_base.TestCase):

    def test_everything(self):
        cpus = guest_samples.cpus
        self.assertEqual(domain_xml.DomainXml(
            uuid='0f1c2b9e-3a57-4c11-9d5e-6f2a7b8c9d01',
            name='instance-00000007', vcpus=3, floats_over=cpus('0-1'),
            vcpu_pins={0: cpus('0'), 2: cpus('9')},
            emulator_pin=cpus('0-1'), iothreads=2,
            iothread_pins={1: cpus('0'), 2: cpus('1')},
            vcpu_schedulers={1: guest_samples.FIFO, 2: guest_samples.FIFO},
            topology=domain_xml.DomainTopology(3, 1, 1),
            cells=(domain_xml.DomainCell(0, cpus('0-1'), 65536, cpus('0'),
                                         'strict'),
                   domain_xml.DomainCell(1, cpus('2'), 65536, cpus('1'),
                                         'strict')),
            memory_nodes=cpus('0-1'), memory_mode='strict',
            huge_pages=(domain_xml.HugePages(2048, cpus('0')),
                        domain_xml.HugePages(1048576, cpus('1'))),
            locked=True, shares=512, period=50000, quota=25000,
            hostdevs=frozenset({'0000:3b:1f.6'}),
            interfaces=(
                domain_xml.DomainInterface('fa:16:3e:00:00:01', 2,
                                           {'average': 10240, 'peak': 20480},
                                           {'average': 5120}),
                domain_xml.DomainInterface('fa:16:3e:00:00:02', 1, {}, {})),
            iotunes={'vda': {'total_iops_sec': 500,
                             'read_bytes_sec': 10485760}},
        ), domain_xml.parse(FULL))

    def test_nothing(self):
        found = domain_xml.parse(LEAST)
        self.assertEqual({}, found.vcpu_pins)
        self.assertEqual(cpuset.CpuSet(), found.floats_over)
        self.assertIsNone(found.emulator_pin)
        self.assertIsNone(found.topology)
        self.assertIsNone(found.shares)
        self.assertEqual((), found.cells + found.huge_pages)
        self.assertFalse(found.locked)

    def test_huge_pages_of_the_default_size(self):
        found = domain_xml.parse(LEAST.replace(
            '<vcpu>', '<memoryBacking><hugepages/></memoryBacking><vcpu>'))
        self.assertEqual((domain_xml.HugePages(0),), found.huge_pages)

    def test_huge_pages_of_several_cells(self):
        page = "<page size='2048' unit='KiB' nodeset='{}'/>"
        found = domain_xml.parse(LEAST.replace(
            '<vcpu>', '<memoryBacking><hugepages>' + page.format(0) +
            page.format(2) + '</hugepages></memoryBacking><vcpu>'))
        self.assertEqual(
            (domain_xml.HugePages(2048, guest_samples.cpus('0,2')),),
            found.huge_pages)

    def test_where_a_vcpu_may_run(self):
        found = domain_xml.parse(FULL)
        self.assertEqual(guest_samples.cpus('9'), found.vcpu_affinity(2))
        self.assertEqual(guest_samples.cpus('0-1'), found.vcpu_affinity(1))

    def test_no_domain(self):
        for text, words in (
                ('', 'no domain XML: '),
                ('error: no domain', 'no domain XML: '),
                ('<capabilities/>', 'its root is <capabilities>'),
                ('<domain/>', 'without <vcpu>'),
                (FULL.replace("memory='65536' unit='KiB'",
                              "memory='64' unit='MiB'"),
                 '<cell> has a size in MiB, not in KiB')):
            error = self.assertRaises(ValueError, domain_xml.parse, text)
            self.assertIn(words, str(error))


PINS = st.dictionaries(
    st.integers(0, 5), st.sets(st.integers(0, 40), min_size=1), max_size=6)


class PinsPropertyTest(unit_base.TestCase):
    """However libvirt may write pins, they are the same pins."""

    @unit_base.settings(200)
    @hypothesis.given(PINS, st.data())
    def test_any_spelling(self, pins, data):
        elements = []
        for vcpu, cpus in pins.items():
            # Any cover of the set will do, also one that says things twice.
            parts = data.draw(st.lists(st.sets(
                st.sampled_from(sorted(cpus)), min_size=1)))
            for part in [*parts, cpus - set().union(*parts)]:
                if part:
                    text = data.draw(st.sampled_from([
                        ','.join(map(str, part)), str(cpuset.CpuSet(part)),
                        f'{min(part)}-{max(part)}' + ''.join(
                            f',^{cpu}' for cpu in range(
                                min(part), max(part)) if cpu not in part)]))
                    elements.append(
                        f"<vcpupin vcpu='{vcpu}' cpuset='{text}'/>")
        elements = data.draw(st.permutations(elements))
        found = domain_xml.parse(LEAST.replace(
            '<vcpu>', f'<cputune>{"".join(elements)}</cputune><vcpu>'))
        self.assertEqual(
            {vcpu: cpuset.CpuSet(cpus) for vcpu, cpus in pins.items()},
            found.vcpu_pins)
