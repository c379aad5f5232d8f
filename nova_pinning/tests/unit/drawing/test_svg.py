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
from xml.etree import ElementTree

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning import drawing
from nova_pinning.drawing import boxes
from nova_pinning.drawing import svg
from nova_pinning.host import load
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.host import samples
from nova_pinning.tests.unit.host import test_load

SVG = '{http://www.w3.org/2000/svg}'


def cpus(text):
    return cpuset.CpuSet.parse(text)


class Picture:
    """An SVG drawing, looked at as a viewer would."""

    def __init__(self, text):
        self.root = ElementTree.fromstring(text)
        style = self.root.find(f'{SVG}defs/{SVG}style').text
        self.sizes = {name: float(size) for name, size in re.findall(
            r'\.(np-\w+)\{font-size:([\d.]+)px', style)}
        self.classes = set(re.findall(r'\.(np-\w+)\{', style))
        # Tooltips with the corners of their tiles.
        self.tiles = {}
        # Class and corners of each rectangle.
        self.rectangles = []
        # (text, left, right, base line, corners of the frame it is in)
        self.texts = []
        self.used = set()
        width, height = map(float, self.root.get('viewBox').split()[2:])
        self._look(self.root, 0, 0, (0, 0, width, height))

    def _look(self, group, x, y, frame):
        tip = None
        for item in group:
            kind = item.tag.removeprefix(SVG)
            self.used.update(item.get('class', '').split())
            if kind == 'title':
                tip = item.text
            elif kind == 'rect':
                left = x + float(item.get('x'))
                top = y + float(item.get('y'))
                frame = (left, top, left + float(item.get('width')),
                         top + float(item.get('height')))
                self.rectangles.append((item.get('class'), frame))
                if tip and group is not self.root:
                    self.tiles[tip] = frame
            elif kind == 'text':
                self._text(item, x, y, frame)
            elif kind == 'g':
                move = re.fullmatch(r'translate\((\S+),(\S+)\)',
                                    item.get('transform'))
                self._look(item, x + float(move[1]), y + float(move[2]),
                           frame)

    def _text(self, item, x, y, frame):
        size = max(self.sizes.get(name, 0)
                   for name in item.get('class').split())
        width = boxes.text_width(item.text, size)
        left = x + float(item.get('x')) - width * {
            None: 0, 'middle': 0.5, 'end': 1}[item.get('text-anchor')]
        self.texts.append(
            (item.text, left, left + width, y + float(item.get('y')), frame))


class TestRender(oslotest.BaseTestCase):

    def check(self, host, used, placement):
        text = svg.render(host, used, placement)
        picture = Picture(text)
        drawn = sorted(int(re.match(r'CPU (\d+): ', tip)[1])
                       for tip in picture.tiles)
        self.assertEqual(sorted(host.cpus), drawn)
        self.assertEqual(set(), picture.used - picture.classes)
        for shown, left, right, base_line, frame in picture.texts:
            # A tenth of a unit is lost to rounding; legends have a tile
            # before their text, which is no frame.
            if shown.isdigit() or shown in '×#~E:e':
                self.assertTrue(
                    frame[0] - 0.2 <= left and right <= frame[2] + 0.2 and
                    frame[1] < base_line < frame[3], (shown, frame))
        for _style, corners in picture.rectangles:
            self.assertLessEqual(0, min(corners))
        left, top, width, height = map(
            float, picture.root.get('viewBox').split())
        for shown, start, end, base_line, _frame in picture.texts:
            self.assertTrue(0 <= start and end <= width, shown)
            self.assertTrue(0 < base_line < height, shown)
        for style in ('np-socket', 'np-node', 'np-l3', 'np-core'):
            self._check_apart([corners for name, corners in
                               picture.rectangles if name == style])
        self._check_apart(list(picture.tiles.values()))
        return picture

    def _check_apart(self, rectangles):
        for number, (left, top, right, bottom) in enumerate(rectangles):
            for other in rectangles[:number]:
                self.assertFalse(
                    left < other[2] and other[0] < right and
                    top < other[3] and other[1] < bottom)

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
            '<a> & "b" on small', picture.root.find(f'{SVG}title').text)

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
