# SPDX-License-Identifier: Apache-2.0


import dataclasses
import hashlib
import itertools

import ddt
import hypothesis
from hypothesis import strategies
from oslotest import base

from nova_pinning.admission import devices
from nova_pinning.admission import host_occupancy
from nova_pinning import errors
from nova_pinning import fit
from nova_pinning.fleet import document
from nova_pinning.fleet import generate
from nova_pinning.fleet import occupied
from nova_pinning.fleet import problems
from nova_pinning.fleet import shapes
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.tests.unit.fleet import fleet_samples
from nova_pinning.tests.unit import unit_base

_DEDICATED = hostclass.HostClass.DEDICATED


def _sold(fleet):
    """Dedicated CPUs that guests have, as a part of all."""
    there = sum(len(host.dedicated_cpus) for host in fleet.hosts)
    return sum(guest.vcpus for guest in fleet.guests
               if guest.topology is not None) / there


@ddt.ddt
class TestShapes(base.BaseTestCase):

    @ddt.data(('two-socket-80', 2, 38, 80, 2), ('two-socket-88', 2, 44, 88, 2),
              ('epyc-nps4', 8, 30, 256, 16),
              ('two-socket-96-pci', 2, 46, 96, 2))
    @ddt.unpack
    def test_shape(self, name, cells, dedicated, cpus, l3_domains):
        shape = shapes.SHAPES[name]
        found = shape.cells()
        self.assertEqual((cells, cpus, l3_domains), (
            len(found), shape.cpus, len(shape.l3_domains())))
        self.assertEqual(dedicated, found[0].dedicated_count)
        self.assertEqual(cpus, sum(map(len, shape.l3_domains())))
        for cell in found:
            self.assertEqual(cell.dedicated_count, cell.free_in_cores)
            self.assertEqual({shape.threads}, set(cell.core_sizes))
            self.assertLessEqual(
                sum(pool.total_kib for pool in cell.pages),
                cell.memory_mib * 1024)
            # A guest's memory is never what it lacks first.
            self.assertLessEqual(
                cell.dedicated_count * shape.memory_per_vcpu_mib,
                shape.huge_mib or cell.memory_mib)
        # A cache is in one cell.
        for domain in shape.l3_domains():
            self.assertEqual(1, sum(
                not domain.isdisjoint(cell.dedicated_cpus)
                for cell in found))

    def test_numbering(self):
        shape = shapes.SHAPES['two-socket-80']
        self.assertEqual((1, 41), min(shape.cells()[0].cores))
        self.assertEqual((39, 79), max(shape.cells()[1].cores))

    def test_shared(self):
        for cell in shapes.SHAPES['two-socket-96-pci'].cells(is_shared=True):
            self.assertEqual((0, 46), (cell.dedicated_count,
                                       cell.shared_count))
            self.assertEqual([4], [pool.size_kib for pool in cell.pages])


@ddt.ddt
class TestGenerate(base.BaseTestCase):

    def test_same_everywhere(self):
        # Worked out once, on one machine.
        digests = {
            name: hashlib.sha256(document.dumps(generate.generate_fleet(
                8, name, 42, shared=0.25)).encode()).hexdigest()[:12]
            for name in shapes.SHAPES}
        self.assertEqual(DIGESTS, digests)

    def test_seeds_differ(self):
        first, second = (generate.generate_fleet(3, 'two-socket-80', seed)
                         for seed in (1, 2))
        self.assertEqual(first.hosts, second.hosts)
        self.assertNotEqual(first.guests, second.guests)

    @ddt.data(0.0, 0.3, 0.6, 0.9)
    def test_filled(self, filled):
        fleet = generate.generate_fleet(20, 'two-socket-80', 3, filled=filled)
        self.assertLessEqual(_sold(fleet), filled)
        self.assertGreaterEqual(_sold(fleet), filled - 0.03)

    def test_full(self):
        fleet = generate.generate_fleet(3, 'two-socket-80', 3, filled=1.0,
                                        mix='2')
        self.assertEqual(1.0, _sold(fleet))
        # More than there is room for.
        fleet = generate.generate_fleet(3, 'two-socket-80', 3, filled=1.0,
                                        mix='16', churn=0.5)
        self.assertEqual(3 * 2 * 32 / (3 * 76), _sold(fleet))

    def test_full_shared_hosts(self):
        fleet = generate.generate_fleet(3, 'two-socket-80', 3, filled=1.0,
                                        shared=1.0)
        self.assertEqual((), problems.find(fleet))
        used = sum(guest.memory_mib for guest in fleet.guests)
        there = sum(host.memory_mib for host in fleet.hosts)
        self.assertGreater(used, 0.98 * there)
        for guest in fleet.guests:
            self.assertIsNone(guest.topology)

    @unit_base.settings(25)
    @hypothesis.given(
        hosts=strategies.integers(0, 5),
        shape=strategies.sampled_from(list(shapes.SHAPES)),
        seed=strategies.integers(0, 10 ** 6),
        filled=strategies.floats(0, 1), shared=strategies.floats(0, 1),
        churn=strategies.floats(0, 1),
        mix=strategies.sampled_from(['', '4', '8:1,16x2:3', '24x2']))
    def test_any(self, hosts, shape, seed, filled, shared, churn, mix):
        told = []
        fleet = generate.generate_fleet(
            hosts, shape, seed, filled=filled, shared=shared, churn=churn,
            mix=mix, tell=told.append)
        self.assertEqual(hosts, len(fleet.hosts))
        # On which caches guests lie is nova's choice.
        self.assertEqual([], [finding for finding in problems.find(fleet)
                              if finding.code != 'F305'])
        self.assertEqual(fleet, document.loads(document.dumps(fleet)))
        flavors = {flavor.name: flavor for flavor in fleet.flavors}
        for guest in fleet.guests:
            flavor = flavors[guest.flavor]
            self.assertEqual((flavor.vcpus, flavor.memory_mib),
                             (guest.vcpus, guest.memory_mib))
        for part in told:
            self.assertTrue(0 <= part <= 1)

    def test_how_full_it_is(self):
        fleet = generate.generate_fleet(6, 'two-socket-80', 2, filled=0.5,
                                        mix='1', shared=0.5)
        found = generate.filled(fleet)
        self.assertEqual({'dedicated': 0.5}, {
            name: share for name, share in found.items()
            if name == 'dedicated'})
        self.assertTrue(0.48 < found['shared'] <= 0.5)
        self.assertEqual({}, generate.filled(snapshot.Fleet(hosts=())))

    def test_churn_makes_holes(self):
        # Who comes gets the first free cores, so without anybody who leaves
        # what is free is at the end.
        def broken(fleet):
            return sum(
                any(later and not first for first, later
                    in itertools.pairwise(map(bool, reversed(cell.free_cores)))
                    )
                for host in fleet_samples.engine_hosts(fleet).values()
                for cell in host.cells)

        still, moved = (
            generate.generate_fleet(20, 'two-socket-80', 5, mix='8:1,2:2',
                                    churn=churn) for churn in (0, 2))
        self.assertEqual(0, broken(still))
        self.assertGreater(broken(moved), 20)

    def test_engine_can_go_on(self):
        # What is there is what the engine itself would have: one more guest
        # gets CPUs that nobody has.
        fleet = generate.generate_fleet(6, 'two-socket-96-pci', 9)
        topology = model.Guest((model.GuestCell((0, 1), (), 2048, 1048576),),
                               model.CpuPolicy.DEDICATED)
        guests = occupied.guests_by_host(fleet)
        for host in fleet.hosts:
            here = guests[host.name]
            engine = host_occupancy.engine_host(host, here)
            uses = [use for guest in here for use in guest.devices]
            found = fit.fit_guest(engine, topology, pci=devices.check(
                host.pci_pools, uses, (), host.cells))
            if isinstance(found, model.Fit):
                taken = {cpu for guest in here for cell in guest.fit.cells
                         for _vcpu, cpu in cell.pins}
                for _vcpu, cpu in found.cells[0].pins:
                    self.assertNotIn(cpu, taken)

    def test_devices(self):
        fleet = generate.generate_fleet(6, 'two-socket-96-pci', 9)
        with_devices = [guest for guest in fleet.guests if guest.devices]
        self.assertGreater(len(with_devices), len(fleet.guests) / 5)
        for guest in with_devices:
            alias = guest.flavor.rpartition('-')[2]
            use, = guest.devices
            self.assertEqual(fleet.pci_aliases[alias].specs, (use.keys,))
            self.assertIn(use.numa_node, [
                cell.host_cell for cell in guest.fit.cells])

    def test_shape_of_ones_own(self):
        shape = dataclasses.replace(
            shapes.SHAPES['two-socket-80'], name='mine', sockets=1, cores=4,
            kept_cores={})
        fleet = generate.generate_fleet(2, shape, mix='4')
        self.assertEqual(1, len(fleet.hosts[0].cells))

    def test_errors(self):
        error = self.assertRaises(
            errors.InputError, generate.generate_fleet, 1, 'mainframe')
        self.assertIn("there is no shape 'mainframe'", str(error))
        error = self.assertRaises(
            errors.InputError, generate.generate_fleet, 1, 'epyc-nps4',
            mix='x')
        self.assertIn('--mix', str(error))


#: Of the texts of fleets of eight hosts.
DIGESTS = {
    'two-socket-80': '81591e6900a6',
    'two-socket-88': '96cb4eaf1f32',
    'epyc-nps4': '80c075379562',
    'two-socket-96-pci': '0dce78dd6e9a',
}
