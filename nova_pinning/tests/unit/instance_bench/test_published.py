# SPDX-License-Identifier: Apache-2.0

import textwrap

import ddt

from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.instance_bench import published
from nova_pinning.tests.unit import unit_base

TABLES = ('levels', 'mutex', 'priority', 'ladder', 'overhead', 'multitask',
          'network')
GOOD = textwrap.dedent('''\
    version: 1
    sources:
      someone: {authors: Someone, title: Something, url: 'http://a.example'}
    figures:
      - table: levels
        what: a level
        low: 1.5
        high: 2
        unit: ratio
        basis: measured
        conditions: always
        source: someone
        is_checked: true
    ''')


def read(text):
    return published.read(source.parse(text, 'figures.yaml'))


class ShippedTest(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.figures = [figure for table in TABLES
                        for figure in published.figures(table)]

    def test_tables(self):
        for table in TABLES:
            for figure in published.figures(table):
                self.assertEqual(table, figure.table)

    def test_unknown_table(self):
        self.assertEqual([], list(published.figures('other')))

    def test_nothing_published(self):
        # No source was found for it, and nothing is made up.
        self.assertEqual([], list(published.figures('multitask')))

    def test_chr_goes_on_where_it_ends(self):
        ranges = [(figure.low, figure.high) for figure in self.figures
                  if figure.unit == 'CHR']
        self.assertEqual(3, len(ranges))
        for before, after in zip(ranges, ranges[1:]):
            self.assertEqual(before[1], after[0])

    def test_finish_ratio_follows_from_weights(self):
        # Of equal work done by weights 2 and 1 the heavier has 2/3 of the
        # time until it has finished, the lighter all of it from then on.
        heavy = 1 / (2 / 3)
        light = heavy + (1 - heavy / 3)
        self.assertIn(heavy / light, [
            figure.low for figure in published.figures('priority')])

    def test_figures_that_were_not_read_in_their_source(self):
        unchecked = {(figure.source.key, figure.unit)
                     for figure in self.figures
                     if not figure.is_checked}
        self.assertEqual({('ghatrehsamani-2020', 'CHR')}, unchecked)

    def test_sources_are_told_apart(self):
        sources = published.sources().values()
        self.assertEqual(len(sources), len({one.url for one in sources}))
        self.assertEqual(len(sources), len({str(one) for one in sources}))

    def test_source_in_words(self):
        self.assertEqual(
            'Sukwong, O.; Kim, H. S., Is co-scheduling too expensive for SMP '
            'VMs?, EuroSys, 2011', str(published.sources()['sukwong-2011']))
        self.assertEqual(
            'Southern, G.; Hwang, D.; Barnes, R. D., SMP Virtualization '
            'Performance Evaluation',
            str(published.sources()['southern-smp']))


@ddt.ddt
class ReadTest(unit_base.TestCase):

    def test_good(self):
        sources, figures = read(GOOD)
        self.assertEqual('Someone, Something', str(sources['someone']))
        self.assertEqual(sources['someone'], figures[0].source)
        self.assertIs(published.Basis.MEASURED, figures[0].basis)

    @ddt.data(
        ('low: 1.5', 'low: 2', '2'),
        ('low: 1.5', 'low: 1.5', '1.5 to 2'),
        ('ratio', "'%'", '1.5 to 2%'),
        ('ratio', 'CHR', '1.5 to 2 CHR'),
        ('high: 2', 'high: 10276.83', '1.5 to 10,277'),
        ('high: 2', 'high: 999.5', '1.5 to 999.5'))
    @ddt.unpack
    def test_amount(self, old, new, expected):
        self.assertEqual(expected, read(GOOD.replace(old, new))[1][0].amount)

    def test_no_amount(self):
        text = GOOD
        for line in ('low: 1.5', 'high: 2', 'unit: ratio'):
            text = text.replace(f'    {line}\n', '')
        self.assertEqual('', read(text)[1][0].amount)

    @ddt.data(
        ('low: 1.5', 'low: 3', 'figures[0].low: 3 is more than 2'),
        ('source: someone', 'source: someones',
         'there is no source called someones; did you mean someone?'),
        ('table: levels', 'table: level', 'did you mean levels?'),
        ('unit: ratio', 'units: ratio', "units is not known here"),
        ("'http://a.example'", 'a.example',
         'is not an address that begins with http'),
        ('    low: 1.5\n', '', 'high goes only together with low'),
        ('version: 1', 'version: 2', 'this release reads version 1'))
    @ddt.unpack
    def test_bad(self, old, new, expected):
        error = self.assertRaises(
            errors.InputError, read, GOOD.replace(old, new))
        self.assertIn(expected, str(error))
