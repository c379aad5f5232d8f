# SPDX-License-Identifier: Apache-2.0


import json

import hypothesis
from oslotest import base as oslotest
import yaml

from nova_pinning import cpuset
from nova_pinning.document import source
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import hostfile
from nova_pinning.host import hostfile_writer
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit import unit_base


class TestDump(oslotest.BaseTestCase):

    @unit_base.settings(max_examples=150)
    @hypothesis.given(host_samples.any_host())
    def test_what_is_written_reads_the_same(self, description):
        text = hostfile_writer.dump(description)
        again = hostfile.read(source.parse(text, 'host.yaml'))
        self.assertEqual(description, again)

    @unit_base.settings(max_examples=100)
    @hypothesis.given(host_samples.any_host())
    def test_json_is_the_same_document(self, description):
        text = hostfile_writer.dump_json(description)
        json.loads(text)
        again = hostfile.read(source.parse(text, 'host.json'))
        self.assertEqual(description, again)

    def test_ends_of_lines(self):
        host = host_samples.host(description='a\x85b\u2028c\u2029d\ne')
        for text in (hostfile_writer.dump(host),
                     hostfile_writer.dump_json(host)):
            self.assertEqual(
                host, hostfile.read(source.parse(text, 'host.json')))

    @unit_base.settings(max_examples=50)
    @hypothesis.given(host_samples.any_host())
    def test_others_read_the_same(self, description):
        # Version 1.1 of YAML, where "on" is a boolean and 1e3 may be text.
        plain = json.loads(hostfile_writer.dump_json(description))
        self.assertEqual(plain, json.loads(json.dumps(
            yaml.safe_load(hostfile_writer.dump(description)))))

    def test_lines_are_broken(self):
        host = host_samples.host(
            caches=(hardware.Caches(
                3, hardware.CacheKind.UNIFIED, 33792,
                tuple(cpuset.CpuSet([cpu]) for cpu in range(8))),
                hardware.Caches(
                    2, hardware.CacheKind.UNIFIED, 1024,
                    (cpuset.CpuSet([0, 1, 3, 5]),
                     cpuset.CpuSet([2, 4, 6, 7])))),
            core_kinds=(hardware.CoreKind('fast', cpuset.CpuSet([0]), 1024),),
            system=hardware.System(
                smt='on', command_line='a=b c', mitigations={
                    'mds': 'Vulnerable', 'spectre_v2': 'Mitigation: this',
                    'tsx_async_abort': 'Mitigation: something else'}))
        self.assertEqual("""\
caches:
- {level: 3, kind: unified, size: 33MiB, domains: cpus}
- {level: 2, kind: unified, size: 1MiB, domains: ['0-1,3,5', '2,4,6-7']}
core_kinds:
- {name: fast, cpus: '0', capacity: 1024}
system:
  command_line: 'a=b c'
  smt: 'on'
  mitigations:
    mds: Vulnerable
    spectre_v2: 'Mitigation: this'
    tsx_async_abort: 'Mitigation: something else'
""", ''.join(hostfile_writer.dump(host).partition('caches:')[1:]))

    def test_no_line_is_long(self):
        cores = tuple((cpu, cpu + 64) for cpu in range(64))
        domains = hostfile.even_domains(cores[::-1], 4)
        device = host_model.PciDevice(
            '0000:3b:00.0', '8086', '158b', 0, kind=hardware.PciKind.NIC,
            driver='i40e', names=('ens1f0np0', 'ens1f1np1'), queues=64,
            interrupts=(5, *range(120, 152)), speed_mbps=50000,
            in_use='in bond0, br-ex; default route')
        host = host_model.HostDescription(
            'big',
            (host_model.NumaNode(0, 0, cores, 1024, l3_domains=domains),),
            pci_devices=(device,),
            caches=(hardware.Caches(
                3, hardware.CacheKind.UNIFIED, 32768, domains),))
        text = hostfile_writer.dump(host)
        self.assertEqual(host, hostfile.read(source.parse(text, 'a.yaml')))
        self.assertLessEqual(max(map(len, text.splitlines())), 79)
        self.assertLess(len(text.splitlines()), 35)

    def test_short(self):
        host = host_samples.host(nova=host_samples.settings('1-7'))
        self.assertEqual("""\
version: 1
name: small
cpu:
  threads_per_core: 2
  numbering: split
nodes:
- id: 0
  socket: 0
  cpus: '0-1,4-5'
  memory: 8GiB
- id: 1
  socket: 1
  cpus: '2-3,6-7'
  memory: 8GiB
nova:
  dedicated_cpus: '1-7'
""", hostfile_writer.dump(host))
