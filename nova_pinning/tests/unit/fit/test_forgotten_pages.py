# SPDX-License-Identifier: Apache-2.0
"""A nova whose claims of pinned guests count memory, and forget pages.

So it is before 2025.1 (nova.virt.hardware._numa_fit_instance_cell).
"""

import dataclasses

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

    @ddt.data(None, 4, 1048576, -1, -2, -3)
    def test_memory_is_said_to_be_used(self, size_kib):
        """Pages of each size are free, but others have had the memory."""
        guest = builders.guest((2, 1024, size_kib))
        host = _host(2048)
        full = host._replace(cells=tuple([
            dataclasses.replace(cell, memory_used_mib=3584)
            for cell in host.cells]))
        self.assertIs(_WRONG, self._decide(full, guest))
        self.assertEqual([[0]], self.asked)
        for known, forgets_pages in (full, False), (host, True):
            [cell] = self._decide(known, guest, forgets_pages).cells
            self.assertEqual(0, cell.id)
            self.assertEqual([], self.asked)

    def test_memory_of_floating_guests(self):
        """They may have more than there is, of a cell with pages."""
        full = builders.host(builders.host_cell(
            0, (), memory_mib=4096, memory_used_mib=5120, shared_cpus=range(8),
            pages=(model.PagePool(4, 1048576, 1310720),)))
        self._decide(full, builders.floating_guest((2, 1024)))
        self.assertEqual([], self.asked)

    def test_of_a_compute_that_may_forget_them(self):
        """The nova that could be asked sees them: it is not asked."""
        may = {'may_forget_pages': True}
        guest = builders.guest((2, 1024))
        full = dataclasses.replace(_host(2048).cells[0], memory_used_mib=3584)
        for host, cell_id in ((_host(512, 2048), 1),
                              (builders.host(full), 0)):
            decision = self._decide(
                host._replace(**may), guest, forgets_pages=False)
            self.assertEqual([cell_id], [cell.id for cell in decision.cells])
            self.assertIs(Reason.NOVA_UNKNOWN, decision.drawback.reason)
            self.assertEqual([], self.asked)
            self.assertIs(_WRONG, self._decide(host._replace(**may), guest))
        for host, others in ((_host(2048, 512), guest),
                             (_host(512, 2048), builders.guest((2, 1024, 4))),
                             (_host(512, 2048),
                              builders.floating_guest((0, 1024)))):
            self.assertIsNone(self._decide(
                host._replace(**may), others, forgets_pages=False).drawback)

    def test_what_all_releases_get_wrong(self):
        """It counts on hosts that may forget pages, too."""
        host = _host(512, 2048, 2048)._replace(may_forget_pages=True)
        unlike = builders.guest((2, 1024), (4, 1024))
        self.assertIs(_WRONG, self._decide(host, unlike, forgets_pages=False))
        self.assertEqual([[1, 2]], self.asked)

    def test_not_the_first_choice(self):
        """The first cell lacks pages, the second memory, by nova's records."""
        first, second, third = _host(512, 2048, 2048).cells
        host = builders.host(
            first, dataclasses.replace(second, memory_used_mib=3584), third)
        guest = builders.guest((2, 1024, 4), (2, 1024, 4))
        self.assertIs(_WRONG, self._decide(host, guest))
        self.assertEqual([[1, 2]], self.asked)
