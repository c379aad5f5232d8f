# SPDX-License-Identifier: Apache-2.0
"""Where guests land, and that CPUs are given back."""

from demo import hosts
from demo import story
from nova_pinning import cpuset
from nova_pinning.host import domain_xml
from nova_pinning.tests.functional import functional_base


class TestFullHost(functional_base.TestCase):

    def test_four_cpus_are_left_in_one_cell(self):
        """What Placement offers on the host; the demo fills it one by one."""
        self.nova.start_host('dedicated-1', hosts.enterprise_host())
        for vcpus in (40, 32):
            server = self.nova.boot('guest', self.nova.create_flavor(
                f'pinned-{vcpus}', vcpus, 2 * vcpus * functional_base.GIB,
                story.ENTERPRISE_SPECS))
            self.assert_active([server], host='dedicated-1')
        cells = [len(cell.pinned_cpus)
                 for cell in self.nova.host_topology('dedicated-1').cells]
        self.assertEqual([32, 40], cells)
        self.assertEqual(72, self.nova.usages('dedicated-1')['PCPU'])

        # Placement counts the host as a whole. It would give these four CPUs
        # to a guest that asks for two in each cell.
        split = self.nova.boot('split', self.nova.create_flavor(
            'split', 4, functional_base.GIB,
            {'hw:cpu_policy': 'dedicated', 'hw:numa_nodes': '2'}))
        self.assert_refused(split, 'PinnedTopologyFilter', 'dedicated-1')

        # Nor does it know which cell the memory is in.
        big = self.nova.boot('big', self.nova.create_flavor(
            'big', 4, 400 * functional_base.GIB,
            {'hw:cpu_policy': 'dedicated', 'hw:numa_nodes': '1'}))
        self.assert_refused(
            big, 'cell 0 has 327680 MiB of memory, 409600 MiB needed',
            'cell 1 has 0 free dedicated CPUs, 4 needed')

    def test_deleted_guest_gives_its_cpus_back(self):
        self.nova.start_host('dedicated-1', functional_base.small_host())
        flavor = self.enterprise_flavor()
        first = self.nova.boot('first', flavor)
        self.assert_active([first])
        second = self.nova.boot('second', flavor)
        self.assertEqual('ERROR', second.status)

        self.nova.delete(first)

        self.assertEqual(set(), self.host_pinned_cpus('dedicated-1'))
        self.assertEqual(0, self.nova.usages('dedicated-1')['PCPU'])
        third = self.nova.boot('third', flavor)
        self.assert_active([third], host='dedicated-1')
        self.assertEqual(set(range(8)), self.pinned_cpus(third))


class TestClasses(functional_base.TestCase):

    def test_each_kind_on_its_own_hosts(self):
        self.nova.start_host('dedicated-1', hosts.enterprise_host())
        self.nova.start_host('shared-1', hosts.shared_host())

        dedicated = self.nova.boot_many('d', self.enterprise_flavor(), 3)
        shared = self.nova.boot_many('s', self.shared_flavor(), 3)

        self.assert_active(dedicated, host='dedicated-1')
        self.assert_active(shared, host='shared-1')
        self.assertNotIn('VCPU', self.nova.inventories('dedicated-1'))
        self.assertNotIn('PCPU', self.nova.inventories('shared-1'))
        self.assertEqual(24, self.nova.usages('dedicated-1')['PCPU'])
        self.assertEqual(24, self.nova.usages('shared-1')['VCPU'])

    def test_aggregate_settles_hosts_with_both_sets(self):
        # As with emulator threads on shared CPUs: Placement would give each
        # of these hosts to guests of either kind.
        for name in ('host-1', 'host-2'):
            self.nova.start_host(name, functional_base.small_host(
                cores_per_cell=8, dedicated='0-3,8-11', shared='4-7,12-15'))
        self.nova.create_aggregate(
            'enterprise', ['host-1'], {'pinning:class': 'dedicated'})
        self.nova.create_aggregate(
            'rest', ['host-2'], {'pinning:class': 'shared'})

        enterprise = self.enterprise_flavor()
        dedicated = self.nova.boot('d', enterprise)
        shared = self.nova.boot('s', self.shared_flavor())

        self.assert_active([dedicated], host='host-1')
        self.assert_active([shared], host='host-2')
        # Now the first host is full. The second has the CPUs, but is not
        # meant for this.
        self.assert_refused(self.nova.boot('d-2', enterprise))
        self.assertEqual(set(), self.host_pinned_cpus('host-2'))


class TestManyHosts(functional_base.OneCloud):

    @classmethod
    def start(cls, nova):
        for number in (1, 2):
            nova.start_host(
                f'dedicated-{number}',
                functional_base.small_host(sockets=2, dedicated='0-15'))
        return {}

    def test_several_guests_in_one_request(self):
        servers = self.nova.boot_many('guest', self.enterprise_flavor(), 3)

        self.assert_active(servers)
        for host in ('dedicated-1', 'dedicated-2'):
            pinned = [self.pinned_cpus(server) for server in servers
                      if server.host == host]
            self.assertEqual(8 * len(pinned),
                             len(set().union(*pinned)))
            self.assertEqual(set().union(*pinned),
                             self.host_pinned_cpus(host))

    def test_all_or_none_of_a_request(self):
        servers = self.nova.boot_many('guest', self.enterprise_flavor(), 5)

        self.assertEqual(['ERROR'] * 5, [server.status for server in servers])
        for host in ('dedicated-1', 'dedicated-2'):
            self.assertEqual(set(), self.host_pinned_cpus(host))
            self.assertEqual(0, self.nova.usages(host)['PCPU'])

    def test_cold_migration_pins_anew(self):
        flavor = self.enterprise_flavor()
        stays = self.nova.boot('stays', flavor, host='dedicated-2')
        moves = self.nova.boot('moves', flavor, host='dedicated-1')
        self.assert_active([stays], host='dedicated-2')
        self.assert_active([moves], host='dedicated-1')
        # Both hosts are empty and alike, so both guests have the same CPUs.
        self.assertEqual(self.pinned_cpus(stays), self.pinned_cpus(moves))

        moved = self.nova.migrate(moves)

        self.assert_active([moved], host='dedicated-2')
        pinned = self.pinned_cpus(moved)
        self.assertTrue(pinned.isdisjoint(self.pinned_cpus(stays)))
        self.assertEqual(set(range(16)), self.host_pinned_cpus('dedicated-2'))
        self.assertEqual(set(), self.host_pinned_cpus('dedicated-1'))
        self.assertEqual(0, self.nova.usages('dedicated-1')['PCPU'])
        self.assertEqual(
            pinned, self.xml_pinned_cpus(moved),
            'what runs is not what nova has written down')

    def test_resize_pins_anew(self):
        small = self.nova.create_flavor('small', 4, 8 * functional_base.GIB, {
            'hw:cpu_policy': 'dedicated', 'hw:cpu_thread_policy': 'require'})
        server = self.nova.boot('grows', small, host='dedicated-1')
        self.assert_active([server])

        resized = self.nova.resize(server, self.enterprise_flavor())

        self.assert_active([resized])
        pinned = self.pinned_cpus(resized)
        self.assertEqual(8, len(pinned))
        self.assertEqual(pinned, self.xml_pinned_cpus(resized))
        self.assertEqual(pinned, self.host_pinned_cpus(resized.host))
        usages = [self.nova.usages(host)['PCPU']
                  for host in ('dedicated-1', 'dedicated-2')]
        self.assertEqual([0, 8], sorted(usages))

    def xml_pinned_cpus(self, server):
        pins = domain_xml.parse(self.nova.guest_xml(server)).vcpu_pins
        return set(cpuset.union(pins.values()))
