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


import pathlib

from oslotest import base

from nova_pinning.fleet import problems
from nova_pinning.fleet import reference

PART = (pathlib.Path(__file__).parents[4] / 'doc' / 'source' / 'reference'
        / 'fleet-checks.inc')


class TestReference(base.BaseTestCase):

    def test_up_to_date(self):
        if not PART.is_file():
            self.skipTest('not run from a checkout')
        self.assertEqual(
            reference.part(), PART.read_text(),
            'stale; write the output of python -m nova_pinning.fleet.reference'
            f' to {PART.name}')

    def test_has_all_codes(self):
        part = reference.part()
        for code in problems.RULES:
            self.assertIn(f'{code}: ', part)
            self.assertIn(code[:2], reference.GROUPS)
