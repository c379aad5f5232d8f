# SPDX-License-Identifier: Apache-2.0

import dataclasses
import io
import json

import rich.console

from nova_pinning.checks import waiver
from nova_pinning import errors
from nova_pinning.presentation import findings_text
from nova_pinning.tests.unit.checks import samples
from nova_pinning.tests.unit import unit_base


class TestWaiver(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.odd = samples.finding('server a', kind='server', name='a')
        self.large = samples.finding('server b', code='X102', kind='server',
                                     name='b')

    def _report(self, findings, waived=()):
        return dataclasses.replace(
            samples.check_report(*findings), waived=tuple(waived))

    def test_codes(self):
        kept, waived = waiver.sort_out(
            (self.odd, self.large), {'X101': 'sold so'})
        self.assertEqual((self.large,), kept)
        self.assertEqual((waiver.WaivedFinding(self.odd, 'sold so'),), waived)

    def test_baseline(self):
        """What was found before, whatever its figures are now."""
        text = json.dumps(self._report((self.odd,)).as_dict())
        known = waiver.baseline(text, 'old.json')
        kept, waived = waiver.sort_out(
            (dataclasses.replace(self.odd, message='12 of 13'), self.large),
            {}, dict.fromkeys(known, 'before'))
        self.assertEqual((self.large,), kept)
        self.assertEqual(['before'], [one.reason for one in waived])

    def test_what_was_waived_stays_so(self):
        text = json.dumps(self._report((), (
            waiver.WaivedFinding(self.odd, 'before'),)).as_dict())
        self.assertEqual({waiver.mark(self.odd)},
                         waiver.baseline(text, 'old.json'))

    def test_not_a_baseline(self):
        for text in ('', '[]', '{}', '{"findings": [1]}',
                     '{"findings": [{"code": "X101"}]}', '[' * 100_000):
            error = self.assertRaises(errors.InputError, waiver.baseline,
                                      text, 'old.json')
            self.assertIn('old.json', str(error))

    def test_unknown_code(self):
        error = self.assertRaises(
            errors.InputError, waiver.check_codes, ['X103'],
            samples.check_report().rules, errors.Location('--ignore'))
        self.assertIn('X103', str(error))
        self.assertIn('did you mean', str(error))

    def test_shown(self):
        checked = self._report((self.large,), (
            waiver.WaivedFinding(self.odd, 'sold so'),))
        stream = io.StringIO()
        findings_text.show(
            checked, rich.console.Console(file=stream, width=80))
        self.assertIn('Left out:\n  - X101, server a: sold so\n',
                      stream.getvalue())
        self.assertIn('; 1 left out\n', stream.getvalue())
