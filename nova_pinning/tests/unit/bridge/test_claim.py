# SPDX-License-Identifier: Apache-2.0
"""What nova's own claim makes of a guest, predicted."""

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
from nova_pinning.fit import claim_walk
from nova_pinning.fit import known_defects
from nova_pinning import model
from nova_pinning.model import Reason
from nova_pinning.tests.oracle import fleet_oracle
from nova_pinning.tests.oracle import oracle
from nova_pinning.tests.oracle import oracle_check
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base


class TestPermutationsBefore(oslotest.BaseTestCase):

    @unit_base.settings(100)
    @hypothesis.given(strategies.data())
    def test_against_walking(self, data):
        order = data.draw(strategies.permutations(range(10, 16)))
        order = order[:data.draw(strategies.integers(1, 6))]
        count = data.draw(strategies.integers(1, len(order)))
        walk = list(itertools.permutations(order, count))
        position = data.draw(strategies.integers(0, len(walk) - 1))
        self.assertEqual(
            position, known_defects.permutations_before(order, walk[position]))


_BOUNDS = known_defects.ClaimBounds(max_seconds=1.0)


def _ask(case, bounds=_BOUNDS):
    """What the engine chooses and what is predicted of it.

    :returns: (attempt, choice, fit.Claim | model.Refusal | None); the last
        is None where nothing has to be predicted
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
    attempt = known_defects.ClaimAttempt(
        topology.host_from_nova(inputs.host_topology, *ratios),
        topology.guest_from_nova(inputs.instance_topology, network), check)
    choice = fit.choose_cells(
        attempt.host, attempt.guest, pack=case.data['pack'], pci=attempt.pci)
    if not choice or choice.is_first and not bounds.left_sizes:
        return attempt, choice, None
    known = known_defects.known_claim(attempt, choice, bounds)
    if known is not None:
        return attempt, choice, known
    return attempt, choice, claim.predict_claim(
        claim.NovaGuest(attempt.guest, limits), inputs.host_topology, attempt,
        choice, bounds)


def _novas(case, ids=None, page_sizes=()):
    """Nova's real answer, with the guest's cells known by these ids.

    :param page_sizes: what these ask for, if not what the guest does
    """
    inputs = case.inputs()
    for cell, cell_id in zip(inputs.instance_topology.cells, ids or ()):
        cell.id = cell_id
    for cell, size_kib in zip(inputs.instance_topology.cells, page_sizes):
        cell.pagesize = size_kib
    answer = hardware.numa_fit_instance_to_host(*inputs)
    return answer and oracle.answer_of(answer)


def _as_answer(found):
    return tuple(
        oracle.CellAnswer(cell.host_cell, cell.pins, cell.emulator_cpus,
                          cell.page_size_kib) for cell in found.cells)


def _small_pages():
    """A host without large pages, and a guest that may have any."""
    return oracle_cases.case(
        [oracle_cases.host_cell(number, [2 * number, 2 * number + 1])
         for number in range(2)],
        oracle_cases.guest((2, 512), (1, 1024), pagesize=model.PAGES_ANY))


class TestForesee(oracle_cases.TestCase):

    @unit_base.settings(150)
    @hypothesis.given(
        strategies.lists(
            strategies.tuples(strategies.integers(1, 4), *[
                strategies.integers(0, 2)] * 3), min_size=2, max_size=4),
        strategies.integers(1, 3), strategies.sampled_from([512, 1024, 2048]),
        strategies.sampled_from([
            model.PAGES_SMALL, model.PAGES_LARGE, model.PAGES_ANY]))
    def test_page_size_of_one_cell_is_known_without_nova(
            self, cells, vcpus, memory_mib, page_size_kib):
        case = oracle_cases.case(
            [oracle_cases.host_cell(
                number, range(10 * number, 10 * number + cpus), memory=0,
                pages=[[size, gib * 1048576 // size, 0, 0] for size, gib
                       in zip((4, 2048, 1048576), pages) if gib])
             for number, (cpus, *pages) in enumerate(cells)],
            oracle_cases.guest() | {
                'cells': [{'dedicated': [*range(vcpus)], 'shared': [],
                           'memory': memory_mib}],
                'policy': 'dedicated', 'pagesize': page_size_kib},
            pack=True)
        with case.configured():
            attempt, choice, known = _ask(case)
            hypothesis.assume(known is not None)
            with mock.patch.object(
                    known_defects, 'known_claim', lambda *_arguments: None):
                _attempt, _choice, novas = _ask(case)
        self.assertEqual(getattr(novas, 'fit', novas),
                         getattr(known, 'fit', known))

    @unit_base.settings(120)
    @hypothesis.given(builders.ANY_CASE)
    def test_it_comes_true(self, case):
        """Nova's answer is just what was predicted, whatever that was."""
        hypothesis.assume(not case.data['odd'])
        with case.configured():
            attempt, choice, foreseen = _ask(case)
            hypothesis.assume(choice)
            if isinstance(foreseen, model.Refusal):
                return
            expected = (foreseen and foreseen.fit) or fit.pin(
                attempt.guest, choice.cells)
            self.assertEqual(_as_answer(expected), _novas(case), str(case))

    @unit_base.settings(120)
    @hypothesis.given(builders.ANY_CASE)
    def test_what_has_no_drawback_can_be_carried_out_again(self, case):
        """By a compute host that another one's claim failed before."""
        hypothesis.assume(not case.data['odd'])
        count = len(case.data['guest']['cells'])
        with case.configured():
            attempt, choice, foreseen = _ask(case)
            hypothesis.assume(choice)
            if isinstance(foreseen, model.Refusal):
                return
            first = (foreseen and foreseen.fit) or fit.pin(
                attempt.guest, choice.cells)
            # The other host is like this one.
            again = _novas(case, [-1] * count, [
                cell.page_size_kib for cell in first.cells])
        if foreseen is None or foreseen.drawback is None:
            self.assertEqual(set(), oracle_check.faults(case, again),
                             str(case))
        elif foreseen.drawback.reason is Reason.NOVA_AGAIN:
            self.assertIsNone(again)

    def test_page_sizes_that_a_claim_elsewhere_left(self):
        case = _small_pages()
        sizes = 4, 1048576
        self.assertIn(
            oracle_check.Fault.PAGES,
            oracle_check.faults(case, _novas(case, [-1, -1], sizes)))
        self.assertIsNone(_ask(case)[-1])
        for left, reason in (((sizes,), Reason.NOVA_AGAIN_WRONG),
                             (((4, 4), sizes), Reason.NOVA_AGAIN_WRONG),
                             (((4, 4),), None),
                             # It finds no place, for want of such pages.
                             (((1048576, 1048576),), None)):
            foreseen = _ask(case, _BOUNDS._replace(left_sizes=left))[-1]
            self.assertEqual(reason, getattr(
                foreseen.drawback, 'reason', None), left)

    def test_cpus_are_chosen_once_however_many_sizes_may_be_left(self):
        small, large = [4, 1048576, 0, 0], [1048576, 2, 0, 0]
        case = oracle_cases.case(
            [oracle_cases.host_cell(number, [2 * number, 2 * number + 1],
                                    pages=pages)
             for number, pages in enumerate(
                 ([small], [small], [small, large]))],
            oracle_cases.guest((1, 512), (2, 1024), pagesize=model.PAGES_ANY))
        bounds = _BOUNDS._replace(left_sizes=((4, 1048576),))
        with mock.patch.object(
                fit, 'pin_cell', wraps=fit.pin_cell) as pinned:
            self.assertIsNone(_ask(case, bounds)[-1].drawback)
        self.assertEqual(2, pinned.call_count)

    def test_the_first_permutation_is_not_asked_about(self):
        case = oracle_cases.case(
            [oracle_cases.host_cell(0, [0, 1]),
             oracle_cases.host_cell(1, [2])],
            oracle_cases.guest((2, 256), (1, 256), pagesize=model.PAGES_ANY))
        with mock.patch.object(claim, 'predict_claim') as asked:
            _attempt, choice, foreseen = _ask(case)
        self.assertTrue(choice.is_first)
        self.assertIsNone(foreseen)
        asked.assert_not_called()

    def test_guests_that_nova_gets_right_are_not_asked_about(self):
        case = oracle_cases.case(
            [oracle_cases.host_cell(0, [0, 1], memory_used=3072, pages=[]),
             oracle_cases.host_cell(1, [2], pages=[])],
            oracle_cases.guest((1, 2048)))
        with mock.patch.object(claim, 'predict_claim') as asked:
            _attempt, choice, foreseen = _ask(case)
        self.assertFalse(choice.is_first)
        self.assertEqual(fit.Claim(), foreseen)
        asked.assert_not_called()

    def test_changes_no_arguments(self):
        bounds = _BOUNDS._replace(left_sizes=((4, 1048576),))
        for case in (oracle_cases.uneven_cpus(), _small_pages()):
            host = case.host()
            before = host.obj_to_primitive()
            attempt = known_defects.ClaimAttempt(
                topology.host_from_nova(host),
                topology.guest_from_nova(case.guest()))
            nova_guest = claim.NovaGuest(attempt.guest)
            choice = fit.choose_cells(attempt.host, attempt.guest)
            answers = [
                claim.predict_claim(nova_guest, host, attempt, choice, bounds)
                for _again in range(2)]
            self.assertEqual(before, host.obj_to_primitive())
            self.assertEqual(*answers)

    def test_retries_that_never_come(self):
        case = oracle_cases.case(
            _row(4, 2), oracle_cases.guest((2, 256), (4, 256)))
        self.assertEqual(
            Reason.NOVA_AGAIN_WRONG, _ask(case)[-1].drawback.reason)
        foreseen = _ask(case, _BOUNDS._replace(is_retried=False))[-1]
        self.assertIsNone(foreseen.drawback)
        self.assertIsNotNone(foreseen.fit)


def _row(*cpus, **values):
    """Host cells with so many CPUs each, and 256 MiB."""
    first = iter(itertools.accumulate(cpus, initial=0))
    return [
        oracle_cases.host_cell(number, range(start, start + count), pages=[],
                               **{'memory': 256} | values)
        for number, (start, count) in enumerate(zip(first, cpus))]


class TestNovaIsWrong(oracle_cases.TestCase):
    """Each way of nova to go wrong on a guest that fits."""

    def _assert_wrong(self, text, case):
        with case.configured():
            _attempt, choice, foreseen = _ask(case)
        self.assertTrue(choice)
        self.assertIsInstance(foreseen, model.Refusal)
        self.assertEqual(Reason.NOVA_WRONG, foreseen.reason)
        self.assertEqual(text, foreseen.detail)

    def test_finds_no_place(self):
        self._assert_wrong('it finds no host cells',
                           oracle_cases.uneven_cpus())

    def test_page_size_of_an_earlier_attempt(self):
        self._assert_wrong('it finds no host cells',
                           oracle_cases.sticky_page_size())

    def test_page_size_that_was_not_asked_for(self):
        """The smallest pages of the cell that was tried first."""
        self._assert_wrong(
            'it gives guest cell 0 pages of 2048 KiB on host cell 0, which is '
            'not what it asks for',
            oracle_cases.case(
                [oracle_cases.host_cell(0, [0], pages=[[4, 65536, 0, 0],
                                                       [2048, 128, 0, 0]]),
                 oracle_cases.host_cell(1, [], pages=[[2048, 128, 0, 0]])],
                oracle_cases.guest((1, 256), pagesize=model.PAGES_SMALL),
                pack=True))

    def test_pins_of_another_cell(self):
        self._assert_wrong(
            'it puts guest cell 2 on host cell 0 and pins it nowhere',
            oracle_cases.case(_row(2, 1, 1),
                              oracle_cases.guest((1, 256), (1, 256),
                                                 (2, 256))))

    def test_memory_that_is_not_there(self):
        host = _row(1, 1, 1)
        host[1]['memory'] = host[2]['memory'] = 512
        host[2]['memory_used'] = 256
        for cell, number in zip(host, (0, 2, 3)):
            cell['id'] = number
            cell['shared'], cell['dedicated'] = cell['dedicated'], []
        guest = oracle_cases.guest() | {
            'cells': [{'dedicated': [], 'shared': [number], 'memory': memory}
                      for number, memory in enumerate((3, 256, 512))],
            'policy': 'shared'}
        self._assert_wrong(
            'it puts guest cell 2 where cell 0 has 256 MiB left under the '
            'RAM allocation ratio, 512 MiB needed',
            oracle_cases.case(host, guest, limits={
                'cpu': 2.0, 'ram': 1.0, 'network': None}))

    def test_after_an_aborted_claim(self):
        host = _row(1, 1)
        host[0]['memory'] = 384
        host[1]['memory'] = 512
        foreseen = _ask(
            oracle_cases.case(host, oracle_cases.guest((1, 512),
                                                       (1, 256))))[-1]
        self.assertEqual(
            model.Refusal(Reason.NOVA_AGAIN, detail='it finds no host cells'),
            foreseen.drawback)
        self.assertEqual([1, 0], [
            cell.host_cell for cell in foreseen.fit.cells])

    def test_devices_that_are_not_near(self):
        """What nova accepts is looked at by our own rules, too."""
        case = oracle_cases.case(
            _row(1, 1, 1), oracle_cases.guest((1, 256), (1, 256)))
        host = topology.host_from_nova(case.host())
        check = mock.Mock(
            is_requested=True, total_devices=0,
            supports=lambda cell_ids: cell_ids != (0, 1),
            nova_supports=lambda cell_ids: True,
            device_count=lambda cell_id: 0, label=lambda cell: cell.id,
            shortfall=lambda cell_ids, count: '')
        attempt = known_defects.ClaimAttempt(
            host, topology.guest_from_nova(case.guest()), check)
        choice = fit.choose_cells(host, attempt.guest, pci=check)
        self.assertEqual([0, 2], [cell.id for cell in choice.cells])
        foreseen = claim.predict_claim(
            claim.NovaGuest(attempt.guest), case.host(), attempt, choice,
            _BOUNDS)
        self.assertEqual(
            'it takes host cells 0, 1, which are not near the devices or '
            'networks asked for', foreseen.detail)

    def test_an_exception(self):
        host = _row(1, 2)
        host[0]['siblings'] = []
        case = oracle_cases.case(host, oracle_cases.guest((1, 256)), pack=True)
        # In the words of the Python that runs it.
        told = self.assertRaises(ValueError, max, ())
        self._assert_wrong(f'it fails with {told!r}', case)

    def test_a_page_size_of_nova_s_own(self):
        case = oracle_cases.case(
            [oracle_cases.host_cell(0, [0], memory=256,
                                    pages=[[4, 65536, 0, 0],
                                           [2048, 192, 0, 0]]),
             oracle_cases.host_cell(1, [], pages=[[4, 65536, 0, 0]])],
            oracle_cases.guest((1, 256), pagesize=model.PAGES_ANY), pack=True)
        with case.configured():
            attempt, choice, foreseen = _ask(case)
        self.assertEqual(
            2048, fit.pin(attempt.guest, choice.cells).cells[0].page_size_kib)
        self.assertEqual(4, foreseen.fit.cells[0].page_size_kib)


class TestBounds(oracle_cases.TestCase):

    def _case(self, cells=9):
        """All but the last two cells are too small for the guest's first."""
        return oracle_cases.case(
            _row(*[1] * (cells - 2), 2, 2),
            oracle_cases.guest((2, 256), (1, 256), (2, 256)), pack=True)

    def _before(self, choice):
        return known_defects.permutations_before(
            [cell.id for cell in choice.order],
            [cell.id for cell in choice.cells])

    def test_not_asked_if_it_is_far_away(self):
        case = self._case()
        seconds = 300 / known_defects.PERMUTATIONS_PER_SECOND
        with case.configured(), mock.patch.object(
                hardware, 'numa_fit_instance_to_host') as asked:
            _attempt, choice, foreseen = _ask(
                case, known_defects.ClaimBounds(seconds))
        self.assertGreater(self._before(choice), 300)
        self.assertEqual(Reason.NOVA_SLOW, foreseen.reason)
        self.assertIn('it would take about 0.00', foreseen.detail)
        asked.assert_not_called()

    def test_patience(self):
        """Asked all the same, and then it may turn out to be right."""
        host = _row(*[1] * 7, 2)
        host[7]['memory'] = 512
        case = oracle_cases.case(
            host, oracle_cases.guest((1, 512), (1, 256)), pack=True)
        bounds = known_defects.ClaimBounds(
            1 / known_defects.PERMUTATIONS_PER_SECOND)
        with case.configured():
            self.assertEqual(
                Reason.NOVA_SLOW, _ask(case, bounds)[-1].reason)
            foreseen = _ask(case, bounds._replace(is_patient=True))[-1]
        self.assertEqual(Reason.NOVA_SLOW, foreseen.drawback.reason)
        self.assertEqual(7, foreseen.fit.cells[0].host_cell)

    def test_slow_but_right(self):
        """Equal guest cells: nova gets them right, however late."""
        case = oracle_cases.case(
            [oracle_cases.host_cell(number, [number], pages=[],
                                    memory=64 if number < 4 else 4096)
             for number in range(12)], oracle_cases.guest(*[(1, 256)] * 4),
            pack=True)
        with case.configured():
            _attempt, choice, foreseen = _ask(case,
                                              known_defects.ClaimBounds(0.001))
            self.assertEqual(fit.Claim(), _ask(case)[-1])
        self.assertEqual(
            4 * (11 * 10 * 9 + 10 * 9 + 9 + 1), self._before(choice))
        self.assertIsNone(foreseen.fit)
        self.assertEqual(Reason.NOVA_SLOW, foreseen.drawback.reason)

    def test_looks_at_devices_take_longer(self):
        """Few permutations, at each of which nova copies all devices."""
        pools = [{'vendor_id': '8086', 'product_id': product, 'count': count,
                  'numa_node': node, 'dev_type': 'type-PCI'}
                 for node, product, count in (
                     (0, '1520', 9), (1, '1520', 9), (2, '10fb', 1))]
        nics = {'count': 1, 'spec': [{'product_id': '10fb'}],
                'alias': 'nic', 'policy': 'required'}
        bounds = known_defects.ClaimBounds(
            100 / known_defects.PERMUTATIONS_PER_SECOND)
        for cells in ((1, 256),), ((1, 256), (1, 256)):
            case = oracle_cases.case(
                _row(1, 1, 1), oracle_cases.guest(*cells), pci={
                    'pools': pools, 'requests': [nics], 'mapping': None})
            for is_patient in (False, True):
                _attempt, choice, foreseen = _ask(
                    case, bounds._replace(is_patient=is_patient))
                self.assertLess(self._before(choice), 100)
                slow = getattr(foreseen, 'drawback', foreseen)
                self.assertEqual(Reason.NOVA_SLOW, slow.reason)
                self.assertIn('it would take about 0.00', slow.detail)

    def _endless(self):
        """Nova misses the assignment and would walk all the rest."""
        return oracle_cases.case(
            _row(2, 4, 2, 2, 2, 2, 2, 2),
            oracle_cases.guest((2, 256), (2, 256), (2, 256), (4, 256)))

    def _ask_while_it_walks_on(self, bounds):
        def walk_on(walk, _accepts, note):
            walk.chosen[:] = 7, 6, 5, 4
            while True:
                note()

        with mock.patch.object(claim_walk.ClaimWalk, 'run', walk_on):
            return _ask(self._endless(), bounds)[-1]

    def test_stopped_if_nova_goes_on_and_on(self):
        for walked, is_too_slow in (1680, False), (1679, True):
            foreseen = self._ask_while_it_walks_on(known_defects.ClaimBounds(
                walked / known_defects.PERMUTATIONS_PER_SECOND,
                is_over=iter([False, True]).__next__))
            self.assertEqual(Reason.NOVA_SLOW if is_too_slow else
                             Reason.BUDGET, foreseen.reason)
            self.assertIn(' 1680', foreseen.detail)

    def test_stopped_when_there_was_work_enough(self):
        for is_patient in (False, True):
            foreseen = self._ask_while_it_walks_on(known_defects.ClaimBounds(
                1e9, is_over=iter([False] * 5 + [True]).__next__,
                is_patient=is_patient))
            self.assertEqual(Reason.BUDGET, foreseen.reason)


class TestWalk(oracle_cases.TestCase):
    """Nova's walk, with all that it does wrong."""

    def _assert_followed(self, case, ids, page_sizes):
        inputs = case.inputs()
        attempt, choice, _foreseen = _ask(case)
        hypothesis.assume(choice)
        query = claim._ClaimQuery(
            claim.NovaGuest(attempt.guest, inputs.limits),
            inputs.host_topology, attempt, choice, _BOUNDS._replace(
                is_patient=True))
        query.refusal(ids, page_sizes)
        walked = 0

        def counted(*arguments):
            nonlocal walked
            for permutation in itertools.permutations(*arguments):
                walked += 1
                yield permutation

        with mock.patch.object(hardware, 'itertools', mock.Mock(
                wraps=itertools, permutations=counted)):
            answer = _novas(case, ids, page_sizes)
        walk = query.walk
        if answer is None:
            self.assertTrue(query.is_refused)
            return
        self.assertEqual(walked, query.walked)
        for index, (cell, place, pinned_at, size_kib) in enumerate(zip(
                answer, walk.chosen, walk.pinned_at, walk.page_sizes)):
            self.assertEqual(cell.host_cell, choice.order[place].id)
            self.assertEqual(cell.page_size_kib, size_kib)
            pins = ()
            if pinned_at is not None:
                pins = fit.pin_cell(attempt.guest, index,
                                    choice.order[pinned_at]).pins
            self.assertEqual(cell.pins, pins)

    @unit_base.settings(120)
    @hypothesis.given(strategies.one_of(
        builders.ANY_CASE,
        strategies.integers(0, 10 ** 6).map(
            lambda number: fleet_oracle.many_cells(35, number))),
        strategies.lists(strategies.sampled_from([4, 2048, 1048576]),
                         min_size=4, max_size=4))
    def test_against_nova(self, case, left_sizes):
        hypothesis.assume(not case.data['odd'])
        guest = case.data['guest']
        count = len(guest['cells'])
        asked = [guest['pagesize']] * count
        left = left_sizes[:count] if (guest['pagesize'] or 0) < 0 else asked
        with case.configured():
            self._assert_followed(case, range(count), asked)
            self._assert_followed(case, [-1] * count, left)


class TestDoubtful(oracle_cases.TestCase):
    """Which guests nova is asked about."""

    def _is_doubtful(self, host, guest, **values):
        case = oracle_cases.case(host, guest, **values)
        return known_defects.is_defect_prone(_ask(case)[0])

    def test_kinds(self):
        mixed = {'cells': [{'dedicated': [n], 'shared': [n + 1],
                            'memory': 1} for n in (0, 2)], 'policy': 'mixed'}
        for expected, guest in (
                (False, oracle_cases.guest((1, 1))),
                (False, oracle_cases.guest((1, 1), (1, 1))),
                (False, oracle_cases.guest((1, 1), (1, 1), threads='isolate')),
                (False, oracle_cases.guest((1, 1), pagesize=4)),
                (False, oracle_cases.guest((1, 1), emulator='isolate')),
                (True, oracle_cases.guest((1, 1), (2, 1))),
                (True, oracle_cases.guest((1, 1), (1, 2))),
                (True, oracle_cases.guest((1, 1), (1, 1), emulator='isolate')),
                (False, oracle_cases.guest((1, 1), (1, 1), pagesize=4)),
                (True, oracle_cases.guest((1, 1), pagesize=-1)),
                (True, oracle_cases.guest((1, 1), pagesize=-2)),
                (True, oracle_cases.guest((1, 1), pagesize=-3)),
                (True, oracle_cases.guest(
                    (1, 1), threads='isolate', emulator='isolate')),
                (True, oracle_cases.guest() | mixed)):
            self.assertEqual(
                expected, self._is_doubtful(_row(2, 2, 2), guest), guest)

    def test_devices_and_networks(self):
        pools = [{'vendor_id': '8086', 'product_id': '1520', 'count': 1,
                  'numa_node': 0, 'dev_type': 'type-PCI'}]
        asked = [{'count': 1, 'spec': [{'vendor_id': '8086'}],
                  'alias': 'nic', 'policy': 'required'}]
        two, one = oracle_cases.guest((1, 1), (1, 1)), oracle_cases.guest(
            (1, 1))
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
                self._is_doubtful(host, oracle_cases.guest((1, 1))), siblings)
