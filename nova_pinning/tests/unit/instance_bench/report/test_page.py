# SPDX-License-Identifier: Apache-2.0
"""The page, its charts, and the document for programs."""

import dataclasses
import importlib.util
import json
import math
import re
from unittest import mock

import ddt
from lxml import html

from nova_pinning import errors
from nova_pinning.instance_bench import published
from nova_pinning.instance_bench.report import document
from nova_pinning.instance_bench.report import page
from nova_pinning.instance_bench.report import report_part
from nova_pinning.instance_bench.report import strips
from nova_pinning.instance_bench import run_comparison
from nova_pinning.instance_bench import self_test
from nova_pinning.tests.unit.instance_bench.report import report_scenes
from nova_pinning.tests.unit import unit_base


def _part(run, old=None, **conditions):
    summary = run.summary(**conditions)
    comparison = old and run_comparison.compare(
        summary, [old.summary()])
    return report_part.Part('results.jsonl', summary, comparison)


def _root(*parts):
    return html.document_fromstring(page.render(parts, '1.0'))


def _page(*runs):
    return _root(*map(_part, runs))


@ddt.ddt
class PageTest(unit_base.TestCase):

    @ddt.data(*report_scenes.ALL)
    def test_kind(self, kind):
        """The page of each is whole, and loads nothing."""
        self.useFixture(report_scenes.SelfTest())
        part = _part(report_scenes.ALL[kind](rounds=3))
        # Names are to be unique, however often something is shown.
        text = page.render([part, part], '1.0')
        self.assertTrue(text.startswith('<!DOCTYPE html>'))
        self.assertNotRegex(text, r'@import|src=|url\((?!#)|<\?xml')
        root = html.document_fromstring(text)
        self.assertEqual([], root.xpath(
            '//script | //link | //img | //iframe | //object'))
        self.assertEqual(2, len(root.xpath('//section')))
        self.assertEqual(['#part-0', '#part-1'],
                         root.xpath('//nav//a/@href'))
        ids = root.xpath('//@id')
        self.assertEqual(len(set(ids)), len(ids))
        for reference in re.findall(r'(?:href="|url\()#([^")]+)', text):
            self.assertIn(reference, ids)
        # Links to sources are there to be followed, if wanted.
        for link in root.xpath('//a/@href'):
            self.assertRegex(link, '^(#|https?://)')
        # A drawing in each row of figures.
        for table in root.xpath('//table[descendant::svg]'):
            self.assertEqual(len(table.xpath('tbody/tr')),
                             len(table.xpath('tbody/tr/td[@class]/svg')))
        self.assertIn('runs', root.xpath('//td[svg]/@data-name'))

    def test_text_is_escaped(self):
        run = report_scenes.Run(rounds=2, name='<script>alert(1)</script>')
        run.alone(factors={'scenario': '<b>&"\''})
        run.alone(factors={'scenario': '$\\frac{1}{2}$'}, flags=('<i>',))
        root = _page(run)
        self.assertEqual([], root.xpath('//script | //i | //td//b'))
        self.assertIn('<b>&"\'', root.xpath('//td/span/text()'))

    def test_answer_comes_first(self):
        root = _page(report_scenes.levels(rounds=3))
        text = root.text_content()
        places = [text.index(one) for one in (
            'What density costs is apart', '⚠',
            'Floating by pinned, many by few',
            'no self-test of this machine was given',
            'Measured', 'Published elsewhere',
            'What the run can be held to', 'Before you rely on this',
            'what was skipped', 'Conditions')]
        self.assertEqual(sorted(places), places)
        self.assertIn('? inconclusive', text)

    @ddt.data('priority', 'mutex')
    def test_published_figures_are_apart(self, table):
        root = _page(getattr(report_scenes, table)(rounds=3))
        aside, = root.xpath('//aside')
        inside = ' '.join(aside.text_content().split())
        found = [*published.tables(table, ['handover']),
                 *published.figures(table)]
        self.assertTrue(found)
        for one in found:
            self.assertIn(published.sources()[one.source].url, inside)
        aside.drop_tree()
        for words in ('85.9227', 'up to 36', 'Egorov'):
            self.assertNotIn(words, root.text_content())

    def test_names(self):
        def part(run, source):
            return report_part.Part(source, run.summary())

        run = report_scenes.Run().alone()
        name = 'an-experiment-of-network'
        for sources, names in (
                (['x'], [name]), (['x', 'y'], [f'{name}, x', f'{name}, y'])):
            self.assertEqual(names, report_part.names([
                part(run, source) for source in sources]))

    def test_size_that_comes_out_otherwise(self):
        run = report_scenes.Run(rounds=2).alone(factors={'size': 'up to 4'})
        self.assertIn('Size "up to 4" is 2 vCPUs here.', _part(run).extent)
        self.assertNotIn('here.', _part(report_scenes.overhead()).extent)

    def test_comparison(self):
        part = _part(report_scenes.levels(0.4),
                     report_scenes.levels(0.8, rounds=3))
        text = _root(part).text_content()
        self.assertIn('28 figures compared', text)
        self.assertIn('✗ regression', text)
        # Doubts of the earlier run that the later one has not.
        doubt = 'Each case was measured in 3 rounds'
        self.assertIn(doubt, text.partition('Of the earlier run')[2])
        found = document.report_document([part])['results'][0]['comparison']
        self.assertIn(doubt, ' '.join(found['warnings']))

    def test_conditions(self):
        root = _root(_part(report_scenes.mutex(rounds=2), smt='notsupported'))
        found = dict(zip(root.xpath('//dl[1]/dt/text()'),
                         root.xpath('//dl[1]/dd/text()')))
        self.assertEqual('A CPU <of> "ours"', found['cpu model'])
        self.assertEqual('dedicated: 4-11; shared: 12-15; host: 0-3',
                         found['layout'])
        self.assertEqual('no', found['emulated'])
        # What the host itself runs on, where that is not bare metal.
        self.assertNotIn('virtualised', found)

    def test_conditions_that_are_not_known(self):
        part = _part(report_scenes.mutex(rounds=2))
        part = dataclasses.replace(part, summary=dataclasses.replace(
            part.summary, results=dataclasses.replace(
                part.summary.results, conditions=())))
        self.assertIn('an-experiment-of-mutex', _root(part).text_content())

    def test_most_telling_run_is_the_headline(self):
        root = _page(report_scenes.mutex(rounds=3),
                     report_scenes.levels(rounds=3))
        self.assertIn('Beside neighbours', root.xpath(
            '//header/p[@class="answer"]/text()')[0])
        self.assertIn('on two CPUs by on one',
                      root.xpath('//nav//li')[0].text_content())

    def test_self_test(self):
        part = dataclasses.replace(
            _part(report_scenes.mutex(rounds=3)),
            calibration=report_scenes.calibration(stretch=1.3))
        self.assertIn(
            '96 of 100 identical comparisons on this machine include 1.0, the '
            'largest ratio being 1.40; intervals stretched by 1.30. An effect '
            'of less than 59.0% need not show.',
            _root(part).text_content())
        self.assertEqual(96, document.report_document([part])['results'][0][
            'self_test']['including_one'])

    def test_self_test_that_was_cut_off(self):
        run = report_scenes.copies(rounds=1)
        part = dataclasses.replace(_part(run), source='cut-off.jsonl')
        self.assertIn('In cut-off.jsonl no two copies', part.caveats[0])
        self.assertIn('inconclusive', _root(part).text_content())
        found = self_test.calibrate(run.results(), 'cut-off.jsonl')
        other = dataclasses.replace(_part(report_scenes.mutex(rounds=3)),
                                    calibration=found)
        self.assertIn('In cut-off.jsonl no two copies', other.caveats[0])
        self.assertIn('none is widened', other.widening)

    def test_self_test_of_another_machine(self):
        part = dataclasses.replace(
            _part(report_scenes.mutex(rounds=3)),
            calibration=dataclasses.replace(
                report_scenes.calibration(), source='other.jsonl',
                conditions=dataclasses.replace(report_scenes.CONDITIONS,
                                               kernel='6.1')))
        text = ('The self-test in other.jsonl is of another machine (kernel: '
                '6.1 there, 6.12.1 here)')
        self.assertIn(text, part.caveats[0])
        self.assertIn(text, _root(part).text_content())
        self.assertIn(text, document.report_document([part])['results'][0][
            'warnings'][0])

    def test_no_stretch_will_do(self):
        """Infinity is no JSON."""
        part = dataclasses.replace(
            _part(report_scenes.mutex(rounds=3)),
            calibration=report_scenes.calibration(stretch=math.inf))
        json.dumps(document.report_document([part]), allow_nan=False)
        self.assertIn('no stretch will do', part.widening)

    def test_method(self):
        run = report_scenes.Run(rounds=2).alone()
        found = _part(run).method
        self.assertIn('by Student’s t', found)
        self.assertIn('whole rounds', found)

    def test_nothing_measured(self):
        run = report_scenes.overhead(rounds=1)
        run.measurements.clear()
        self.assertIn('Nothing has been measured', _page(run).text_content())

    def test_same_each_time(self):
        part = _part(report_scenes.priority(rounds=3))
        self.assertEqual(page.render([part], '1'), page.render([part], '1'))

    def test_not_installed(self):
        with mock.patch.object(importlib.util, 'find_spec',
                               lambda wanted: wanted != 'jinja2' or None):
            error = self.assertRaises(errors.InputError, page.check)
        self.assertIn('jinja2', error.message)
        self.assertIn('nova-pinning[bench]', error.advice)


class StripsTest(unit_base.TestCase):

    def lines(self, *drawn):
        """Class and both ends of each line, of each strip."""
        return [[(line.get('class'), line.get('x1'), line.get('x2'))
                 for line in html.fromstring(svg)]
                for svg in strips.draw(drawn)]

    def test_values(self):
        first, second = self.lines(
            strips.Strip(report_scenes.interval(2.0, 1.0, 3.0),
                         (0.0, 4.0), (4.0,)),
            strips.Strip(report_scenes.interval(8.0, math.nan, math.nan),
                         (8.0,)))
        self.assertEqual([
            ('ends', '12.5%', '37.5%'), ('run', '0.0%', '0.0%'),
            ('outlier', '50.0%', '50.0%'), ('mean', '25.0%', '25.0%')], first)
        self.assertEqual([('run', '100.0%', '100.0%'),
                          ('mean', '100.0%', '100.0%')], second)

    def test_ratios_are_about_one(self):
        first, second = self.lines(
            strips.Strip(report_scenes.interval(4.0, 2.0, 16.0)),
            strips.Strip(report_scenes.interval(0.0, 0.001, 1e9)))
        self.assertEqual([
            ('one', '0.0%', '0.0%'), ('ends', '25.0%', '100.0%'),
            ('mean', '50.0%', '50.0%')], first)
        # What says next to nothing, or has no logarithm, is not drawn.
        self.assertEqual([('one', '0.0%', '0.0%')], second)

    def test_nothing_to_choose_a_scale_by(self):
        self.assertEqual([], strips.draw([]))
        self.assertEqual([[('run', '0.0%', '0.0%'), ('mean', '0.0%', '0.0%')]],
                         self.lines(strips.Strip(report_scenes.interval(
                             5.0, math.nan, math.nan), (5.0,))))


@ddt.ddt
class DocumentTest(unit_base.TestCase):

    @ddt.data(*report_scenes.ALL)
    def test_json(self, kind):
        # Single values have no intervals, and JSON has no nan.
        self.useFixture(report_scenes.SelfTest())
        for rounds in (1, 3):
            found = document.report_document([
                _part(report_scenes.ALL[kind](rounds=rounds))])
            text = json.dumps(found, allow_nan=False)
            self.assertEqual(found, json.loads(text))
            self.assertEqual(2, found['version'])

    def test_what_is_in_it(self):
        found = document.report_document(
            [_part(report_scenes.levels(0.4),
                   report_scenes.levels(0.6))])['results'][0]
        self.assertEqual('results.jsonl', found['source'])
        self.assertEqual({'holds'},
                         {one['verdict'] for one in found['claims']})
        row = found['figures'][0]
        self.assertEqual(12, len(row['values']))
        self.assertLess(row['low'], row['mean'])
        self.assertIn('regression', {
            one['verdict'] for one in found['comparison']['changes']})
        self.assertEqual(1, len(found['skipped']))
