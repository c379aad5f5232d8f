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

from unittest import mock

from lxml import etree
from matplotlib import figure
from oslotest import base as oslotest

from nova_pinning.drawing import charts
from nova_pinning import errors


def _chart():
    with charts.settings():
        made = figure.Figure()
        axes = made.subplots()
        axes.plot(range(50), [one * one for one in range(50)], label='$a$')
        axes.legend()
        return charts.render(made)


class TestCharts(oslotest.BaseTestCase):

    def test_text_is_text(self):
        texts = etree.fromstring(_chart().encode()).itertext()
        self.assertIn('$a$', [text.strip() for text in texts])

    def test_figures_keep_their_digits(self):
        with charts.settings():
            made = figure.Figure()
            made.text(0, 0, '0.4096')
            texts = etree.fromstring(charts.render(made).encode()).itertext()
        self.assertIn('0.4096', [text.strip() for text in texts])

    def test_same_each_time(self):
        self.assertEqual(_chart(), _chart())

    def test_no_blanks_at_the_ends_of_lines(self):
        self.assertEqual(
            [], [line for line in _chart().splitlines()
                 if line != line.rstrip()])

    def test_without_matplotlib(self):
        with mock.patch('importlib.util.find_spec', return_value=None):
            error = self.assertRaises(errors.InputError, charts.check)
        self.assertIn('nova-pinning[plots]', str(error))
