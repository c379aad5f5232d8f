# SPDX-License-Identifier: Apache-2.0
import json
import os

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest
import yaml

from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.tests.unit import unit_base

_TEXTS = strategies.text(
    strategies.characters(blacklist_categories=('Cs', 'Cc')), max_size=12)
_VALUES = strategies.recursive(
    strategies.none() | strategies.booleans() | _TEXTS
    | strategies.integers(-2 ** 63, 2 ** 63)
    | strategies.floats(allow_nan=False, allow_infinity=False).filter(
        lambda number: '.' in repr(number)),
    lambda inner: strategies.lists(inner, max_size=4)
    | strategies.dictionaries(_TEXTS, inner, max_size=4), max_leaves=20)
_DOCUMENTS = _VALUES.filter(lambda value: value is not None)


def _walk(value, path=()):
    yield path, value
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _walk(below, (*path, key))
    elif isinstance(value, list):
        for position, below in enumerate(value):
            yield from _walk(below, (*path, position))


class TestValues(oslotest.BaseTestCase):

    def test_scalars(self):
        for text, value in (
                ('1', 1), ('-7', -7), ('+3', 3), ('0', 0), ('0x1F', 31),
                ('.5', .5), ('1.5', 1.5), ('-0.5', -.5), ('1.0e+3', 1000.0),
                ('2.', 2.0), ('true', True), ('FALSE', False),
                # What readers of YAML do not agree about stays text.
                ('yes', 'yes'), ('off', 'off'), ('010', '010'),
                ('1:30', '1:30'), ('2020-01-01', '2020-01-01'),
                ('1_000', '1_000'), ('.inf', '.inf'), ('.nan', '.nan'),
                ('0b11', '0b11'), ('1e3', '1e3'), ('0o17', '0o17'),
                ('-.5', '-.5'), ('1.0e3', '1.0e3'), ('16G', '16G'), ('=', '='),
                ('"1"', '1'), ("'true'", 'true'), ('!!str 1', '1'),
                ('! 1', '1'), ('!!int 1', 1), ('!!float 1', 1.0),
                ('"\\u00e9"', '\u00e9'), ('|\n  a\n  b', 'a\nb')):
            found = source.parse(f'key: {text}', 'f').value['key']
            self.assertEqual((type(value), value), (type(found), found), text)

    def test_nothing(self):
        for text in ('', '~', 'null', 'NULL', '!!null'):
            self.assertIsNone(
                source.parse(f'key: {text}', 'f').value['key'])

    def test_keys_are_text(self):
        self.assertEqual({'1': 2, 'true': 3, 'null': 4},
                         source.parse('{1: 2, true: 3, null: 4}', 'f').value)

    def test_aliases_and_merges(self):
        document = source.parse(
            'a: &a {x: 1, y: 2}\nb: *a\nc:\n  <<: *a\n  y: 3\n'
            'd: {<<: [{x: 4}, *a], z: 5}\n"<<": text', 'f')
        self.assertEqual({
            'a': {'x': 1, 'y': 2}, 'b': {'x': 1, 'y': 2},
            'c': {'x': 1, 'y': 3}, 'd': {'x': 4, 'y': 2, 'z': 5},
            '<<': 'text'}, document.value)
        self.assertEqual('f:1:8: c.x', str(document.locate(('c', 'x'), True)))
        self.assertEqual('f:5:6: c.y', str(document.locate(('c', 'y'))))

    def test_an_anchor_is_what_was_last_called_so(self):
        document = source.parse(
            'a: &x [&y 1, *y]\nb: [&x {c: *y}]\n'
            + 'd: *x\ne: &z {<<: *x, f: [*x]}\ng: {<<: *z}', 'f')
        self.assertEqual({'a': [1, 1], 'b': [{'c': 1}], 'd': {'c': 1},
                          'e': {'f': [{'c': 1}], 'c': 1},
                          'g': {'f': [{'c': 1}], 'c': 1}}, document.value)
        for path, expected in ((('d', 'c'), '2:9'), (('g', 'c'), '2:9'),
                               (('g', 'f', 0, 'c'), '2:9'),
                               (('g', 'f', 1), '4:19'), (('g', 'x'), '5:4')):
            self.assertEqual(
                f'f:{expected}: {source.key_text(path)}',
                str(document.locate(path, key=True)))

    @unit_base.settings(200)
    @hypothesis.given(_DOCUMENTS)
    def test_dumped_by_pyyaml(self, value):
        text = yaml.safe_dump(value, allow_unicode=True)
        hypothesis.assume('\x85' not in text and '\ufeff' not in text)
        self.assertEqual(value, source.parse(text, 'f').value)

    @unit_base.settings(200)
    @hypothesis.given(_DOCUMENTS, strategies.sampled_from([None, 2, '\t']))
    def test_json(self, value, indent):
        text = json.dumps(value, ensure_ascii=False, indent=indent)
        hypothesis.assume('\ufeff' not in text)
        self.assertEqual(value, source.parse(text, 'f').value)

    @unit_base.settings(100)
    @hypothesis.given(_DOCUMENTS)
    def test_places(self, value):
        # A place is right if what stands there reads as the value.
        text = json.dumps(value, indent=1)
        hypothesis.assume('\\ud' not in text)
        document = source.parse(text, 'f')
        lines = text.split('\n')
        for path, expected in _walk(value):
            where = document.locate(path)
            rest = '\n'.join([lines[where.line - 1][where.column - 1:],
                              *lines[where.line:]])
            found, _end = json.JSONDecoder().raw_decode(rest)
            self.assertEqual(expected, found)
            if path and isinstance(path[-1], str):
                where = document.locate(path, key=True)
                rest = lines[where.line - 1][where.column - 1:]
                self.assertEqual(
                    path[-1], json.JSONDecoder().raw_decode(rest)[0])

    @unit_base.settings(300)
    @hypothesis.given(strategies.text(
        strategies.sampled_from('ab1 \n\t:-,[]{}&*!<>|?#%@"\'\\~'),
        max_size=60))
    def test_anything(self, text):
        try:
            source.parse(text, 'f')
        except errors.InputError as error:
            self.assertEqual('f', error.where.source)


class TestRefusals(oslotest.BaseTestCase):

    def _refused(self, text):
        return str(self.assertRaises(errors.InputError, source.parse, text,
                                     'f'))

    def test_refusals(self):
        for text, expected in (
                ('', 'f:1:1: is empty'),
                ('# only this\n', 'f:2:1: is empty'),
                ('---\n', 'f:2:1: is empty'),
                ('--- a\n--- b', 'f:2:1: has a second YAML document'),
                ('a: 1\nb: {a: 1, a: 2}',
                 'f:2:11: b.a: the key a appears here a second time; the '
                 'first is in line 2'),
                ('1: a\n"1": b', 'f:2:1: 1: the key 1 appears here'),
                ('a: [&x {b: *x}]', 'f:1:12: a[0].b: &x refers to itself'),
                ('a: *x', 'f:1:4: a: there is no anchor &x above'),
                ('a: !!python/object/apply:os.system [ls]',
                 'f:1:4: a: !!python/object/apply:os.system is a tag'),
                ('a: !vault x', 'f:1:4: a: !vault is a tag'),
                ('a: !!binary aGk=', 'f:1:4: a: !!binary is a tag'),
                ('!!set {a}', 'f:1:1: !!set is a tag'),
                ('a: !!int x', "f:1:4: a: 'x' is not a !!int"),
                ('[a]: 1', 'f:1:1: a key must be plain text'),
                ('&x a: 1', 'f:1:1: an anchor on a key'),
                ('a: {<<: 1}', 'f:1:9: a.<<: only mappings can be merged'),
                ('a:\n\t- 1', 'a tab where YAML wants spaces'),
                ('a: @b', "f:1:4: a: is not YAML: '@' cannot begin a value; "
                          'put the text into quotes'),
                ('a: "b\n\n', '(it began in line 1)'),
                ('a: [1\nb: 2', 'f:2:2: '),
                ('a\0', 'f:1:2: has a character that no text has, U+0000'),
                ('a\nbc\x07', 'f:2:3: has a character that no text has'),
                ('a: "\\0"', 'f:1:4: a: has a character that no text has, '
                 'U+0000'),
                ('a: "b\\e[31m"', 'f:1:4: a: has a character that no text '
                 'has, U+001B'),
                ('"\\x9b": a', 'f:1:1: has a character that no text has, '
                 'U+009B'),
                ('"a\\nb": c', 'f:1:1: a key must stand on one line'),
                ('a: 1.0e+999', 'f:1:4: a: 1.0e+999 is too large'),
                ('a: ' + '9' * 5000, 'f:1:4: a: is too long for a number')):
            self.assertIn(expected, self._refused(text))

    def test_deep_and_wide(self):
        # Each ends long before it has been read.
        for text, expected in (
                ('[' * 10 ** 6, 'is nested more than 64 levels deep'),
                ('{a: ' * 10 ** 5, 'is nested more than 64 levels deep'),
                ('- ' * 10 ** 5, 'is nested more than 64 levels deep'),
                ('- 1\n' * (source.MAX_VALUES + 1), 'more than 100,000'),
                ('a0: &a0 [x, x]\n' + ''.join(
                    f'a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n'
                    for n in range(1, 60)), 'with what aliases repeat'),
                ('a0: &a0 {x: 1}\n' + ''.join(
                    f'a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n'
                    for n in range(1, 60)), 'with what aliases repeat')):
            self.assertIn(expected, self._refused(text))

    def test_depth_through_aliases(self):
        text = 'a0: &a0 []\n' + ''.join(
            f'a{n}: &a{n} [*a{n - 1}]\n' for n in range(1, 99))
        self.assertIn('a63[0][0][0]: is nested', self._refused(text))

    def test_at_the_limits(self):
        source.parse('[' * source.MAX_DEPTH + ']' * source.MAX_DEPTH, 'f')
        source.parse('- 1\n' * (source.MAX_VALUES - 1), 'f')


class TestLoad(oslotest.BaseTestCase):

    def _file(self, data):
        path = self.create_tempfiles([('one', '')], '.yaml')[0]
        with open(path, 'wb') as file:
            file.write(data)
        return path

    def _refused(self, path):
        return str(self.assertRaises(errors.InputError, source.load, path))

    def test_load(self):
        path = self._file(b'\xef\xbb\xbfa: \xc3\xa9\n')
        self.assertEqual({'a': '\u00e9'}, source.load(path).value)

    def test_not_utf8(self):
        path = self._file(b'a: 1\nb: \xff\n')
        self.assertEqual(f'{path}:2: is not UTF-8 text', self._refused(path))

    def test_unreadable(self):
        path = self._file(b'')
        for bad, expected in (
                (f'{path}x', 'cannot be read: No such file or directory'),
                (os.path.dirname(path), 'cannot be read: Is a directory'),
                ('\0', 'cannot be read: embedded null')):
            self.assertIn(expected, self._refused(bad))

    def test_too_large(self):
        path = self._file(b'#' * (source.MAX_BYTES + 1))
        self.assertIn('is larger than 8 MiB', self._refused(path))
        path = self._file(b'#' * source.MAX_BYTES)
        self.assertEqual(source.MAX_BYTES, len(source.read(path)))


class TestDocument(oslotest.BaseTestCase):

    def test_locate(self):
        document = source.parse('a:\n- b: 1\n  c: 2\n', 'f')
        for path, key, expected in (
                ((), False, 'f:1:1'),
                (('a',), True, 'f:1:1: a'),
                (('a',), False, 'f:2:1: a'),
                (('a', 0, 'c'), True, 'f:3:3: a[0].c'),
                (('a', 0, 'c'), False, 'f:3:6: a[0].c'),
                # What is missing is told where it is missing.
                (('a', 0, 'd', 'e'), False, 'f:2:3: a[0].d.e'),
                (('a', 7), True, 'f:2:1: a[7]')):
            self.assertEqual(expected, str(document.locate(path, key)))
