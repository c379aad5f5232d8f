# SPDX-License-Identifier: Apache-2.0


import dataclasses

import ddt
import hypothesis
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.host import capabilities
from nova_pinning.host import engine
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import hostfile
from nova_pinning.host import hostfile_writer
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit import unit_base

XML = """\
<capabilities>
  <host>
    <uuid>4c4c4544-0035-4410-8056-b7c04f4d3232</uuid>
    <cpu>
      <arch>x86_64</arch>
      <model>Cascadelake-Server</model>
      <vendor>Intel</vendor>
      <topology sockets='1' dies='1' cores='2' threads='2'/>
      <feature name='vmx'/>
      <feature name='ds'/>
      <pages unit='KiB' size='4'/>
      <pages unit='KiB' size='1048576'/>
    </cpu>
    <iommu support='yes'/>
    <topology>
      <cells num='2'>
        <cell id='0'>
          <memory unit='KiB'>8290304</memory>
          <pages unit='KiB' size='4'>1024000</pages>
          <pages unit='KiB' size='2048'>0</pages>
          <pages unit='KiB' size='1048576'>4</pages>
          <distances>
            <sibling id='0' value='10'/>
            <sibling id='1' value='21'/>
          </distances>
          <cpus num='4'>
            <cpu id='0' socket_id='0' die_id='0' core_id='0' siblings='0,4'/>
            <cpu id='1' socket_id='0' die_id='0' core_id='1' siblings='1'/>
            <cpu id='4' socket_id='0' die_id='0' core_id='0' siblings='0,4'/>
            <cpu id='5'/>
          </cpus>
        </cell>
        <cell id='1'>
          <memory unit='MiB'>8000</memory>
          <distances>
            <sibling id='0' value='21'/>
            <sibling id='1' value='10'/>
          </distances>
          <cpus num='2'>
            <cpu id='2' socket_id='1' die_id='0' core_id='0' siblings='2,6'/>
            <cpu id='6' socket_id='1' die_id='0' core_id='0' siblings='2,6'/>
          </cpus>
        </cell>
      </cells>
    </topology>
    <cache>
      <bank id='0' level='3' type='both' size='16' unit='MiB' cpus='0-1,4'/>
      <bank id='1' level='3' type='both' size='16' unit='MiB' cpus='2,6'/>
      <bank id='9' level='2' type='both' size='1' unit='MiB' cpus='0,4'/>
    </cache>
  </host>
  <guest><os_type>hvm</os_type></guest>
</capabilities>
"""


def read(text):
    return capabilities.read(text, '/tmp/compute-1.xml')


@ddt.ddt
class TestCapabilities(oslotest.BaseTestCase):

    def test_everything(self):
        self.assertEqual(host_model.HostDescription(
            name='compute-1',
            nodes=(
                host_model.NumaNode(
                    0, 0, ((0, 4), (1,)), 8096, {2048: 0, 1048576: 4},
                    (cpuset.CpuSet([0, 1, 4]),), (10, 21)),
                host_model.NumaNode(
                    1, 1, ((2, 6),), 8000, {}, (cpuset.CpuSet([2, 6]),),
                    (21, 10))),
            cpu_model=host_model.CpuModel(
                'x86_64', 'Cascadelake-Server', 'Intel', ('ds', 'vmx')),
            offline_cpus=cpuset.CpuSet([5]),
            caches=(
                hardware.Caches(2, hardware.CacheKind.UNIFIED, 1024,
                                (cpuset.CpuSet([0, 4]),)),
                hardware.Caches(3, hardware.CacheKind.UNIFIED, 16384,
                                (cpuset.CpuSet([0, 1, 4]),
                                 cpuset.CpuSet([2, 6])))),
            system=hardware.System(has_iommu=True),
        ), read(XML))

    def test_dies(self):
        found = read(XML.replace("die_id='0' core_id='1'",
                                 "die_id='1' core_id='1'"))
        self.assertEqual((
            hardware.Die(0, 0, cpuset.CpuSet([0, 4])),
            hardware.Die(0, 1, cpuset.CpuSet([1])),
            hardware.Die(1, 0, cpuset.CpuSet([2, 6]))), found.dies)

    def test_a_cell_without_memory(self):
        """Libvirt leaves it out where it is 0."""
        found = read(XML.replace("<memory unit='MiB'>8000</memory>", ''))
        self.assertEqual([8096, 0], [node.memory_mib for node in found.nodes])

    @ddt.data(("unit='KiB' size='4'", "unit='KiB' size='64'", 'x86_64', 64),
              ('<pages ', '<none ', 'ppc64le', 64),
              ('<pages ', '<none ', 'x86_64', 4))
    @ddt.unpack
    def test_smallest_pages(self, old, new, arch, expected):
        found = read(XML.replace(old, new).replace(
            '</pages>', '</none>' if 'none' in new else '</pages>').replace(
            '<arch>x86_64', f'<arch>{arch}'))
        self.assertEqual(expected, found.system.page_size_kib)
        self.assertEqual(arch == 'ppc64le', 'ppc64le' in found.description)

    def test_without_caches(self):
        start, end = XML.index('    <cache>'), XML.index('  </host>')
        found = read(XML[:start] + XML[end:])
        self.assertEqual((), found.caches)
        self.assertEqual({()}, {node.l3_domains for node in found.nodes})

    @ddt.data(("<iommu support='yes'/>", '', None),
              ("support='yes'", "support='no'", False))
    @ddt.unpack
    def test_iommu(self, old, new, expected):
        self.assertIs(
            expected, read(XML.replace(old, new)).system.has_iommu)

    def test_what_is_written_reads_the_same(self):
        found = read(XML)
        self.assertEqual(found, hostfile.read(
            source.parse(hostfile_writer.dump(found), 'host.yaml')))

    def test_the_smallest_pages_are_not_huge(self):
        found = read(XML.replace("size='4'", "size='64'"))
        self.assertEqual(
            {2048: 0, 1048576: 4}, found.nodes[0].huge_pages)

    def test_the_smallest_pages_need_not_be_of_4_kib(self):
        found = read(XML.replace("size='4'", "size='64'"))
        self.assertEqual(64, found.system.page_size_kib)
        self.assertEqual(
            (64, 2048, 1048576), tuple(
                pool.size_kib for pool in engine.page_pools(
                    found.nodes[0], found.system.page_size_kib)))

    @unit_base.settings(max_examples=100)
    @hypothesis.given(host_samples.any_host())
    def test_any_host(self, description):
        found = read(
            host_samples.capabilities(description, offline=(5000, 5001)))
        self.assertEqual(
            [dataclasses.replace(
                node, l3_domains=tuple(sorted(node.l3_domains)))
             for node in description.nodes], list(found.nodes))

    @ddt.data(
        ('<capabilities>', '<?bad>', 'not XML'),
        ('<capabilities>', '<!DOCTYPE a [<!ENTITY b "c">]><capabilities>',
         'DOCTYPE'),
        ("<cell id='1'>", '<cell>', '<cell> has no id'),
        ("core_id='1' siblings='1'", "core_id='1' siblings='x'", "'x'"),
        ("<cpu id='2'", "<cpu id='99999999999'", 'CPU ids end at'),
        ("unit='MiB'>8000", "unit='apples'>8000", "'apples'"),
        ("unit='MiB'>8000", "unit='MiB'>many", "'many'"),
        ("size='1' unit='MiB'", "size='1' unit='pears'", "'pears'"),
    )
    @ddt.unpack
    def test_bad(self, old, new, message):
        before = XML[:XML.index(old)]
        error = self.assertRaises(
            errors.InputError, read, XML.replace(old, new, 1))
        self.assertIn(message, str(error))
        self.assertEqual('/tmp/compute-1.xml', error.where.source)
        self.assertEqual(before.count('\n') + 1, error.where.line)

    @ddt.data(
        ("<cell id='1'>", "<cell id='0'>", 'two nodes 0'),
        ('1048576\'>4<', '1048576\'>40<', 'huge pages of node 0'),
    )
    @ddt.unpack
    def test_not_a_host(self, old, new, message):
        self.assertIn(old, XML)
        error = self.assertRaises(
            errors.InputError, read, XML.replace(old, new))
        self.assertIn(message, str(error))

    @ddt.data('<domain/>', '<capabilities/>', '<capabilities><host/>'
              '</capabilities>')
    def test_something_else(self, text):
        self.assertRaises(errors.InputError, read, text)

    def test_depth(self):
        error = self.assertRaises(errors.InputError, read, '<a>' * 100000)
        self.assertIn('deep', str(error))
