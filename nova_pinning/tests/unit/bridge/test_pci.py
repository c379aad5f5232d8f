#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

import collections
import itertools

import hypothesis
from hypothesis import strategies

from nova_pinning.bridge import pci
from nova_pinning.bridge import topology
from nova_pinning.tests.oracle import case as case_lib
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.oracle import cases

_POLICIES = [None, 'legacy', 'preferred', 'required', 'socket']


@strategies.composite
def _cases(draw):
    """A host of 6 cells with a few devices, and requests for some."""
    sockets = draw(strategies.sampled_from(
        [[0] * 6, [0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 2, 2],
         [None] * 6, [0, 0, 0, None, None, None]]))
    pools = [
        {'vendor_id': '8086', 'product_id': draw(
            strategies.sampled_from(['1520', '154d'])),
         'numa_node': draw(strategies.sampled_from([0, 0, 1, 3, None])),
         'dev_type': 'type-PCI',
         'count': draw(strategies.integers(0, 2)),
         'rp_uuid': case_lib.provider_id(number)}
        for number in range(draw(strategies.integers(0, 4)))]
    requests = [
        {'count': draw(strategies.integers(1, 2)),
         'spec': [{'vendor_id': '8086', 'product_id': draw(
             strategies.sampled_from(['1520', '154d']))}],
         'alias': 'nic', 'policy': draw(strategies.sampled_from(_POLICIES))}
        for _number in range(draw(strategies.integers(1, 2)))]
    mapping = None
    if pools and draw(strategies.booleans()):
        mapping = {
            f'{case_lib.request_id(number)}-{nth}': [
                draw(strategies.sampled_from(pools))['rp_uuid']]
            for number, request in enumerate(requests)
            for nth in range(request['count'])}
    host = [
        cases.host_cell(number, [number], socket=socket)
        for number, socket in enumerate(sockets)]
    return cases.case(host, cases.guest((1, 1)), pci={
        'pools': pools, 'requests': requests, 'mapping': mapping})


def _check(case):
    inputs = case.inputs()
    return pci.NovaPciCheck(
        inputs.pci_stats, inputs.pci_requests, inputs.provider_mapping)


class TestLabels(cases.TestCase):

    @base.settings(60)
    @hypothesis.given(_cases(), strategies.integers(1, 3))
    def test_like_sets_of_cells_get_like_answers(self, case, count):
        """What nova says of a set follows from the labels of its cells."""
        check = _check(case)
        cells = topology.host_from_nova(case.host()).cells
        answers = collections.defaultdict(set)
        for chosen in itertools.combinations(cells, count):
            labels = frozenset(collections.Counter(
                check.label(cell) for cell in chosen).items())
            answers[labels].add(case.pci_stats().support_requests(
                case.pci_requests(), case.mapping(),
                [_InstanceCell(cell.id) for cell in chosen]))
        for labels, found in answers.items():
            self.assertEqual(1, len(found), (labels, str(case)))

    @base.settings(60)
    @hypothesis.given(_cases(), strategies.sets(
        strategies.integers(0, 5), min_size=1, max_size=3))
    def test_asks_nova(self, case, cell_ids):
        expected = case.pci_stats().support_requests(
            case.pci_requests(), case.mapping(),
            [_InstanceCell(cell_id) for cell_id in sorted(cell_ids)])
        check = _check(case)
        for _again in range(2):
            # Asking takes no devices away.
            self.assertEqual(expected, check.supports(tuple(cell_ids)))

    def _labels(self, policy, sockets=(0, 0, 1, 1), nodes=(0,)):
        case = cases.case(
            [cases.host_cell(number, [number], socket=socket)
             for number, socket in enumerate(sockets)],
            cases.guest((1, 1)), pci={
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


class TestCounts(cases.TestCase):

    def test_devices_of_all_kinds(self):
        case = cases.case(
            [cases.host_cell(0, [0]), cases.host_cell(1, [1])],
            cases.guest((1, 1)), pci={
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
                cases.case([], cases.guest(), pci={
                    'pools': [], 'requests': [], 'mapping': None}
                ).pci_stats(), requests, None).is_requested)


class _InstanceCell:
    """All that nova reads of a guest's cell here: its host cell's id."""

    def __init__(self, cell_id):
        self.id = cell_id
