# SPDX-License-Identifier: Apache-2.0
"""Which CPUs instances get."""

import dataclasses
import itertools

import ddt
import hypothesis
from hypothesis import strategies

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import host_model
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import planner
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import cpu_layout
from nova_pinning.model import hostclass
from nova_pinning.tests.unit.host.discover import machine_dumps
from nova_pinning.tests.unit.host.discover import sample_machines
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit.instance_bench import bench_fakes
from nova_pinning.tests.unit import unit_base

SHARED = hostclass.HostClass.SHARED
VANILLA = bench_model.Provisioning.VANILLA

cpus = cpuset.CpuSet.parse


def machine(*cores, domains=()):
    """A host of one node."""
    return host_model.HostDescription('host', (host_model.NumaNode(
        0, 0, tuple(cores), 1024,
        l3_domains=tuple(map(cpus, domains))),))


def tenant(name='one', vcpus=1, **values):
    return bench_fakes.tenant(name, vcpus, **values)


def made(dedicated, shared='', **values):
    """Eight cores, (0, 8) and so on, in four L3 domains and two nodes."""
    cores = tuple(cpuset.CpuSet((cpu, cpu + 8)) for cpu in range(8))
    domains = tuple(cpuset.union(cores[first:first + 2])
                    for first in range(0, 8, 2))
    return cpu_layout.CpuLayout(**{
        'host': cpus('0,8'), 'shared': cpus(shared),
        'dedicated': cpus(dedicated), 'cores': cores, 'l3_domains': domains,
        'nodes': (domains[0] | domains[1], domains[2] | domains[3]),
        'memory_mib': 1024} | values)


def pins(place):
    return [str(vcpu) for vcpu in place.vcpus]


@ddt.ddt
class DefaultTestCase(unit_base.TestCase):

    @ddt.data(
        (machine((0,)), '0', '0', ''),
        (machine((0,), (1,)), '0', '0', '1'),
        (machine((0, 1)), '0', '0', '1'),
        (machine((0, 1), (2, 3)), '0-1', '0-1', '2-3'),
        (machine((0,), (1,), (2,)), '0', '0', '1-2'),
        (machine((0,), (1,), (2,), (3,)), '0', '1', '2-3'),
        (machine((0, 4), (1, 5), (2, 6), (3, 7)), '0,4', '1,5', '2-3,6-7'),
        (machine(*((cpu,) for cpu in range(9))), '0', '1-4', '5-8'),
        (machine((0, 1, 2, 3, 4, 5, 6, 7)), '0', '1-3', '4-7'),
        # Whole L3 domains stay together, whatever their CPUs are called.
        (machine((0,), (1,), (2,), (3,), (4,), (5,), (6,), (7,),
                 domains=('0,2,4,6', '1,3,5,7')), '0', '2,4,6', '1,3,5,7'),
    )
    @ddt.unpack
    def test_cpus(self, host, kept, shared, dedicated):
        found = cpu_layout.of_host(host)

        self.assertEqual(
            (kept, shared, dedicated),
            (str(found.host), str(found.shared), str(found.dedicated)))
        self.assertIn('default', found.note)

    @hypothesis.given(strategies.data())
    @unit_base.settings(40)
    def test_nothing_is_lost_and_no_core_is_split(self, data):
        host = data.draw(host_samples.any_host())
        found = cpu_layout.of_host(host)

        self.assertEqual(host.cpus,
                         found.host | found.shared | found.dedicated)
        self.assertTrue(found.dedicated.isdisjoint(found.shared | found.host))
        self.assertEqual(host.cpus, cpuset.union(found.l3_domains))
        self.assertEqual(host.cpus, cpuset.union(found.cores))
        self.assertTrue(found.shared)
        self.assertEqual(len(host.cpus) > 1, bool(found.dedicated))
        if len(found.cores) > 1:
            for core in found.cores:
                self.assertIn(core & found.dedicated, (core, cpus('')))

    @ddt.data(*machine_dumps.NAMES)
    def test_real_machines(self, name):
        found = cpu_layout.load(root=str(machine_dumps.root(self, name)))

        self.assertTrue(found.shared)
        self.assertTrue(found.dedicated)
        self.assertEqual(found.cpus, cpuset.union(found.cores))

    def test_what_the_machine_lacks(self):
        machine = self.useFixture(sample_machines.Machine()).small()
        found = cpu_layout.load(root=str(machine.root)).lacks
        self.assertIn('CONFIG_HWLAT_TRACER', found['hwlat'])
        self.assertIn('resctrl', found['cache-ways'])
        machine.write('sys/kernel/tracing/available_tracers',
                      'hwlat function nop')
        machine.write('sys/fs/resctrl/info/L3/cbm_mask', 'fff')
        self.assertEqual({}, cpu_layout.load(root=str(machine.root)).lacks)
        machine.write('sys/fs/resctrl/info/L3/cbm_mask', '3f')
        self.assertIn('has 6 ways', cpu_layout.load(
            root=str(machine.root)).lacks['cache-ways'])

    @ddt.data((512, 1024), (4096, 4096))
    @ddt.unpack
    def test_memory_that_no_node_knows_of(self, total, found):
        machine = self.useFixture(sample_machines.Machine()).small()
        machine.write('proc/meminfo', f'MemTotal: {total * 1024} kB')
        self.assertEqual(
            found, cpu_layout.load(root=str(machine.root)).memory_mib)


@ddt.ddt
class PlanTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.machine = host_samples.host()

    def planned(self, **values):
        return planner.plan(self.machine, plan_request.PlanOptions(**values))

    def test_it_is_what_counts(self):
        planned = self.planned()
        found = cpu_layout.of_plan(planned, self.machine)

        self.assertEqual(planned.plan.host_cpus, found.host)
        self.assertEqual(planned.nova.dedicated_cpus, found.dedicated)
        self.assertEqual(planned.nova.shared_cpus or cpus(''), found.shared)
        self.assertEqual('', found.note)
        self.assertIs(planned, found.planned)

    def test_of_another_host(self):
        planned = self.planned()
        error = self.assertRaises(
            errors.InputError, cpu_layout.of_plan, planned,
            machine((0,), (1,)))
        self.assertIn('another host', str(error))
        self.assertIn('2-7', str(error))

    def test_undivided(self):
        found = cpu_layout.of_host(self.machine).undivided()
        for one in hostclass.HostClass:
            self.assertEqual(self.machine.cpus, found.of(one))
        here = cpu_layout.instance_cpus(found, [
            tenant('a', 4), tenant('b', 4, guest_class=SHARED)])
        self.assertTrue(here['a'][0].cpus.isdisjoint(here['b'][0].cpus))

    @ddt.data(
        # The host's own, if no instance may run there.
        ({}, {}, '0-1'),
        # Of all that is the host's what instances leave.
        ({'host': '0-3', 'shared': '2-3'}, {'guest_class': SHARED,
                                            'provisioning': VANILLA}, '0-1'),
        ({'host': '0-7', 'dedicated': '0-7'}, {}, '1-7'),
        ({'host': '0-7', 'dedicated': '0-7'}, {
            'emulator_threads': bench_model.EmulatorThreads.ISOLATE}, '2-7'),
        # Or of others.
        ({'host': '2-3'}, {'guest_class': SHARED, 'provisioning': VANILLA},
         '0-1,4-7'),
        # There is none.
        ({'host': '0-7', 'shared': '0-7'}, {'guest_class': SHARED,
                                            'provisioning': VANILLA}, ''))
    @ddt.unpack
    def test_what_instances_leave(self, layout, values, expected):
        layout = dataclasses.replace(bench_fakes.LAYOUT, **{
            name: cpus(text) for name, text in layout.items()})
        places, = cpu_layout.instance_cpus(
            layout, [tenant(**values)]).values()
        self.assertEqual(expected, str(cpu_layout.spare(layout, places)))


@ddt.ddt
class PlacesTestCase(unit_base.TestCase):

    @ddt.data(
        # Whole cores, threads of a core one after the other.
        ('1-7,9-15', 2, 1, [['1', '9']]),
        # In one L3 domain, the one that is fullest already.
        ('1-7,9-15', 4, 1, [['2', '10', '3', '11']]),
        # In one node where no domain has room.
        ('1-7,9-15', 8, 1,
         [['4', '12', '5', '13', '6', '14', '7', '15']]),
        # Anywhere where no node has.
        ('1-7,9-15', 10, 1,
         [['1', '9', '2', '10', '3', '11', '4', '12', '5', '13']]),
        # An odd one breaks up a core, the next uses what is left of it.
        ('1-3,9-11', 1, 3, [['1'], ['9'], ['2']]),
        ('2-3,10-11', 1, 3, [['2'], ['10'], ['3']]),
        ('4-7', 2, 2, [['4', '5'], ['6', '7']]),
        ('2-3,10-11', 3, 1, [['2', '10', '3']]),
    )
    @ddt.unpack
    def test_pinned(self, dedicated, vcpus, count, expected):
        found = cpu_layout.instance_cpus(made(dedicated),
                                         [tenant(vcpus=vcpus, count=count)])
        self.assertEqual(expected, list(map(pins, found['one'])))

    def test_vanilla_floats_over_its_class(self):
        here = made('2-7,10-15', '1,9')
        found = cpu_layout.instance_cpus(here, [
            tenant('a', 4, guest_class=SHARED, provisioning=VANILLA, count=9),
            tenant('b', 2, provisioning=VANILLA)])

        for place in found['a']:
            self.assertEqual((cpus('1,9'),) * 4, place.vcpus)
            self.assertEqual(cpus('1,9'), place.emulator)
        self.assertEqual((cpus('2-7,10-15'),) * 2, found['b'][0].vcpus)

    @ddt.data(
        (None, '2,10', 2), (bench_model.EmulatorThreads.VCPUS, '2,10', 2),
        (bench_model.EmulatorThreads.SHARE, '1,9', 2),
        (bench_model.EmulatorThreads.ISOLATE, '3', 2))
    @ddt.unpack
    def test_emulator_threads(self, policy, expected, vcpus):
        place, = cpu_layout.instance_cpus(made('2-3,10-11', '1,9'), [tenant(
            vcpus=vcpus, emulator_threads=policy)])['one']
        self.assertEqual(['2', '10'], pins(place))
        self.assertEqual(cpus(expected), place.emulator)

    def test_emulator_threads_without_shared_cpus(self):
        place, = cpu_layout.instance_cpus(made('2-3'), [tenant(
            emulator_threads=bench_model.EmulatorThreads.SHARE)])['one']
        self.assertEqual(cpus('0,8'), place.emulator)

    @ddt.data(
        ([tenant(vcpus=5)], 'needs 5 more dedicated CPUs'),
        ([tenant(vcpus=2, count=3)], '0 of 4 are left'),
        ([tenant(vcpus=4,
                 emulator_threads=bench_model.EmulatorThreads.ISOLATE)],
         'needs 5 more'),
        ([tenant(provisioning=VANILLA, guest_class=SHARED)],
         'needs shared CPUs and there are none'))
    @ddt.unpack
    def test_no_room(self, tenants, words):
        error = self.assertRaises(bench_errors.BenchError,
                                  cpu_layout.instance_cpus, made('2-5'),
                                  tenants)
        self.assertIn(words, str(error))
        self.assertTrue(error.advice)

    @ddt.data(
        (bench_model.NetworkCpus.VCPUS, '2'),
        (bench_model.NetworkCpus.SAME_CACHE, '3,10-11'),
        (bench_model.NetworkCpus.OTHER_CACHE, '0-1,4-9,12-15'))
    @ddt.unpack
    def test_network_cpus(self, where, expected):
        place, = cpu_layout.instance_cpus(made('2'), [tenant(
            network_cpus=where)])['one']
        self.assertEqual(cpus(expected), place.network)

    def test_no_network_cpus(self):
        here = dataclasses.replace(made('0-15'),
                                   l3_domains=(cpus('0-15'),))
        for vcpus, where in ((16, bench_model.NetworkCpus.SAME_CACHE),
                             (1, bench_model.NetworkCpus.OTHER_CACHE)):
            error = self.assertRaises(
                bench_errors.BenchError, cpu_layout.instance_cpus, here,
                [tenant(vcpus=vcpus, network_cpus=where)])
            self.assertIn(where, str(error))

    @hypothesis.given(strategies.data())
    @unit_base.settings(40)
    def test_as_many_as_fit(self, data):
        here = cpu_layout.of_host(data.draw(host_samples.any_host()))
        guest_class = data.draw(strategies.sampled_from(hostclass.HostClass))
        vcpus = data.draw(strategies.integers(1, 9))
        count = len(here.of(guest_class)) // vcpus
        one = tenant(vcpus=vcpus, guest_class=guest_class)

        found = cpu_layout.instance_cpus(here, [dataclasses.replace(
            one, count=count)])['one']
        self.assertRaises(
            bench_errors.BenchError, cpu_layout.instance_cpus, here,
            [dataclasses.replace(one, count=count + 1)])

        taken = list(itertools.chain.from_iterable(
            place.cpus for place in found))
        self.assertEqual(len(taken), len(set(taken)))
        self.assertEqual(count * vcpus, len(taken))
        self.assertTrue(cpuset.CpuSet(taken).issubset(here.of(guest_class)))

    @hypothesis.given(strategies.data())
    @unit_base.settings(40)
    def test_the_first_is_as_near_as_can_be(self, data):
        here = cpu_layout.of_host(data.draw(host_samples.any_host()))
        hypothesis.assume(here.dedicated)
        vcpus = data.draw(strategies.integers(1, len(here.dedicated)))
        place, = cpu_layout.instance_cpus(here, [tenant(vcpus=vcpus)])['one']

        for groups in here.l3_domains, here.nodes:
            if any(len(group & here.dedicated) >= vcpus for group in groups):
                self.assertTrue(any(
                    place.cpus.issubset(group) for group in groups))
                break
