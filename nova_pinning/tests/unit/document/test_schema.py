# SPDX-License-Identifier: Apache-2.0
from oslotest import base

from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning import errors

_SCHEMA = {
    'type': 'object',
    'properties': {
        'version': {'const': 1},
        'count': {'title': 'a number, 1 or more', 'type': 'integer',
                  'minimum': 1},
        'kind': {'enum': ['share', 'isolate']},
        'switch': {'type': 'boolean'},
        'plain': {'type': ['string', 'integer'], 'maxLength': 3},
        'limited': {'type': 'number', 'maximum': 5},
        'pair': {'type': 'object', 'dependentRequired': {'a': ['b']}},
        'names': {'type': 'object',
                  'propertyNames': {'pattern': '^[a-z]+$',
                                    'title': 'a small name'}},
        'either': {'anyOf': [
            {'type': 'string', 'enum': ['few', 'many']},
            {'type': 'object', 'properties': {'first': {'type': 'integer'}},
             'additionalProperties': False},
            {'type': 'array', 'items': {'type': 'integer'}}],
            'title': 'few, many, or {first: 1}'},
        'untitled': {'oneOf': [{'type': 'string'}, {'type': 'integer'}]},
        'list': {'type': 'array', 'minItems': 1, 'uniqueItems': True},
    },
    'required': ['version'],
    'additionalProperties': False,
}


class TestValidate(base.BaseTestCase):

    def _told(self, text):
        document = source.parse(text, 'f')
        error = self.assertRaises(
            errors.InputErrors, schema.validate, document, _SCHEMA)
        return [str(one) for one in error.errors]

    def test_good(self):
        schema.validate(source.parse(
            'version: 1\ncount: 3\nkind: share\neither: [1]', 'f'), _SCHEMA)

    def test_version(self):
        for text, expected in (
                ('count: x', 'f:1:1: has no version; write "version: 1" at '
                             'the top'),
                ('count: x\nversion: 2',
                 'f:2:10: version: 2 is not a version that is understood; '
                 'this release reads version 1'),
                ('version: true', 'f:1:10: version: true is not a version'),
                ('- 1', 'f:1:1: is a list where a mapping')):
            told = self._told(text)
            self.assertEqual(1, len(told))
            self.assertIn(expected, told[0])

    def test_document_of_another_kind(self):
        """It is said what it is, not which of its keys are not known."""
        self.assertEqual(
            ['f:1:1: is a fleet snapshot where another kind of document '
             'belongs'],
            self._told('version: 2\nlayouts: []\nhosts: []'))
        schema.validate(
            source.parse('version: 1\nnodes: []\ngroups: 1', 'f'),
            {'properties': {'nodes': {'type': 'array'}}})

    def test_mismatches(self):
        for text, expected in (
                ('count: 0', '2:8: count: 0 is not a number, 1 or more'),
                ('count: 2.0', '2:8: count: 2.0 is not a number, 1 or more'),
                ('count:', '2:7: count: has no value, where a number, 1 or '
                           'more belongs'),
                ('conut: 1', '2:1: conut: conut is not known here; did you '
                             'mean count?'),
                ('zzz: 1', 'zzz is not known here; choose from version, '
                           'count'),
                ('kind: isolated', '2:7: kind: isolated is not one of share, '
                                   'isolate; did you mean isolate?'),
                ('switch: yes', '2:9: switch: yes is not true or false; '
                                'write true'),
                ('switch: 1', 'switch: 1 is not true or false'),
                ('plain: [1]', 'plain: a list is not text or a whole number'),
                ('plain: abcd', 'abcd is not text of at most 3 characters'),
                ('plain: ' + 'x' * 99, '...'),
                ('limited: 6', 'limited: 6 is not 5 or less'),
                ('pair: {a: 1}', '2:8: pair.a: a goes only together with b'),
                ('names: {a: 1, B2: 2}',
                 '2:15: names.B2: B2 is not a small name'),
                ('list: []', '2:7: list: is empty'),
                ('list: [1, 1]', 'in which nothing stands twice'),
                ('either: mny', 'either: mny is not few, many, or {first: 1}; '
                                'did you mean many?'),
                ('either: {frst: 1}', 'either.frst: frst is not known here; '
                                      'did you mean first?'),
                ('either: {first: x}', '2:17: either.first: x is not a whole '
                                       'number'),
                ('either: [1, x]', '2:13: either[1]: x is not a whole number'),
                ('either: 5', '2:9: either: 5 is not few, many, or'),
                ('either:', 'has no value, where few, many, or'),
                ('untitled: []', 'a list is not text or a whole number')):
            told = self._told(f'version: 1\n{text}')
            self.assertEqual(1, len(told), told)
            self.assertIn(expected, told[0])

    def test_all_at_once_in_order(self):
        told = self._told('zz: 1\nversion: 1\nkind: x\ncount: x\nyy: 2')
        self.assertEqual(['f:1', 'f:3', 'f:4', 'f:5'],
                         [one[:3] for one in told])

    def test_not_too_many(self):
        told = self._told('version: 1\n' + ''.join(
            f'x{number}: 1\n' for number in range(500)))
        self.assertEqual(schema.MAX_ERRORS, len(told))
        self.assertTrue(told[0].startswith('f:2:1: x0:'), told[0])
