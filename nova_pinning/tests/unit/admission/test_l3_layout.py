# SPDX-License-Identifier: Apache-2.0
"""The L3 caches of a guest, against all that nova could give it."""

import dataclasses
import itertools
import random

from hypothesis import given
from hypothesis import strategies
from nova.virt import hardware
from oslotest import base

from nova_pinning.admission import l3_layout
from nova_pinning.admission import offered_host
from nova_pinning.bridge import nova_objects
from nova_pinning import cpuset
from nova_pinning import model
from nova_pinning.model import ThreadPolicy
from nova_pinning.placement import placement_traits
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit import unit_base


def _host(cells, caches=(), **values):
    return offered_host.OfferedHost(
        name='h', cells=tuple(cells),
        l3_domains=tuple(map(cpuset.CpuSet, caches)), **values)


def _caches(host, guest, fit, aggregates=()):
    layout = l3_layout.L3Layouts(dict(aggregates)).of_host(host)
    return layout and layout.caches(guest, fit)


def _any_host(rng):
    """Cells of cores of which some threads are for guests, under caches.

    A cache has a part of a cell, or several cells.
    """
    threads = rng.choice((1, 2, 2, 3))
    # How isolate goes about it on hosts with threads.
    is_legacy = rng.random() < 0.3
    cells, caches = [], []
    numbers = itertools.count()
    for number in range(rng.choice((1, 1, 2))):
        cores = [tuple(next(numbers) for _thread in range(threads))
                 for _core in range(rng.randint(1, 6))]
        sold = [cpu for core in cores for cpu in core
                if is_legacy or rng.random() < 0.8]
        cells.append(builders.host_cell(
            number, sold, cores=tuple(rng.sample(cores, len(cores))),
            **({'shared_cpus': sold} if is_legacy else {}), pages=(
                model.PagePool(4, 16384 * 256),)))
        size = rng.choice((1, 2, 3, len(cores)))
        caches += [[cpu for core in cores[first:first + size] for cpu in core]
                   for first in range(0, len(cores), size)]
    if rng.random() < 0.2:
        caches = [[cpu for cache in caches for cpu in cache]]
    return _host(cells, caches)


def _any_guest(rng, host):
    return builders.guest(
        *[(rng.randint(1, 6), 1)
          for _cell in range(rng.randint(1, len(host.cells)))],
        thread_policy=rng.choice(list(ThreadPolicy)))


def _claim(host, guest):
    """Where nova puts it, None for nowhere."""
    claimed = hardware.numa_fit_instance_to_host(
        nova_objects.host_topology(host.engine),
        nova_objects.instance_topology(guest), {})
    return claimed and model.Fit(tuple(
        model.CellFit(cell.id, tuple(sorted(cell.cpu_pinning.items())))
        for cell in claimed.cells))


def _with_nothing_but(cpus, host, host_cell):
    """The host with one cell, and in it the dedicated CPUs of some caches."""
    cell, = (cell for cell in host.cells if cell.id == host_cell)
    sold = cell.dedicated_cpus & cpus
    return dataclasses.replace(host, cells=(dataclasses.replace(
        cell, dedicated_cpus=sold,
        shared_cpus=sold if cell.is_legacy else cell.shared_cpus),))


def _fewest(host, guest, fit):
    """The fewest caches where nova finds a place for each of its cells."""
    for count in itertools.count(1):
        for some in itertools.combinations(host.l3_domains, count):
            if all(_claim(
                    _with_nothing_but(cpuset.union(some), host,
                                      cell_fit.host_cell),
                    dataclasses.replace(guest, cells=(cell,)))
                    for cell, cell_fit in zip(guest.cells, fit.cells)):
                return count


class TestFewest(unit_base.TestCase):

    @unit_base.settings(300)
    @given(strategies.integers(0, 10 ** 9).map(random.Random))
    def test_as_few_as_nova_could_take(self, rng):
        oracle_case.setup()
        host = _any_host(rng)
        guest = _any_guest(rng, host)
        fit = _claim(host, guest)
        if fit is None:
            return
        pins = {cpu for cell in fit.cells for _vcpu, cpu in cell.pins}
        self.assertEqual(
            (sum(not pins.isdisjoint(cache) for cache in host.l3_domains),
             _fewest(host, guest, fit)), _caches(host, guest, fit))


class TestKnown(base.BaseTestCase):
    """Guests on CPUs 2 to 5 of 8, of which caches may be known."""

    GUEST = builders.guest((4, 1))
    FIT = model.Fit((model.CellFit(0, tuple(zip(range(4), range(2, 6)))),))
    CELLS = (builders.host_cell(0, range(8)),)

    def _known(self, *caches, said=(), **values):
        return _caches(_host(self.CELLS, caches, **values), self.GUEST,
                       self.FIT, said)

    def test_known_caches(self):
        self.assertEqual((2, 1), self._known(range(4), range(4, 8)))
        self.assertEqual((1, 1), self._known(range(8)))

    def test_by_their_size(self):
        """As CacheLocalityWeigher is told of it."""
        traits = frozenset([placement_traits.l3_trait(4)])
        said = [('some', offered_host.Aggregate(
            'some', metadata={placement_traits.L3_KEY: '2'}))]
        self.assertEqual((2, 1), self._known(traits=traits))
        self.assertEqual((2, 2), self._known(
            traits=traits, aggregates=('some',), said=said))

    def test_several_cells_by_their_size(self):
        """No cache is taken to be that of another cell."""
        cells = [builders.host_cell(number, range(8 * number, 8 * number + 8))
                 for number in range(2)]
        host = _host(cells, traits=frozenset([placement_traits.l3_trait(4)]))
        guest = builders.guest((2, 1), (2, 1))
        fit = model.Fit((
            model.CellFit(0, ((0, 0), (1, 1))),
            model.CellFit(1, ((2, 11), (3, 12)))))
        self.assertEqual((3, 2), _caches(host, guest, fit))

    def test_unknown(self):
        for name, host, guest, fit in (
                ('nothing tells', _host(self.CELLS), self.GUEST, self.FIT),
                ('of a CPU nothing tells', _host(self.CELLS, [range(5)]),
                 self.GUEST, self.FIT),
                ('caches that overlap', _host(
                    self.CELLS, [range(5), range(3, 8)]), self.GUEST,
                 self.FIT),
                ('not pinned', _host(self.CELLS, [range(8)]), self.GUEST,
                 model.Fit((model.CellFit(0),))),
                ('it floats', _host(self.CELLS, [range(8)]),
                 builders.floating_guest((4, 1)),
                 model.Fit((model.CellFit(0),))),
                ('no such cell', _host(self.CELLS, [range(8)]), self.GUEST,
                 model.Fit((model.CellFit(1, self.FIT.cells[0].pins),)))):
            self.assertIsNone(_caches(host, guest, fit), name)

    def test_cpus_that_were_for_guests(self):
        """What it has is possible."""
        cells = (dataclasses.replace(
            self.CELLS[0], dedicated_cpus=cpuset.CpuSet((0, 1, 6, 7))),)
        self.assertEqual((1, 1), _caches(
            _host(cells, [(0, 1, 2, 3, 4, 5), (6, 7)]), self.GUEST, self.FIT))


class TestSum(base.BaseTestCase):

    def test_sum(self):
        self.assertEqual(
            l3_layout.CacheSum(guests=2, caches=5, fewest=3, on_fewest=1),
            l3_layout.total([l3_layout.GuestCaches(3, 1), None,
                             l3_layout.GuestCaches(2, 2)]))
