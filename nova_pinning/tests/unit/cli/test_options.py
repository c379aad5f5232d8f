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

"""Options that several commands have."""

import argparse

import ddt

from nova_pinning.cli import options
from nova_pinning.tests.unit import base


@ddt.ddt
class TestNumber(base.TestCase):

    @ddt.data('1', '7', '1000')
    def test_in_the_range(self, text):
        self.assertEqual(int(text), options.number(1, 1000)(text))

    @ddt.data('x', '', '0', '1001', '1.5', '-1')
    def test_not_in_the_range(self, text):
        error = self.assertRaises(
            argparse.ArgumentTypeError, options.number(1, 1000), text)
        self.assertEqual(f"'{text}' is not a number from 1 to 1,000",
                         str(error))
