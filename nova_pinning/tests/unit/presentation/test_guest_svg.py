# SPDX-License-Identifier: Apache-2.0


import re

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.host import guest_affinity
from nova_pinning.host import host_loader
from nova_pinning.presentation import guest_svg
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit.host import test_host_loader
from nova_pinning.tests.unit.presentation import sample_pictures
from nova_pinning.tests.unit import unit_base


def cpus(text):
    return cpuset.CpuSet.parse(text)


class TestRender(oslotest.BaseTestCase):

    def check(self, host, used, placement):
        return sample_pictures.check(
            self, guest_svg.render(host, used, placement), host)

    @unit_base.settings(max_examples=60)
    @hypothesis.given(strategies.data())
    def test_any_guest_on_any_host(self, data):
        host = data.draw(host_samples.any_host())
        self.check(host, *data.draw(host_samples.any_placement(host)))

    def test_examples(self):
        for path in test_host_loader.EXAMPLES.iterdir():
            host = host_loader.load(path)
            own = host.nova.dedicated_cpus or host.cpus
            placement = guest_affinity.GuestAffinity(
                vcpu_cpus=dict(enumerate(
                    cpuset.CpuSet([cpu]) for cpu in own)),
                memory_nodes={number: node.id for number, node
                              in enumerate(host.nodes)},
                name='all of it')
            self.check(host, cpus(''), placement)
            self.check(host, own, None)

    def test_tooltips_and_texts(self):
        host = host_samples.host(nova=host_samples.settings('2-3,5-7', '1'))
        picture = self.check(host, cpus('3'), guest_affinity.GuestAffinity(
            vcpu_cpus={0: cpus('2'), 1: cpus('6')}, emulator_cpus=cpus('6'),
            memory_nodes={0: 1}, name='<a> & "b"'))
        tips = {int(tip.split()[1].rstrip(':')): tip for tip in picture.tiles}
        place = 'core of CPUs 2,6, node 1, socket 1'
        self.assertEqual(f'CPU 2: vCPU 0 pinned to it; {place}', tips[2])
        self.assertEqual(
            f'CPU 6: vCPU 1 pinned to it, emulator threads; {place}',
            tips[6])
        for cpu, purpose in ((0, 'kept for the host'), (5, 'free'),
                             (1, 'shared by floating guests'),
                             (3, 'taken by another guest')):
            self.assertIn(f'CPU {cpu}: {purpose};', tips[cpu])
        shown = [text for text, *_place in picture.texts]
        for text in ('<a> & "b" on small', 'guest cell 0: vCPUs 0-1', 'e',
                     'taken by another guest: CPU 3',
                     'emulator threads on CPU 6'):
            self.assertIn(text, shown)
        self.assertIn('An e marks vCPUs', ' '.join(shown))
        self.assertEqual(
            '<a> & "b" on small',
            picture.root.find(f'{sample_pictures.SVG}title').text)

    def test_emulator_threads_and_floating_vcpus(self):
        host = host_samples.host(nova=host_samples.settings('2-7', '0-1'))
        picture = self.check(host, cpus(''), guest_affinity.GuestAffinity(
            vcpu_cpus={0: cpus('4-7')}, emulator_cpus=cpus('0-1')))
        shown = [text for text, *_place in picture.texts]
        self.assertEqual((5, 3), (shown.count('~'), shown.count('E')))

    def test_long_names(self):
        for letter in 'iW漢':
            self.check(
                host_samples.host(name=letter * 250), cpus(''),
                guest_affinity.GuestAffinity(
                    vcpu_cpus={0: cpus('1')}, name=letter * 250))

    def test_it_stands_alone(self):
        affinity = guest_affinity.GuestAffinity(
            vcpu_cpus={0: cpus('1')}, name='<script>alert(1)</script>')
        text = guest_svg.render(host_samples.host(), placement=affinity)
        for word in ('<script', 'href', '@import', '<image', 'onload'):
            self.assertNotIn(word, text)
        self.assertEqual(
            {'http://www.w3.org/2000/svg'}, set(re.findall(
                r'https?://[^"\s<]+', text)))

    def test_equipment(self):
        host = host_loader.load(
            test_host_loader.EXAMPLES / 'epyc-256-nps1.yaml')
        shown = [text for text, *_place in self.check(
            host, cpus(''), None).texts]
        self.assertEqual(2, shown.count('984 × 1 GiB pages, 2 × nvme'))
        self.assertEqual(1, shown.count('L3 cache 15'))
        self.assertIn(
            '2 sockets, 2 NUMA nodes, 128 cores, 256 CPUs · EPYC-Milan',
            shown)
