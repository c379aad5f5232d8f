# SPDX-License-Identifier: Apache-2.0
"""Hosts whose nova-compute may try the cells in one of two orders."""

import dataclasses

from oslotest import base as oslotest

from nova_pinning import fit
from nova_pinning import model
from nova_pinning.model import CellOrder
from nova_pinning.model import Reason
from nova_pinning.tests.unit import builders

_AGAIN = model.Refusal(Reason.NOVA_AGAIN)
_AGAIN_WRONG = model.Refusal(Reason.NOVA_AGAIN_WRONG)
_WRONG = model.Refusal(Reason.NOVA_WRONG, detail='it fails')


@dataclasses.dataclass(frozen=True)
class _Devices:
    """As many devices near each cell."""

    counts: tuple[int, ...]
    is_requested: bool = False

    total_devices = 1
    short = frozenset()

    def device_count(self, cell_id):
        return self.counts[cell_id]

    def label(self, cell):
        return cell.id

    def shortfall(self, cell_ids, count):
        return ''

    def supports(self, cell_ids):
        return True


def _host(*free, order=CellOrder.UNKNOWN):
    return builders.host(*[
        builders.host_cell(number, range(8 * number, 8 * number + count))
        for number, count in enumerate(free)], claim_order=order)


def _nobody_asks(attempt, choice, bounds):
    raise AssertionError('nova was asked')


class TestUnknownOrder(oslotest.BaseTestCase):

    def _decide(self, host, *counts, vcpus=(2,), is_requested=False,
                ask_nova=_nobody_asks):
        return fit.decide(
            host, builders.guest(*[(count, 1024) for count in vcpus]),
            pci=_Devices(counts, is_requested),
            bounds=fit.ClaimBounds(ask_nova=ask_nova))

    def _cells(self, decision):
        return [cell.id for cell in decision.cells]

    def test_one_answer_to_both(self):
        """The emptiest cell is the one without devices as well."""
        decision = self._decide(_host(4, 8), 1, 0)
        self.assertEqual([1], self._cells(decision))
        self.assertIsNone(decision.drawback)

    def test_two_answers(self):
        decision = self._decide(_host(8, 4), 1, 0)
        self.assertIs(Reason.NOVA_UNKNOWN, decision.drawback.reason)
        self.assertEqual('host cells 1 or host cells 0',
                         decision.drawback.detail)
        self.assertFalse(fit.comes_alone(decision.drawback))
        for order, cell in ((CellOrder.FEWEST_DEVICES, 1),
                            (CellOrder.ANY_DEVICES, 0)):
            known = self._decide(_host(8, 4, order=order), 1, 0)
            self.assertEqual(([cell], None),
                             (self._cells(known), known.drawback))

    def test_only_one_cell_with_room(self):
        decision = self._decide(_host(8, 1), 1, 0)
        self.assertEqual(([0], None),
                         (self._cells(decision), decision.drawback))

    def test_where_devices_make_no_difference(self):
        for counts, values in (((1, 1), {}), ((0, 0), {}),
                               ((1, 0), {'is_requested': True}),
                               ((1, 0), {'vcpus': (2, 2)}),
                               ((1, 0), {'ask_nova': None})):
            decision = self._decide(_host(8, 4), *counts, **values)
            self.assertIsNone(decision.drawback, (counts, values))

    def _decide_for_two(self, any_devices, fewest_devices):
        """A guest of which only nova can tell, with its answers.

        The emptiest cell comes first in both orders and has no memory for
        guest cell 0.
        """
        cells = _host(8, 4, 2).cells
        host = builders.host(
            dataclasses.replace(cells[0], memory_mib=512), *cells[1:],
            claim_order=CellOrder.UNKNOWN)
        answers = {1: any_devices, 2: fewest_devices}
        return fit.decide(
            host, builders.guest((2, 1024), (2, 512)),
            pci=_Devices((0, 2, 1)), bounds=fit.ClaimBounds(
                ask_nova=lambda attempt, choice, bounds:
                answers[choice.order[1].id]))

    def test_wrong_in_one_of_two_ways(self):
        for answers in ((_WRONG, fit.Claim()), (fit.Claim(), _WRONG)):
            self.assertEqual(_WRONG, self._decide_for_two(*answers))

    def test_the_worst_drawback_counts(self):
        for first, second, reason in (
                (None, None, Reason.NOVA_UNKNOWN),
                (_AGAIN, None, Reason.NOVA_AGAIN),
                (None, _AGAIN, Reason.NOVA_AGAIN),
                (_AGAIN, _AGAIN_WRONG, Reason.NOVA_AGAIN_WRONG),
                (_AGAIN_WRONG, _AGAIN, Reason.NOVA_AGAIN_WRONG)):
            decision = self._decide_for_two(
                fit.Claim(drawback=first), fit.Claim(drawback=second))
            self.assertIs(reason, decision.drawback.reason)
