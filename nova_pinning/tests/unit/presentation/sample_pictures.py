# SPDX-License-Identifier: Apache-2.0
"""SVG drawings of hosts, looked at in tests."""

import re
from xml.etree import ElementTree

from nova_pinning.presentation import svg_boxes

SVG = '{http://www.w3.org/2000/svg}'


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
        # (text, left, right, base line, corners of the frame it is in);
        # of signs and numbers of tiles
        self.signs = []
        # and of all
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
        width = svg_boxes.text_width(item.text, size)
        left = x + float(item.get('x')) - width * {
            None: 0, 'middle': 0.5, 'end': 1}[item.get('text-anchor')]
        found = (
            item.text, left, left + width, y + float(item.get('y')), frame)
        self.texts.append(found)
        if {'np-big', 'np-id'} & set(item.get('class').split()):
            self.signs.append(found)


def check(case, text, host):
    """What holds for any drawing: all CPUs are there, nothing overlaps.

    :param case: the test case
    :returns: a Picture
    """
    picture = Picture(text)
    drawn = sorted(int(re.match(r'CPU (\d+): ', tip)[1])
                   for tip in picture.tiles)
    case.assertEqual(sorted(host.cpus), drawn)
    case.assertEqual(set(), picture.used - picture.classes)
    for shown, left, right, base_line, frame in picture.signs:
        # A tenth of a unit is lost to rounding.
        case.assertTrue(
            frame[0] - 0.2 <= left and right <= frame[2] + 0.2 and
            frame[1] < base_line < frame[3], (shown, frame))
    for _style, corners in picture.rectangles:
        case.assertLessEqual(0, min(corners))
    left, top, width, height = map(
        float, picture.root.get('viewBox').split())
    for shown, start, end, base_line, _frame in picture.texts:
        case.assertTrue(0 <= start and end <= width, shown)
        case.assertTrue(0 < base_line < height, shown)
    for style in ('np-socket', 'np-node', 'np-l3', 'np-core', 'np-device',
                  'np-sold', 'np-badge'):
        _check_apart(case, [corners for name, corners in picture.rectangles
                            if name == style])
    _check_apart(case, list(picture.tiles.values()))
    for style, badge in picture.rectangles:
        if style == 'np-badge':
            case.assertEqual([badge], [
                frame for _shown, start, end, base_line, frame
                in picture.texts if start < badge[2] and badge[0] < end
                and badge[1] < base_line < badge[3]])
    return picture


def _check_apart(case, rectangles):
    for number, (left, top, right, bottom) in enumerate(rectangles):
        for other in rectangles[:number]:
            case.assertFalse(
                left < other[2] and other[0] < right and
                top < other[3] and other[1] < bottom)
