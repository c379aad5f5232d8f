# SPDX-License-Identifier: Apache-2.0
"""Tables of typed columns."""

import re
import types
from typing import NamedTuple

import hypothesis
from hypothesis import strategies

from nova_pinning.presentation import typed_table
from nova_pinning.tests.unit.presentation import test_printing
from nova_pinning.tests.unit import unit_base

_Column, _Kind = typed_table.Column, typed_table.ColumnKind
_WORDS, _WIDTHS = test_printing.WORDS, test_printing.WIDTHS


class _Row(NamedTuple):
    name: str
    size: int | None


class TestTypedTable(unit_base.TestCase):

    def shown(self, table, width=80, **options):
        return test_printing.printed(table.show, width=width, **options)

    def test_widths(self):
        table = typed_table.Table(
            ('', typed_table.count('number'), 'CPUs'),
            [('host', 4, '0-1,40-41'), ('dedicated', 76, '2-39,42-79')])
        self.assertEqual(['           number  CPUs',
                          'host            4  0-1,40-41',
                          'dedicated      76  2-39,42-79'],
                         self.shown(table))
        self.assertEqual(['           number  CPUs',
                          'host            4  0-1,',
                          '                   40-41',
                          'dedicated      76  2-39,',
                          '                   42-79'],
                         self.shown(table, 25))
        # No room for the columns side by side.
        self.assertEqual(['  host: number: 4;',
                          '    CPUs: 0-1,40-41',
                          '  dedicated: number:',
                          '    76; CPUs:',
                          '    2-39,42-79'], self.shown(table, 20))

    def test_kinds(self):
        table = typed_table.Table([
            _Column('', kind.name, kind) for kind in _Kind],
            [('a', 12345, 2048, 0.125, 7200.0), (None, '?', None, '-', None)])
        self.assertEqual(
            ['TEXT   COUNT  MEMORY  SHARE  SPAN',
             'a     12,345   2 GiB  12.5%   2 h',
             '           ?              -'], self.shown(table))

    def test_where_values_are(self):
        columns = (_Column('name', 'name'), _Column('size'),
                   _Column('twice', 'twice', of=lambda row: 2 * len(row)))
        for row in ({'name': 'a', 'size': 3}, _Row('a', 3), ('a', 3)):
            table = typed_table.Table(columns, [row])
            self.assertEqual(('name', 'size', 'twice'), table.keys)
            self.assertEqual([{'name': 'a', 'size': 3, 'twice': 4}],
                             list(table.records()))
        outer = types.SimpleNamespace(move=_Row('b', 1))
        self.assertEqual([{'guest': 'b'}], list(typed_table.Table(
            [_Column('guest', of='move.name')], [outer]).records()))
        self.assertEqual([{'gone': None}], list(typed_table.of_keys(
            ['gone'], [{}]).records()))

    def test_what_is_left_out(self):
        columns = [_Column('name', 'name'), _Column('size', 'empty'),
                   _Column('', 'first', of=lambda row: 'one two', rank=2),
                   _Column('', 'last', of=lambda row: 'three', rank=1)]
        rows = [_Row('a' * 30, None)]
        for width, is_whole, titles in (
                (80, True, 'name first last'), (44, True, 'name last'),
                (44, False, 'name first last'), (40, True, 'name last'),
                (40, False, 'name last')):
            table = typed_table.Table(columns, rows, is_whole)
            self.assertEqual(titles.split(), self.shown(
                table, width)[0].split())
        self.assertEqual([], self.shown(typed_table.Table(columns, [])))

    def test_without_titles(self):
        self.assertEqual(['    a  b'], self.shown(
            typed_table.Table(('', ''), [('a', 'b')]), indent='    '))

    def test_names_do_nothing_to_a_terminal(self):
        self.assertNotIn('\x1b', ''.join(self.shown(
            typed_table.Table(('a',), [('\x1b',)]))))

    @unit_base.settings(60)
    @hypothesis.given(strategies.lists(
        strategies.tuples(_WORDS, _WORDS, _WORDS), min_size=1), _WIDTHS)
    def test_nothing_is_lost(self, rows, width):
        lines = self.shown(typed_table.Table(('a', 'b', 'c'), rows), width)
        for line in lines:
            self.assertLessEqual(len(line), width)
            self.assertEqual(line.rstrip(), line)
        pieces = sorted(re.findall('[^ ,;:]+', ' '.join(lines)))
        for row in rows:
            for cell in row:
                for piece in re.findall('[^ ,;:]+', cell):
                    self.assertIn(piece, pieces)
                    pieces.remove(piece)
