# SPDX-License-Identifier: Apache-2.0

from unittest import mock

from lxml import etree
from matplotlib import figure
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.presentation import chart_svg


def _chart():
    with chart_svg.settings():
        made = figure.Figure()
        axes = made.subplots()
        axes.plot(range(50), [one * one for one in range(50)], label='$a$')
        axes.legend()
        return chart_svg.render(made)


class TestCharts(oslotest.BaseTestCase):

    def test_text_is_text(self):
        texts = etree.fromstring(_chart().encode()).itertext()
        self.assertIn('$a$', [text.strip() for text in texts])

    def test_figures_keep_their_digits(self):
        with chart_svg.settings():
            made = figure.Figure()
            made.text(0, 0, '0.4096')
            texts = etree.fromstring(
                chart_svg.render(made).encode()).itertext()
        self.assertIn('0.4096', [text.strip() for text in texts])

    def test_same_each_time(self):
        self.assertEqual(_chart(), _chart())

    def test_no_blanks_at_the_ends_of_lines(self):
        self.assertEqual(
            [], [line for line in _chart().splitlines()
                 if line != line.rstrip()])

    def test_without_matplotlib(self):
        with mock.patch('importlib.util.find_spec', return_value=None):
            error = self.assertRaises(errors.InputError, chart_svg.check)
        self.assertIn('nova-pinning[plots]', str(error))
