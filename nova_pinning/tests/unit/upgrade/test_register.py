# SPDX-License-Identifier: Apache-2.0
"""Registers that are wrong, told with the place."""

import ddt

from nova_pinning import errors
from nova_pinning.tests.unit import unit_base
from nova_pinning.upgrade import register

GOOD = '''\
version: 1
newest: {"2024.1": 29.4.0, "2024.2": 30.3.0, "2025.1": 31.3.1,
         "2025.2": 32.2.1, "2026.1": 33.0.2, "2026.2": 34.0.0}
groups: {U1: Moves}
defects:
- code: U101
  bug: 1234567
  title: it breaks
  why: nobody knows
  severity: error
  operations: [boot]
  service: nova-compute
  hits: pinned
  fixed: {"2026.1": 33.0.1}
  before: wait
  shown_by: {commit: abcdef0123}
'''
ENTRY = GOOD[GOOD.index('- code'):]


@ddt.ddt
class TestRegister(unit_base.TestCase):

    def test_good(self):
        found = register.parse(GOOD, 'r.yaml')
        defect, = found.defects
        self.assertEqual(
            ('U101', '1234567', ((33, 0, 1),)),
            (defect.code, defect.bug, tuple(
                first for _release, first in defect.fixed)))
        self.assertEqual('nova from 33.0.1 on', defect.fixed_text)
        self.assertEqual(6, defect.where.line)

    @ddt.data(
        ('hits: pinned', 'hits: pinnd', 'there is no function pinnd',
         'pinned'),
        ('code: U101', 'code: U201', 'belongs to no group', 'code'),
        ('code: U101', 'code: X1', 'is not a code such as U101', 'code'),
        ('33.0.1}', '32.0.1}', '32.0.1 is not a version of 2026.1',
         'fixed.2026.1'),
        ('"2026.1": 33.0.1', '"2031.1": 40.0.0', "'2031.1' is not a release",
         'fixed.2031.1'),
        ('  before:', '  since: {"2026.1": 32.0.1}\n  before:',
         '32.0.1 is not a version of 2026.1', 'since.2026.1'),
        ('  before:', '  since: {}\n  before:', 'since'),
        ('"2024.1": 29.4.0, ', '', 'the newest version of 2024.1 is missing',
         'newest'),
        ('severity: error', 'severity: bad', 'severity', 'r.yaml:10'),
        ('why: nobody knows', 'why: nobody knows.', 'full stop', 'why'),
        ('{commit: abcdef0123}', '{commit: abc}', 'id of a commit',
         'shown_by'),
        ('{commit: abcdef0123}', '{commit: abcdef0, test: a}',
         'either a test or a commit', 'shown_by'),
        ('{commit: abcdef0123}', '{}', 'either a test', 'shown_by'),
        ('[boot]', '[boot, boot]', 'twice', 'operations'),
        ('[boot]', '[]', 'operations'), ('[boot]', '[bot]', 'operations'),
        ('{U1: Moves}', '{U1: Moves, V1: Others}', 'not a group', 'V1'),
        ('newest: {', 'newest: {"2031.1": 40.0.0, ',
         'is not a release', 'newest.2031.1'),
        ('bug: 1234567', 'bug: 12', 'bug on Launchpad', 'bug'),
        (ENTRY, ENTRY * 2, 'a second defect has the code U101', 'r.yaml:17'))
    @ddt.unpack
    def test_bad(self, old, new, *told):
        self.assertIn(old, GOOD)
        error = self.assertRaises(errors.InputError, register.parse,
                                  GOOD.replace(old, new), 'r.yaml')
        for words in told:
            self.assertIn(words, str(error))
