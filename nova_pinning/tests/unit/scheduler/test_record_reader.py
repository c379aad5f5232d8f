# SPDX-License-Identifier: Apache-2.0


import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

import json
import os

import ddt
import fixtures
import hypothesis
from hypothesis import strategies

from nova_pinning import errors
from nova_pinning import model
from nova_pinning.scheduler import record
from nova_pinning.scheduler import record_reader
from nova_pinning.tests.unit.scheduler import test_record
from nova_pinning.tests.unit import unit_base

_TEXT = strategies.text(max_size=20)
_REFUSALS = strategies.builds(
    record.NoHost, instance=_TEXT, request_id=strategies.none() | _TEXT,
    time=strategies.datetimes().map(
        lambda time: time.isoformat(timespec='milliseconds') + 'Z'),
    flavor=_TEXT, host=_TEXT, refused=strategies.dictionaries(
        _TEXT, strategies.lists(strategies.builds(
            record.RecordedCause, _TEXT, strategies.integers(0, 10 ** 6),
            _TEXT,
            _TEXT), max_size=3).map(tuple), max_size=3))


@ddt.ddt
class TestDocument(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        ring = record.RefusalRing(2)
        ring.add(test_record.no_host(request_id='req-1'))
        self.value = json.loads(ring.text())

    @unit_base.settings(200)
    @hypothesis.given(refusals=strategies.lists(_REFUSALS, max_size=4))
    def test_round_trip(self, refusals):
        ring = record.RefusalRing(4)
        for refusal in refusals:
            ring.add(refusal)
        text = ring.text()
        self.assertEqual(tuple(refusals), record_reader.loads(text).refusals)
        self.assertEqual(len(refusals) + 2, text.count('\n'))

    def test_what_callers_may_give(self):
        """Reasons as such, and plain tuples in lists."""
        ring = record.RefusalRing(1)
        ring.add(test_record.no_host(refused={
            'HostClassFilter': [(model.Reason.HOST_CLASS, 3, 'a', '')]}))
        [found] = record_reader.loads(ring.text()).refusals
        self.assertEqual({'HostClassFilter': (
            record.RecordedCause('host-class', 3, 'a', ''),)}, found.refused)

    @ddt.data(
        ('', 'is not JSON: it is empty'),
        ('{"version": 1', 'cut off'),
        ('[]', 'is a list where a mapping'),
        ('{}', 'has no version'))
    @ddt.unpack
    def test_no_document(self, text, said):
        error = self.assertRaises(
            errors.InputError, record_reader.loads, text, 'file')
        self.assertIn(said, str(error))
        self.assertIn('file', str(error))

    @ddt.data(
        (('version',), 2, 'this release reads version 1'),
        (('version',), True, 'this release reads version 1'),
        (('more',), 1, 'more is not known here'),
        (('process',), 0, '0 is not a whole number, 1 or'),
        (('since',), '2026-01-31T12:00:00Z', 'is not a time in UTC'),
        (('refusals', 0, 'time'), 'x\n', 'is not a time in UTC'),
        (('refusals', 0, 'request_id'), 1, 'is not text or nothing'),
        (('refusals', 0, 'refused'), [], 'a list is not a mapping'),
        (('refusals', 0, 'refused', 'PinnedTopologyFilter', 0, 'hosts'), 1.5,
         'is not a whole number, 0 or more'))
    @ddt.unpack
    def test_wrong(self, path, value, said):
        *above, key = path
        place = self.value
        for part in above:
            place = place[part]
        place[key] = value
        error = self.assertRaises(
            errors.InputError, record_reader.loads, json.dumps(self.value),
            'file')
        self.assertIn(said, str(error))


class TestRead(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path

    def _write(self, name, text):
        with open(os.path.join(self.directory, name), 'w') as file:
            file.write(text)

    def test_all_that_is_there(self):
        self._write('nova-pinning-1.json', record.RefusalRing(3).text())
        self._write('nova-pinning-2.json', 'x')
        self._write('nova-pinning-2.prom', 'x')
        self._write('.nova-pinning-3.json.abcdefgh', 'x')
        self._write('other.json', 'x')
        os.mkfifo(os.path.join(self.directory, 'nova-pinning-4.json'))
        os.symlink('gone', os.path.join(self.directory, 'nova-pinning-5.json'))
        found = {os.path.basename(path): what
                 for path, what in record_reader.read(self.directory)}
        self.assertEqual(
            ['nova-pinning-1.json', 'nova-pinning-2.json',
             'nova-pinning-4.json'], list(found))
        self.assertEqual(3, found['nova-pinning-1.json'].limit)
        self.assertIn('is not JSON', str(found['nova-pinning-2.json']))
        self.assertIn('not a regular file', str(found['nova-pinning-4.json']))

    def test_no_directory(self):
        for name in ('gone', '\0'):
            error = self.assertRaises(
                errors.InputError, list,
                record_reader.read(os.path.join(self.directory, name)))
            self.assertIn('cannot be read', str(error))
