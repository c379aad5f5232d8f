# SPDX-License-Identifier: Apache-2.0

import dataclasses

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import outcome
from nova_pinning.capacity import capacity
from nova_pinning.capacity import outlook
from nova_pinning.fleet import snapshot
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.explain import explain_cases
from nova_pinning.tests.unit import unit_base

STATUS = outlook.SaleStatus
CELLS = outcome.Doubt(outcome.DoubtKind.CELLS, 'no host file')


def host(name='h1', cpus=8, **values):
    return explain_cases.host(
        builders.host_cell(0, range(cpus)), name=name, **values)


def flavor(vcpus):
    return dataclasses.replace(explain_cases.wanted(
        explain_cases.pinned((vcpus, 64))), name=f'f{vcpus}')


def filled(one, *sizes):
    """Guests of these sizes on a host, one after the other."""
    where = host_occupancy.of_host(one)
    for number, size in enumerate(sizes):
        where = where.adding(explain_cases.placed_guest(
            where, explain_cases.pinned((size, 64)),
            f'{one.name}-{number}', flavor=f'f{size}'))
    return where.guests


def measured(hosts, guests=(), sizes=(4,), day=20):
    return capacity.measure(snapshot.Fleet(
        hosts=tuple(hosts), guests=tuple(guests),
        taken_at=f'2026-11-{day:02}T00:00:00Z' if day else ''),
        [flavor(size) for size in sizes])


def found(now, *earlier):
    """What becomes of each flavor, by its name."""
    return {one.size.request.name: one for one in outlook.OutlookFinder(
        now, earlier).outlooks(earlier=[then.hosts for then in earlier])}


class TestStatus(unit_base.TestCase):

    def test_most_valuable_first(self):
        self.assertEqual(['f8', 'f4', 'f2'], list(found(
            measured([host()], sizes=(2, 8, 4)))))

    def test_sold_out(self):
        """What an empty host would take, and a full one does not."""
        one = host()
        outlooks = found(measured(
            [one], filled(one, 4, 2), sizes=(2, 4, 12)))
        self.assertEqual(
            {'f12': STATUS.NOT_OFFERED, 'f4': STATUS.SOLD_OUT,
             'f2': STATUS.ON_SALE},
            {name: one.status for name, one in outlooks.items()})
        self.assertEqual((1, 0), (outlooks['f4'].guests,
                                  outlooks['f4'].size.fits))

    def test_disabled_hosts_offer_nothing(self):
        found_of, = found(measured([host(is_enabled=False)])).values()
        self.assertIs(STATUS.NOT_OFFERED, found_of.status)

    def test_few_left(self):
        """One more where eleven are sold is little, and where ten are not."""
        for sold, status in ((10, STATUS.ON_SALE), (11, STATUS.LOW)):
            one = host(cpus=2 * sold + 2)
            self.assertIs(status, found(measured(
                [one], filled(one, *[2] * sold), sizes=(2,)))['f2'].status)

    def test_undecided(self):
        """Where cells are not known some may fit, and maybe none."""
        one = host()
        one = dataclasses.replace(
            one, cells=(), inventories=one.root_inventories, gaps=(CELLS,))
        self.assertIs(
            STATUS.UNDECIDED, found(measured([one]))['f4'].status)
        known = host('known')
        self.assertIs(
            STATUS.ON_SALE, found(measured([one, known]))['f4'].status)

    def test_part_of_a_fleet(self):
        full, free = host('full'), host('free')
        now = measured([full, free], filled(full, 4, 4))
        finder = outlook.OutlookFinder(now)
        self.assertEqual(
            [(STATUS.SOLD_OUT, 2), (STATUS.ON_SALE, 0)],
            [(one.status, one.guests) for part in now.hosts
             for one in finder.outlooks([part])])


class TestDaysLeft(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.host = host(cpus=40)

    def _at(self, day, guests, *more, **values):
        return measured([self.host, *more],
                        filled(self.host, *[4] * guests), day=day, **values)

    def test_pace(self):
        """Two in ten days, and six are left."""
        one = found(self._at(20, 4), self._at(10, 2))['f4']
        self.assertEqual(6, one.size.fits)
        self.assertAlmostEqual(30, one.days_left)
        self.assertIs(STATUS.ON_SALE, one.status)
        # In any order, and with what is later or has no time left out.
        one = found(self._at(20, 6), self._at(25, 0), self._at(15, 4),
                    self._at(0, 1), self._at(10, 2))['f4']
        self.assertAlmostEqual(10, one.days_left)
        self.assertIs(STATUS.LOW, one.status)

    def test_not_known(self):
        """Without a history, or where nothing follows from it."""
        now = self._at(20, 4)
        for earlier in (
                (), (self._at(20, 2),), (self._at(10, 4),),
                (self._at(10, 5),), (self._at(0, 2),),
                (self._at(21, 2),)):
            self.assertIsNone(found(now, *earlier)['f4'].days_left)
        # Nine are left, and one was sold in a day: that is too little to say
        # anything of more than ten.
        self.assertIsNotNone(
            found(self._at(20, 1), self._at(19, 0))['f4'].days_left)
        self.assertIsNone(found(self._at(20, 1, host('h2', 40)), self._at(
            19, 0, host('h2', 40)))['f4'].days_left)
        self.assertIsNone(found(
            self._at(0, 4), self._at(10, 2))['f4'].days_left)

    def test_hosts_that_come_and_go(self):
        """They change what is left, and not how fast it is sold."""
        other = host('h2', cpus=40)
        with_other = found(self._at(20, 4, other), self._at(10, 2))['f4']
        self.assertEqual(16, with_other.size.fits)
        self.assertAlmostEqual(80, with_other.days_left)
        without = found(self._at(20, 4), self._at(10, 2, other))['f4']
        self.assertAlmostEqual(30, without.days_left)

    def test_doubts(self):
        """Bounds have no pace."""
        then = dataclasses.replace(
            self.host, cells=(), inventories=self.host.root_inventories,
            gaps=(CELLS,))
        self.assertIsNone(found(self._at(20, 4), measured(
            [then], day=10))['f4'].days_left)

    def test_since(self):
        self.assertEqual('2026-11-10', outlook.OutlookFinder(
            self._at(20, 4), [self._at(15, 3), self._at(10, 2)]).since)
        self.assertEqual('', outlook.OutlookFinder(self._at(20, 4)).since)
