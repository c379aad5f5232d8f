# SPDX-License-Identifier: Apache-2.0


import json
import math

import ddt
import hypothesis
from hypothesis import strategies
from oslotest import base

from nova_pinning.document import json_text
from nova_pinning import errors
from nova_pinning.tests.unit import unit_base

VALUES = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers()
    | strategies.floats(allow_nan=False, allow_infinity=False)
    | strategies.text(),
    lambda below: strategies.lists(below, max_size=4)
    | strategies.dictionaries(strategies.text(max_size=4), below,
                              max_size=4), max_leaves=20)


def paths(value, path=()):
    """The way to each value below a value."""
    yield path
    if isinstance(value, dict):
        for key, below in value.items():
            yield from paths(below, (*path, key))
    elif isinstance(value, list):
        for place, below in enumerate(value):
            yield from paths(below, (*path, place))


@ddt.ddt
class TestParse(base.BaseTestCase):

    def _error(self, text):
        return self.assertRaises(
            errors.InputError, json_text.parse, text, 'a.json')

    @unit_base.settings(200)
    @hypothesis.given(value=VALUES, indent=strategies.none()
                      | strategies.integers(0, 3), ascii=strategies.booleans())
    def test_as_json_has_it(self, value, indent, ascii):
        text = json.dumps(value, indent=indent, ensure_ascii=ascii)
        found = json_text.parse(text, 'a.json').value
        self.assertEqual(value, found)
        self.assertEqual(text, json.dumps(found, indent=indent,
                                          ensure_ascii=ascii))

    @unit_base.settings(200)
    @hypothesis.given(value=VALUES, indent=strategies.none()
                      | strategies.integers(0, 3))
    def test_place(self, value, indent):
        text = json.dumps(value, indent=indent)
        document = json_text.parse(text, 'a.json')
        lines = text.split('\n')
        for path in paths(value):
            where = document.locate(path)
            rest = '\n'.join([lines[where.line - 1][where.column - 1:],
                              *lines[where.line:]])
            found, _end = json.JSONDecoder().raw_decode(rest)
            wanted = value
            for part in path:
                wanted = wanted[part]
            self.assertEqual(wanted, found)
            if path and isinstance(path[-1], str):
                where = document.locate(path, key=True)
                rest = lines[where.line - 1][where.column - 1:]
                self.assertEqual(
                    path[-1], json.JSONDecoder().raw_decode(rest)[0])

    def test_place_of_nothing(self):
        document = json_text.parse('{\n "a": [1,\n {"b": 2}]}', 'a.json')
        for path, line in ((('a', 1, 'c'), 3), (('a', 5), 2), (('x',), 1),
                           (('a', 'b'), 2), (('a', 0, 0), 2)):
            self.assertEqual(line, document.locate(path).line, path)
        self.assertEqual('a.json:3:2: a[1].c: odd; fix it',
                         str(document.error('odd', ('a', 1, 'c'), 'fix it')))

    def test_place_behind_what_is_deep(self):
        # Some Pythons go ten times deeper than others.
        text = f'[{"[" * 100000}{"]" * 100000}, 1]'
        self.assertEqual((0, 0), json_text._find(text, (1,), False))

    @ddt.data(
        ('', 'a.json:1:1: is not JSON: it is empty'),
        (' \n', 'a.json:2:1: is not JSON: it is empty'),
        ('{"a": [1,', 'it ends in the middle; it may have been cut off'),
        ('{"a": "b', 'a.json:1:7: is not JSON: it ends in the middle'),
        ('{"a": 1', 'it ends in the middle'),
        ('{"a": 1\n x}', "a.json:2:2: is not JSON: expecting ',' delimiter"),
        ('{} {}', 'a.json:1:4: is not JSON: extra data'),
        ('[1,\n NaN]', 'a.json:2:2: is not JSON: NaN is not a number'),
        ('["NaN", -Infinity]',
         'a.json:1:9: is not JSON: -Infinity is not a number'),
        ('[' * 100000, 'a.json: is nested too deep'),
        ('["a\tb"]', 'a.json:1:4: is not JSON: invalid control character'),
        (f'[1, 1e{"9" * 5000},\n {"9" * 5000}]',
         'a.json:2:2: has a number that is too long'),
    )
    @ddt.unpack
    def test_errors(self, text, message):
        self.assertIn(message, str(self._error(text)))

    @ddt.data(
        ('{"a": 1, "a": 2}', 1, 10),
        ('{"a": {"b": 1},\n "a": 2}', 2, 2),
        ('[{"a": 1}, {"b": {"a": 1,\n\n"a" : {"a": 1}}}]', 3, 1),
        ('{"x": "{\\"a\\": 1", "a": 1,\n "\\u0061": 2}', 2, 2),
        ('{"b": 1, "c": {"a": 1, "a": 2}}', 1, 24),
        ('[{"a": 1, "a": 2}, {"b": 1, "b": NaN}]', 1, 11),
    )
    @ddt.unpack
    def test_key_twice(self, text, line, column):
        error = self._error(text)
        self.assertIn("the key 'a' stands twice", str(error))
        self.assertEqual((line, column),
                         (error.where.line, error.where.column))

    @unit_base.settings(100)
    @hypothesis.given(strategies.data())
    def test_cut_off(self, data):
        text = json.dumps(data.draw(
            strategies.dictionaries(strategies.text(), VALUES, min_size=1)))
        end = data.draw(strategies.integers(0, len(text) - 1))
        self.assertIn('is not JSON', str(self._error(text[:end])))

    def test_no_whole_number(self):
        value = json_text.parse('[2.0, 1e999]', '').value
        self.assertFalse(value[0].is_integer())
        self.assertEqual(2, value[0])
        self.assertTrue(math.isinf(value[1]))
