# SPDX-License-Identifier: Apache-2.0
"""Which guest cell goes where, against trying out every permutation."""

import itertools
from unittest import mock

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning.fit import _matching
from nova_pinning.model import Reason
from nova_pinning.model import Refusal
from nova_pinning.tests.unit import unit_base


def _first_by_trying(rows, width, accepts=lambda columns: True):
    """The first permutation of columns that every row allows, or None."""
    for columns in itertools.permutations(range(width), len(rows)):
        if all(row >> column & 1 for row, column in zip(rows, columns)):
            if accepts(columns):
                return list(columns)
    return None


@strategies.composite
def _rows(draw):
    """(rows, width); dense, sparse and alike rows, so that all happens."""
    width = draw(strategies.integers(1, 6))
    few = draw(strategies.lists(
        strategies.integers(1, 2 ** width - 1), min_size=1, max_size=6))
    rows = draw(strategies.lists(
        strategies.sampled_from(few), min_size=1, max_size=width))
    return rows, width


class TestFirstMatch(oslotest.BaseTestCase):

    @unit_base.settings(250)
    @hypothesis.given(_rows())
    def test_against_all_permutations(self, case):
        rows, width = case
        expected = _first_by_trying(rows, width)
        found = _matching.first_match(rows)
        if expected is not None:
            self.assertEqual(expected, found)
            return
        self.assertIsInstance(found, Refusal)
        self.assertEqual(Reason.CELLS_CONTENDED, found.reason)
        self._assert_proves_it(found, rows)

    def _assert_proves_it(self, refusal, rows):
        """The refusal names guest cells that are more than their cells."""
        self.assertRegex(
            refusal.detail, '^guest cells [0-9, ]+ have only [0-9]+ host '
            'cells with room for them$')
        named, count = refusal.detail.removeprefix('guest cells ').split(
            ' have only ')
        rivals = [int(number) for number in named.split(', ')]
        wanted = 0
        for rival in rivals:
            wanted |= rows[rival]
        columns = bin(wanted).count('1')
        self.assertEqual(int(count.split()[0]), columns)
        self.assertGreater(len(rivals), columns)

    def test_moves_others_along_a_chain(self):
        # Each row wants the column of the one before it, the last one has to
        # move them all.
        rows = [0b000011, 0b000110, 0b001100, 0b011000, 0b110000, 0b000001]
        self.assertEqual(
            [1, 2, 3, 4, 5, 0], _matching.first_match(rows))

    def test_a_row_without_columns(self):
        self.assertIsInstance(_matching.first_match([0b1, 0]), Refusal)

    def test_twenty_four_cells_alike(self):
        everything = 2 ** 24 - 1
        self.assertEqual(
            list(range(8)), _matching.first_match([everything] * 8))
        found = _matching.first_match([0b1111111] * 8)
        self.assertEqual(
            'guest cells 0, 1, 2, 3, 4, 5, 6, 7 have only 7 host cells with '
            'room for them', found.detail)

    def test_twenty_four_cells_with_one_way_only(self):
        # Row n allows columns 0 to n, so that each takes the last of its own.
        rows = [2 ** (row + 1) - 1 for row in range(24)]
        self.assertEqual(
            list(range(24)), _matching.first_match(rows))
        self.assertEqual(
            list(range(24))[::-1], _matching.first_match(rows[::-1]))


@strategies.composite
def _set_case(draw):
    """(rows, labels, ids, accepted): with a predicate on labels."""
    rows, width = draw(_rows())
    labels = draw(strategies.lists(
        strategies.sampled_from('abc'), min_size=width, max_size=width))
    ids = draw(strategies.permutations(range(10, 10 + width)))
    kinds = sorted({
        ''.join(sorted(labels[column] for column in columns))
        for columns in itertools.combinations(range(width), len(rows))})
    accepted = draw(strategies.sets(strategies.sampled_from(kinds)))
    return rows, labels, ids, accepted


class TestFirstMatchOfSets(oslotest.BaseTestCase):

    @unit_base.settings(200)
    @hypothesis.given(_set_case(), strategies.booleans())
    def test_against_all_permutations(self, case, by_id):
        """Any predicate on the labels; or on the ids if all are labels."""
        rows, labels, ids, accepted = case
        asked = []

        def is_accepted(cell_ids):
            if by_id:
                # Any set may be right or wrong, in no regular way.
                return hash(cell_ids) % 3 == 0
            return ''.join(sorted(
                labels[ids.index(cell_id)] for cell_id in cell_ids)
            ) in accepted

        def check(cell_ids):
            asked.append(cell_ids)
            return None if is_accepted(cell_ids) else Reason.PCI

        def accepts(columns):
            return is_accepted(tuple(sorted(ids[col] for col in columns)))

        expected = _first_by_trying(rows, len(labels), accepts)
        hypothesis.assume(
            expected or _first_by_trying(rows, len(labels)))
        found = _matching.first_match_of_sets(
            rows, ids if by_id else labels, ids, check)
        if expected is None:
            self.assertEqual(Reason.PCI, found.reason)
            self.assertEqual(
                f'{len(asked)} sets of cells tried', found.detail)
        else:
            failed = [one for one in asked if not is_accepted(one)]
            self.assertEqual((expected, len(failed)), found)
        self.assertTrue(all(list(one) == sorted(one) for one in asked))

    def _sets_asked(self, rows, labels, verdict):
        asked = []

        def check(cell_ids):
            asked.append(cell_ids)
            return verdict

        outcome = _matching.first_match_of_sets(
            rows, labels, range(len(labels)), check)
        return outcome, asked

    def test_cells_alike_are_asked_about_once(self):
        """However many cells there are, like sets are one set."""
        labels = ['near'] * 2 + ['far'] * 22
        outcome, asked = self._sets_asked(
            [2 ** 24 - 1] * 4, labels, Reason.NETWORK)
        self.assertEqual(Reason.NETWORK, outcome.reason)
        # With none, one or two of the cells that are near.
        self.assertEqual(
            {0, 1, 2}, {len({0, 1}.intersection(one)) for one in asked})
        self.assertEqual(3, len(asked))

    def test_no_set_is_asked_about_twice(self):
        _outcome, asked = self._sets_asked(
            [2 ** 6 - 1] * 3, list(range(6)), Reason.PCI)
        self.assertEqual(sorted(set(asked)), sorted(asked))
        self.assertEqual(20, len(asked))

    def _asked_until(self, is_over):
        """What comes of a search in which no set will do, and all asked."""
        asked = []
        outcome = _matching.first_match_of_sets(
            [2 ** 6 - 1] * 3, list(range(6)), range(6),
            lambda ids: asked.append(ids) or Reason.PCI,
            lambda: is_over(asked))
        return outcome, asked

    def test_until_the_time_is_up(self):
        for count in (0, 1, 19):
            outcome, asked = self._asked_until(
                lambda asked: len(asked) == count)
            self.assertEqual(count, len(asked))
            self.assertEqual(Reason.BUDGET, outcome.reason)
            self.assertEqual(f'{count} sets of cells tried', outcome.detail)

    def test_time_enough(self):
        outcome, asked = self._asked_until(lambda asked: False)
        self.assertEqual(20, len(asked))
        self.assertEqual(Reason.PCI, outcome.reason)

    def test_no_more_is_asked_once_the_time_is_up(self):
        answers = iter([False] * 6 + [True])
        outcome, _asked = self._asked_until(lambda asked: next(answers))
        self.assertEqual(Reason.BUDGET, outcome.reason)

    def test_time_passes_without_sets_to_try(self):
        """Rather many ways to begin end in few sets that differ."""
        times = []
        rows = [2 ** 12 - 1] * 11
        _matching.first_match_of_sets(
            rows, list(range(12)), range(12), lambda ids: Reason.PCI,
            lambda: times.append(0))
        self.assertGreater(len(times), 1000)

    def test_failed_sets_are_counted(self):
        self.assertEqual(([0, 3], 2), _matching.first_match_of_sets(
            [2 ** 6 - 1] * 2, list(range(6)), range(6),
            lambda ids: None if ids == (0, 3) else Reason.PCI))

    def test_the_most_frequent_reason_decides(self):
        reasons = {(0,): Reason.NETWORK, (1,): Reason.PCI, (2,): Reason.PCI}
        outcome = _matching.first_match_of_sets(
            [0b111], 'abc', range(3), reasons.get)
        self.assertEqual(Reason.PCI, outcome.reason)

    def test_sets_that_cannot_be_completed_are_not_walked(self):
        """The last row has one column, which all others could take too."""
        rows = [2 ** 24 - 1] * 9 + [1 << 5]
        with mock.patch.object(
                _matching, '_can_match',
                wraps=_matching._can_match) as can_match:
            self.assertEqual(
                ([*range(5), *range(6, 10), 5], 0),
                _matching.first_match_of_sets(
                    rows, list(range(24)), range(24), lambda ids: None))
        self.assertLess(can_match.call_count, 30)
