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

"""What nova's own claim makes of a guest, foreseen."""

import itertools
from unittest import mock

import hypothesis
from hypothesis import strategies
from nova.virt import hardware
from oslotest import base as oslotest

from nova_pinning.bridge import claim
from nova_pinning.bridge import pci
from nova_pinning.bridge import topology
from nova_pinning import fit
from nova_pinning import model
from nova_pinning.model import Reason
from nova_pinning.tests.oracle import check
from nova_pinning.tests.oracle import oracle
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import cases


class TestPermutationsBefore(oslotest.BaseTestCase):

    @base.settings(100)
    @hypothesis.given(strategies.data())
    def test_against_walking(self, data):
        order = data.draw(strategies.permutations(range(10, 16)))
        order = order[:data.draw(strategies.integers(1, 6))]
        count = data.draw(strategies.integers(1, len(order)))
        walk = list(itertools.permutations(order, count))
        position = data.draw(strategies.integers(0, len(walk) - 1))
        self.assertEqual(
            position, claim.permutations_before(order, walk[position]))


def _ask(case, max_permutations=20000, used=None):
    """What the engine chooses and what is foreseen of it.

    :param used: the guest's topology as nova has it by now
    :returns: (attempt, choice, model.Fit | model.Refusal | None)
    """
    inputs = case.inputs()
    limits = inputs.limits
    network, ratios, check = None, (), None
    if limits:
        ratios = limits.cpu_allocation_ratio, limits.ram_allocation_ratio
        if 'network_metadata' in limits:
            network = limits.network_metadata
    if inputs.pci_stats is not None:
        check = pci.NovaPciCheck(
            inputs.pci_stats, inputs.pci_requests, inputs.provider_mapping)
    attempt = claim.Attempt(
        topology.host_from_nova(inputs.host_topology, *ratios),
        topology.guest_from_nova(inputs.instance_topology, network), check)
    choice = fit.choose_cells(
        attempt.host, attempt.guest, pack=case.data['pack'], pci=attempt.pci)
    if not choice:
        return attempt, choice, None
    arguments = claim.NovaArguments(*inputs)
    if used is not None:
        arguments = arguments._replace(instance_topology=used)
    return attempt, choice, claim.foresee(
        arguments, attempt, choice, max_permutations)


def _novas(case, ids=None):
    """Nova's real answer, with the guest's cells known by these ids."""
    inputs = case.inputs()
    for cell, cell_id in zip(inputs.instance_topology.cells, ids or ()):
        cell.id = cell_id
    answer = hardware.numa_fit_instance_to_host(*inputs)
    return answer and oracle.answer_of(answer)


def _as_answer(found):
    return tuple(
        oracle.CellAnswer(cell.host_cell, cell.pins, cell.emulator_cpus,
                          cell.page_size_kib) for cell in found.cells)


def _sticky_size_after_abort():
    """Nova leaves a page size open for cells that it knows by one id."""
    def cell(number, *pages):
        return cases.host_cell(
            number, [number], shared=[number], memory=0, pages=[list(pages)])

    guest = {
        'cells': [{'dedicated': [], 'shared': [number], 'memory': memory}
                  for number, memory in enumerate((512, 256, 256, 256))],
        'policy': 'shared', 'pagesize': model.PAGES_ANY}
    return cases.case(
        [cell(0, 2048, 192, 0, 0), cell(1, 2048, 384, 0, 0),
         cell(2, 4, 114688, 0, 0), cell(3, 2048, 288, 0, 0)],
        cases.guest() | guest)


class TestForesee(cases.TestCase):

    @base.settings(120)
    @hypothesis.given(builders.ANY_CASE)
    def test_it_comes_true(self, case):
        """Nova's answer is just what was foreseen, whatever that was."""
        hypothesis.assume(not case.data['odd'])
        with case.configured():
            attempt, choice, foreseen = _ask(case)
            hypothesis.assume(choice)
            if isinstance(foreseen, model.Refusal):
                return
            expected = foreseen or fit.pin(attempt.guest, choice.cells)
            self.assertEqual(_as_answer(expected), _novas(case), str(case))

    @base.settings(120)
    @hypothesis.given(builders.ANY_CASE)
    def test_what_is_not_refused_can_be_carried_out(self, case):
        """Also by a compute host that another one's claim failed before."""
        hypothesis.assume(not case.data['odd'])
        count = len(case.data['guest']['cells'])
        with case.configured():
            _attempt, choice, foreseen = _ask(case)
            hypothesis.assume(choice)
            if isinstance(foreseen, model.Refusal):
                return
            for ids in (range(count), [-1] * count):
                self.assertEqual(
                    set(), check.faults(case, _novas(case, ids)), str(case))

    def test_an_open_page_size(self):
        """The case that the test above found, cut down."""
        case = _sticky_size_after_abort()
        answer = _novas(case, [-1] * 4)
        self.assertIn(check.Fault.PAGES, check.faults(case, answer))
        foreseen = _ask(case)[-1]
        self.assertIsInstance(foreseen, model.Refusal)
        self.assertEqual(Reason.NOVA_WRONG, foreseen.reason)

    def test_the_first_permutation_is_not_asked_about(self):
        case = cases.case(
            [cases.host_cell(0, [0, 1]), cases.host_cell(1, [2])],
            cases.guest((2, 256), (1, 256), pagesize=model.PAGES_ANY))
        with mock.patch.object(hardware, 'numa_fit_instance_to_host') as asked:
            _attempt, choice, foreseen = _ask(case)
        self.assertTrue(choice.is_first)
        self.assertIsNone(foreseen)
        asked.assert_not_called()

    def test_guests_that_nova_gets_right_are_not_asked_about(self):
        case = cases.case(
            [cases.host_cell(0, [0, 1], memory_used=3072, pages=[]),
             cases.host_cell(1, [2], pages=[])], cases.guest((1, 2048)))
        with mock.patch.object(hardware, 'numa_fit_instance_to_host') as asked:
            _attempt, choice, foreseen = _ask(case)
        self.assertFalse(choice.is_first)
        self.assertIsNone(foreseen)
        asked.assert_not_called()

    def test_traces_of_an_earlier_instance(self):
        """Nova leaves pins, ids and page sizes in what it was asked.

        The next instance of the request is claimed without them.
        """
        three_cells = cases.case(
            _row(2, 1, 1), cases.guest((1, 256), (1, 256), (2, 256)))
        any_pages = cases.case(
            [cases.host_cell(0, [0], memory=256,
                             pages=[[4, 65536, 0, 0], [2048, 192, 0, 0]]),
             cases.host_cell(1, [], pages=[[4, 65536, 0, 0]])],
            cases.guest((1, 256), pagesize=model.PAGES_ANY), pack=True)
        for case in (cases.uneven_cpus(), cases.sticky_page_size(),
                     _sticky_size_after_abort(), three_cells, any_pages):
            used = case.guest()
            for number, cell in enumerate(used.cells):
                cell.id = number + 1
                cell.cpu_pinning = {vcpu: 90 + vcpu for vcpu in cell.pcpuset}
                cell.cpuset_reserved = {99}
                if cell.pagesize:
                    cell.pagesize = 2048
            with case.configured():
                self.assertEqual(
                    _ask(case)[-1], _ask(case, used=used)[-1], str(case))

    def test_changes_no_arguments(self):
        for case in (cases.uneven_cpus(), _sticky_size_after_abort()):
            guest = case.guest()
            host = case.host()
            before = (guest.obj_to_primitive(), host.obj_to_primitive())
            attempt = claim.Attempt(
                topology.host_from_nova(host), topology.guest_from_nova(guest))
            claim.foresee(
                claim.NovaArguments(host, guest, None), attempt,
                fit.choose_cells(attempt.host, attempt.guest), 20000)
            self.assertEqual(
                before, (guest.obj_to_primitive(), host.obj_to_primitive()))


def _row(*cpus, **values):
    """Host cells with so many CPUs each, and 256 MiB."""
    first = iter(itertools.accumulate(cpus, initial=0))
    return [
        cases.host_cell(number, range(start, start + count), pages=[],
                        **{'memory': 256} | values)
        for number, (start, count) in enumerate(zip(first, cpus))]


class TestNovaIsWrong(cases.TestCase):
    """Each way of nova to go wrong on a guest that fits."""

    def _assert_wrong(self, text, case):
        with case.configured():
            _attempt, choice, foreseen = _ask(case)
        self.assertTrue(choice)
        self.assertIsInstance(foreseen, model.Refusal)
        self.assertEqual(Reason.NOVA_WRONG, foreseen.reason)
        self.assertEqual(text, foreseen.detail)

    def test_finds_no_place(self):
        self._assert_wrong('it finds no place', cases.uneven_cpus())

    def test_page_size_of_an_earlier_attempt(self):
        self._assert_wrong('it finds no place', cases.sticky_page_size())

    def test_pins_of_another_cell(self):
        self._assert_wrong(
            'it pins guest cell 2 to CPUs (none) on host cell 0',
            cases.case(_row(2, 1, 1),
                       cases.guest((1, 256), (1, 256), (2, 256))))

    def test_memory_that_is_not_there(self):
        host = _row(1, 1, 1)
        host[1]['memory'] = host[2]['memory'] = 512
        host[2]['memory_used'] = 256
        for cell, number in zip(host, (0, 2, 3)):
            cell['id'] = number
            cell['shared'], cell['dedicated'] = cell['dedicated'], []
        guest = cases.guest() | {
            'cells': [{'dedicated': [], 'shared': [number], 'memory': memory}
                      for number, memory in enumerate((3, 256, 512))],
            'policy': 'shared'}
        self._assert_wrong(
            'it puts guest cell 2 where cell 0 has 256 MiB left under the '
            'RAM allocation ratio, 512 MiB needed',
            cases.case(host, guest, limits={
                'cpu': 2.0, 'ram': 1.0, 'network': None}))

    def test_after_an_aborted_claim(self):
        host = _row(1, 1)
        host[0]['memory'] = 384
        host[1]['memory'] = 512
        self._assert_wrong(
            'after one elsewhere is aborted, it finds no place',
            cases.case(host, cases.guest((1, 512), (1, 256))))

    def test_devices_that_are_not_near(self):
        """Nova checks devices for ids that it has overwritten since."""
        case = cases.case(
            _row(1, 1, 1), cases.guest((1, 256), (1, 256)))
        answer = case.guest()
        for cell, host_cell in zip(answer.cells, (0, 1)):
            cell.id, cell.cpu_pinning = host_cell, {host_cell: host_cell}
        host = topology.host_from_nova(case.host())
        check = mock.Mock(
            is_requested=True, supports=lambda cell_ids: cell_ids == (1, 2),
            device_count=lambda cell_id: 0, label=lambda cell: cell.id)
        attempt = claim.Attempt(
            host, topology.guest_from_nova(case.guest()), check)
        choice = fit.choose_cells(host, attempt.guest, pci=check)
        with mock.patch.object(
                hardware, 'numa_fit_instance_to_host', return_value=answer):
            foreseen = claim.foresee(
                claim.NovaArguments(case.host(), case.guest(), None),
                attempt, choice, 100)
        self.assertEqual(
            'it takes host cells 0, 1, which are not near the devices or '
            'networks asked for', foreseen.detail)

    def _foresee_answer(self, answer):
        """What is foreseen if nova gives this answer for uneven_cpus."""
        case = cases.uneven_cpus()
        with mock.patch.object(
                hardware, 'numa_fit_instance_to_host', **answer):
            return _ask(case)[-1]

    def _uneven_answer(self, *host_cells, pins=({0: 0, 1: 1}, {})):
        answer = cases.uneven_cpus().guest()
        for cell, host_cell, pinning in zip(answer.cells, host_cells, pins):
            cell.id, cell.cpu_pinning = host_cell, pinning
        return {'return_value': answer}

    def test_host_cells_that_cannot_be(self):
        for host_cells in ((1, 1), (0, 7)):
            foreseen = self._foresee_answer(self._uneven_answer(*host_cells))
            self.assertEqual(
                'it puts the guest cells on host cells '
                f'{host_cells[0]}, {host_cells[1]}', foreseen.detail)

    def test_no_pins(self):
        foreseen = self._foresee_answer(self._uneven_answer(0, 1))
        self.assertEqual(
            'it pins guest cell 1 to CPUs (none) on host cell 1',
            foreseen.detail)

    def test_an_exception(self):
        foreseen = self._foresee_answer({'side_effect': KeyError('pagesize')})
        self.assertEqual(Reason.NOVA_WRONG, foreseen.reason)
        self.assertEqual("it fails with KeyError('pagesize')",
                         foreseen.detail)

    def test_an_answer_that_is_valid_is_taken_over(self):
        """Though it is not the one that the engine would give."""
        answer = self._uneven_answer(
            2, 1, pins=({0: 6, 1: 7}, {2: 2, 3: 3, 4: 4, 5: 5}))
        self.assertEqual(
            model.Fit((
                model.CellFit(2, ((0, 6), (1, 7))),
                model.CellFit(1, ((2, 2), (3, 3), (4, 4), (5, 5))))),
            self._foresee_answer(answer))

    def test_a_page_size_of_nova_s_own(self):
        case = cases.case(
            [cases.host_cell(0, [0], memory=256,
                             pages=[[4, 65536, 0, 0], [2048, 192, 0, 0]]),
             cases.host_cell(1, [], pages=[[4, 65536, 0, 0]])],
            cases.guest((1, 256), pagesize=model.PAGES_ANY), pack=True)
        with case.configured():
            attempt, choice, foreseen = _ask(case)
        self.assertEqual(
            2048, fit.pin(attempt.guest, choice.cells).cells[0].page_size_kib)
        self.assertEqual(4, foreseen.cells[0].page_size_kib)


class TestBounds(cases.TestCase):

    def _case(self, cells=9):
        """All but the last two cells are too small for the guest's first."""
        return cases.case(
            _row(*[1] * (cells - 2), 2, 2),
            cases.guest((2, 256), (1, 256), (2, 256)), pack=True)

    def test_refused_without_asking_if_it_is_far_away(self):
        case = self._case()
        with case.configured(), mock.patch.object(
                hardware, 'numa_fit_instance_to_host') as asked:
            _attempt, choice, foreseen = _ask(case, 300)
        before = claim.permutations_before(
            [cell.id for cell in choice.order],
            [cell.id for cell in choice.cells])
        self.assertGreater(before, 300)
        self.assertEqual(Reason.NOVA_SLOW, foreseen.reason)
        self.assertEqual(
            f'it would try {before} permutations of cells first',
            foreseen.detail)
        asked.assert_not_called()

    def test_the_limit_itself(self):
        case = self._case()
        with case.configured():
            _attempt, choice, _foreseen = _ask(case)
            before = claim.permutations_before(
                [cell.id for cell in choice.order],
                [cell.id for cell in choice.cells])
            for limit, is_far in ((before, True), (before + 1, False)):
                foreseen = _ask(case, limit)[-1]
                self.assertEqual(
                    is_far, bool(foreseen is not None and
                                 'first' in getattr(foreseen, 'detail', '')))

    def test_stopped_if_nova_goes_on_and_on(self):
        """Nova misses the assignment and would walk all the rest."""
        case = cases.case(
            _row(2, 4, 2, 2, 2, 2, 2, 2),
            cases.guest((2, 256), (2, 256), (2, 256), (4, 256)))
        permutations = []

        def walk(host_topology, asked, *args):
            for _number in itertools.count():
                permutations.append(asked.cells)

        with mock.patch.object(hardware, 'numa_fit_instance_to_host', walk):
            foreseen = _ask(case, 1000)[-1]
        self.assertEqual(Reason.NOVA_SLOW, foreseen.reason)
        self.assertIn('more than 1000 permutations', foreseen.detail)
        self.assertLess(len(permutations), 1020)

    def test_nova_reads_the_cells_once_a_permutation(self):
        """Which is how it is stopped; if it reads more, limits are lower."""
        case = self._case(8)
        reads = []

        class Counting(claim._Bounded):

            @property
            def cells(self):
                reads.append(1)
                return super().cells

        with case.configured(), mock.patch.object(
                claim, '_Bounded', Counting):
            attempt, choice, _foreseen = _ask(case)
        walked = 8 * 7 * 6  # at the most
        self.assertGreater(len(reads), 10)
        self.assertLess(len(reads), 3 * (walked + 8))


class TestDoubtful(cases.TestCase):
    """Which guests nova is asked about."""

    def _is_doubtful(self, host, guest, **values):
        case = cases.case(host, guest, **values)
        return claim.is_doubtful(_ask(case)[0])

    def test_kinds(self):
        mixed = {'cells': [{'dedicated': [n], 'shared': [n + 1],
                            'memory': 1} for n in (0, 2)], 'policy': 'mixed'}
        for expected, guest in (
                (False, cases.guest((1, 1))),
                (False, cases.guest((1, 1), (1, 1))),
                (False, cases.guest((1, 1), (1, 1), threads='isolate')),
                (False, cases.guest((1, 1), pagesize=4)),
                (False, cases.guest((1, 1), emulator='isolate')),
                (True, cases.guest((1, 1), (2, 1))),
                (True, cases.guest((1, 1), (1, 2))),
                (True, cases.guest((1, 1), (1, 1), emulator='isolate')),
                (True, cases.guest((1, 1), (1, 1), pagesize=4)),
                (True, cases.guest((1, 1), pagesize=-1)),
                (True, cases.guest((1, 1), pagesize=-2)),
                (True, cases.guest((1, 1), pagesize=-3)),
                (True, cases.guest(
                    (1, 1), threads='isolate', emulator='isolate')),
                (True, cases.guest() | mixed)):
            self.assertEqual(
                expected, self._is_doubtful(_row(2, 2, 2), guest), guest)

    def test_devices_and_networks(self):
        pools = [{'vendor_id': '8086', 'product_id': '1520', 'count': 1,
                  'numa_node': 0, 'dev_type': 'type-PCI'}]
        asked = [{'count': 1, 'spec': [{'vendor_id': '8086'}],
                  'alias': 'nic', 'policy': 'required'}]
        two, one = cases.guest((1, 1), (1, 1)), cases.guest((1, 1))
        for expected, guest, requests in (
                (True, two, asked), (False, two, []), (False, one, asked)):
            self.assertEqual(expected, self._is_doubtful(
                _row(2, 2, 2), guest,
                pci={'pools': pools, 'requests': requests, 'mapping': None}))
        host = _row(2, 2, 2)
        host[1]['network'] = {'physnets': ['red'], 'tunneled': False}
        for expected, guest, physnets in (
                (True, two, ['red']), (False, two, ['blue']),
                (False, one, ['red'])):
            self.assertEqual(expected, self._is_doubtful(
                host, guest, limits={
                    'cpu': 1.0, 'ram': 1.0,
                    'network': {'physnets': physnets, 'tunneled': False}}))

    def test_broken_sibling_lists(self):
        for siblings in ([], [[0, 1], [0, 1], [0, 1]]):
            host = _row(2, 2)
            host[0]['siblings'] = siblings
            self.assertTrue(
                self._is_doubtful(host, cases.guest((1, 1))), siblings)
