# SPDX-License-Identifier: Apache-2.0
"""A nova whose claims of pinned guests do not see which pages are free."""

import ddt
from oslotest import base as oslotest

from nova_pinning import fit
from nova_pinning import model
from nova_pinning.model import Reason
from nova_pinning.tests.unit import builders

_WRONG = model.Refusal(Reason.NOVA_WRONG)
_LARGE = model.PagePool(1048576, 3)


def _host(*free_mib):
    """Cells of 4 GiB of which all memory counts as free, and so many pages.

    The emptiest comes first.
    """
    return builders.host(*[
        builders.host_cell(
            number, range(8 * number, 8 * number + 8 - number),
            memory_mib=4096, pages=(
                model.PagePool(4, 256 * pages_mib), _LARGE))
        for number, pages_mib in enumerate(free_mib)])


@ddt.ddt
class TestForgottenPages(oslotest.BaseTestCase):

    def _decide(self, host, guest, forgets_pages=True):
        self.asked = []

        def ask(attempt, choice, bounds):
            self.asked.append([cell.id for cell in choice.cells])
            return _WRONG
        return fit.decide(host, guest, bounds=fit.ClaimBounds(
            ask_nova=ask, forgets_pages=forgets_pages))

    def test_pages_that_cannot_be_had(self):
        """The first cell has the memory in pages of another size."""
        host, guest = _host(512, 2048), builders.guest((2, 1024))
        self.assertIs(_WRONG, self._decide(host, guest))
        self.assertEqual([[1]], self.asked)
        [cell] = self._decide(host, guest, forgets_pages=False).cells
        self.assertEqual(1, cell.id)
        self.assertEqual([], self.asked)

    def test_the_first_cell_will_do(self):
        [cell] = self._decide(
            _host(2048, 512), builders.guest((2, 1024))).cells
        self.assertEqual(0, cell.id)
        self.assertEqual([], self.asked)

    @ddt.data(builders.guest((2, 1024, 4)),
              builders.floating_guest((0, 1024)))
    def test_guests_whose_pages_count(self, guest):
        self._decide(_host(512, 2048), guest)
        self.assertEqual([], self.asked)
