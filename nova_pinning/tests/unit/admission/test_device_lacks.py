# SPDX-License-Identifier: Apache-2.0

import dataclasses

import ddt
from oslotest import base as oslotest

from nova_pinning.admission import device_room
from nova_pinning.admission import devices
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import outcome
from nova_pinning.explain import explanation
from nova_pinning.explain import host_verdicts
from nova_pinning.explain import verdict_summary
from nova_pinning.fleet import snapshot
from nova_pinning.host import host_offer
from nova_pinning.placement import inventory
from nova_pinning.presentation import explanation_report
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.capacity import test_stranded_devices
from nova_pinning.tests.unit.explain import explain_cases

GPU = devices.device_keys('10de', '2330')
NIC = devices.device_keys('15b3', '1021')
CELLS = test_stranded_devices.CELLS
request = test_stranded_devices.request


def plain(*counts, policy='legacy', vcpus=2, cells=1):
    """A guest with so many GPUs, and NICs, that Placement does not count."""
    return explain_cases.wanted(
        builders.guest(*[(vcpus, 1024)] * cells), devices=tuple(
            devices.PciRequest(alias, (keys,), count, policy)
            for alias, keys, count in zip(
                ('h100', 'ib'), (GPU, NIC), counts) if count))


def host(*pools, **values):
    """A host of two cells; by default with GPUs in groups in Placement."""
    if pools:
        return explain_cases.host(*CELLS, pci_pools=pools, **values)
    return dataclasses.replace(
        host_offer.offered(test_stranded_devices.DESCRIBED), cells=CELLS,
        gaps=(), reserved_memory_mib=0, **values)


def verdict(asked, where=None, there=()):
    """What is said of one more guest.

    :param there: what was asked for by the guests that are on it
    """
    occupancy = host_occupancy.of_host(where or host())
    for one in there:
        found = judge.AdmissionJudge().answer(one, occupancy)
        occupancy = occupancy.adding(
            judge.resident(one, occupancy, found.use))
    return host_verdicts.HostJudge(
        {}, judge.AdmissionJudge()).verdict(occupancy, asked)


ONE_EACH = tuple(devices.PciPool(GPU, node, 1) for node in (0, 1))
FOUR = devices.PciPool(GPU, 0, 4), devices.PciPool(NIC, 1, 1)


@ddt.ddt
class TestInPlacement(oslotest.BaseTestCase):

    @ddt.data(
        (request('h100', 9), (), 'no-device',
         'alias h100: 9 wanted, 8 on the host as Placement counts them'),
        (request('h100', 5), [request('h100', 4)], 'taken',
         'alias h100: 5 wanted, 4 free of 8 (node 0: 0 of 4, node 1: '
         '4 of 4)'),
        (request('h100-switch-1', 2), [request('h100-switch-1', 1)], 'group',
         'alias h100-switch-1: 2 wanted, 1 free of 2 (node 0: 1 of 2), 6 '
         'free in other groups'),
        (request('h100', 5), (), 'affinity',
         'alias h100: 5 wanted, 8 free of 8 (node 0: 4 of 4, node 1: 4 of '
         '4), with policy "legacy"'),
        (request('h100-switch-2', 1), [request('h100-switch-3', 1, vcpus=7)],
         'free-cpus',
         'alias h100-switch-2: 1 wanted, 2 free of 2 (node 1: 2 of 2); near '
         'these cell 1 has 1 free dedicated CPUs, 2 needed'))
    @ddt.unpack
    def test_obstacles(self, asked, there, name, text):
        found = verdict(asked, there=there)
        self.assertEqual('devices', found.cause.rank)
        self.assertEqual(name, found.cause.name)
        self.assertEqual(text, found.figures)

    def test_no_such_group(self):
        """A trait that no provider has is no trait that the host lacks."""
        gone = host()
        gone = dataclasses.replace(gone, children=tuple(
            dataclasses.replace(child, traits=child.traits - {
                'CUSTOM_H100_SWITCH_3'}) for child in gone.children))
        found = verdict(request('h100-switch-3', 1), gone)
        self.assertEqual('group', found.cause.name)

    def test_preferred(self):
        """What is near and like them to nova, though of other groups."""
        far = host()
        far = dataclasses.replace(far, pci_pools=tuple(
            pool._replace(numa_node=None) if 'CUSTOM_H100_SWITCH_3' in (
                far.children[pool.provider - 1].traits) else pool
            for pool in far.pci_pools))
        asked = request('h100-switch-3', 1)
        found = verdict(dataclasses.replace(asked, devices=tuple(
            dataclasses.replace(one, policy='preferred')
            for one in asked.devices)), far)
        self.assertEqual('affinity', found.cause.name)
        self.assertIn('2 free of 2 (no node: 2 of 2), with policy '
                      '"preferred"; nova looks no further', found.figures)

    def test_not_counted(self):
        """Devices without an inventory in Placement are none to it."""
        found = verdict(request('h100', 1), host(*ONE_EACH, inventories={
            name: inventory.Inventory(2 ** 20)
            for name in inventory.COUNTED}))
        self.assertEqual('no-device', found.cause.name)
        self.assertIn('0 on the host as Placement', found.figures)

    def test_kept_in_placement(self):
        """Of what is reserved there, or held, a guest gets none."""
        held = host()
        held = dataclasses.replace(held, children=tuple(
            dataclasses.replace(child, held=(('CUSTOM_H100', 1),))
            if ('CUSTOM_H100', 1) in [
                (name, has.total) for name, has in child.inventories]
            else child for child in held.children))
        found = verdict(request('h100', 1), held)
        self.assertEqual('taken', found.cause.name)
        self.assertIn('0 free of 8', found.figures)


@ddt.ddt
class TestWithoutPlacement(oslotest.BaseTestCase):

    @ddt.data(
        (plain(2), ONE_EACH, 'affinity'),
        (plain(2, policy='required'), ONE_EACH, 'affinity'),
        (plain(2, policy='socket'), ONE_EACH, 'affinity'),
        (plain(2, policy='preferred'), ONE_EACH, None),
        (plain(2, cells=2, policy='required'), ONE_EACH, None),
        (plain(3), ONE_EACH, 'no-device'),
        # Each is near a cell, and no cell has both.
        (plain(1, 1), FOUR, 'affinity'),
        (plain(1, 1, cells=2), FOUR, None))
    @ddt.unpack
    def test_affinity(self, asked, pools, name):
        found = verdict(asked, host(*pools))
        self.assertEqual(name, found.cause and found.cause.name)

    def test_no_node(self):
        """What belongs to no node is near by legacy, and not if required."""
        pool = devices.PciPool(GPU, None, 1)
        self.assertTrue(verdict(plain(1), host(pool)).fits)
        found = verdict(plain(1, policy='required'), host(pool))
        self.assertIn('(no node: 1 of 1), with policy "required"',
                      found.figures)

    def test_together(self):
        """Two aliases for one device."""
        asked = plain(1, 1)
        asked = dataclasses.replace(asked, devices=tuple(
            dataclasses.replace(one, specs=(GPU,)) for one in asked.devices))
        found = verdict(asked, host(ONE_EACH[0]))
        self.assertEqual(('together', 'alias h100 and alias ib'),
                         found.cause[1:3])

    def test_none_asked_for(self):
        """For which nova wants a pool all the same."""
        asked = plain(1)
        asked = dataclasses.replace(asked, devices=(dataclasses.replace(
            asked.devices[0], count=0),))
        self.assertTrue(verdict(asked, host(ONE_EACH[0])).fits)
        found = verdict(asked, host(devices.PciPool(NIC, 0, 1)))
        self.assertEqual('no-device', found.cause.name)

    def test_cpus_first(self):
        """Where no cell has room, devices are not what is missing."""
        found = verdict(plain(9, vcpus=9), host(*ONE_EACH))
        self.assertEqual(('fit', 'cell-too-small'), found.cause[:2])
        self.assertIsNone(found.lack)

    def test_not_known(self):
        gap = outcome.Doubt(outcome.DoubtKind.DEVICES, 'devices: not known')
        found = verdict(plain(1), explain_cases.host(*CELLS, gaps=(gap,)))
        self.assertTrue(found.fits)
        self.assertIsNone(found.lack)
        self.assertEqual('devices: not known', found.doubt)
        one, = found.devices
        self.assertEqual((1, 0, 0), (one.wanted, one.free, one.total))


@ddt.ddt
class TestReport(oslotest.BaseTestCase):

    def test_json(self):
        found = explanation_report.verdict_as_dict(verdict(
            request('h100-switch-1', 2),
            there=[request('h100-switch-1', 1)]))
        self.assertEqual('devices', found['layer'])
        self.assertEqual('group', found['lacks_devices']['name'])
        self.assertEqual([{
            'alias': 'h100-switch-1', 'policy': 'legacy', 'wanted': 2,
            'free': 1, 'total': 2, 'by_place': [{
                'numa_node': 0, 'traits': 'CUSTOM_H100_SWITCH_1', 'total': 2,
                'free': 1}]}], found['devices'])

    @ddt.data(*map(str, verdict_summary.device_lacks.DeviceObstacle),
              'free-cpus', 'memory-ratio', 'pages')
    def test_phrases(self, name):
        cause = host_verdicts.RefusalCause(
            host_verdicts.RefusalRank.DEVICES, name, 'alias h100')
        one, several = (verdict_summary.phrase(cause, count, plain(1))
                        for count in (1, 2))
        self.assertIn('h100', one)
        self.assertIn(one.split()[0], ('has', 'lacks'))
        self.assertIn(several.split()[0], ('have', 'lack'))

    def test_counted_by_reason(self):
        fleet = snapshot.Fleet(hosts=tuple(
            host(*pools, name=f'host{number}') for number, pools
            in enumerate((ONE_EACH, ONE_EACH, FOUR, ONE_EACH[:1]))))
        asked = plain(2, policy='required')
        groups = verdict_summary.groups([
            explanation.judge_of(fleet).verdict(
                host_occupancy.of_host(one), asked)
            for one in fleet.hosts], asked)
        self.assertEqual(
            [(2, 'affinity'), (1, 'no-device')],
            [(group.count, group.cause.name) for group in groups])


class TestStocks(oslotest.BaseTestCase):

    def test_one_pool_for_two_requests(self):
        asked = plain(1)
        asked = dataclasses.replace(asked, devices=asked.devices * 2)
        self.assertEqual(
            (device_room.UsableDevices(0, '', 1, 1),
             device_room.UsableDevices(1, '', 1, 1)),
            device_room.stocks(asked, host_occupancy.of_host(
                host(*ONE_EACH))))
