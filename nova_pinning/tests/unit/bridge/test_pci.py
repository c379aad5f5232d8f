# SPDX-License-Identifier: Apache-2.0

import collections
import inspect
import itertools
import types
from unittest import mock

import hypothesis
from hypothesis import strategies
from nova import objects
from nova.pci import stats as nova_stats

from nova_pinning.bridge import pci
from nova_pinning.bridge import topology
from nova_pinning import fit
from nova_pinning.fit import _cells
from nova_pinning import model
from nova_pinning.tests.oracle import oracle
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base

_POLICIES = [None, 'legacy', 'preferred', 'required', 'socket']


_KINDS = ['type-PCI', 'type-PCI', 'type-VF', 'type-PF', 'vdpa']
_SOCKETS = [
    [0] * 6, [0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 2, 2],
    [None] * 6, [0, 0, 0, None, None, None]]


@strategies.composite
def _pools(draw):
    """Devices with what makes nova leave some out, now and then."""
    providers = draw(strategies.sampled_from(
        [range(8), range(8), [0, 1, 2, 0, 1, 2, 0, 1]]))
    pools = []
    for number in range(draw(strategies.integers(0, 8))):
        pool = {
            'vendor_id': '8086',
            'product_id': draw(strategies.sampled_from(['1520', '154d'])),
            'numa_node': draw(
                strategies.sampled_from([0, 0, 1, 2, 3, 5, None])),
            'dev_type': draw(strategies.sampled_from(_KINDS)),
            'count': draw(strategies.integers(0, 4)),
            'address': f'0000:{number:02x}:00.0',
            'rp_uuid': oracle_case.provider_id(providers[number])}
        if draw(strategies.integers(0, 5)) == 0:
            del pool['rp_uuid']
        if draw(strategies.integers(0, 5)) == 0:
            pool['remote_managed'] = draw(
                strategies.sampled_from(['true', 'false']))
        if draw(strategies.integers(0, 5)) == 0:
            pool['live_migratable'] = draw(
                strategies.sampled_from(['true', 'false']))
        pools.append(pool)
    return pools


@strategies.composite
def _request(draw):
    specs = [{'vendor_id': '8086'}, {'product_id': '1520'},
             {'product_id': '1520'}, {'product_id': '154d'}]
    request = {
        'count': draw(strategies.sampled_from([0, 1, 1, 2, 2, 3, 4])),
        'spec': draw(strategies.lists(
            strategies.sampled_from(specs), min_size=1, max_size=2)),
        'alias': draw(strategies.sampled_from(['nic', None])),
        'policy': draw(strategies.sampled_from(_POLICIES))}
    more = draw(strategies.sampled_from(
        [{}] * 7 + [{'dev_type': 'type-PF'}, {'dev_type': 'vdpa'},
                    {'remote_managed': 'true'}, {'live_migratable': 'true'}]))
    request['spec'] = [one | more for one in request['spec']]
    return request


@strategies.composite
def _cases(draw):
    """A host of 6 cells with a few devices, and requests for some."""
    pools = draw(_pools())
    requests = draw(strategies.lists(_request(), min_size=1, max_size=3))
    if draw(strategies.integers(0, 3)) == 0:
        # As for several ports of one network.
        requests = [requests[0]] * len(requests)
    mapping = None
    providers = sorted({pool.get('rp_uuid', oracle_case.provider_id(9))
                        for pool in pools})
    if providers and draw(strategies.integers(0, 2)) == 0:
        mapping = {
            f'{oracle_case.request_id(number)}-{nth}': [
                draw(strategies.sampled_from(providers))]
            for number, request in enumerate(requests)
            for nth in range(request['count'])}
    host = [
        oracle_cases.host_cell(number, [number], socket=socket)
        for number, socket in enumerate(
            draw(strategies.sampled_from(_SOCKETS)))]
    return oracle_cases.case(host, oracle_cases.guest((1, 1)), pci={
        'pools': pools, 'requests': requests, 'mapping': mapping})


@strategies.composite
def _rivals(draw):
    """Requests for the same devices, in one order or another."""
    pools = [
        {'vendor_id': '8086', 'product_id': draw(
            strategies.sampled_from(['1520', '154d'])),
         'numa_node': draw(strategies.sampled_from([0, 1, 2, 3, None])),
         'dev_type': draw(strategies.sampled_from(['type-VF', 'type-PF'])),
         'count': draw(strategies.integers(1, 2))}
        for _number in range(draw(strategies.integers(2, 6)))]
    requests = [
        {'count': draw(strategies.integers(1, 3)),
         'spec': [draw(strategies.sampled_from(
             [{'vendor_id': '8086'}, {'product_id': '1520'},
              {'vendor_id': '8086', 'dev_type': 'type-PF'}]))],
         'alias': 'nic', 'policy': draw(strategies.sampled_from(_POLICIES))}
        for _number in range(draw(strategies.integers(1, 4)))]
    host = [
        oracle_cases.host_cell(number, [number], socket=socket)
        for number, socket in enumerate(
            draw(strategies.sampled_from(_SOCKETS)))]
    return oracle_cases.case(host, oracle_cases.guest((1, 1)), pci={
        'pools': pools, 'requests': requests, 'mapping': None})


_ANY_CASE = _cases() | _rivals()


def _check(case):
    inputs = case.inputs()
    return pci.NovaPciCheck(
        inputs.pci_stats, inputs.pci_requests, inputs.provider_mapping)


def _nova(case):
    """A function that asks nova about a set of cells.

    To ask changes nothing, so a case is built once.
    """
    stats, requests, mapping = (
        case.pci_stats(), case.pci_requests(), case.mapping())

    def supports(cell_ids):
        return stats.support_requests(
            requests, mapping,
            [_InstanceCell(cell_id) for cell_id in cell_ids])

    return supports


def _claim(case):
    """A function that asks whether a claim on a set of cells gets all."""
    nova_supports, stats = _nova(case), case.pci_stats()
    asked = oracle.allotted(case.pci_requests(), case.mapping())

    def gets_all(cell_ids):
        return nova_supports(cell_ids) and oracle.gets_all_devices(
            asked, stats, [_InstanceCell(cell_id) for cell_id in cell_ids])

    return gets_all


class TestLabels(oracle_cases.TestCase):

    @unit_base.settings(250)
    @hypothesis.given(_ANY_CASE, strategies.integers(1, 3))
    def test_like_sets_of_cells_get_like_answers(self, case, count):
        """What is said of a set follows from the labels of its cells."""
        check = _check(case)
        cells = topology.host_from_nova(case.host()).cells
        answers = collections.defaultdict(set)
        nova_supports, gets_all = _nova(case), _claim(case)
        for chosen in itertools.combinations(cells, count):
            labels = frozenset(collections.Counter(
                check.label(cell) for cell in chosen).items())
            ids = [cell.id for cell in chosen]
            answers[labels].add((nova_supports(ids), gets_all(ids)))
        for labels, found in answers.items():
            self.assertEqual(1, len(found), (labels, str(case)))

    @unit_base.settings(200)
    @hypothesis.given(_ANY_CASE, strategies.sets(
        strategies.integers(0, 5), min_size=1, max_size=3))
    def test_asks_nova(self, case, cell_ids):
        cell_ids = tuple(sorted(cell_ids))
        check = _check(case)
        for _again in range(2):
            # Asking takes no devices away.
            self.assertEqual(_claim(case)(cell_ids), check.supports(cell_ids))
            self.assertEqual(
                _nova(case)(cell_ids), check.nova_supports(cell_ids))
            check._known.clear()

    def test_functions_of_one_device(self):
        """A physical function takes its virtual ones, no others.

        Only the claim minds that.
        """
        pools = [
            {'vendor_id': '8086', 'product_id': product, 'count': 1,
             'numa_node': node, 'dev_type': dev_type, 'address': address}
            for node, product, dev_type, address in (
                (0, '1', 'type-PF', 'a'), (0, '2', 'type-VF', 'a'),
                (1, '1', 'type-PF', 'b'), (1, '2', 'type-VF', 'c'))]
        case = oracle_cases.case(
            [oracle_cases.host_cell(number, [number]) for number in range(2)],
            oracle_cases.guest((1, 1)), pci={
                'pools': pools, 'mapping': None, 'requests': [
                    {'count': 1, 'alias': kind, 'policy': 'required',
                     'spec': [{'product_id': product, 'dev_type': kind}]}
                    for product, kind in (('1', 'type-PF'),
                                          ('2', 'type-VF'))]})
        check = _check(case)
        self.assertEqual([False, True],
                         [check.supports((cell,)) for cell in range(2)])
        self.assertTrue(check.nova_supports((0,)))
        cells = topology.host_from_nova(case.host()).cells
        self.assertNotEqual(*map(check.label, cells))

    def _labels(self, policy, sockets=(0, 0, 1, 1), nodes=(0,)):
        case = oracle_cases.case(
            [oracle_cases.host_cell(number, [number], socket=socket)
             for number, socket in enumerate(sockets)],
            oracle_cases.guest((1, 1)), pci={
                'pools': [
                    {'vendor_id': '8086', 'product_id': '1', 'count': 1,
                     'numa_node': node, 'dev_type': 'type-PCI'}
                    for node in nodes],
                'requests': [{'count': 1, 'spec': [{'vendor_id': '8086'}],
                              'alias': None, 'policy': policy}],
                'mapping': None})
        check = _check(case)
        return [check.label(cell) for cell in
                topology.host_from_nova(case.host()).cells]

    def test_cells_without_devices_are_alike(self):
        """Else a host of many cells would have too many sets to try."""
        for policy in _POLICIES[:-1]:
            labels = self._labels(policy)
            self.assertEqual(1, len(set(labels[1:])), policy)
            self.assertNotEqual(labels[0], labels[1], policy)

    def test_but_for_the_socket_if_that_matters(self):
        labels = self._labels('socket')
        self.assertEqual(3, len(set(labels)))
        self.assertEqual(labels[2], labels[3])

    def test_devices_without_a_node(self):
        self.assertEqual(1, len(set(self._labels('legacy', nodes=[None]))))

    def _alike(self, pools, requests, mapping=None):
        """The cells of 6 that stand for each other, as sets of ids."""
        case = _host_of_cells(6, 1, pools, requests, mapping)
        check = _check(case)
        alike = collections.defaultdict(set)
        for cell in topology.host_from_nova(case.host()).cells:
            alike[check.label(cell)].add(cell.id)
        return sorted(map(sorted, alike.values()))

    def test_devices_that_nobody_asks_for(self):
        pools = [_pool(node, 1, product=str(node)) for node in range(6)]
        self.assertEqual([[0, 1, 2, 4, 5], [3]], self._alike(
            pools, [_asked(1, product='3')]))

    def test_like_devices(self):
        pools = [_pool(node, count)
                 for node, count in ((0, 2), (1, 2), (2, 1), (2, 1), (4, 1))]
        self.assertEqual(
            [[0, 1, 2], [3, 5], [4]], self._alike(pools, [_asked(2)]))
        # Two requests for the same are as good as one for both.
        self.assertEqual([[0, 1, 2], [3, 5], [4]], self._alike(
            pools, [_asked(1), _asked(2)]))

    def test_requests_for_different_devices(self):
        pools = [_pool(node, 1, product=product) for node, product in (
            (0, '1'), (1, '1'), (1, '2'), (2, '1'), (2, '2'), (3, '2'))]
        self.assertEqual([[0], [1, 2], [3], [4, 5]], self._alike(
            pools, [_asked(1, product='1'), _asked(1, product='2')]))

    def test_requests_that_compete(self):
        pools = [_pool(node, 1) for node in range(3)]
        self.assertEqual([[0], [1], [2], [3, 4, 5]], self._alike(
            pools, [_asked(1), _asked(1, policy='required')]))

    def test_an_allotment(self):
        pools = [_pool(node, 1, rp_uuid=oracle_case.provider_id(node))
                 for node in range(4)]
        self.assertEqual([[0], [1, 2, 3], [4, 5]], self._alike(
            pools, [_asked(1)],
            {f'{oracle_case.request_id(0)}-0': [oracle_case.provider_id(0)]}))

    def test_like_requests_for_which_the_order_of_pools_matters(self):
        """As many devices near cells 0 and 1, but not for nova."""
        with_pfs = [
            _pool(0, 1), _pool(0, 1, dev_type='type-PF'), _pool(None, 3),
            _pool(1, 1), _pool(1, 1, dev_type='type-PF')]
        with_none_left = [_pool(0, 1), _pool(1, 1), _pool(1, 0)]
        for pools, requests in (
                # The first takes the device near cell 0 but not that near 1,
                # so for cell 0 only the PF is left near it.
                (with_pfs, [_asked(3), _asked(1)]),
                (with_none_left, [_asked(1, policy='required'),
                                  _asked(0, policy='required')])):
            nova_supports = _nova(_host_of_cells(6, 1, pools, requests))
            self.assertEqual(
                [False, True], [nova_supports([cell]) for cell in (0, 1)])
            self.assertEqual(
                [[0], [1], [2, 3, 4, 5]], self._alike(pools, requests))

    def test_resource_providers_with_several_pools(self):
        """Then nova meets no request with an allotment, whatever is asked."""
        uuids = [oracle_case.provider_id(number) for number in range(2)]
        nic = _pool(None, 1, rp_uuid=uuids[0])
        mapping = {f'{oracle_case.request_id(0)}-0': [uuids[0]]}
        others = [_pool(node, 1, product='9', rp_uuid=uuids[1])
                  for node in range(2)]
        for pools, expected in (([nic, *others], False),
                                ([nic, others[0]], True)):
            case = _host_of_cells(2, 1, pools, [_asked(1)], mapping)
            self.assertEqual(expected, _nova(case)([0]))
            self.assertEqual(expected, _check(case).supports((0,)))
        # A port that goes first may take the last device of such a pool, if
        # that is the first of those near its cell.
        pools = [nic, _pool(0, 1, product='9'), *others,
                 _pool(1, 1, product='9')]
        requests = [_asked(1, policy='required', product='9', alias=None),
                    _asked(1)]
        mapping = {f'{oracle_case.request_id(1)}-0': [uuids[0]]}
        nova_supports = _nova(_host_of_cells(6, 1, pools, requests, mapping))
        self.assertEqual(
            [False, True], [nova_supports([cell]) for cell in (0, 1)])
        self.assertEqual([[0], [1], [2, 3, 4, 5]],
                         self._alike(pools, requests, mapping))


class TestShortfall(oracle_cases.TestCase):

    @unit_base.settings(300)
    @hypothesis.given(_ANY_CASE, strategies.sets(
        strategies.integers(0, 5), min_size=1), strategies.integers(1, 4))
    def test_never_wrong(self, case, cell_ids, count):
        hypothesis.assume(count <= len(cell_ids))
        cell_ids = tuple(sorted(cell_ids))
        if not _check(case).shortfall(cell_ids, count):
            return
        gets_all = _claim(case)
        for chosen in itertools.combinations(cell_ids, count):
            self.assertFalse(gets_all(chosen), str(case))

    @unit_base.settings(200)
    @hypothesis.given(
        strategies.lists(strategies.builds(
            lambda node, count: _pool(node, count),
            strategies.sampled_from([0, 1, 2, 3, 4, None]),
            strategies.integers(1, 3)), max_size=5),
        strategies.lists(strategies.integers(1, 4), min_size=1, max_size=3),
        strategies.sampled_from(_POLICIES), strategies.sampled_from(_SOCKETS),
        strategies.sets(strategies.integers(0, 5), min_size=1),
        strategies.integers(1, 4))
    def test_exact_for_requests_alike(
        self, pools, counts, policy, sockets, cell_ids, count,
    ):
        """What it lets pass is a matter of competition alone."""
        hypothesis.assume(count <= len(cell_ids))
        case = _host_of_cells(
            6, 1, pools, [_asked(count, policy=policy) for count in counts],
            sockets=sockets)
        self.assertEqual(
            any(map(_nova(case), itertools.combinations(
                sorted(cell_ids), count))),
            not _check(case).shortfall(tuple(cell_ids), count))

    def test_sockets(self):
        for sockets, expected in (([0, 0, 1, 1], True), ([0, 1, 0, 1], False),
                                  ([0, 0, None, 1], False),
                                  ([None] * 4, False)):
            case = _host_of_cells(4, 1, [_pool(1, 1)],
                                  [_asked(1, policy='socket')],
                                  sockets=sockets)
            self.assertEqual(expected, _nova(case)([0]))
            self.assertEqual(expected, not _check(case).shortfall((0,), 1))

    def test_allotted_devices_out_of_reach(self):
        """Nova is content with those of the other provider."""
        uuids = [oracle_case.provider_id(number) for number in range(2)]
        pools = [_pool(node, 2, rp_uuid=uuids[node]) for node in range(2)]
        mapping = {f'{oracle_case.request_id(0)}-{nth}': [uuids[nth]]
                   for nth in range(2)}
        for policy in ('legacy', 'required', 'socket', 'preferred'):
            case = _host_of_cells(2, 1, pools, [_asked(2, policy)], mapping,
                                  sockets=[0, 1])
            self.assertTrue(_nova(case)([0]))
            self.assertFalse(_check(case).supports((0,)))
            self.assertTrue(_check(case).supports((0, 1)))
            self.assertEqual('', _check(case).shortfall((0, 1), 2))
            if policy != 'preferred':
                self.assertEqual(
                    f'alias "nic" with policy "{policy}": 2 wanted, 1 within '
                    'reach of the best 1 of 2 host cells with room, 1 '
                    'elsewhere on the host',
                    _check(case).shortfall((0, 1), 1))

    def test_words(self):
        check = _check(_host_of_cells(4, 1, [
            _pool(0, 3), _pool(1, 2), _pool(2, 1), _pool(None, 2),
            _pool(1, 9, product='9')],
            [_asked(6, policy='required'), _asked(1, product='9')]))
        self.assertEqual('', check.shortfall((0, 1, 2, 3), 3))
        self.assertEqual(
            'alias "nic" with policy "required": 6 wanted, 5 within reach of '
            'the best 2 of 3 host cells with room, 3 elsewhere on the host',
            check.shortfall((0, 1, 2), 2))
        self.assertEqual(
            'alias "nic" with policy "required": 6 wanted, 1 within reach of '
            'the best 1 of 1 host cells with room, 7 elsewhere on the host; '
            'alias "nic" with policy "legacy": 1 wanted, 0 within reach of '
            'the best 1 of 1 host cells with room, 9 elsewhere on the host',
            check.shortfall((2,), 1))

    def test_words_for_ports(self):
        check = _check(_host_of_cells(
            2, 1, [_pool(0, 1)], [_asked(1, alias=None)] * 2))
        self.assertIn('ports with policy "legacy": 2 wanted, 1 within',
                      check.shortfall((0, 1), 2))


class TestSearch(oracle_cases.TestCase):
    """Through the engine."""

    def _choose(self, case):
        """The engine's choice, and the sets that nova was asked about."""
        check = _check(case)
        with mock.patch.object(
                check, 'supports', wraps=check.supports) as supports:
            choice = fit.choose_cells(
                topology.host_from_nova(case.host()),
                topology.guest_from_nova(case.guest()), pci=check)
        return choice, supports.call_count

    @unit_base.settings(150)
    @hypothesis.given(_ANY_CASE, strategies.integers(1, 3))
    def test_against_all_sets(self, case, count):
        case = oracle_cases.case(
            case.data['host'], oracle_cases.guest(*[(1, 1)] * count),
            pci=case.data['pci'])
        choice, _asked_about = self._choose(case)
        order = [cell.id for cell in _cells.order_cells(
            topology.host_from_nova(case.host()).cells,
            topology.guest_from_nova(case.guest()), False, _check(case))]
        failed = 0
        gets_all = _claim(case)
        for chosen in itertools.combinations(order, count):
            if gets_all(sorted(chosen)):
                self.assertEqual(
                    chosen, tuple(cell.id for cell in choice.cells))
                self.assertLessEqual(choice.sets_tried, failed)
                self.assertEqual(not failed, not choice.sets_tried)
                return
            failed += 1
        self.assertEqual(model.Reason.PCI, choice.reason)

    def test_cells_near_the_devices_are_full(self):
        for cells, guest_cells in ((32, 4), (24, 6)):
            choice, asked_about = self._choose(_host_of_cells(
                cells, guest_cells, [
                    _pool(0, 4), _pool(1, 4),
                    *(_pool(node, 1, product=f'{node:04}')
                      for node in range(2, cells))], [_asked(1)], full=(0, 1)))
            self.assertEqual(
                'alias "nic" with policy "legacy": 1 wanted, 0 within reach '
                f'of the best {guest_cells} of {cells - 2} host cells with '
                'room, 8 elsewhere on the host', choice.detail)
            self.assertEqual(0, asked_about)

    def test_one_device_too_many(self):
        pools = [_pool(node, 1) for node in range(32)]
        for requests in ([_asked(5, policy='required')],
                         [_asked(1, policy='required')] * 5):
            choice, asked_about = self._choose(
                _host_of_cells(32, 4, pools, requests))
            self.assertEqual(model.Reason.PCI, choice.reason)
            self.assertEqual(0, asked_about)

    def test_devices_far_from_each_other(self):
        """Few sets differ, though there are 35,960."""
        choice, asked_about = self._choose(_host_of_cells(
            32, 4, [_pool(node, 1, product=str(node // 16))
                    for node in range(32)],
            [_asked(3, policy='required', product='0'),
             _asked(3, policy='required', product='1')]))
        self.assertEqual(model.Reason.PCI, choice.reason)
        self.assertEqual(5, asked_about)


class TestAllotment(oracle_cases.TestCase):

    def _allotment(self, mapping, requests=2):
        case = _host_of_cells(
            1, 1, [], [_asked(1, alias='nic' if number < 2 else None)
                       for number in range(requests)])
        return pci.allotment(case.pci_requests(), mapping and {
            f'{oracle_case.request_id(number)}-{nth}': [
                oracle_case.provider_id(provider)]
            for (number, nth), provider in mapping.items()})

    def test_like_candidates(self):
        for one, other in (
                # Of one device each, and in another order.
                ({(0, 0): 1, (0, 1): 2}, {(0, 1): 1, (0, 0): 2}),
                ({(0, 0): 1, (1, 0): 2}, {(1, 0): 2, (0, 0): 1}),
                # The third is a port, which nova meets from any provider.
                ({(0, 0): 1, (2, 0): 2}, {(0, 0): 1, (2, 0): 3}),
                # Of some other group, such as a port's bandwidth.
                ({(0, 0): 1}, {(0, 0): 1, (7, 0): 3}),
                (None, {})):
            self.assertEqual(
                self._allotment(one, 3), self._allotment(other, 3))

    def test_unlike_candidates(self):
        for one, other in (
                ({(0, 0): 1}, {(0, 0): 2}),
                ({(0, 0): 1, (1, 0): 2}, {(0, 0): 2, (1, 0): 1}),
                ({(0, 0): 1, (0, 1): 1}, {(0, 0): 1, (0, 1): 2}),
                ({(0, 0): 1}, None)):
            self.assertNotEqual(
                self._allotment(one), self._allotment(other))
            self.assertEqual(
                2, len({self._allotment(one), self._allotment(other)}))

    def test_allotted_before(self):
        """Requests of a guest that has been scheduled carry the providers."""
        requests = [objects.InstancePCIRequest(
            count=1, alias_name='nic', spec=[{'rp_uuids': text}])
            for text in ('a,b', 'b,a', 'b')]
        found = [pci.allotment([request], None) for request in requests]
        self.assertEqual(found[0], found[1])
        self.assertNotEqual(found[0], found[2])

    def test_no_requests(self):
        self.assertEqual(pci.allotment(None, None), pci.allotment([], {}))


class TestNova(oracle_cases.TestCase):

    def test_private_functions(self):
        """What is used of nova that nova does not promise to keep."""
        for name, parameters in (
                ('_filter_pools', 'self pools request numa_cells rp_uuids'),
                ('_filter_pools_for_spec', 'self pools request'),
                ('_get_rp_uuids_for_request',
                 'self provider_mapping request')):
            function = getattr(nova_stats.PciDeviceStats, name)
            self.assertEqual(
                parameters.split(),
                list(inspect.signature(function).parameters))


class TestCounts(oracle_cases.TestCase):

    def test_devices_of_all_kinds(self):
        case = oracle_cases.case(
            [oracle_cases.host_cell(0, [0]), oracle_cases.host_cell(1, [1])],
            oracle_cases.guest((1, 1)), pci={
                'pools': [
                    {'vendor_id': vendor, 'product_id': '1', 'count': count,
                     'numa_node': node, 'dev_type': kind}
                    for vendor, kind, node, count in (
                        ('8086', 'type-PCI', 0, 2), ('10de', 'type-PF', 0, 1),
                        ('8086', 'type-VF', None, 4))],
                'requests': [], 'mapping': None})
        check = _check(case)
        self.assertEqual([3, 0, 0], [
            check.device_count(number) for number in range(3)])
        self.assertFalse(check.is_requested)

    def test_nothing_requested(self):
        for requests in (None, []):
            self.assertFalse(pci.NovaPciCheck(
                oracle_cases.case([], oracle_cases.guest(), pci={
                    'pools': [], 'requests': [], 'mapping': None}
                ).pci_stats(), requests, None).is_requested)

    def test_nothing_else_is_looked_at_if_nothing_is_requested(self):
        """There is a check for each host that has devices."""
        check = pci.NovaPciCheck(types.SimpleNamespace(
            pools=[{'numa_node': 1, 'count': 2}]), [], None)
        self.assertEqual(2, check.device_count(1))


class _InstanceCell:
    """All that nova reads of a guest's cell here: its host cell's id."""

    def __init__(self, cell_id):
        self.id = cell_id


def _pool(node, count, product='1520', **values):
    return {'vendor_id': '8086', 'product_id': product, 'numa_node': node,
            'dev_type': 'type-PCI', 'count': count,
            'address': f'0000:{node or 0:02x}:00.0'} | values


def _asked(count, policy=None, product='1520', alias='nic'):
    return {'count': count, 'alias': alias, 'policy': policy,
            'spec': [{'vendor_id': '8086', 'product_id': product}]}


def _host_of_cells(
    count, guest_cells, pools, requests, mapping=None, sockets=None, full=(),
):
    """A host of one CPU in each cell, and a guest of as much in each."""
    return oracle_cases.case(
        [oracle_cases.host_cell(number, [number],
                                pinned=[number] if number in full else [],
                                socket=sockets[number] if sockets else 0)
         for number in range(count)],
        oracle_cases.guest(*[(1, 1)] * guest_cells),
        pci={'pools': pools, 'requests': requests, 'mapping': mapping})
