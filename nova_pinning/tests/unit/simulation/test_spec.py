# SPDX-License-Identifier: Apache-2.0

import ddt
import testtools

from nova_pinning import errors
from nova_pinning.model import hostclass
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import guests
from nova_pinning.simulation import spec


@ddt.ddt
class TestSpec(testtools.TestCase):

    def test_usual(self):
        found = spec.parse('mix=8:70,16:30 rate=100').source({}, 1000)
        self.assertEqual(arrival_process.PoissonArrivals(
            mix=((guests.plain(8, 32768), 70.0),
                 (guests.plain(16, 65536), 30.0)),
            count=10000, rate_per_hour=100.0, lifetime_hours=24.0), found)

    def test_all(self):
        found = spec.parse(
            'mix=8,16:0.5 memory=2048 cells=2 class=dedicated lifetime=7d '
            'distribution=log-normal sigma=1.5 load=0.5-1.2 count=500')
        load = found.source({}, 2000)
        self.assertEqual(
            (guests.plain(8, 16384, cells=2), 1.0), load.mix[0])
        self.assertEqual(
            (500, 168.0, 'log-normal', 1.5, 2.4),
            (load.count, load.lifetime_hours, load.lifetimes, load.sigma,
             load.rises_to))
        # A mean of 32/3 vCPUs; half of 2,000 CPUs for 168 hours.
        self.assertAlmostEqual(1000 / (32 / 3) / 168, load.rate_per_hour)

    def test_flavors(self):
        found = spec.parse('mix=small:3,2 rate=1 class=shared')
        self.assertEqual(['small'], [*found.flavors])
        small = guests.plain(1, 1)
        load = found.source({'small': small}, 0)
        self.assertIs(small, load.mix[0][0])
        self.assertIs(hostclass.HostClass.SHARED, load.mix[1][0].guest_class)

    def test_cells(self):
        load = spec.parse('mix=8,32x2 memory=1024 rate=1').source({}, 0)
        self.assertEqual([guests.plain(8, 8192),
                          guests.plain(32, 32768, cells=2)],
                         [request for request, _weight in load.mix])

    @ddt.data('aggregate:a:2,b', 'x')
    def test_flavor_names(self, mix):
        found = spec.parse(f'mix={mix} rate=1')
        self.assertEqual(
            {'aggregate:a:2,b': ['aggregate:a', 'b'], 'x': ['x']}[mix],
            [*found.flavors])

    def test_forever(self):
        load = spec.parse('mix=8 rate=1 lifetime=forever').source({}, 0)
        self.assertEqual(arrival_process.FOREVER, load.lifetimes)

    @ddt.data(
        ('90s', 0.025), ('30m', 0.5), ('1.5h', 1.5), ('2d', 48.0))
    @ddt.unpack
    def test_durations(self, text, hours):
        self.assertEqual(hours, spec.hours(text))

    @ddt.data(
        ('', 'mix is missing'),
        ('mix=8', 'either rate or load'),
        ('mix=8 rate=1 load=1', 'either rate or load'),
        ('mix=8 rate=1 rate=2', 'rate is given twice'),
        ('mix=8 speed=1', "'speed=1' is not one of"),
        ('mix=8 rate', "'rate' is not one of"),
        ('mix=8:x rate=1', "'8:x' is not a size"),
        ('mix=8:0 rate=1', '8 has no weight'),
        ('mix=:3 rate=1', "':3' is not a size"),
        ('mix=8,8 rate=1', '8 is in it twice'),
        ('mix=0 rate=1', '0 is not a number of vCPUs'),
        ('mix=8 rate=nan', "rate 'nan'"),
        ('mix=8 rate=0', "rate '0'"),
        ('mix=8 load=0', "load '0'"),
        ('mix=8 load=1-2-3', "load '1-2-3'"),
        ('mix=8 rate=1 lifetime=3', "lifetime '3'"),
        ('mix=8 rate=1 lifetime=0h', "lifetime '0h'"),
        ('mix=8 rate=1 class=vip', "class 'vip'"),
        ('mix=8 rate=1 distribution=normal', "distribution 'normal'"),
        ('mix=8 rate=1 count=0', "count '0'"),
        ('mix=8 load=1 lifetime=forever', 'has no bounds'),
    )
    @ddt.unpack
    def test_bad(self, text, message):
        error = self.assertRaises(errors.InputError, spec.parse, text)
        self.assertIn(message, str(error))
        self.assertIn('--arrivals', str(error))

    @ddt.data(
        ('mix=8 load=1', 0, 'the fleet has none'),
        ('mix=9 cells=2 rate=1', 8, '9 vCPUs cannot be shared out'),
    )
    @ddt.unpack
    def test_bad_for_fleet(self, text, cpus, message):
        error = self.assertRaises(
            errors.InputError, spec.parse(text).source, {}, cpus)
        self.assertIn(message, str(error))
