# SPDX-License-Identifier: Apache-2.0


import collections
import dataclasses

import ddt
import hypothesis
from hypothesis import strategies
from oslotest import base

from nova_pinning.admission import devices
from nova_pinning.admission import offered_host
from nova_pinning import cpuset
from nova_pinning.fleet import problems
from nova_pinning.fleet import shapes
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.tests.unit.fleet import fleet_samples
from nova_pinning.tests.unit import unit_base


def _replaced(items, old, **changes):
    return tuple(dataclasses.replace(one, **changes) if one is old else one
                 for one in items)


@ddt.ddt
class TestFind(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self._begin()

    def _begin(self):
        self.fleet = fleet_samples.tidy()
        self.host = self.fleet.hosts[0]
        self.guests = [guest for guest in self.fleet.guests
                       if guest.host == self.host.name]

    def _with_host(self, **changes):
        self.fleet = dataclasses.replace(self.fleet, hosts=_replaced(
            self.fleet.hosts, self.host, **changes))

    def _with_guest(self, guest, **changes):
        self.fleet = dataclasses.replace(self.fleet, guests=_replaced(
            self.fleet.guests, guest, **changes))

    def _with_cell(self, **changes):
        first, *others = self.host.cells
        self._with_host(cells=(
            dataclasses.replace(first, **changes), *others))

    def _find(self, code):
        """All there is of a code, which is all that there is."""
        found = problems.find(self.fleet)
        self.assertEqual({code}, {one.code for one in found})
        for one in found:
            rule = problems.RULES[code]
            self.assertEqual((rule.severity, rule.why, rule.advice),
                             (one.severity, one.why, one.advice))
        return found

    @ddt.data(*shapes.SHAPES)
    def test_nothing(self, shape):
        fleet = fleet_samples.tidy(shape, filled=0.95)
        self.assertEqual([], [
            one for one in problems.find(fleet) if one.code != 'F305'])

    def test_no_topology(self):
        self.fleet = dataclasses.replace(self.fleet, guests=())
        self._with_host(cells=())
        found, = self._find('F101')
        self.assertEqual(('host dedicated-00001', 'dedicated-00001', ()),
                         (found.subject, found.host,
                          tuple(found.details['guests'])))

    def test_cores(self):
        first, *others = self.host.cells[0].cores
        self._with_cell(cores=((*first, others[0][0]), *others))
        found, = self._find('F102')
        self.assertEqual('cell 0 has a CPU in two cores', found.message)

    def test_cpus_without_core(self):
        self._with_cell(cores=sorted(self.host.cells[0].cores)[1:])
        found, = self._find('F102')
        self.assertEqual('CPUs 1,49 of cell 0 are in no core', found.message)

    def test_cells_overlap(self):
        first, second = self.host.cells
        self._with_host(cells=(first, dataclasses.replace(
            second, shared_cpus=cpuset.CpuSet([2]))))
        found, = self._find('F103')
        self.assertEqual('CPU 2 of cell 1 is also in a cell before it',
                         found.message)

    def test_caches_overlap(self):
        self._with_host(l3_domains=(
            cpuset.CpuSet(range(8)), cpuset.CpuSet(range(6, 16))))
        found, = self._find('F104')
        self.assertEqual('CPUs 6-7 under two caches', found.message)

    def test_aggregate(self):
        self._with_host(aggregates=('dedicated', 'east', 'west'))
        found, = self._find('F105')
        self.assertEqual('in east, west', found.message)

    def test_class(self):
        self._with_host(host_class=None)
        self._find('F106')

    def test_divided_cores(self):
        self.fleet = dataclasses.replace(self.fleet, guests=())
        first = self.host.cells[0]
        one = max(cpu for core in first.cores if len(core) > 1 for cpu in core)
        own = cpuset.CpuSet([one])
        self._with_cell(dedicated_cpus=first.dedicated_cpus - own,
                        shared_cpus=first.shared_cpus | own)
        found, = self._find('F109')
        self.assertIn('1 core divided', found.message)

    def test_homeless(self):
        self.fleet = dataclasses.replace(
            self.fleet, hosts=self.fleet.hosts[1:])
        found, = self._find('F201')
        self.assertEqual('host dedicated-00001', found.subject)
        self.assertEqual({guest.uuid for guest in self.guests},
                         set(found.details['guests']))
        self.assertIn(f'{len(self.guests)} guests: ', found.message)
        self.assertIn(f' and {len(self.guests) - 4} more', found.message)

    def _single(self):
        return next(guest for guest in self.guests
                    if len(guest.fit.cells) == 1 and not guest.devices)

    def _with_cell_fit(self, guest, **changes):
        self._with_guest(guest, fit=model.Fit((dataclasses.replace(
            guest.fit.cells[0], **changes),)))

    def test_no_cell(self):
        guest = self._single()
        self._with_cell_fit(guest, host_cell=9)
        found, = self._find('F202')
        self.assertEqual(
            f'guest {guest.uuid} ({guest.name}) on host dedicated-00001',
            found.subject)
        self.assertEqual((guest.uuid,), tuple(found.details['guests']))

    def test_cell_twice(self):
        fleet = fleet_samples.tidy(mix='8x2')
        guest = fleet.guests[0]
        first, second = guest.fit.cells
        self.fleet = dataclasses.replace(fleet, guests=_replaced(
            fleet.guests, guest, fit=model.Fit((
                first, dataclasses.replace(second, pins=first.pins,
                                           host_cell=first.host_cell)))))
        self.assertEqual(
            ['F203', 'F303'],
            [one.code for one in problems.find(self.fleet)])

    def test_missing_pins(self):
        guest = self._single()
        self._with_cell_fit(guest, pins=guest.fit.cells[0].pins[1:])
        found, = self._find('F204')
        self.assertEqual('vCPU 0', found.message)

    def test_other_class(self):
        for guest in self.guests[:2]:
            self._with_guest(guest, guest_class=hostclass.HostClass.SHARED)
        found, = self._find('F205')
        self.assertIn('2 shared guests: ', found.message)
        self.assertEqual('note', found.severity)

    def test_unlisted_server_group(self):
        for guest in self.guests[:2]:
            self._with_guest(guest, server_group='g')
        found, = self._find('F206')
        self.assertIn('2 guests: ', found.message)
        self.fleet = dataclasses.replace(self.fleet, server_groups=(
            offered_host.ServerGroup(
                id='g', policy=offered_host.GroupPolicy.AFFINITY),))
        self.assertEqual((), problems.find(self.fleet))

    def test_stray_pins(self):
        guest = self._single()
        pins = ((0, 0), (1, 95), (2, 1000), *guest.fit.cells[0].pins[3:])
        cell = self.host.cells[0]
        self._with_cell_fit(guest, host_cell=0, pins=pins)
        found = [one for one in problems.find(self.fleet)
                 if one.code in ('F301', 'F302')]
        self.assertEqual([('F301', 'CPUs 0,95,1000 of cell 0')],
                         [(one.code, one.message) for one in found])
        # CPUs that are the cell's, but not to be pinned to.
        self._with_host(cells=(dataclasses.replace(
            cell, dedicated_cpus=cell.dedicated_cpus - cpuset.CpuSet([1])),
            self.host.cells[1]))
        guest = next(one for one in self.fleet.guests
                     if one.uuid == guest.uuid)
        self._with_cell_fit(guest, pins=((0, 1), *pins[3:]))
        found = [one for one in problems.find(self.fleet)
                 if one.code in ('F301', 'F302')]
        self.assertIn(('F302', 'CPU 1 of cell 0', (guest.uuid,)),
                      [(one.code, one.message, tuple(one.details['guests']))
                       for one in found])

    def test_emulator_cpus(self):
        taken = {cpu for guest in self.guests for cell in guest.fit.cells
                 for _vcpu, cpu in cell.pins}
        guest = self._single()
        cpu = min(cpu for cpu in taken
                  if cpu in self.host.cells[guest.fit.cells[0].host_cell]
                  .dedicated_cpus)
        self._with_cell_fit(guest, emulator_cpus=(cpu,))
        found, = self._find('F303')
        self.assertIn(f'CPU {cpu} taken by ', found.message)

    @unit_base.settings(60)
    @hypothesis.given(strategies.data())
    def test_two_on_one(self, data):
        # Whatever pins there are: found is what counting each CPU's guests
        # by hand finds.
        pins = data.draw(strategies.lists(
            strategies.lists(strategies.integers(1, 12), max_size=4),
            min_size=1, max_size=6))
        guest = self._single()
        guests = tuple(dataclasses.replace(
            guest, uuid=str(number), name='', topology=model.Guest((
                dataclasses.replace(
                    guest.topology.cells[0],
                    dedicated_vcpus=tuple(range(len(cpus)))),),
                model.CpuPolicy.DEDICATED),
            fit=model.Fit((model.CellFit(0, tuple(enumerate(cpus))),)))
            for number, cpus in enumerate(pins))
        found = problems.find(
            dataclasses.replace(self.fleet, guests=guests))
        owners = collections.defaultdict(list)
        for number, cpus in enumerate(pins):
            for cpu in cpus:
                owners[cpu].append(str(number))
        wanted = collections.defaultdict(set)
        for cpu, uuids in owners.items():
            if len(uuids) > 1:
                wanted[tuple(sorted(set(uuids)))].add(cpu)
        told = {tuple(one.details['guests']): one.message for one in found
                if one.code == 'F303'}
        self.assertEqual(set(wanted), set(told))
        for uuids, cpus in wanted.items():
            self.assertIn(f' {cpuset.CpuSet(cpus)} taken by ', told[uuids])

    def test_floating(self):
        shared = self.fleet.hosts[-1]
        self.fleet = dataclasses.replace(self.fleet, hosts=_replaced(
            self.fleet.hosts, shared, cells=tuple(
                dataclasses.replace(cell, shared_cpus=cpuset.CpuSet())
                for cell in shared.cells)))
        found, = self._find('F304')
        self.assertEqual(shared.name, found.host)

    def test_pages(self):
        cell = self.host.cells[0]
        used = sum(
            one.memory_mib // 1024 for guest in self.guests
            for one, fit in zip(guest.topology.cells, guest.fit.cells)
            if not fit.host_cell)
        self._with_cell(pages=(cell.pages[0], cell.pages[1]._replace(
            total=used + 1, reserved=1)))
        self.assertEqual((), problems.find(self.fleet))
        self._begin()
        self._with_cell(pages=(cell.pages[0], cell.pages[1]._replace(
            total=used + 1, reserved=2)))
        found, = self._find('F401')
        self.assertEqual(f'cell 0: {used} pages of 1 GiB in use, {used - 1} '
                         'for guests', found.message)
        self._begin()
        self._with_cell(pages=())
        found, = self._find('F401')
        self.assertIn(', 0 for guests', found.message)

    def test_memory(self):
        used = sum(guest.memory_mib for guest in self.guests)
        left = self.host.memory_mib - used
        self._with_host(reserved_memory_mib=left)
        self.assertEqual((), problems.find(self.fleet))
        self.host = self.fleet.hosts[0]
        self._with_host(reserved_memory_mib=left + 1024)
        found, = self._find('F402')
        self.assertEqual(f'{used // 1024} GiB in use, {used // 1024 - 1} GiB '
                         'to sell', found.message)
        self.host = self.fleet.hosts[0]
        self._with_host(ram_allocation_ratio=2.0)
        self.assertEqual((), problems.find(self.fleet))
        # Placement counts the ratio of what is left beside the reserve.
        self.host = self.fleet.hosts[0]
        self._with_host(
            reserved_memory_mib=self.host.memory_mib - used // 2 + 512)
        found, = self._find('F402')
        self.assertIn(f'{used // 1024 - 1} GiB to sell', found.message)

    def test_devices(self):
        used = collections.Counter()
        for guest in self.guests:
            for use in guest.devices:
                used[use.kind, use.numa_node] += use.count
        (kind, node), count = used.most_common(1)[0]
        self._with_host(pci_pools=tuple(
            pool._replace(total=count - 1)
            if (pool.kind, pool.numa_node) == (kind, node) else pool
            for pool in self.host.pci_pools))
        found, = self._find('F501')
        self.assertEqual(
            f'{count} of {kind} near cell {node} in use, '
            f'{count - 1} there are', found.message)
        self.assertEqual(
            {guest.uuid for guest in self.guests if any(
                (use.kind, use.numa_node) == (kind, node)
                for use in guest.devices)}, set(found.details['guests']))

    def test_device_near_no_cell(self):
        use = devices.PciUse(
            devices.device_keys('8086', '1572'), None, 1)
        self._with_guest(self.guests[0], devices=(use,))
        self.assertIn('1 of 8086:1572 near no cell in use, 0 there are', [
            one.message for one in problems.find(self.fleet)])

    @unit_base.settings(60)
    @hypothesis.given(fleet_samples.ANY_FLEET)
    def test_never_fails(self, fleet):
        # Hosts that are named have guests, most of which make no sense.
        fleet = dataclasses.replace(fleet, guests=tuple(
            dataclasses.replace(guest, host=fleet.hosts[0].name)
            for guest in fleet.guests) if fleet.hosts else fleet.guests)
        found = problems.find(fleet)
        self.assertEqual(sorted(one.code for one in found),
                         [one.code for one in found])
        for one in found:
            self.assertIn(one.code, problems.RULES)
            self.assertFalse(one.message.endswith('.'))
