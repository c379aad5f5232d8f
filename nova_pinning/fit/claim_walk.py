# SPDX-License-Identifier: Apache-2.0
"""Nova's walk through the permutations of host cells, followed exactly.

That is nova.virt.hardware.numa_fit_instance_to_host, as all releases have it.
It tries each guest cell on its host cell of a permutation and remembers what
came of that, but under the id that the guest cell has at the time, which is
that of the host cell that it was put on last. So one cell is taken for
another, and what is not tried keeps its CPUs, and its page size, from another
host cell.

Most permutations change nothing of what nova remembers, and neither do those
that begin like one of them up to the cell that fails. They are left out here,
so there are thousands of them for each one that is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import NamedTuple


class Trial(NamedTuple):
    """What nova makes of one guest cell on one host cell.

    :param page_size_kib: what the guest cell asks for from now on
    :param is_pinned: whether its vCPUs were pinned there, even if it does not
        fit in the end
    """

    fits: bool
    page_size_kib: int | None
    is_pinned: bool


#: Tries a guest cell, given by index, on the host cell at a place in the
#: order, for a page size.
TryCell = Callable[[int, int, 'int | None'], Trial]


class ClaimWalk:
    """One claim of a guest.

    :param host_ids: of the host cells in the order in which nova tries them
    :param guest_ids: by which nova knows the guest's cells at first
    :param page_sizes: that they ask for at first
    :param try_cell: what nova makes of a guest cell where it does try it
    :ivar chosen: for each guest cell, the place in the order of the host cell
        that it is tried on
    :ivar pinned_at: for each guest cell, the place where its vCPUs were
        pinned last, None if nowhere
    :ivar page_sizes: that they ask for now
    """

    def __init__(
        self,
        host_ids: Sequence[int],
        guest_ids: Sequence[int],
        page_sizes: Sequence[int | None],
        try_cell: TryCell,
    ) -> None:
        self._host_ids = host_ids
        self._ids = list(guest_ids)
        self._try_cell = try_cell
        self._count = len(guest_ids)
        self._all = (1 << len(host_ids)) - 1
        # Bitmasks of places, by the id of the guest cell that was tried.
        self._fitting: dict[int, int] = {}
        self._unfit: dict[int, int] = {}
        self.page_sizes = list(page_sizes)
        self.chosen = list(range(self._count))
        self.pinned_at: list[int | None] = [None] * self._count

    def run(
        self, accepts: Callable[[Sequence[int]], bool],
        note: Callable[[], None],
    ) -> bool:
        """Walk to the permutation that nova takes.

        :param accepts: whether a set of host cells, given by their places in
            the order of the guest's cells, has all devices and networks near
        :param note: called before each permutation that is looked at; what it
            raises ends the walk
        :returns: whether there is one, which ``chosen`` is then
        """
        chosen, count = self.chosen, self._count
        start: int | None = 0
        while start is not None:
            note()
            failed = self._look(start)
            if failed == count:
                if accepts(chosen):
                    return True
            elif self._unfit.get(self._ids[failed]) == self._all:
                # It would have to fit somewhere to be known by another id.
                return False
            unsure = self._first_unsure(failed)
            if unsure is None:
                start = self._move_on(min(failed, count - 1), True)
            else:
                moved = self._move_on(count - 1, False)
                start = None if moved is None else min(moved, unsure)
        return False

    def _look(self, start: int) -> int:
        """Put the guest's cells on the chosen host cells.

        :param start: the first guest cell of which it is not known that it
            fits, and that nothing changes by it
        :returns: the first that does not fit, or how many there are
        """
        for index in range(start, self._count):
            place = self.chosen[index]
            bit = 1 << place
            known_as = self._ids[index]
            if self._unfit.get(known_as, 0) & bit:
                return index
            if not self._fitting.get(known_as, 0) & bit:
                fits = self._try(index, place)
                memory = self._fitting if fits else self._unfit
                memory[known_as] = memory.get(known_as, 0) | bit
                if not fits:
                    return index
            self._ids[index] = self._host_ids[place]
        return self._count

    def _try(self, index: int, place: int) -> bool:
        trial = self._try_cell(index, place, self.page_sizes[index])
        self.page_sizes[index] = trial.page_size_kib
        if trial.is_pinned:
            self.pinned_at[index] = place
            self._ids[index] = self._host_ids[place]
        return trial.fits

    def _first_unsure(self, failed: int) -> int | None:
        """The first guest cell that nova would try again, if looked at anew.

        None if there is none, so that nothing would change.

        :param failed: the first that does not fit
        """
        for index in range(failed):
            if not (self._fitting.get(self._ids[index], 0)
                    >> self.chosen[index] & 1):
                return index
        if failed < self._count and not (
                self._unfit.get(self._ids[failed], 0)
                >> self.chosen[failed] & 1):
            return failed
        return None

    def _move_on(self, index: int, is_sure: bool) -> int | None:
        """Go on to the next permutation that has another host cell there.

        :param is_sure: whether those are left out that are known to fail
            there
        :returns: the first guest cell that has another, None at the end
        """
        chosen = self.chosen
        while index >= 0:
            left = self._all
            for place in chosen[:index]:
                left ^= 1 << place
            later = left >> chosen[index] + 1 << chosen[index] + 1
            if is_sure:
                later &= ~self._unfit.get(self._ids[index], 0)
            if later:
                for rest in range(index, self._count):
                    bit = later & -later
                    chosen[rest] = bit.bit_length() - 1
                    later = left = left ^ bit
                return index
            index -= 1
        return None
