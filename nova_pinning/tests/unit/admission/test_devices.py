# SPDX-License-Identifier: Apache-2.0

import collections
import itertools

import ddt
import hypothesis
from hypothesis import strategies
from nova import exception
from nova import objects
from nova.pci import stats as nova_stats
import testtools

from nova_pinning.admission import devices
from nova_pinning.bridge import pci
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit import unit_base

_NIC = devices.device_keys('8086', '1520')
_GPU = devices.device_keys('10de', '2230')
_KINDS = strategies.sampled_from([_NIC, _GPU])
_NODES = strategies.sampled_from([0, 0, 1, 2, 3, None])

# In one order for scheduler and claim: oracle.device_oracle has several.
_POOLS = strategies.lists(
    strategies.builds(devices.PciPool, _KINDS, _NODES,
                      strategies.integers(1, 3),
                      claim_rank=strategies.just(0)), max_size=6)
_USES = strategies.lists(
    strategies.builds(devices.PciUse, _KINDS, _NODES,
                      strategies.integers(1, 2)), max_size=3)
_REQUESTS = strategies.lists(
    strategies.builds(
        devices.PciRequest, strategies.just('device'),
        strategies.sampled_from([(_NIC,), (_GPU,), (_NIC, _GPU)]),
        strategies.integers(1, 4),
        strategies.sampled_from(
            ['legacy', 'preferred', 'required', 'socket'])),
    min_size=1, max_size=3)
_SOCKETS = strategies.sampled_from(
    [(0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 2, 3), (None,) * 4, (0, 0, 1, None)])
_CELL_IDS = strategies.sets(strategies.integers(0, 3), max_size=3)


def _cells(sockets):
    return [builders.host_cell(number, [number], socket=socket)
            for number, socket in enumerate(sockets)]


def _nova_stats(pools, uses, sockets):
    """Nova's own stats of pools, of which some devices are in use."""
    oracle_case.setup()
    stats = nova_stats.PciDeviceStats(objects.NUMATopology(cells=[
        objects.NUMACell(id=number, socket=socket)
        for number, socket in enumerate(sockets)]))
    stats.pools = [
        {**dict(pool.keys), 'numa_node': pool.numa_node, 'count': pool.total,
         'number': number}
        for number, pool in enumerate(pools)]
    for use in uses:
        count = use.count
        for pool in list(stats.pools):
            if count and (pool['vendor_id'], pool['product_id'],
                          pool['numa_node']) == (
                    dict(use.keys)['vendor_id'],
                    dict(use.keys)['product_id'], use.numa_node):
                count = stats._decrease_pool_count(stats.pools, pool, count)
    return stats


def _nova_requests(requests):
    return [
        objects.InstancePCIRequest(
            count=request.count, alias_name=request.alias,
            request_id=oracle_case.request_id(number),
            numa_policy=request.policy,
            spec=list(map(dict, request.specs)))
        for number, request in enumerate(requests)]


def _nova_cells(cell_ids):
    return [objects.InstanceNUMACell(id=number)
            for number in sorted(cell_ids)] or None


def _counts(pools):
    """Devices by kind and node."""
    found = {}
    for pool in pools:
        key = pool.keys, pool.numa_node
        found[key] = found.get(key, 0) + pool.total
    return found


class TestLikeNova(testtools.TestCase):
    """Nova's own PciDeviceStats is the oracle."""

    @unit_base.settings(400)
    @hypothesis.given(_POOLS, _USES, _REQUESTS, _SOCKETS, _CELL_IDS)
    def test_support(self, pools, uses, requests, sockets, cell_ids):
        stats = _nova_stats(pools, uses, sockets)
        check = devices.check(pools, uses, requests, _cells(sockets))
        self.assertEqual(
            stats.support_requests(_nova_requests(requests), None,
                                   _nova_cells(cell_ids)),
            check.supports(tuple(sorted(cell_ids))))
        for number in range(4):
            self.assertEqual(
                sum(pool['count'] for pool in stats.pools
                    if pool['numa_node'] == number),
                check.device_count(number))

    @unit_base.settings(400)
    @hypothesis.given(_POOLS, _USES, _REQUESTS, _SOCKETS, _CELL_IDS)
    def test_take(self, pools, uses, requests, sockets, cell_ids):
        """What is left is what nova has left."""
        stats = _nova_stats(pools, uses, sockets)
        found = devices.take(pools, uses, requests, cell_ids,
                             _cells(sockets))
        try:
            stats.apply_requests(_nova_requests(requests), None,
                                 _nova_cells(cell_ids))
        except exception.PciDeviceRequestFailed:
            self.assertIsNone(found)
            return
        self.assertIsNotNone(found)
        self.assertEqual(
            {(devices.device_keys(pool['vendor_id'], pool['product_id']),
              pool['numa_node'], pool['number']): pool['count']
             for pool in stats.pools},
            self._numbered(pools, uses, found))

    def _numbered(self, pools, uses, found):
        """What is left of each pool, told apart by place."""
        places = {}
        left = devices.free(pools, [*uses, *found])
        by_pool = _counts(left)
        # Free devices of like pools are those of the last of them.
        for number in range(len(pools) - 1, -1, -1):
            kind, node, total = pools[number][:3]
            count = min(total, by_pool.get((kind, node), 0))
            if count:
                places[kind, node, number] = count
                by_pool[kind, node] -= count
        return places


@ddt.ddt
class TestTake(testtools.TestCase):

    @ddt.data(
        ('required', None), ('legacy', None), ('socket', None),
        ('preferred', 1))
    @ddt.unpack
    def test_a_device_of_another_socket(self, policy, node):
        taken = devices.take(
            [devices.PciPool(_NIC, 1, 1)], (),
            [devices.PciRequest('nic', (_NIC,), 1, policy)], [0],
            _cells((0, 1)))
        self.assertEqual(
            (devices.PciUse(_NIC, node, 1),) if node else None, taken)

    def test_devices_of_two_pools_for_one_request(self):
        pools = [devices.PciPool(_NIC, 0, 1),
                 devices.PciPool(_NIC, None, 2)]
        self.assertEqual(
            (devices.PciUse(_NIC, 0, 1),
             devices.PciUse(_NIC, None, 1)),
            devices.take(pools, (),
                         [devices.PciRequest('nic', (_NIC,), 2)], [0],
                         _cells((0, 0))))

    def test_nothing_asked_nothing_taken(self):
        self.assertEqual((), devices.take([], (), (), [0], _cells((0,))))


class TestFree(testtools.TestCase):

    def test_more_in_use_than_there_are(self):
        """A snapshot may be wrong; that is for others to say."""
        pools = [devices.PciPool(_NIC, 0, 1),
                 devices.PciPool(_NIC, 1, 1)]
        self.assertEqual((pools[1],), devices.free(
            pools, [devices.PciUse(_NIC, 0, 5),
                    devices.PciUse(_GPU, 0, 1)]))


class TestLabels(testtools.TestCase):

    def test_cells_without_devices_are_alike(self):
        pools = [devices.PciPool(_NIC, 0, 1)]
        cells = _cells((0, 0, 1, 1))
        check = devices.check(
            pools, (), [devices.PciRequest('nic', (_NIC,), 1)], cells)
        self.assertEqual(2, len({check.label(cell) for cell in cells}))
        check = devices.check(
            pools, (), [devices.PciRequest('nic', (_NIC,), 1, 'socket')],
            cells)
        self.assertEqual(3, len({check.label(cell) for cell in cells}))

    def test_devices_that_nobody_asks_for(self):
        pools = [devices.PciPool(_GPU, number, 1) for number in range(4)]
        pools.append(devices.PciPool(_NIC, 2, 1))
        cells = _cells((0, 0, 1, 1))
        check = devices.check(
            pools, (), [devices.PciRequest('nic', (_NIC,), 1)], cells)
        labels = [check.label(cell) for cell in cells]
        self.assertEqual(2, len(set(labels)))
        self.assertEqual(1, labels.count(labels[2]))

    @unit_base.settings(150)
    @hypothesis.given(_POOLS, _REQUESTS, _SOCKETS, strategies.integers(1, 3))
    def test_as_novas_devices(self, pools, requests, sockets, count):
        """The bridge's check, over nova's own stats, says the same."""
        check = devices.check(pools, (), requests, _cells(sockets))
        stats = _nova_stats(pools, (), sockets)
        nova_check = pci.NovaPciCheck(stats, _nova_requests(requests), None)
        cells = _cells(sockets)
        self.assertEqual([nova_check.label(cell) for cell in cells],
                         [check.label(cell) for cell in cells])
        answers = collections.defaultdict(set)
        for chosen in itertools.combinations(cells, count):
            ids = tuple(cell.id for cell in chosen)
            answer = check.supports(ids)
            self.assertEqual(nova_check.supports(ids), answer)
            labels = frozenset(collections.Counter(
                check.label(cell) for cell in chosen).items())
            answers[labels].add(answer)
        self.assertEqual({1}, set(map(len, answers.values())))

    @unit_base.settings(150)
    @hypothesis.given(
        _POOLS, _USES, _REQUESTS, _SOCKETS,
        strategies.sets(strategies.integers(0, 3), min_size=1),
        strategies.integers(1, 4))
    def test_what_no_cells_can_have(
        self, pools, uses, requests, sockets, cell_ids, count,
    ):
        hypothesis.assume(count <= len(cell_ids))
        cell_ids = tuple(sorted(cell_ids))
        check = devices.check(pools, uses, requests, _cells(sockets))
        stats = _nova_stats(pools, uses, sockets)
        nova_check = pci.NovaPciCheck(stats, _nova_requests(requests), None)
        self.assertEqual(nova_check.shortfall(cell_ids, count),
                         check.shortfall(cell_ids, count))
        may_support = not check.shortfall(cell_ids, count)
        found = any(map(check.supports,
                        itertools.combinations(cell_ids, count)))
        if len(requests) == 1:
            self.assertEqual(found, may_support)
        elif found:
            self.assertTrue(may_support)
