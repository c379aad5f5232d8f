# SPDX-License-Identifier: Apache-2.0

import dataclasses

import ddt
import testtools

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.admission import pci_alias
from nova_pinning.capacity import capacity
from nova_pinning.fleet import snapshot
from nova_pinning.host import device_offer
from nova_pinning.host import host_offer
from nova_pinning.model import hostclass
from nova_pinning.placement import inventory
from nova_pinning.presentation import capacity_report
from nova_pinning.presentation.fleet_page import page_data
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.host import test_device_offer

DESCRIBED = test_device_offer.grouped()
CELLS = (builders.host_cell(0, range(8)), builders.host_cell(1, range(8, 16)))


def request(alias, number, vcpus=2, cells=1):
    """A guest with so many of the devices."""
    return pci_alias.asked(
        dataclasses.replace(guest_request.of_shape(
            f'{alias}:{number}', vcpus * cells, 1024 * cells,
            hostclass.HostClass.DEDICATED,
            builders.guest(*[(vcpus, 1024)] * cells)), devices=(
                (devices.PciRequest(alias, (), number),) if alias else ())),
        device_offer.aliases(DESCRIBED), True)


def measured(*asked, there=(), **values):
    """Two GPUs and a NIC on each of four switches, two a node.

    :param there: what was asked for by the guests that are on it
    """
    host = dataclasses.replace(host_offer.offered(DESCRIBED), **{
        'cells': CELLS, 'gaps': (), 'reserved_memory_mib': 0} | values)
    occupancy = host_occupancy.of_host(host)
    for number, one in enumerate(there):
        answer = judge.AdmissionJudge().answer(one, occupancy)
        occupancy = occupancy.adding(
            judge.resident(one, occupancy, answer.use, str(number)))
    return capacity.measure(
        snapshot.Fleet(
            hosts=(host,), guests=occupancy.guests,
            pci_aliases=device_offer.aliases(DESCRIBED)), asked)


def reserved(held):
    """The host with a device that Placement does not give.

    :param held: of the first GPU, by a guest that is on no host; else it is
        reserved
    """
    host = host_offer.offered(DESCRIBED)
    children = list(host.children)
    place = next(place for place, one in enumerate(children)
                 if 'CUSTOM_H100_SWITCH_0' in one.traits)
    [(name, has)] = children[place].inventories
    children[place] = dataclasses.replace(
        children[place], held=((name, held),), inventories=((
            name, dataclasses.replace(has, reserved=1 - held)),))
    return dataclasses.replace(host, children=tuple(children))


def told(*arguments, **values):
    """(alias, node, group's number, free, stranded by cause) in order."""
    return [
        (one['alias'], one['numa_node'], int(one['traits'][-1]), one['free'],
         one['stranded'])
        for one in capacity_report.as_dict(measured(*arguments, **values))[
            'stranded']['devices']]


@ddt.ddt
class TestStranded(testtools.TestCase):

    def test_nothing(self):
        self.assertEqual(
            [('h100', number // 2, number, 2, {}) for number in range(4)],
            told(request('h100', 4), request('h100-switch-3', 2)))
        self.assertEqual([], told(request('', 0)))

    def test_no_cpus_in_the_cell(self):
        """Of the node with the device of a group nothing is left."""
        full = request('h100-switch-2', 1, vcpus=8)
        self.assertEqual(
            [('h100', 0, 0, 2, {}), ('h100', 0, 1, 2, {}),
             ('h100', 1, 2, 1, {'cells': 1}), ('h100', 1, 3, 2, {'cells': 2})],
            told(request('h100', 1), there=[full]))
        # A guest of two cells could have them, were there any for the other.
        found = told(request('h100', 2, cells=2), there=[full])
        self.assertEqual({'cells'}, {cause for one in found
                                     for cause in one[4]})

    def test_no_cell_near(self):
        """Those of a node that has no CPUs are many enough."""
        self.assertEqual(
            [{}, {}, {'affinity': 2}, {'affinity': 2}],
            [one[4] for one in told(request('h100', 1), cells=CELLS[:1])])

    def test_half_a_group(self):
        taken = request('h100-switch-1', 1)
        found = told(request('h100-switch-1', 2), there=[taken])
        self.assertEqual(
            [('h100-switch-1', 0, 1, 1, {'devices': 1})], found)
        # One that is smaller can have it.
        self.assertEqual(
            {}, told(request('h100-switch-1', 2), request('h100-switch-1', 1),
                     there=[taken])[0][4])

    @ddt.data(0, 1)
    def test_reserved(self, held):
        """Placement keeps some, as one_time_use has it keep a used one."""
        host = reserved(held)
        asked = request('h100', 1)
        found = told(asked, children=host.children)
        self.assertEqual(
            [('h100', 0, 0, 1, {}), ('h100', 0, 1, 2, {})], found[:2])
        page, = page_data.document(page_data.FleetPage(measured=measured(
            asked, children=host.children)), '1')['states']
        self.assertIn(
            ['h100', 0, 'CUSTOM_H100_SWITCH_0', 2, 1, []], page['devices'])

    @ddt.data(
        ({'cells': tuple(dataclasses.replace(cell, memory_mib=512)
                         for cell in CELLS)}, 'memory'),
        ({'is_enabled': False}, 'disabled'))
    @ddt.unpack
    def test_other_causes(self, values, cause):
        self.assertEqual({cause: 2}, told(request('h100', 1), **values)[0][4])

    def test_no_more_than_the_group(self):
        """Placement has more of the class, but not with the trait."""
        size, = measured(request('h100-switch-1', 2)).sizes()
        self.assertEqual((1, 1), (size.fits, size.most))
        self.assertEqual({'devices': 7}, size.missing)

    def test_all_in_use(self):
        """No free device is far from CPUs where no device is free."""
        size, = measured(request('h100', 1, vcpus=1), there=[
            request('h100', 4, vcpus=2) for _guest in range(2)]).sizes()
        self.assertEqual((0, {'devices': 12}), (size.fits, size.missing))

    def test_far_from_cpus(self):
        """What Placement has of a class is no more than cells can have."""
        size, = measured(request('h100', 1, vcpus=1), cells=(
            CELLS[0], builders.host_cell(1, range(8, 10)))).sizes()
        self.assertEqual((6, 6, {'devices': 2, 'affinity': 2}),
                         (size.fits, size.most, size.missing))

    def test_other_resources(self):
        """What other providers have too little of are no devices."""
        asked = request('h100', 1)
        asked = dataclasses.replace(asked, queries=tuple([
            dataclasses.replace(query, groups=(
                *query.groups, guest_request.RequestGroup(
                    '', (('VGPU', 1),)))) for query in asked.queries]))
        for vgpus, missing in ((3, {'resources': 5}), (0, {'resources': 8})):
            children = (*host_offer.offered(DESCRIBED).children, (
                offered_host.OfferedProvider(inventories=((
                    'VGPU', inventory.Inventory(vgpus)),), parent=0)))
            size, = measured(asked, children=children).sizes()
            self.assertEqual((vgpus, missing), (size.fits, size.missing))

    def test_sold_out(self):
        """What is sold out is there with 0, so that an alert sees it."""
        sold = measured(request('h100', 1), there=[
            request('h100', 2, vcpus=1) for _guest in range(4)])
        self.assertEqual(
            [(2, 0, {})] * 4,
            [(one['total'], one['free'], one['stranded'])
             for one in capacity_report.as_dict(sold)['stranded']['devices']])
        text = capacity_report.as_metrics(sold)
        labels = ('alias="h100",class="unknown",numa_node="1",'
                  'traits="CUSTOM_H100_SWITCH_3"')
        self.assertIn(
            f'nova_pinning_capacity_free_devices{{{labels}}} 0.0', text)
        self.assertIn(f'nova_pinning_capacity_devices{{{labels}}} 2.0', text)

    def test_metrics(self):
        text = capacity_report.as_metrics(measured(
            request('h100', 1), there=[
                request('h100-switch-2', 1, vcpus=8)]))
        labels = ('class="unknown",numa_node="1",'
                  'traits="CUSTOM_H100_SWITCH_3"')
        self.assertIn('nova_pinning_capacity_free_devices{alias="h100",'
                      f'{labels}}} 2.0', text)
        self.assertIn('nova_pinning_capacity_stranded_devices{alias="h100",'
                      f'cause="cells",{labels}}} 2.0', text)


class TestClaims(testtools.TestCase):

    def test_what_nova_gets_wrong(self):
        """Two cells near devices: nova pins one to another cell's CPU."""
        host = offered_host.OfferedHost(
            name='host', cells=tuple(
                builders.host_cell(cell, [cell]) for cell in range(4)),
            pci_pools=tuple(
                devices.PciPool(devices.device_keys('8086', product), cell, 1)
                for cell, product in enumerate('1212')))
        asked = dataclasses.replace(
            guest_request.of_shape(
                'guest', 2, 2048, hostclass.HostClass.DEDICATED,
                builders.guest((1, 1024), (1, 1024))),
            devices=(devices.PciRequest(
                'nic', (devices.device_keys('8086', '2'),), 2, 'required'),))
        [counted] = capacity.measure(
            snapshot.Fleet(hosts=(host,)), [asked]).hosts
        self.assertEqual(0, counted.counts[0].fits)
