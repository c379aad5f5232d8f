# SPDX-License-Identifier: Apache-2.0

import dataclasses

import ddt

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning import cpuset
from nova_pinning.explain import explanation
from nova_pinning.explain import host_verdicts
from nova_pinning.explain import verdict_summary
from nova_pinning import fit
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.tests.unit.admission import placing
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.explain import explain_cases
from nova_pinning.tests.unit import unit_base

_CELL = builders.host_cell(0, range(8))
_GUEST = explain_cases.pinned((4, 100))
_GPU = devices.device_keys('10de', '20b5')


def _verdict(host, one=None, wishes=guest_request.GuestWishes(), guests=(),
             **rules):
    where = host_occupancy.of_host(host, guests)
    one = one or explain_cases.wanted(_GUEST)
    return host_verdicts.HostJudge(
        {host.name: where}, placing.judge_of(**rules), wishes).verdict(
            where, one)


@ddt.ddt
class TestCause(unit_base.TestCase):

    QUERY = guest_request.query(
        resources={'PCPU': 4}, required=frozenset({'A'}),
        forbidden=frozenset({'COMPUTE_STATUS_DISABLED'}))
    #: Each makes the host one that refuses for one thing less.
    STEPS = (
        ({'host_class': explain_cases.SHARED}, 'class', 'shared', ''),
        ({'host_class': explain_cases.DEDICATED, 'aggregates': ()},
         'aggregates', 'availability-zone', 'az1'),
        ({'aggregates': ('zone',)}, 'traits', 'required-trait', 'A'),
        ({'traits': frozenset({'A', 'COMPUTE_STATUS_DISABLED'})},
         'disabled', '', ''),
        ({'is_enabled': True, 'traits': frozenset({'A'})},
         'fit', 'memory', ''),
        ({'cells': (_CELL,), 'reserved_memory_mib': 16384,
          'ram_allocation_ratio': 1.0}, 'resources', 'MEMORY_MB', ''),
        ({'reserved_memory_mib': 0}, None, None, None))

    def test_order(self):
        aggregates = {'zone': offered_host.Aggregate('zone', 'az1')}
        wishes = guest_request.GuestWishes(availability_zone='az1')
        one = explain_cases.wanted(_GUEST, (guest_request.query(
            {'PCPU': 4, 'MEMORY_MB': 100}, self.QUERY.required,
            self.QUERY.forbidden),))
        host = explain_cases.host(
            dataclasses.replace(_CELL, memory_mib=10), is_enabled=False,
            traits=frozenset({'COMPUTE_STATUS_DISABLED'}))
        for changes, layer, name, about in self.STEPS:
            host = dataclasses.replace(host, **changes)
            found = _verdict(host, one, wishes, aggregates=aggregates)
            if layer is None:
                self.assertIsNone(found.cause)
                self.assertTrue(found.fits)
                self.assertEqual('', found.figures)
            else:
                self.assertEqual((layer, name, about), found.cause[:3])
                self.assertFalse(found.fits)
                self.assertNotEqual('', found.figures)
                self.assertEqual(layer in ('fit', 'resources'),
                                 found.is_eligible)

    def test_all_layers_are_asked(self):
        one = explain_cases.wanted(_GUEST, (guest_request.query(
            resources={'PCPU': 99}),))
        found = _verdict(
            explain_cases.host(_CELL, host_class=explain_cases.SHARED), one)
        self.assertIsInstance(found.fit, model.Fit)
        self.assertEqual(1, len(found.by_placement))
        self.assertNotEqual('', found.class_refusal)

    def test_closest_query(self):
        # Only the other one lacks nothing but CPUs.
        one = explain_cases.wanted(_GUEST, (
            guest_request.query(resources={'PCPU': 9},
                                required=frozenset({'A'})),
            guest_request.query(resources={'VCPU': 9})))
        found = _verdict(explain_cases.host(_CELL, traits=frozenset()), one)
        self.assertEqual(['VCPU'],
                         [refusal.about for refusal in found.by_placement])

    def test_figures(self):
        full = explain_cases.fill(
            host_occupancy.of_host(explain_cases.host(_CELL)),
            explain_cases.pinned((6, 100)))
        found = _verdict(full.host, guests=full.guests)
        self.assertEqual('cell 0 has 2 free dedicated CPUs, 4 needed',
                         found.figures)

    def test_devices(self):
        pool = devices.PciPool(_GPU, 0, 1)
        request = devices.PciRequest('gpu', (_GPU,), 2)
        found = _verdict(explain_cases.host(_CELL, pci_pools=(pool,)),
                         explain_cases.wanted(_GUEST, devices=(request,)))
        self.assertEqual(('devices', 'no-device', 'alias gpu'),
                         found.cause[:3])
        self.assertEqual('alias gpu: 2 wanted, 1 on the host', found.figures)

    def test_unknown_traits(self):
        found = _verdict(explain_cases.host(_CELL), explain_cases.wanted(
            _GUEST, (self.QUERY,)))
        self.assertEqual([('traits', 'A')], [
            (doubt.kind, doubt.about) for doubt in found.doubts])
        self.assertTrue(found.fits)


@ddt.ddt
class TestSums(unit_base.TestCase):

    def _sentence(self, *hosts, one=None):
        one = one or explain_cases.wanted(_GUEST)
        verdicts = [_verdict(host, one) for host in hosts]
        return verdict_summary.sentence(len(hosts),
                                        verdict_summary.groups(verdicts, one))

    def test_sentence(self):
        shared = explain_cases.host(_CELL, host_class=explain_cases.SHARED)
        small = explain_cases.host(builders.host_cell(0, range(2)))
        self.assertEqual(
            '5 hosts: 1 has room, 3 are shared hosts, 1 has no cell with '
            'that many dedicated CPUs',
            self._sentence(shared, shared, shared, explain_cases.host(_CELL),
                           small))

    def test_one(self):
        self.assertEqual('1 host: 1 has room',
                         self._sentence(explain_cases.host(_CELL)))

    @ddt.data((1, 'lacks free 1 GiB pages'), (2, 'lack free 1 GiB pages'))
    @ddt.unpack
    def test_pages(self, count, text):
        one = explain_cases.wanted(explain_cases.pinned(
            (4, 1024, 1024 * 1024)))
        host = explain_cases.host(dataclasses.replace(
            _CELL, pages=(model.PagePool(4, 1000),
                          model.PagePool(1024 * 1024, 0))))
        self.assertEqual(
            f'{count} host{"s" * (count > 1)}: {count} {text}',
            self._sentence(*[host] * count, one=one))

    @ddt.data(*model.Reason)
    def test_all_reasons(self, reason):
        one = explain_cases.wanted(_GUEST)
        for count in (1, 2):
            text = verdict_summary.phrase(
                host_verdicts.RefusalCause(host_verdicts.RefusalRank.FIT,
                                           str(reason)), count, one)
            self.assertIn(text.split()[0], (
                ('has', 'is', 'lacks') if count == 1 else
                ('have', 'are', 'lack')))

    def test_resources(self):
        cause = host_verdicts.RefusalCause(
            host_verdicts.RefusalRank.RESOURCES, 'DISK_GB')
        self.assertEqual(
            'have room in their cells, but too little DISK_GB left in '
            'Placement',
            verdict_summary.phrase(cause, 2, explain_cases.wanted(_GUEST)))
        self.assertEqual(
            'has too little DISK_GB left',
            verdict_summary.phrase(cause, 1, explain_cases.wanted()))

    @ddt.data(('required-trait', 'has no trait X', 'lack trait X'),
              ('forbidden-trait', 'has trait X', 'have trait X'),
              ('AggregateTypeAffinityFilter', 'takes flavor X', 'take flavor'))
    @ddt.unpack
    def test_refusals(self, name, clause, several):
        text = verdict_summary.phrase(host_verdicts.cause_of(
            outcome.AdmissionRefusal(
                outcome.RefusalLayer.FILTER, name, 'X', clause)), 2,
            explain_cases.wanted())
        self.assertTrue(text.startswith(several), text)

    def test_placement_groups(self):
        one = explain_cases.wanted(_GUEST, (guest_request.query(
            resources={'PCPU': 9}, required=frozenset({'A'})),))
        hosts = [explain_cases.host(_CELL),
                 explain_cases.host(_CELL, traits=frozenset()),
                 explain_cases.host(builders.host_cell(0, range(20)))]
        found = verdict_summary.placement_groups(
            [_verdict(host, one) for host in hosts])
        self.assertEqual([
            (2, 'PCPU', 'have too little PCPU left'),
            (1, 'A', 'lacks trait A, which is required')],
            [(one.count, one.name, one.text) for one in found])


class TestJudge(unit_base.TestCase):

    def test_packs_cells(self):
        cells = tuple(builders.host_cell(number, range(100 * number,
                                                       100 * number + count))
                      for number, count in ((0, 8), (1, 4)))
        where = host_occupancy.of_host(explain_cases.host(*cells))
        one = explain_cases.wanted(explain_cases.pinned((2, 100)))
        for packs_cells, cell in ((False, 0), (True, 1)):
            found = host_verdicts.HostJudge(
                {}, placing.judge_of(packs_cells)).verdict(where, one)
            self.assertEqual(cell, found.fit.cells[0].host_cell)

    def test_what_is_predicted_counts(self):
        # Packing, nova tries the cell first that lacks memory.
        asked = []

        def ask_nova(attempt, choice, bounds):
            asked.append([cell.id for cell in choice.order])
            return model.Refusal(model.Reason.NOVA_WRONG)

        cells = tuple(builders.host_cell(
            number, range(100 * number, 100 * number + 8),
            memory_mib=memory_mib)
            for number, memory_mib in ((0, 1), (1, 200)))
        cells = (dataclasses.replace(cells[0], dedicated_cpus=cpuset.CpuSet(
            range(6))), cells[1])
        where = host_occupancy.of_host(explain_cases.host(*cells))
        # Only nova itself can tell of such guests.
        one = explain_cases.wanted(explain_cases.pinned(
            (2, 100), thread_policy=model.ThreadPolicy.ISOLATE,
            emulator_isolated=True))
        for packs_cells in (False, True):
            found = host_verdicts.HostJudge({}, placing.judge_of(
                packs_cells, fit.ClaimBounds(ask_nova=ask_nova)))
            self.assertEqual(not packs_cells, found.fits(where, one))
        self.assertEqual([[0, 1]], asked)


class TestJudgeOf(unit_base.TestCase):

    def test_of_fleet(self):
        fleet = snapshot.Fleet(
            hosts=(explain_cases.host(_CELL),), packs_cells=True,
            aggregates=(offered_host.Aggregate('a', 'z'),))
        found = explanation.judge_of(fleet)
        self.assertEqual(['host1'], list(found.occupancies))
        self.assertTrue(found.judge.rules.packs_cells)
        self.assertEqual(['a'], list(found.judge.rules.aggregates))
