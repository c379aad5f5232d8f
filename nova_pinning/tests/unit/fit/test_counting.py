# SPDX-License-Identifier: Apache-2.0


import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

import hypothesis
from hypothesis import strategies
import testtools

from nova_pinning import fit
from nova_pinning.fit import cell_check
from nova_pinning.fit import counting
from nova_pinning.fit import usage
from nova_pinning import model
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit import unit_base

# From here on, guests that need nothing are taken for endless.
_MANY = 100


def _pack(host, cell, guest, index):
    """How many guest cells the engine puts on a host cell, up to _MANY."""
    demand = guest.demands[index]
    found = 0
    while (found < _MANY
           and cell_check.shortage(cell, host, guest, demand) is None):
        # Only this cell of the guest is put on this cell of the host.
        alone = model.Fit(tuple(
            fit.pin_cell(guest, index, cell) if place == index
            else model.CellFit(host_cell=-1)
            for place in range(len(guest.cells))))
        (cell,) = usage.take(host._replace(cells=(cell,)), guest, alone).cells
        found += 1
    return found


@strategies.composite
def _smt_cells(draw):
    """Cells of cores with a few threads, some CPUs of which are taken."""
    sizes = draw(strategies.lists(
        strategies.sampled_from(draw(strategies.sampled_from(
            [[2], [1], [4], [1, 2], [1, 2, 4]]))),
        min_size=1, max_size=8))
    cores, first = [], 0
    for size in sizes:
        cores.append(tuple(range(first, first + size)))
        first += size
    cpus = draw(strategies.sets(strategies.sampled_from(range(first))))
    shared = draw(strategies.sampled_from([set(), cpus, {0, 1, 2}]))
    pinned = draw(strategies.sets(strategies.sampled_from(range(first))))
    if draw(strategies.integers(0, 9)):
        pinned &= cpus
    if not draw(strategies.integers(0, 9)):
        cores.append(cores[0])
    return builders.host_cell(
        0, cpus, cores=tuple(cores), shared_cpus=shared, pinned_cpus=pinned,
        memory_mib=4096, memory_used_mib=draw(strategies.integers(0, 500)),
        shared_used=draw(strategies.integers(0, 8)))


@strategies.composite
def _guests(draw):
    dedicated = draw(strategies.integers(0, 5))
    shared = draw(strategies.integers(0, 2))
    policy = draw(strategies.sampled_from(
        [model.CpuPolicy.DEDICATED, model.CpuPolicy.MIXED]))
    if policy is model.CpuPolicy.DEDICATED:
        shared = 0
    return model.Guest(
        (model.GuestCell(
            tuple(range(dedicated)),
            tuple(range(dedicated, dedicated + shared)),
            draw(strategies.sampled_from([1, 100, 1000]))),),
        policy, draw(strategies.sampled_from(list(model.ThreadPolicy))),
        draw(strategies.booleans()))


class TestCount(testtools.TestCase):
    """The engine, putting on one guest cell after another, is the oracle."""

    def _compare(self, host, guest):
        for cell in counting.cells(host):
            for index, demand in enumerate(guest.demands):
                counts = counting.count(cell, guest, demand)
                self.assertEqual(
                    _pack(host, cell.view, guest, index),
                    min(_MANY, counts.memory), (cell, guest))
                self.assertTrue(
                    counts.cpus >= counts.cores >= counts.memory)

    @unit_base.settings(400)
    @hypothesis.given(builders.ANY_CASE)
    def test_cases_of_all_kinds(self, case):
        host, guest = builders.model_of(case)
        self._compare(host, guest)

    @unit_base.settings(400)
    @hypothesis.given(_smt_cells(), _guests())
    def test_cores_with_holes(self, cell, guest):
        self._compare(builders.host(
            cell, cpu_allocation_ratio=4.0, ram_allocation_ratio=1.5), guest)

    def test_orphans(self):
        cell = builders.host_cell(0, range(8), 2, pinned_cpus=[0, 4, 5])
        self.assertEqual(1, counting.cells(builders.host(cell))[0].orphans)
