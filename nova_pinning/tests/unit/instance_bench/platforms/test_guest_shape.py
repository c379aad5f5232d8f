# SPDX-License-Identifier: Apache-2.0
"""Guests of the bench beside those that nova makes of the same flavors."""

import pathlib

import ddt
import fixtures
import testtools

from nova_pinning.agent import running_guests
from nova_pinning.bridge import preview
from nova_pinning import cpuset
from nova_pinning.flavors import catalogue
from nova_pinning.host import domain_xml
from nova_pinning.host import engine
from nova_pinning.host import host_loader
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import domain
from nova_pinning.instance_bench.platforms import guest_shape
from nova_pinning.tests.unit.instance_bench.platforms import platform_fakes

CPUS = cpuset.CpuSet.parse
SHIPPED = pathlib.Path(__file__).parents[5] / 'etc' / 'nova-pinning'
FLAVORS = [flavor for flavor in
           catalogue.load(SHIPPED / 'flavors.yaml').flavors
           if flavor.name.startswith(('enterprise.', 'shared.'))]
HOSTS = ('xeon-80-dedicated', 'xeon-80-shared', 'epyc-256-nps1',
         'epyc-256-nps4', 'epyc-256-l3-numa')
LINK = domain.TapLink(device='tap0', host='192.0.2.1', guest='192.0.2.2')
#: What a guest is, whoever has asked libvirt for it.
ALIKE = ('vcpus', 'floats_over', 'vcpu_pins', 'emulator_pin', 'topology',
         'cells', 'memory_nodes', 'memory_mode', 'huge_pages', 'shares')


def tenant_of(flavor):
    is_dedicated = flavor.extra_specs['hw:cpu_policy'] == 'dedicated'
    return platform_fakes.tenant(
        size=bench_model.InstanceSize(
            vcpus=flavor.vcpus, memory_mib=flavor.memory_mib),
        **{} if is_dedicated else platform_fakes.FLOATING)


def places_of(found):
    """Where nova has put a guest."""
    vcpus = tuple(found.vcpu_affinity(number)
                  for number in range(found.vcpus))
    return platform_interface.InstanceCpus(
        vcpus=vcpus, emulator=found.emulator_pin or cpuset.CpuSet())


def domain_of(tenant, places, shape):
    path = pathlib.Path('/bench')
    return domain_xml.parse(domain.domain_xml_of(domain.DomainSpec(
        name='bench', accelerator='kvm', memory_mib=tenant.size.memory_mib,
        instance_cpus=places, shape=shape, kernel=path, initrd=path,
        arguments='', disk=path, cache='none', console=path, link=LINK)))


class NovaTestCase(testtools.TestCase):

    def compare(self, flavor, host):
        """Compare the bench's guest with nova's.

        :returns: whether the host has room for it
        """
        seen = preview.preview_guest(flavor, {}, host)
        if seen.refusal is not None:
            return False
        nova = domain_xml.parse(seen.xml)
        free_pages = {(node.id, pool.size_kib): pool.total
                      for node in host.nodes
                      for pool in engine.page_pools(node, 4)
                      if pool.size_kib > 4}
        tenant = tenant_of(flavor)
        places = places_of(nova)
        threads = {core for node in host.nodes for core in node.cores
                   if len(core) > 1}
        sold = guest_shape.flavor_of(
            tenant, cells=len(nova.cells) or 1, has_siblings=bool(threads))
        bench = domain_of(tenant, places, guest_shape.shape_of(
            sold, places, {node.id: node.cpus for node in host.nodes},
            free_pages))
        for name in ALIKE:
            self.assertEqual(getattr(nova, name), getattr(bench, name),
                             f'{flavor.name} on {host.name}: {name}')
        self.assertEqual([interface.queues for interface in nova.interfaces],
                         [interface.queues for interface in bench.interfaces])
        return True

    def test_every_shipped_flavor_that_fits(self):
        fitted = set()
        for name in HOSTS:
            host = host_loader.load(SHIPPED / 'hosts' / f'{name}.yaml')
            fitted |= {flavor.name for flavor in FLAVORS
                       if self.compare(flavor, host)}
        self.assertEqual({flavor.name for flavor in FLAVORS}, fitted)

    def test_extra_specs_are_the_catalogues(self):
        """But for what a domain does not show, and traits."""
        for flavor in FLAVORS:
            sold = guest_shape.flavor_of(
                tenant_of(flavor), has_siblings=True,
                cells=int(flavor.extra_specs.get('hw:numa_nodes', 1)))
            for key, value in flavor.extra_specs.items():
                if key.startswith('hw:') or key == 'quota:cpu_shares':
                    self.assertEqual(value, sold.extra_specs.get(key),
                                     (flavor.name, key))


@ddt.ddt
class HostTestCase(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.tree = machine_files.Tree(self.root)

    def write(self, path, text):
        file = self.root / 'sys/devices/system' / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def node(self, number, cpus, pages=(), threads=1):
        self.write(f'node/node{number}/cpulist', cpus)
        for size, free in dict(pages).items():
            self.write(f'node/node{number}/hugepages/hugepages-{size}kB/'
                       'free_hugepages', str(free))
        for cpu in CPUS(cpus):
            first = cpu // threads * threads
            self.write(f'cpu/cpu{cpu}/topology/thread_siblings_list',
                       f'{first}-{first + threads - 1}')

    def shape(self, *vcpus, memory_mib=512, **changes):
        places = platform_interface.InstanceCpus(
            vcpus=tuple(map(CPUS, vcpus)), emulator=CPUS(vcpus[0]))
        tenant = platform_fakes.tenant(
            size=bench_model.InstanceSize(vcpus=len(vcpus),
                                          memory_mib=memory_mib), **changes)
        return guest_shape.for_tenant(tenant, places, self.tree)

    @ddt.data(
        ({}, None), ({2048: 255}, None), ({2048: 256}, 2048),
        ({2048: 256, 1048576: 4}, 2048), ({1048576: 4}, None))
    @ddt.unpack
    def test_pages_that_there_are(self, pages, expected):
        self.node(0, '0-3', pages)
        self.assertEqual(expected, self.shape('1', '2').page_size_kib)

    def test_the_largest_pages_that_fit(self):
        self.node(0, '0-3', {2048: 4096, 1048576: 4})
        self.assertEqual(1048576, self.shape(
            '1', memory_mib=2048).page_size_kib)

    def test_threads(self):
        self.node(0, '0-3', threads=2)
        for vcpus, expected in (('2', '3'), (1, 1, 2)), (
                ('1', '2'), (1, 2, 1)):
            self.assertEqual(domain_xml.DomainTopology(*expected),
                             self.shape(*vcpus).topology)

    def test_two_nodes(self):
        self.node(0, '0-3', {2048: 4096})
        self.node(1, '4-7', {2048: 4096})
        shape = self.shape('3', '4', '5', memory_mib=900)
        self.assertEqual([
            (0, CPUS('0'), 300 * 1024, CPUS('0')),
            (1, CPUS('1-2'), 600 * 1024, CPUS('1'))], [
            (cell.id, cell.cpus, cell.memory_kib, cell.host_nodes)
            for cell in shape.cells])
        self.assertEqual(CPUS('0-1'), shape.nodes)

    def test_vanilla(self):
        self.node(0, '0-3', {2048: 4096}, threads=2)
        shape = self.shape('0-3', '0-3', weight=50, **platform_fakes.FLOATING)
        self.assertEqual(guest_shape.GuestShape(
            topology=domain_xml.DomainTopology(1, 2, 1), shares=100), shape)

    def test_a_kernel_without_nodes(self):
        shape = self.shape('1', '2')
        self.assertEqual(((), None), (shape.cells, shape.page_size_kib))

    @ddt.data((bench_model.NetworkQueues.ONE, 1),
              (bench_model.NetworkQueues.VCPUS, 2), (None, 2))
    @ddt.unpack
    def test_queues(self, queues, expected):
        self.node(0, '0-3')
        self.assertEqual(expected,
                         self.shape('1', '2', queues=queues).queues)
        floating = self.shape('0-3', '0-3', queues=queues,
                              **platform_fakes.FLOATING)
        self.assertEqual(expected if queues else 1, floating.queues)

    def test_ways_of_the_cache(self):
        """The agent reads them where nova writes them."""
        self.node(0, '0-3')
        places = platform_interface.InstanceCpus(
            vcpus=(CPUS('1'),), emulator=CPUS('1'))
        for agent, ways in ((bench_model.AgentScheme.WAYS, 4),
                            (bench_model.AgentScheme.STATIC, 0), (None, 0)):
            path = pathlib.Path('/bench')
            text = domain.domain_xml_of(domain.DomainSpec(
                name='bench', accelerator='kvm', memory_mib=1024,
                instance_cpus=places, shape=self.shape('1', agent=agent),
                kernel=path, initrd=path, arguments='', disk=path,
                cache='none', console=path))
            specs = domain_xml.parse(text).extra_specs
            self.assertEqual(ways, running_guests.wishes(specs or {}).l3_ways)

    @ddt.data((bench_model.EmulatorThreads.SHARE, 'share'),
              (bench_model.EmulatorThreads.ISOLATE, 'isolate'),
              (bench_model.EmulatorThreads.VCPUS, None), (None, None))
    @ddt.unpack
    def test_emulator_threads(self, policy, expected):
        sold = guest_shape.flavor_of(platform_fakes.tenant(
            emulator_threads=policy), cells=1, has_siblings=False)
        self.assertEqual(expected, sold.extra_specs.get(
            'hw:emulator_threads_policy'))
