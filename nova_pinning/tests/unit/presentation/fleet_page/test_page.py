# SPDX-License-Identifier: Apache-2.0

import base64
import hashlib
import json
import pathlib
import re

from nova_pinning.presentation.fleet_page import page
from nova_pinning.tests.unit.presentation.fleet_page import page_cases
from nova_pinning.tests.unit import unit_base

_SOURCES = pathlib.Path(page.__file__).parent


class TestPage(unit_base.TestCase):

    def test_policy(self):
        """It lets this very script and style through, and nothing else."""
        found = page_cases.PageReader(
            page_cases.rendered(page_cases.fleet(2)))
        policy, = [attributes['content'] for attributes, _text
                   in found.of('meta') if attributes.get('http-equiv')
                   == 'Content-Security-Policy']
        directives = dict(
            part.split(' ', 1) for part in policy.split('; '))
        self.assertEqual("'none'", directives['default-src'])
        (_data, _text), (_script, script) = found.of('script')
        (_style, style), = found.of('style')
        for text, name in ((script, 'script-src'), (style, 'style-src')):
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest())
            self.assertEqual(f"'sha256-{digest.decode()}'", directives[name])

    def test_asks_no_other_place(self):
        found = page_cases.PageReader(
            page_cases.rendered(page_cases.fleet(2)))
        for _tag, attributes in found.elements:
            self.assertEqual(set(), set(attributes) & {
                'src', 'srcset', 'data', 'style', 'onclick'})
            self.assertRegex(attributes.get('href', '#'), '^#')
        (_style, style), = found.of('style')
        self.assertNotIn('url(', style)
        self.assertNotIn('@import', style)

    def test_hostile_names(self):
        """They are in the document, and nowhere else."""
        plain = page_cases.fleet(8)
        found, expected = (
            page_cases.PageReader(page_cases.rendered(fleet))
            for fleet in (page_cases.hostile(plain), plain))
        self.assertEqual(expected.elements, found.elements)
        (_attributes, text), _script = found.of('script')
        self.assertNotRegex(text, '[<>&\u2028\u2029]')
        names = {guest[0] for host in json.loads(text)['hosts']
                 for guest in host['guests']}
        for name in names:
            self.assertTrue(name.isprintable(), name)
        self.assertIn(page_cases.HOSTILE[0], names)
        self.assertIn('Zürich 東京 🚀', names)

    def test_same_each_time(self):
        fleet = page_cases.fleet(3)
        self.assertEqual(page_cases.rendered(fleet),
                         page_cases.rendered(fleet))


class TestSources(unit_base.TestCase):

    def test_all_are_used(self):
        self.assertEqual(
            {path.name for path in _SOURCES.glob('*.js')}, set(page.SCRIPTS))

    def test_no_markup_from_text(self):
        """What could make elements of text, or run it, is not used."""
        for path in _SOURCES.glob('*.js'):
            with self.subTest(path.name):
                self.assertNotRegex(path.read_text(), re.compile(
                    r'innerHTML|outerHTML|insertAdjacentHTML|document\.write|'
                    r'\beval\b|new Function|DOMParser|srcdoc|fetch\(|'
                    r'XMLHttpRequest|importScripts|import\('))

    def test_lines(self):
        for pattern in ('*.js', '*.css', '*.html'):
            for path in _SOURCES.glob(pattern):
                for line in path.read_text().splitlines():
                    self.assertLessEqual(len(line), 79, f'{path}: {line}')
