# SPDX-License-Identifier: Apache-2.0


"""What nova's NUMA fit gets wrong, shown through nova's own API.

Each kind has a class here and a section in the admin guide ("What nova's
NUMA fit gets wrong"). Tests named ``test_nova`` and so on run nova alone:
they say what nova does today, wrong as it is, and fail as soon as a nova
comes out that is fixed. Then the section can go, and with it the reason for
``[pinning] check_nova_claim``. Tests named ``test_ours`` make the same
request with this project's filters.

Nova's fake libvirt takes XML that a real one refuses, such as an empty
``cpuset``. So a server that is ACTIVE here may fail to start on a real host;
it is nova that has accepted it in either case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
import itertools
import json
import typing as ty
from unittest import mock
from xml.etree import ElementTree

import fixtures
import testtools
from testtools import matchers

from demo import threads  # noqa: F401 isort: skip

from nova.compute import resource_tracker
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.virt import hardware

from demo import cloud
from demo import hosts
from nova_pinning.tests.functional import operated_cloud

GIB = 1024  # in MiB

DEDICATED = {'hw:cpu_policy': 'dedicated'}

#: Products of PCI devices: what flavors ask for, and something else.
NIC = '1533'
OTHER = '10fb'

#: How a refusal reads when it is nova-compute that would go wrong.
NOVA_WRONG = "nova-compute's own claim would come out wrong"


def cells(*sizes: tuple[int, int]) -> dict[str, str]:
    """Extra specs for guest cells of these vCPUs and MiB of memory."""
    specs = {'hw:numa_nodes': str(len(sizes))}
    first = 0
    for cell, (vcpus, memory_mib) in enumerate(sizes):
        specs[f'hw:numa_cpus.{cell}'] = ','.join(
            map(str, range(first, first + vcpus)))
        specs[f'hw:numa_mem.{cell}'] = str(memory_mib)
        first += vcpus
    return specs


class NovaNumaFitTestCase(testtools.TestCase):
    """One cloud for each test; nova's own weighers in all of them."""

    def start(self, filters: tuple[str, ...]) -> None:
        self.nova = self.useFixture(operated_cloud.Cloud(
            filters=filters,
            weigher_paths=('nova.scheduler.weights.all_weighers',)))
        self.claims = self._record_claims()

    def start_nova(self) -> None:
        """A cloud with nova's NUMATopologyFilter and nothing of ours."""
        self.start(cloud.NOVA_FILTERS)

    def start_ours(self) -> None:
        """A cloud with PinnedTopologyFilter and HostClassFilter."""
        self.start(cloud.PINNING_FILTERS)

    def _record_claims(self) -> list[tuple[str, str | None]]:
        """Host, and class of the error if any, of nova-compute's claims."""
        claims: list[tuple[str, str | None]] = []
        claim = resource_tracker.ResourceTracker.instance_claim

        def recorded(tracker: ty.Any, context: ty.Any, instance: ty.Any,
                     nodename: str, *args: ty.Any, **kwargs: ty.Any) -> ty.Any:
            try:
                made = claim(
                    tracker, context, instance, nodename, *args, **kwargs)
            except Exception as error:
                claims.append((nodename, type(error).__name__))
                raise
            claims.append((nodename, None))
            return made

        self.useFixture(fixtures.MockPatchObject(
            resource_tracker.ResourceTracker, 'instance_claim', recorded))
        return claims

    def start_host_with_devices(
        self, name: str, shape: hosts.HostShape, products: Sequence[str],
        numa_policy: str = 'required',
    ) -> None:
        """Start a host whose cells have a PCI device each.

        A flavor asks for those of product NIC by the alias ``nic``.
        """
        self.nova.stage.flags(
            device_spec=[json.dumps({'vendor_id': '8086', 'product_id': each})
                         for each in (NIC, OTHER)],
            alias=[json.dumps({
                'name': 'nic', 'vendor_id': '8086', 'product_id': NIC,
                'device_type': 'type-PCI', 'numa_policy': numa_policy})],
            group='pci')
        devices = fakelibvirt.HostPCIDevicesInfo(
            num_pci=0, num_pfs=0, num_vfs=0)
        for cell, product in enumerate(products):
            devices.add_device(
                dev_type='PCI', bus=0x81, slot=cell, function=0,
                iommu_group=40 + cell, numa_node=cell, prod_id=product)
        self.nova.start_host(name, shape, devices)

    def flavor(self, vcpus: int, memory_mib: int,
               extra_specs: Mapping[str, str]) -> str:
        return self.nova.create_flavor(
            f'flavor-{vcpus}-{memory_mib}-{len(extra_specs)}', vcpus,
            memory_mib, extra_specs)

    def placed_on(self, server: cloud.Server) -> list[int]:
        """The host cell of each guest cell."""
        return [cell.id for cell in self.nova.guest_topology(server).cells]

    def pins(self, server: cloud.Server) -> dict[int, str]:
        """The cpuset of each vCPU in the XML that libvirt was given."""
        xml = ElementTree.fromstring(self.nova.guest_xml(server))
        return {int(pin.get('vcpu', '')): pin.get('cpuset', '')
                for pin in xml.iterfind('cputune/vcpupin')}

    def assert_refused(self, server: cloud.Server, reason: str) -> None:
        """No host was tried, and our filter said why."""
        self.assertEqual('ERROR', server.status)
        self.assertThat(
            self.nova.explanations[-1], matchers.Contains(reason))
        self.assertEqual(
            [], self.claims, 'our filter let nova-compute try')

    def assert_no_valid_host(self, server: cloud.Server) -> None:
        """Nova's scheduler refused all hosts, without our doing."""
        self.assertEqual('ERROR', server.status)
        self.assertThat(server.fault, matchers.Contains('No valid host'))
        self.assertEqual([], self.claims)


class TestCellTooLarge(NovaNumaFitTestCase):
    """The last of three guest cells is larger than any host cell."""

    SPECS = cells((1, GIB), (1, GIB), (1, 16 * GIB))

    def host(self, cell_gib: int) -> hosts.HostShape:
        return hosts.HostShape(
            sockets=3, cores_per_cell=2, threads=1,
            memory_mib=3 * cell_gib * GIB, dedicated='0-5')

    def test_nova(self) -> None:
        self.start_nova()
        self.nova.start_host('small', self.host(cell_gib=8))
        server = self.nova.boot(
            'guest', self.flavor(3, 18 * GIB, {**DEDICATED, **self.SPECS}))
        self.assertEqual('ACTIVE', server.status)
        # The last vCPU may run anywhere, so even on other guests' CPUs.
        self.assertEqual({0: '2', 1: '4', 2: ''}, self.pins(server))
        self.assertEqual([1, 2, 0], self.placed_on(server))
        # 16 GiB are now to come from a cell of 8 GiB, and nowhere else.
        cell = self.nova.host_topology('small').cells[0]
        self.assertEqual(
            (8 * GIB, 16 * GIB), (cell.memory, cell.memory_usage))
        self.assertEqual(set(), cell.pinned_cpus)

    def test_nova_floating(self) -> None:
        """The same with vCPUs that float: only the memory is wrong."""
        self.start_nova()
        self.nova.start_host('small', hosts.HostShape(
            sockets=3, cores_per_cell=2, threads=1, memory_mib=24 * GIB,
            shared='0-5'))
        server = self.nova.boot(
            'guest', self.flavor(3, 18 * GIB, self.SPECS))
        self.assertEqual('ACTIVE', server.status)
        self.assertEqual([1, 2, 0], self.placed_on(server))
        cell = self.nova.host_topology('small').cells[0]
        self.assertEqual(
            (8 * GIB, 16 * GIB), (cell.memory, cell.memory_usage))

    def test_ours(self) -> None:
        self.start_ours()
        self.nova.start_host('small', self.host(cell_gib=8))
        flavor = self.flavor(3, 18 * GIB, {**DEDICATED, **self.SPECS})
        server = self.nova.boot('refused', flavor)
        self.assert_refused(server, 'too little memory in any one cell')

        self.nova.start_host('large', self.host(cell_gib=24))
        server = self.nova.boot('placed', flavor)
        self.assertEqual(('ACTIVE', 'large'), (server.status, server.host))
        self.assertEqual({0: '0', 1: '2', 2: '4'}, self.pins(server))


class TestFitNotFound(NovaNumaFitTestCase):
    """Guest cells of 2 and 4 vCPUs, host cells with 2, 4 and 2 free CPUs."""

    SPECS = {**DEDICATED, **cells((2, GIB), (4, GIB))}
    HOST = hosts.HostShape(
        sockets=3, cores_per_cell=4, threads=1, memory_mib=24 * GIB,
        dedicated='0,1,4-7,8,9')
    #: Nova tries the right pair of cells first.
    EASY_HOST = hosts.HostShape(
        sockets=2, cores_per_cell=4, threads=1, memory_mib=16 * GIB,
        dedicated='0,1,4-7')

    def test_nova(self) -> None:
        self.start_nova()
        self.nova.start_host('host', self.HOST)
        self.assert_no_valid_host(
            self.nova.boot('guest', self.flavor(6, 2 * GIB, self.SPECS)))

    def test_nova_fits_two_guests(self) -> None:
        """It is no matter of room: the cells fit as guests of their own."""
        self.start_nova()
        self.nova.start_host('host', self.HOST)
        for vcpus in (4, 2):
            server = self.nova.boot(
                f'guest-{vcpus}', self.flavor(vcpus, GIB, DEDICATED))
            self.assertEqual('ACTIVE', server.status)

    def test_ours(self) -> None:
        self.start_ours()
        self.nova.start_host('host', self.HOST)
        flavor = self.flavor(6, 2 * GIB, self.SPECS)
        self.assert_refused(self.nova.boot('refused', flavor), NOVA_WRONG)

        self.nova.start_host('easy', self.EASY_HOST)
        server = self.nova.boot('placed', flavor)
        self.assertEqual(('ACTIVE', 'easy'), (server.status, server.host))
        self.assertEqual([0, 1], self.placed_on(server))

    def test_ours_without_the_check(self) -> None:
        """What check_nova_claim is for: nova-compute refuses afterwards."""
        self.start_ours()
        self.nova.stage.flags(check_nova_claim=False, group='pinning')
        self.nova.start_host('host', self.HOST)
        server = self.nova.boot('guest', self.flavor(6, 2 * GIB, self.SPECS))
        self.assertEqual('ERROR', server.status)
        self.assertEqual(
            [('host', 'ComputeResourcesUnavailable')], self.claims)


class TestMixedOverTwoCells(NovaNumaFitTestCase):
    """One guest cell is all dedicated, the other is all floating."""

    SPECS = {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0',
             'hw:numa_nodes': '2'}
    #: Host CPUs 0, 3, 4 and 6 are dedicated; only cell 1 has a shared one.
    HOST = hosts.HostShape(
        sockets=3, cores_per_cell=3, threads=1, memory_mib=24 * GIB,
        dedicated='0,3,4,6', shared='5')

    def test_nova(self) -> None:
        self.start_nova()
        self.nova.start_host('host', self.HOST)
        self.assert_no_valid_host(
            self.nova.boot('guest', self.flavor(2, 2 * GIB, self.SPECS)))

    def test_ours(self) -> None:
        self.start_ours()
        self.nova.start_host('host', self.HOST)
        self.assert_refused(
            self.nova.boot('guest', self.flavor(2, 2 * GIB, self.SPECS)),
            NOVA_WRONG)


class TestPageSizeOfCellTriedFirst(NovaNumaFitTestCase):
    """Cell 0 has a free 1 GiB page but one CPU, cell 1 only 2 MiB pages."""

    SPECS = {'hw:mem_page_size': 'large'}
    HOST = hosts.HostShape(
        sockets=2, cores_per_cell=4, threads=1, memory_mib=16 * GIB,
        shared='3-7', huge_pages={1024 * 1024: 1, 2048: 512},
        reserved_huge_pages=('node:1,size:1048576,count:1',))

    def test_nova(self) -> None:
        self.start_nova()
        self.nova.start_host('host', self.HOST)
        self.assert_no_valid_host(
            self.nova.boot('guest', self.flavor(2, GIB, self.SPECS)))

    def test_nova_any(self) -> None:
        self.start_nova()
        self.nova.start_host('host', self.HOST)
        self.assert_no_valid_host(self.nova.boot(
            'guest', self.flavor(2, GIB, {'hw:mem_page_size': 'any'})))

    def test_nova_explicit_size(self) -> None:
        """Asked for the size that is there, nova finds the place."""
        self.start_nova()
        self.nova.start_host('host', self.HOST)
        server = self.nova.boot(
            'guest', self.flavor(2, GIB, {'hw:mem_page_size': '2MB'}))
        self.assertEqual('ACTIVE', server.status)
        self.assertEqual([1], self.placed_on(server))

    def test_ours(self) -> None:
        self.start_ours()
        self.nova.start_host('host', self.HOST)
        self.assert_refused(
            self.nova.boot('guest', self.flavor(2, GIB, self.SPECS)),
            NOVA_WRONG)


class TestIsolatedTwice(NovaNumaFitTestCase):
    """Isolated threads and emulator threads on a host set up as of old.

    The host has neither cpu_dedicated_set nor cpu_shared_set. One CPU of
    core (0, 2) is in use, core (1, 3) is free.
    """

    SPECS = {**DEDICATED, 'hw:cpu_thread_policy': 'isolate',
             'hw:emulator_threads_policy': 'isolate'}
    HOST = hosts.HostShape(cores_per_cell=2, threads=2, memory_mib=16 * GIB)

    def start_host(self) -> None:
        self.nova.start_host('legacy', self.HOST)
        server = self.nova.boot('first', self.flavor(1, GIB, DEDICATED))
        self.assertEqual('ACTIVE', server.status)
        del self.claims[:]

    def test_nova(self) -> None:
        self.start_nova()
        self.start_host()
        used = self.nova.usages('legacy')
        server = self.nova.boot('second', self.flavor(1, GIB, self.SPECS))
        self.assertEqual(
            [('legacy', 'CPUPinningInvalid')], self.claims)
        self.assertEqual(('ERROR', None), (server.status, server.host))
        self.assertThat(
            server.fault, matchers.Contains('Exhausted all hosts'))
        # Nothing is held, but the pins stay on record with the instance.
        self.assertEqual(used, self.nova.usages('legacy'))
        topology = self.nova.guest_topology(server)
        self.assertEqual({0: 1}, topology.cells[0].cpu_pinning)
        self.assertEqual({2}, topology.cells[0].cpuset_reserved)

    def test_ours(self) -> None:
        self.start_ours()
        # The first dedicated guest is to come to a host that nothing marks.
        self.nova.stage.flags(unknown_host_class='allow', group='pinning')
        self.start_host()
        self.assert_refused(
            self.nova.boot('second', self.flavor(1, GIB, self.SPECS)),
            'no CPU to set aside for emulator threads')


class TestPciOverTwoCells(NovaNumaFitTestCase):
    """Two alike guest cells and two devices that have to be near them."""

    SPECS = {**DEDICATED, 'hw:numa_nodes': '2',
             'pci_passthrough:alias': 'nic:2'}
    HOST = hosts.HostShape(
        sockets=4, cores_per_cell=1, threads=1, memory_mib=16 * GIB,
        dedicated='0-3')

    def statuses(self, host: str) -> list[str]:
        """What nova-compute has its devices down as, cell by cell."""
        tracker = self.nova.stage.computes[host].rt.pci_tracker
        return [device.status for device in sorted(
            tracker.pci_devs, key=lambda device: device.address)]

    def test_nova(self) -> None:
        self.start_nova()
        self.start_host_with_devices(
            'host', self.HOST, (OTHER, NIC, OTHER, NIC))
        server = self.nova.boot(
            'guest', self.flavor(2, 2 * GIB, self.SPECS))
        self.assertEqual([('host', 'CPUPinningUnknown')], self.claims)
        self.assertEqual(('ERROR', None), (server.status, server.host))
        topology = self.nova.guest_topology(server)
        # Host CPU 2 is in host cell 2.
        self.assertEqual(
            [(1, {0: 1}), (3, {1: 2})],
            [(cell.id, cell.cpu_pinning) for cell in topology.cells])
        # The devices are taken until nova-compute looks through them again.
        free, taken = 'available', 'allocated'
        self.assertEqual([free, taken] * 2, self.statuses('host'))
        self.nova.stage._run_periodics()
        self.assertEqual([free] * 4, self.statuses('host'))

    def test_ours(self) -> None:
        self.start_ours()
        self.start_host_with_devices(
            'host', self.HOST, (OTHER, NIC, OTHER, NIC))
        flavor = self.flavor(2, 2 * GIB, self.SPECS)
        self.assert_refused(self.nova.boot('refused', flavor), NOVA_WRONG)

        # The cells that come first in nova's order are the right ones.
        self.start_host_with_devices(
            'easy', self.HOST, (NIC, NIC, OTHER, OTHER))
        server = self.nova.boot('placed', flavor)
        self.assertEqual(('ACTIVE', 'easy'), (server.status, server.host))
        self.assertEqual({0: '0', 1: '1'}, self.pins(server))


class TestPermutations(NovaNumaFitTestCase):
    """Nova tries each way in which host cells can be put in a row."""

    CELLS = 6
    SPECS = {**DEDICATED, 'hw:numa_nodes': str(CELLS)}
    #: There are 12 CPUs to sell: 3 in the first cell, 1 in the last, and 2
    #: in each of the others.
    HOST = hosts.HostShape(
        sockets=CELLS, cores_per_cell=3, threads=1, memory_mib=24 * GIB,
        dedicated='0-4,6,7,9,10,12,13,15')

    def count_permutations(self) -> list[int]:
        """Where the permutations that nova walks through are counted."""
        walked = [0]

        def counted(*args: ty.Any) -> Iterator[ty.Any]:
            for permutation in itertools.permutations(*args):
                walked[0] += 1
                yield permutation

        self.useFixture(fixtures.MockPatchObject(
            hardware, 'itertools', mock.Mock(
                wraps=itertools, permutations=counted)))
        return walked

    def test_nova(self) -> None:
        self.start_nova()
        self.nova.start_host('host', self.HOST)
        walked = self.count_permutations()
        self.assert_no_valid_host(
            self.nova.boot('guest', self.flavor(12, 12 * GIB, self.SPECS)))
        self.assertEqual(1 * 2 * 3 * 4 * 5 * 6, walked[0])

    def test_ours(self) -> None:
        self.start_ours()
        self.nova.start_host('host', self.HOST)
        walked = self.count_permutations()
        self.assert_refused(
            self.nova.boot('guest', self.flavor(12, 12 * GIB, self.SPECS)),
            'the cells of the guest fit one by one but not together')
        self.assertEqual(0, walked[0])

    #: Host cell 0 has two CPUs, the others one each.
    LARGE_FIRST = hosts.HostShape(
        sockets=CELLS, cores_per_cell=2, threads=1, memory_mib=24 * GIB,
        dedicated='0,1,2,4,6,8,10')

    def test_ours_when_nova_would_miss_it_after_long(self) -> None:
        """The guest fits, but only on the 154th permutation."""
        self.start_ours()
        self.nova.stage.flags(
            nova_claim_max_seconds=0.0001, group='pinning')
        self.nova.start_host('host', self.LARGE_FIRST)
        specs = {**DEDICATED, **cells(*[(1, GIB)] * 5, (2, GIB))}
        self.assert_refused(
            self.nova.boot('guest', self.flavor(7, 6 * GIB, specs)),
            NOVA_WRONG)

    def test_ours_when_a_claim_takes_too_long(self) -> None:
        """The guest goes there if there is no other host."""
        self.start_ours()
        self.nova.stage.flags(
            nova_claim_max_seconds=0.000001, group='pinning')
        # Of the first cell that nova tries no pages are for guests.
        shape = hosts.HostShape(
            sockets=3, cores_per_cell=4, threads=1, memory_mib=24 * GIB,
            dedicated='0-11', huge_pages={2048: 1024},
            reserved_huge_pages=('node:0,size:2048,count:1024',))
        flavor = self.flavor(4, 2 * GIB, {
            **DEDICATED, 'hw:numa_nodes': '2', 'hw:mem_page_size': '2MB'})
        self.nova.start_host('slow', shape)
        first = self.nova.boot('first', flavor)
        self.assertEqual(('ACTIVE', 'slow'), (first.status, first.host))
        self.assertEqual([1, 2], self.placed_on(first))
        self.assertThat(self.nova.nova_log, matchers.Contains(
            'on a host of second choice'))

        self.nova.start_host('quick', hosts.HostShape(
            sockets=2, cores_per_cell=4, threads=1, memory_mib=16 * GIB,
            dedicated='0-7', huge_pages={2048: 1024}))
        second = self.nova.boot('second', flavor)
        self.assertEqual(('ACTIVE', 'quick'), (second.status, second.host))
