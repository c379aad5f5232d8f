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


import re

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning import drawing
from nova_pinning.drawing import svg
from nova_pinning.host import load
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.drawing import pictures
from nova_pinning.tests.unit.host import samples
from nova_pinning.tests.unit.host import test_load


def cpus(text):
    return cpuset.CpuSet.parse(text)


class TestRender(oslotest.BaseTestCase):

    def check(self, host, used, placement):
        return pictures.check(
            self, svg.render(host, used, placement), host)

    @base.settings(max_examples=60)
    @hypothesis.given(strategies.data())
    def test_any_guest_on_any_host(self, data):
        host = data.draw(samples.any_host())
        self.check(host, *data.draw(samples.any_placement(host)))

    def test_examples(self):
        for path in test_load.EXAMPLES.iterdir():
            host = load.load(path)
            own = host.nova.dedicated_cpus or host.cpus
            placement = drawing.Placement(
                vcpu_cpus=dict(enumerate(
                    cpuset.CpuSet([cpu]) for cpu in own)),
                memory_nodes={number: node.id for number, node
                              in enumerate(host.nodes)},
                name='all of it')
            self.check(host, cpus(''), placement)
            self.check(host, own, None)

    def test_tooltips_and_texts(self):
        host = samples.host(nova=samples.settings('2-3,5-7', '1'))
        picture = self.check(host, cpus('3'), drawing.Placement(
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
            picture.root.find(f'{pictures.SVG}title').text)

    def test_emulator_threads_and_floating_vcpus(self):
        host = samples.host(nova=samples.settings('2-7', '0-1'))
        picture = self.check(host, cpus(''), drawing.Placement(
            vcpu_cpus={0: cpus('4-7')}, emulator_cpus=cpus('0-1')))
        shown = [text for text, *_place in picture.texts]
        self.assertEqual((5, 3), (shown.count('~'), shown.count('E')))

    def test_long_names(self):
        for letter in 'iW漢':
            self.check(samples.host(name=letter * 250), cpus(''),
                       drawing.Placement(vcpu_cpus={0: cpus('1')},
                                         name=letter * 250))

    def test_it_stands_alone(self):
        text = svg.render(samples.host(), placement=drawing.Placement(
            vcpu_cpus={0: cpus('1')}, name='<script>alert(1)</script>'))
        for word in ('<script', 'href', '@import', '<image', 'onload'):
            self.assertNotIn(word, text)
        self.assertEqual(
            {'http://www.w3.org/2000/svg'}, set(re.findall(
                r'https?://[^"\s<]+', text)))

    def test_equipment(self):
        host = load.load(test_load.EXAMPLES / 'epyc-256-nps1.yaml')
        shown = [text for text, *_place in self.check(
            host, cpus(''), None).texts]
        self.assertEqual(2, shown.count('984 × 1 GiB pages, 2 × nvme'))
        self.assertEqual(1, shown.count('L3 cache 15'))
        self.assertIn(
            '2 sockets, 2 NUMA nodes, 128 cores, 256 CPUs · EPYC-Milan',
            shown)
