# SPDX-License-Identifier: Apache-2.0

import collections
import contextlib
import math
import threading
from unittest import mock

import hypothesis
from hypothesis import strategies
from oslo_config import cfg

from nova_pinning import fit
from nova_pinning import model
from nova_pinning.scheduler import mix
from nova_pinning.scheduler import weights
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit import unit_base

REQUIRE = model.ThreadPolicy.REQUIRE


def _run(work, count):
    """Let threads work that know their numbers."""
    threads = [threading.Thread(target=work, args=(number,))
               for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class TestConfigured(unit_base.TestCase):

    def test_unset(self):
        for unset in (None, []):
            self.assertEqual((), mix.configured_mix(unset))

    def test_all_keys(self):
        self.assertEqual(
            ((fit.Size(8, 16384, REQUIRE, 1048576, 2), 768 / 772),
             (fit.Size(2, 0), 4 / 772)),
            mix.configured_mix([
                {'vcpus': '8', 'memory_mib': '16384', 'weight': '3',
                 'thread_policy': 'require', 'page_size_kib': '1048576',
                 'cells': '2'},
                {'vcpus': '2', 'memory_mib': '0'}]))

    def test_the_same_size_twice(self):
        size = {'vcpus': '8', 'memory_mib': '1'}
        self.assertEqual(
            ((fit.Size(8, 1), 96 / 98), (fit.Size(2, 1), 2 / 98)),
            mix.configured_mix([
                size, size | {'vcpus': '2', 'weight': '0.5'},
                size | {'weight': '0.5'}]))

    def test_errors_name_option_value_and_key(self):
        good = {'vcpus': '8', 'memory_mib': '1'}
        for option, why in (
                ({'memory_mib': '1'}, 'vcpus is missing'),
                ({'vcpus': '8'}, 'memory_mib is missing'),
                ({}, 'is missing'),
                (good | {'memory': '1'}, "unknown key 'memory'"),
                (good | {'vcpus': 'many'}, "'many'"),
                (good | {'vcpus': '1.5'}, "'1.5'"),
                (good | {'vcpus': '0'}, 'vcpus and weight must be above 0'),
                (good | {'cells': '0'}, 'cells must be above 0'),
                (good | {'cells': 'two'}, "'two' is not a whole number"),
                (good | {'vcpus': '-1'}, "'-1' is not a whole number"),
                (good | {'memory_mib': '-1'}, "'-1' is not a whole number"),
                (good | {'vcpus': '8_0'}, "'8_0' is not a whole number"),
                (good | {'page_size_kib': '-7'}, "'-7' is not a whole number"),
                (good | {'thread_policy': 'none'}, "'none'"),
                (good | {'page_size_kib': 'huge'}, "'huge'"),
                (good | {'weight': '1e308'}, 'vcpus and weight'),
                (good | {'weight': '0'}, 'vcpus and weight must be above 0'),
                (good | {'weight': '-2'}, 'vcpus and weight'),
                (good | {'weight': 'nan'}, 'vcpus and weight'),
                (good | {'weight': 'inf'}, 'vcpus and weight'),
                (good | {'weight': 'often'}, "'often'")):
            error = self.assertRaises(
                cfg.ConfigFileValueError, mix.configured_mix, [option])
            text = ','.join(f'{key}:{value}' for key, value in option.items())
            self.assertTrue(str(error).startswith(
                f'[pinning] fragmentation_mix = {text}: '), str(error))
            self.assertIn(why, str(error))

    def test_found_out_when_nova_scheduler_starts(self):
        self.set_option('fragmentation_mix', [{'vcpus': 'many'}])
        error = self.assertRaises(
            cfg.ConfigFileValueError, weights.FragmentationWeigher)
        self.assertIn('[pinning] fragmentation_mix', str(error))

    def test_read_from_a_file(self):
        path = self.create_tempfiles([('nova', (
            '[pinning]\n'
            'fragmentation_mix = vcpus:8,memory_mib:16,weight:3\n'
            'fragmentation_mix = vcpus:2,memory_mib:4\n'))], ext='.conf')[0]
        self.options.set_config_files([path])
        self.options.conf.reload_config_files()
        weigher = weights.FragmentationWeigher()
        self.assertEqual(
            [192 / 196, 4 / 196],
            [share for _size, share in weigher._configured])


class TestRecent(unit_base.TestCase):

    @unit_base.settings(100)
    @hypothesis.given(strategies.lists(strategies.integers(1, 20)),
                      strategies.integers(1, 10))
    def test_shares(self, vcpus, length):
        recent = mix.RecentMix(length)
        for number, count in enumerate(vcpus):
            recent.add(str(number), builders.guest((count, 1024)))
        last = vcpus[-length:]
        total = sum(count ** 2 for count in last)
        self.assertEqual(
            {fit.Size(count, 1024): count ** 2 * how_often / total
             for count, how_often in collections.Counter(last).items()},
            dict(recent.mix()))

    @unit_base.settings(100)
    @hypothesis.given(
        strategies.lists(strategies.tuples(
            strategies.integers(0, 8),
            strategies.lists(strategies.integers(1, 3), min_size=1,
                             max_size=2))),
        strategies.integers(1, 5))
    def test_instances_count_once(self, asked, length):
        """Against counting those that are remembered anew each time."""
        recent = mix.RecentMix(length)
        last = []
        for number, cells in asked:
            recent.add(str(number), builders.guest(
                *[(vcpus, 1) for vcpus in cells]))
            if number not in [known for known, _cells in last]:
                last = [*last, (number, cells)][-length:]
            counts = collections.Counter(
                size for _number, vcpus in last
                for size in mix.sizes(builders.guest(
                    *[(count, 1) for count in vcpus])))
            total = sum((size.vcpus * size.cells) ** 2 * count
                        for size, count in counts.items())
            self.assertEqual(
                {size: (size.vcpus * size.cells) ** 2 * count / total
                 for size, count in counts.items()}, dict(recent.mix()))

    def test_threads(self):
        """Nothing is lost, and what is forgotten is not counted."""
        recent = mix.RecentMix(7)
        barrier = threading.Barrier(4, timeout=60)
        failed = []

        def work(number):
            barrier.wait()
            for instance in range(300):
                recent.add(f'{number} {instance % 20}', builders.guest(
                    (1 + instance % 5, 1)))
                if not math.isclose(1.0, sum(
                        share for _size, share in recent.mix())):
                    failed.append(instance)

        _run(work, 4)
        self.assertEqual([], failed)
        self.assertEqual(7, len(recent._recent))
        self.assertEqual(
            collections.Counter(
                size for asked in recent._recent.values() for size in asked),
            recent._counts)

    def test_one_instance_in_two_threads(self):
        """It counts once, even where both ask before either has counted."""
        recent = mix.RecentMix(7)
        barrier = threading.Barrier(2)
        sizes = mix.sizes

        def meet(*asked):
            # Both come here only if nothing keeps the second out.
            with contextlib.suppress(threading.BrokenBarrierError):
                barrier.wait(0.1)
            return sizes(*asked)

        with mock.patch.object(mix, 'sizes', meet):
            _run(lambda number: recent.add('one', builders.guest((2, 1))), 2)
        self.assertEqual([1], list(recent._counts.values()))

    def test_one_for_all_threads(self):
        """Also where a second asks while it is made for the first."""
        found = []
        making, others = threading.Event(), threading.Event()
        made = mix.RecentMix

        def make(length):
            if not making.is_set():
                making.set()
                # The second gets one of its own now, or waits for this one.
                others.wait(0.1)
            return made(length)

        def work(number):
            if number:
                making.wait(60)
            found.append(mix.recent())
            others.set()

        mix.forget()
        with mock.patch.object(mix, 'RecentMix', make):
            _run(work, 2)
        self.assertIs(found[0], found[1])

    def test_nothing_yet(self):
        self.assertEqual((), mix.RecentMix(3).mix())

    def test_the_sizes_with_the_largest_shares_only(self):
        recent = mix.RecentMix(1000)
        for vcpus in range(1, 31):
            recent.add(str(vcpus), builders.guest((vcpus, 1)))
        found = dict(recent.mix())
        self.assertEqual(
            set(range(19, 31)), {size.vcpus for size in found})
        self.assertTrue(math.isclose(1.0, sum(found.values())))
        self.assertAlmostEqual(
            900 / 361, found[fit.Size(30, 1)] / found[fit.Size(19, 1)])

    def test_the_few_large_ones_have_their_say(self):
        """One guest in 500 may need a host of its own, kept free for it."""
        recent = mix.RecentMix(mix.RECENT_INSTANCES)
        large = builders.guest((32, 1), (32, 1))
        for number in range(1000):
            recent.add(str(number), builders.guest((2, 1)) if number % 500
                       else large)
        shares = dict(recent.mix())
        self.assertGreater(shares[fit.Size(32, 1, cells=2)], 0.5)

    def test_symbols_for_page_sizes(self):
        for text, value in (('small', model.PAGES_SMALL),
                            ('large', model.PAGES_LARGE),
                            ('any', model.PAGES_ANY), ('2048', 2048)):
            ((size, _share),) = mix.configured_mix([
                {'vcpus': '1', 'memory_mib': '1', 'page_size_kib': text}])
            self.assertEqual(value, size.page_size_kib)

    def test_guests_of_several_cells(self):
        guest = builders.guest((2, 1), (4, 1, 2048), thread_policy=REQUIRE)
        self.assertEqual(
            [fit.Size(2, 1, REQUIRE), fit.Size(4, 1, REQUIRE, 2048)],
            mix.sizes(guest))

    def test_cells_that_are_alike_make_one_size(self):
        guest = builders.guest((4, 1), (4, 1), thread_policy=REQUIRE)
        self.assertEqual(
            [fit.Size(4, 1, REQUIRE, cells=2)], mix.sizes(guest))

    def test_cells_without_dedicated_vcpus_are_no_size(self):
        guest = model.Guest(
            (model.GuestCell((0,), (1,), 1), model.GuestCell((), (2,), 1)),
            model.CpuPolicy.MIXED)
        self.assertEqual([fit.Size(1, 1)], mix.sizes(guest))
