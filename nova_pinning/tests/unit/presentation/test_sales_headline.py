# SPDX-License-Identifier: Apache-2.0

from nova_pinning.capacity import capacity
from nova_pinning.capacity import count
from nova_pinning.capacity import outlook
from nova_pinning.model import hostclass
from nova_pinning.presentation import sales_headline
from nova_pinning.tests.unit.explain import explain_cases
from nova_pinning.tests.unit import unit_base

STATUS = outlook.SaleStatus


def one(vcpus, fits, status, certain=None, totals=None, missing=None,
        guests=0, days_left=None):
    request = explain_cases.wanted(
        explain_cases.pinned((vcpus, 64)),
        guest_class=hostclass.HostClass.DEDICATED)
    object.__setattr__(request, 'name', f'f{vcpus}')
    return outlook.FlavorOutlook(
        number=0, guests=guests, status=status, days_left=days_left,
        size=capacity.FlavorCapacity(
            request, fits, fits, fits if totals is None else totals,
            missing or {}, fits if certain is None else certain))


def lines(*outlooks, since=''):
    return [(line.level, str(line))
            for line in sales_headline.lines(outlooks, since)]


class TestLines(unit_base.TestCase):

    def test_sold_out_and_next(self):
        self.assertEqual([
            ('error', 'Sold out: f88 (88 vCPUs) and f64 (64 vCPUs)'),
            ('warning', '1 left: f32, which runs out next; 111 are sold'),
            ('note', 'Host totals promise 42 of f16 where 2 fit: scattered '
                     'over cells.')],
            lines(one(88, 0, STATUS.SOLD_OUT), one(64, 0, STATUS.SOLD_OUT),
                  one(32, 1, STATUS.LOW, guests=111),
                  one(16, 2, STATUS.LOW, totals=42,
                      missing={count.CapacityCause.CELLS: 40})))

    def test_many_sold_out(self):
        (_level, text), *_more = lines(*[
            one(vcpus, 0, STATUS.SOLD_OUT) for vcpus in (64, 32, 16, 8, 4)])
        self.assertEqual('Sold out: f64 (64 vCPUs), f32 (32 vCPUs), f16 '
                         '(16 vCPUs) and 2 more', text)

    def test_nothing_sold_out(self):
        self.assertEqual([
            ('yes', 'Nothing has sold out: 2 flavors on sale'),
            ('yes', '90 left: f32, which runs out next')],
            lines(one(32, 90, STATUS.ON_SALE), one(8, 1367, STATUS.ON_SALE)))

    def test_days_tell_what_is_next(self):
        """What is gone first, not what is fewest, where both are known."""
        self.assertIn(
            ('warning', '500 left: f2, which runs out next, in about 12 days '
                        'at the pace since 2026-11-10'),
            lines(one(32, 90, STATUS.ON_SALE),
                  one(2, 500, STATUS.LOW, days_left=11.2),
                  since='2026-11-10'))
        self.assertIn(
            ('warning', '1 left: f2, which runs out next, in about 1 day at '
                        'the pace since 2026-11-10'),
            lines(one(2, 1, STATUS.LOW, days_left=.3), since='2026-11-10'))

    def test_undecided(self):
        """It is not said that nothing has sold out where nobody knows."""
        self.assertEqual([
            ('unknown', 'Not known: whether one more fits of f32 (32 vCPUs)'),
            ('yes', 'At most 9 left: f8, which runs out next')],
            lines(one(32, 4, STATUS.UNDECIDED, certain=0),
                  one(8, 9, STATUS.ON_SALE, certain=7)))

    def test_not_for_these_hosts(self):
        self.assertEqual(
            [('unknown', 'None of the flavors is for these hosts.')],
            lines(one(32, 0, STATUS.NOT_OFFERED)))
        self.assertEqual([('unknown', 'No flavors are known.')], lines())
        self.assertEqual('yes', lines(
            one(32, 0, STATUS.NOT_OFFERED), one(8, 9, STATUS.ON_SALE))[0][0])
