# SPDX-License-Identifier: Apache-2.0
import fractions
import re

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning.flavors import formula
from nova_pinning.tests.unit import unit_base

_NAMES = {'vcpus': fractions.Fraction(8), 'memory_gib': fractions.Fraction(
    33, 2)}


def _lookup(name):
    if name not in _NAMES:
        raise formula.FormulaError(f'{name} is not known')
    return formula.FormulaValue(_NAMES[name])


def _result(text):
    return formula.parse(text).evaluate(_lookup)


_LEAVES = (
    strategies.integers(0, 999).map(str)
    | strategies.tuples(strategies.integers(0, 99), strategies.integers(0, 99))
    .map(lambda pair: f'{pair[0]}.{pair[1]:02}')
    | strategies.sampled_from(sorted(_NAMES)))
_SUMS = strategies.recursive(
    _LEAVES,
    lambda inner: strategies.tuples(
        inner, strategies.sampled_from('+-*/'), inner).map(' '.join)
    | inner.map('({})'.format) | inner.map('-{}'.format), max_leaves=12)


def _expected(text):
    """What Python makes of the same text, every number exact."""
    exact = ''.join(
        f'Fraction("{token}")' if token[0].isdigit() else token
        for token in re.findall(r'\d+(?:\.\d+)?|\w+|\W', text))
    return eval(exact, {'Fraction': fractions.Fraction, **_NAMES})


class TestFormula(oslotest.BaseTestCase):

    def test_long_chains_that_name_each_other(self):
        chain = formula.parse('x' + '+1' * 240)
        depth = 12

        def lookup(_name):
            nonlocal depth
            depth -= 1
            return chain.evaluate(lookup) if depth else formula.FormulaValue(
                fractions.Fraction(1))

        self.assertEqual(12 * 240 + 1, chain.evaluate(lookup).number)

    @unit_base.settings(500)
    @hypothesis.given(_SUMS)
    def test_against_python(self, text):
        hypothesis.assume(len(text) <= formula.MAX_LENGTH)
        try:
            expected = _expected(text)
        except ZeroDivisionError:
            self.assertIn('division by zero', str(self.assertRaises(
                formula.FormulaError, _result, text)))
        else:
            self.assertEqual(formula.FormulaValue(expected), _result(text))

    def test_bounds(self):
        for text, number in (
                ('500*vcpus, max 20000', 4000), ('500*vcpus, max 1000', 1000),
                ('vcpus, min 10', 10), ('vcpus, min 3', 8),
                ('vcpus, max 2*3, min 7', 7), ('vcpus,min 9,max 10', 9),
                (500, 500), (2.5, fractions.Fraction(5, 2))):
            self.assertEqual(formula.FormulaValue(fractions.Fraction(number)),
                             _result(text), text)

    def test_units(self):
        for text, number in (
                ('50MiB', 50 << 20), ('50 MB/s * vcpus', 400 << 20),
                ('200Mbit', 25_000_000), ('1Gbit/s, max 1MiB', 1 << 20),
                ('vcpus * 1k + 1 byte', 8193), ('-1B + 2B', 1)):
            self.assertEqual(
                formula.FormulaValue(fractions.Fraction(number), 1),
                _result(text), text)
        self.assertEqual(formula.FormulaValue(fractions.Fraction(4)),
                         _result('4MiB/1MiB'))

    def test_refusals(self):
        for text, expected in (
                ('', 'the end at character 1, where a number or a name'),
                ('1 +', 'the end at character 4, where a number or a name'),
                ('(1', 'the end at character 3, where ")"'),
                ('1)', "')' at character 2, where an operator"),
                ('2 3', "'3' at character 3, where an operator"),
                ('1, 2', "'2' at character 4, where \"max\" or \"min\""),
                ('max 3', "'max' at character 1, where a number"),
                ('vcpus ** 2', "'*' at character 8, where a number"),
                ('__import__("os")', "'(' at character 11"),
                ('vcpus.real', "'.' at character 6 has no place"),
                ('vcpus; 1', "';' at character 6 has no place"),
                ('lambda: 1', "':' at character 7 has no place"),
                ('\u0661', 'has no place'),
                ('16 apples', "'apples' after the number at character 1"),
                ('vcpu', 'vcpu is not known'),
                ('1/(vcpus-8)', 'a division by zero at character 2'),
                ('1 + 1MiB', "'+' at character 3 has a number on one side"),
                ('1MiB, max 5', "'max' at character 7 has a number"),
                ('(' * 33 + '1' + ')' * 33, 'nested more than 32 deep'),
                ('-' * 33 + '1', 'nested more than 32 deep'),
                ('9' * 21, 'the number at character 1 is too long'),
                ('1' + '+1' * 250, 'at most 500 characters')):
            error = self.assertRaises(formula.FormulaError, _result, text)
            self.assertIn(expected, str(error))

    def test_longest(self):
        self.assertEqual(250, _result('1' + '+1' * 249).number)

    @unit_base.settings(500)
    @hypothesis.given(
        strategies.text('0123.vMiBb()+-*/, maxin_"[]e', max_size=30))
    def test_anything(self, text):
        try:
            formula.parse(text).evaluate(_lookup)
        except formula.FormulaError:
            pass
