# SPDX-License-Identifier: Apache-2.0
"""The list of cases with their bars, readable without importing nova."""

import dataclasses
import enum


class Expect(enum.StrEnum):
    """What a case's hosts answer by the way they were filled."""

    ANY = 'any'
    FIT = 'fit'
    REFUSE = 'refuse'


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One row of the table.

    The bars, all of which count: ``ratio`` (nova's time over ours, at least)
    and ``limit_us`` (our time, less), both over the same HostStates. With
    ``endless`` nova's time has no practical bound, so nova is tried once in
    its own process and stopped. A ``slow`` case keeps nova busy for long, so
    it is measured with fewer rounds and passes.

    :ivar cells: where a guest's cells differ: cells of the host, of the
        guest, and whether it asks for pages
    """

    name: str
    ratio: float | None = None
    limit_us: float | None = None
    endless: bool = False
    slow: bool = False
    whole_request: bool = False
    expect: Expect = Expect.ANY
    cells: tuple[int, int, bool] | None = None


UNEVEN = tuple([
    Case(f'uneven-{host_cells}x{guest_cells}{"-pages" * pages}', 3, 10000,
         slow=True, cells=(host_cells, guest_cells, pages))
    for host_cells in (8, 16, 24) for guest_cells in (3, 4)
    for pages in (False, True)])


def _never_slower(name: str, expect: Expect = Expect.ANY, *,
                  endless: bool = False, slow: bool = True) -> Case:
    """A guest of many cells: no slower than nova, and 20 ms a host."""
    return Case(name, 1, 20000, endless, slow, expect=expect)


CASES = (
    Case('whole-request', ratio=1.5, whole_request=True),
    Case('one-cell', ratio=60),
    Case('one-cell-require', ratio=20),
    Case('two-cells', ratio=30),
    Case('two-cells-require', ratio=8),
    Case('four-cells', ratio=40),
    Case('16-cells-short', limit_us=2000, endless=True, expect=Expect.REFUSE),
    Case('24-cells-fits', limit_us=5000, expect=Expect.FIT),
    Case('24-cells-short', limit_us=5000, endless=True, expect=Expect.REFUSE),
    _never_slower('32-cells-late', Expect.FIT),
    _never_slower('pages-two-full', Expect.FIT),
    _never_slower('pages-five-full', Expect.FIT),
    *UNEVEN,
    _never_slower('second-tier-2', slow=False),
    _never_slower('second-tier-4', slow=False),
    _never_slower('pci-fits', Expect.FIT),
    _never_slower('pci-near-full', Expect.REFUSE, endless=True),
    _never_slower('pci-24', Expect.REFUSE, endless=True),
)
