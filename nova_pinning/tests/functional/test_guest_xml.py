# SPDX-License-Identifier: Apache-2.0
"""The XML that nova writes for the guests it has placed."""

import pathlib
import shutil
import subprocess
import tempfile
from xml.etree import ElementTree

from demo import hosts
from demo import story
from nova_pinning.tests.functional import functional_base


def cpus(text):
    """A CPU list of nova's as a set."""
    found = set()
    for item in text.split(','):
        first, _, last = item.partition('-')
        found |= set(range(int(first), int(last or first) + 1))
    return found


def pins(domain):
    """vCPU to host CPUs."""
    return {int(pin.get('vcpu')): cpus(pin.get('cpuset'))
            for pin in domain.iterfind('cputune/vcpupin')}


class TestGuestXml(functional_base.OneCloud):

    @classmethod
    def start(cls, nova):
        nova.start_host('dedicated-1', hosts.enterprise_host())
        nova.start_host('shared-1', hosts.shared_host())
        return {}

    def boot(self, flavor):
        server = self.nova.boot('guest', flavor)
        self.assertEqual('ACTIVE', server.status, server)
        return server

    def domain(self, server):
        return ElementTree.fromstring(self.nova.guest_xml(server))

    def test_enterprise(self):
        server = self.boot(self.enterprise_flavor())
        domain = self.domain(server)

        self.assertEqual('8', domain.find('vcpu').text)
        self.assertIsNone(domain.find('vcpu').get('cpuset'))

        found = pins(domain)
        self.assertEqual(set(range(8)), set(found))
        for vcpu, host_cpus in found.items():
            self.assertEqual(1, len(host_cpus), f'vCPU {vcpu}')
        # vCPUs 0 and 1 share a core of the guest, and so on; on this host
        # CPUs n and n + 40 do.
        for vcpu in range(0, 8, 2):
            first, second = sorted(found[vcpu] | found[vcpu + 1])
            self.assertEqual(first + 40, second)
        used = set().union(*found.values())
        self.assertEqual(8, len(used))
        self.assertTrue(used.isdisjoint({0, 1, 40, 41}))

        # Emulator threads run where the guest's own vCPUs do.
        self.assertEqual(
            used, cpus(domain.find('cputune/emulatorpin').get('cpuset')))

        cell = 0 if min(used) < 20 else 1
        in_cell = {0: set(range(2, 20)) | set(range(42, 60)),
                   1: set(range(20, 40)) | set(range(60, 80))}[cell]
        self.assertLessEqual(used, in_cell)
        memory = domain.find('numatune/memory')
        self.assertEqual('strict', memory.get('mode'))
        self.assertEqual({cell}, cpus(memory.get('nodeset')))
        node, = domain.iterfind('numatune/memnode')
        self.assertEqual(('0', 'strict'),
                         (node.get('cellid'), node.get('mode')))
        self.assertEqual({cell}, cpus(node.get('nodeset')))

        self.assertEqual(
            {'sockets': '1', 'cores': '4', 'threads': '2'},
            dict(domain.find('cpu/topology').attrib))
        guest_cell, = domain.iterfind('cpu/numa/cell')
        self.assertEqual(set(range(8)), cpus(guest_cell.get('cpus')))
        self.assertEqual(16 * functional_base.GIB * 1024,
                         int(guest_cell.get('memory')))

        # What runs is what nova has written down.
        self.assertEqual(used, self.pinned_cpus(server))
        self.assertEqual(used, self.host_pinned_cpus('dedicated-1'))
        self.assertEqual(8, self.nova.usages('dedicated-1')['PCPU'])

    def test_two_cells(self):
        server = self.boot(self.nova.create_flavor(
            'wide', 16, 32 * functional_base.GIB,
            story.ENTERPRISE_SPECS | {
                'hw:numa_nodes': '2', 'hw:cpu_cores': '8'}))
        domain = self.domain(server)

        found = pins(domain)
        self.assertEqual(set(range(16)), set(found))
        nodes = {int(node.get('cellid')): cpus(node.get('nodeset'))
                 for node in domain.iterfind('numatune/memnode')}
        self.assertEqual({0, 1}, set(nodes))
        self.assertEqual({0, 1}, nodes[0] | nodes[1])
        for guest_cell in domain.iterfind('cpu/numa/cell'):
            host_cell, = nodes[int(guest_cell.get('id'))]
            for vcpu in cpus(guest_cell.get('cpus')):
                cpu, = found[vcpu]
                self.assertEqual(host_cell, cpu % 40 // 20)

    def test_shared(self):
        server = self.boot(self.shared_flavor())
        domain = self.domain(server)

        self.assertEqual('shared-1', server.host)
        self.assertEqual('8', domain.find('vcpu').text)
        self.assertEqual(set(range(80)),
                         cpus(domain.find('vcpu').get('cpuset')))
        self.assertEqual({}, pins(domain))
        self.assertIsNone(domain.find('cputune/emulatorpin'))
        self.assertIsNone(domain.find('numatune'))
        self.assertIsNone(domain.find('cpu/numa'))

    def test_libvirt_accepts_it(self):
        for program in ('virt-xml-validate', 'xmllint'):
            if shutil.which(program) is None:
                self.skipTest(
                    f'{program} is missing; on Debian and Ubuntu: apt-get '
                    'install libvirt-clients libxml2-utils')
        for flavor in (self.enterprise_flavor(), self.shared_flavor()):
            xml = self.nova.guest_xml(self.boot(flavor))
            self.assertEqual('', self.complaints(xml))

    def test_libvirt_refuses_other_xml(self):
        # So that the test above is known to mean something.
        for program in ('virt-xml-validate', 'xmllint'):
            if shutil.which(program) is None:
                self.skipTest(f'{program} is missing')
        xml = self.nova.guest_xml(self.boot(self.enterprise_flavor()))
        self.assertIn('fails to validate', self.complaints(
            xml.replace('<emulatorpin', '<emulatorpins')))

    @staticmethod
    def complaints(xml):
        """What libvirt's own schema has against a guest's XML."""
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / 'guest.xml'
            path.write_text(xml)
            checked = subprocess.run(
                ['virt-xml-validate', str(path), 'domain'],
                capture_output=True, text=True)
        if checked.returncode == 0:
            return ''
        return checked.stdout + checked.stderr
