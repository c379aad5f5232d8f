# SPDX-License-Identifier: Apache-2.0


"""What nova's NUMA fit gets wrong when it is asked a second time.

Like :mod:`nova_pinning.tests.functional.test_nova_numa_fit`, which see:
here nova starts from what an earlier answer has left in the request or in
the server.
"""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
import itertools
import json
import typing as ty
from unittest import mock

from demo import threads  # noqa: F401 isort: skip

from nova import exception
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.api import client as api_client
from nova.virt.libvirt import driver
from testtools import matchers

from demo import cloud
from demo import hosts
from nova_pinning.tests.functional import test_nova_numa_fit

DEDICATED = test_nova_numa_fit.DEDICATED
GIB = test_nova_numa_fit.GIB


class TestSecondAttempt(test_nova_numa_fit.NovaNumaFitTestCase):
    """Nova goes to another host after the first has failed."""

    #: Only the second pair of cells that nova tries is right.
    CROSSED_HOST = hosts.HostShape(
        sockets=2, cores_per_cell=4, threads=1, memory_mib=16 * GIB,
        dedicated='0-5')
    #: The same with less memory, where the first pair is.
    EASY_HOST = hosts.HostShape(
        sockets=2, cores_per_cell=4, threads=1, memory_mib=8 * GIB,
        dedicated='0,1,4-7')
    CROSSED = {**DEDICATED, **test_nova_numa_fit.cells((2, GIB), (4, GIB))}
    LARGE_PAGES = {**DEDICATED, 'hw:mem_page_size': 'large'}

    @contextlib.contextmanager
    def first_spawn_fails(self) -> Iterator[None]:
        """Let libvirt fail once, so that nova goes to another host."""
        spawn = driver.LibvirtDriver.spawn
        attempts = itertools.count()

        def failing(*args: ty.Any, **kwargs: ty.Any) -> ty.Any:
            if next(attempts) == 0:
                raise exception.NovaException('the disk is broken')
            return spawn(*args, **kwargs)

        with mock.patch.object(driver.LibvirtDriver, 'spawn', failing):
            yield

    def shelve(self, server: cloud.Server) -> None:
        """Take a server off its host, keeping it for later."""
        with mock.patch.object(driver.LibvirtDriver, 'snapshot'):
            self.nova.stage._shelve_server(
                {'id': server.id}, expected_state='SHELVED_OFFLOADED')

    def unshelve(self, server: cloud.Server) -> cloud.Server:
        # The harness makes each cast a call, so that an error of
        # nova-compute comes out of the API, which it never would otherwise.
        with contextlib.suppress(api_client.OpenStackApiException):
            self.nova.stage.api.post_server_action(
                server.id, {'unshelve': None})
        return self.nova.show(server)

    @staticmethod
    def paged_host(memory_gib: int, size_kib: int,
                   count: int) -> hosts.HostShape:
        return hosts.HostShape(
            cores_per_cell=4, threads=1, memory_mib=memory_gib * GIB,
            dedicated='0-3', huge_pages={size_kib: count})

    def start_paged_hosts(self) -> None:
        """Start two hosts; nova prefers the one with more memory."""
        self.nova.start_host('pages-1g', self.paged_host(16, 1024 * 1024, 2))
        self.nova.start_host('pages-2m', self.paged_host(15, 2048, 1024))

    def test_nova(self) -> None:
        """One cloud for all of it: to start one takes longest."""
        self.start_nova()
        for name in ('one', 'two'):
            self.nova.start_host(name, self.CROSSED_HOST)
        flavor = self.flavor(6, 2 * GIB, self.CROSSED)
        self.check_first_attempt(flavor)
        self.check_several_at_once(flavor)
        self.check_second_attempt(flavor)

    def check_first_attempt(self, flavor: str) -> None:
        server = self.nova.boot('guest', flavor)
        self.assertEqual([1, 0], self.placed_on(server))
        self.assertEqual(
            ['0', '1', '2', '3', '4', '5'],
            sorted(self.pins(server).values()))
        self.nova.delete(server)

    def check_second_attempt(self, flavor: str) -> None:
        with self.first_spawn_fails():
            server = self.nova.boot('guest', flavor)
        self.assertEqual('ACTIVE', server.status)
        self.assertEqual([1, 0], self.placed_on(server))
        self.assertEqual(
            ['', '', '', '', '4', '5'], sorted(self.pins(server).values()))
        topology = self.nova.host_topology(server.host)
        self.assertEqual([set(), {4, 5}],
                         [cell.pinned_cpus for cell in topology.cells])
        # Placement counts all six, so the two do not agree from now on.
        self.assertEqual(6, self.nova.usages(server.host)['PCPU'])

    def test_nova_page_size(self) -> None:
        self.start_nova()
        self.start_paged_hosts()
        flavor = self.flavor(2, 2 * GIB, self.LARGE_PAGES)
        with self.first_spawn_fails():
            server = self.nova.boot('guest', flavor)
        self.assertEqual('ERROR', server.status)
        self.assertEqual(
            [('pages-1g', None), ('pages-2m', 'ComputeResourcesUnavailable')],
            self.claims)
        self.nova.delete(server)
        self.check_several_at_once(flavor)
        self.check_unshelve_page_size(flavor)

    def check_several_at_once(self, flavor: str) -> None:
        """The second server of a request is scheduled like a leftover."""
        del self.claims[:]
        servers = self.nova.boot_many('together', flavor, 2)
        for server in servers:
            self.assert_no_valid_host(server)
        alone = [self.nova.boot(name, flavor)
                 for name in ('by-itself', 'by-itself-too')]
        self.assertEqual(set(self.nova.shapes),
                         {server.host for server in alone})
        for server in (*servers, *alone):
            self.nova.delete(server)

    def crossed_and_back(self) -> cloud.Server:
        """A server whose only host does not take it back."""
        self.nova.start_host('host', self.CROSSED_HOST)
        server = self.nova.boot(
            'guest', self.flavor(6, 2 * GIB, self.CROSSED))
        self.shelve(server)
        server = self.unshelve(server)
        self.assertEqual('SHELVED_OFFLOADED', server.status)
        return server

    def without_its_pages(
            self, flavor: str) -> tuple[cloud.Server, cloud.Server]:
        """A server that finds other pages than it had, and who has those."""
        server = self.nova.boot('guest', flavor)
        self.shelve(server)
        other = self.nova.boot('other', flavor)
        self.assertEqual('pages-1g', other.host)
        server = self.unshelve(server)
        self.assertEqual('SHELVED_OFFLOADED', server.status)
        return server, other

    def test_nova_unshelve(self) -> None:
        """Not even the host that the server has just left will do."""
        self.start_nova()
        self.crossed_and_back()
        self.assertEqual(
            [('host', None), ('host', 'ComputeResourcesUnavailable')],
            self.claims)

    def check_unshelve_page_size(self, flavor: str) -> None:
        self.without_its_pages(flavor)
        self.assertEqual(
            ('pages-2m', 'ComputeResourcesUnavailable'), self.claims[-1])

    def test_ours_unshelve(self) -> None:
        """To the one host on which the claim comes out right."""
        self.start_ours()
        server = self.crossed_and_back()
        self.assertEqual([('host', None)], self.claims)
        self.assertThat(
            self.nova.explanations[-1],
            matchers.Contains(test_nova_numa_fit.NOVA_WRONG))
        self.nova.start_host('easy', self.EASY_HOST)
        server = self.nova.unshelve(server)
        self.assertEqual(('ACTIVE', 'easy'), (server.status, server.host))
        self.assertEqual([0, 1], self.placed_on(server))
        self.assertEqual(
            ['0', '1', '4', '5', '6', '7'], sorted(self.pins(server).values()))

    def test_ours_page_size(self) -> None:
        """Not to a host that lacks the pages which it had."""
        self.start_ours()
        self.start_paged_hosts()
        flavor = self.flavor(2, 2 * GIB, self.LARGE_PAGES)
        servers = self.nova.boot_many('together', flavor, 2)
        self.assertEqual(
            {'pages-1g', 'pages-2m'}, {server.host for server in servers})
        for server in servers:
            self.nova.delete(server)
        del self.claims[:]
        server, other = self.without_its_pages(flavor)
        self.assertEqual([('pages-1g', None)] * 2, self.claims)
        self.nova.delete(other)
        server = self.nova.unshelve(server)
        self.assertEqual(('ACTIVE', 'pages-1g'), (server.status, server.host))

    def test_ours(self) -> None:
        """No claim on a host is a second attempt that would go wrong."""
        self.start_ours()
        # Nova's weighers prefer hosts with more memory.
        for name, shape in (
                ('one', self.CROSSED_HOST), ('two', self.CROSSED_HOST),
                ('easy', self.EASY_HOST), ('easy-too', self.EASY_HOST)):
            self.nova.start_host(name, shape)
        flavor = self.flavor(6, 2 * GIB, self.CROSSED)
        with self.first_spawn_fails():
            server = self.nova.boot('placed', flavor)
        self.assertEqual('ACTIVE', server.status)
        self.assertEqual([0, 1], self.placed_on(server))
        self.assertEqual(
            ['0', '1', '4', '5', '6', '7'],
            sorted(self.pins(server).values()))

    def test_ours_where_no_other_host_is_left(self) -> None:
        """The first attempt is right; there is no second that is not."""
        self.start_ours()
        for name in ('one', 'two'):
            self.nova.start_host(name, self.CROSSED_HOST)
        flavor = self.flavor(6, 2 * GIB, self.CROSSED)
        server = self.nova.boot('placed', flavor)
        self.assertEqual('ACTIVE', server.status)
        self.assertEqual([1, 0], self.placed_on(server))
        self.assertEqual(
            ['0', '1', '2', '3', '4', '5'],
            sorted(self.pins(server).values()))
        self.assertThat(self.nova.nova_log, matchers.Contains(
            'goes on a host of second choice, since none of the first is '
            "left: 1 host: nova-compute's claim could come out wrong if one "
            'elsewhere was aborted before'))

        del self.claims[:]
        with self.first_spawn_fails():
            server = self.nova.boot('lost', flavor)
        # There is no alternate host, and so no second claim.
        self.assertEqual('ERROR', server.status)
        self.assertEqual(1, len(self.claims))

    def test_ours_several_at_once(self) -> None:
        """Each server of a request asks for what the first one did."""
        self.start_ours()
        for name in ('easy', 'easy-too'):
            self.nova.start_host(name,
                                 test_nova_numa_fit.TestFitNotFound.EASY_HOST)
        flavor = self.flavor(6, 2 * GIB, self.CROSSED)
        servers = self.nova.boot_many('together', flavor, 2)
        self.assertEqual(
            {'easy', 'easy-too'}, {server.host for server in servers})
        for server in servers:
            self.assertEqual([0, 1], self.placed_on(server))


class TestSecondCandidate(test_nova_numa_fit.NovaNumaFitTestCase):
    """Placement offers a host twice, once with each of its two devices.

    The second guest cell is larger than any host cell. Two cells are not
    enough for nova to accept that at once, but it looks at both offers with
    the same guest.
    """

    SPECS = {**DEDICATED, **test_nova_numa_fit.cells((1, GIB), (1, 6 * GIB)),
             'pci_passthrough:alias': 'nic:1'}
    HOST = hosts.HostShape(
        sockets=2, cores_per_cell=2, threads=1, memory_mib=8 * GIB,
        dedicated='0-3')

    def start_host(self) -> None:
        self.nova.stage.flags(report_in_placement=True, group='pci')
        self.nova.stage.flags(pci_in_placement=True, group='filter_scheduler')
        self.start_host_with_devices(
            'host', self.HOST, (test_nova_numa_fit.NIC,
                                test_nova_numa_fit.NIC), numa_policy='legacy')

    def test_nova(self) -> None:
        self.start_nova()
        self.start_host()
        server = self.nova.boot('guest', self.flavor(2, 7 * GIB, self.SPECS))
        self.assertEqual('ERROR', server.status)
        # Nova-compute begins anew, and refuses.
        self.assertEqual(
            [('host', 'ComputeResourcesUnavailable')], self.claims)

    def test_nova_single_candidate(self) -> None:
        """Without a device to choose, nova-scheduler is right."""
        self.start_nova()
        self.start_host()
        specs = {**self.SPECS}
        del specs['pci_passthrough:alias']
        self.assert_no_valid_host(
            self.nova.boot('guest', self.flavor(2, 7 * GIB, specs)))

    def test_ours(self) -> None:
        self.start_ours()
        self.start_host()
        self.assert_refused(
            self.nova.boot('guest', self.flavor(2, 7 * GIB, self.SPECS)),
            'too little memory in any one cell')


class TestDevicesOfTwoProviders(test_nova_numa_fit.NovaNumaFitTestCase):
    """A guest wants virtual functions of two network cards, for a bond.

    Of each card, which are near two cells, two are free.
    """

    SPECS = {**DEDICATED, 'pci_passthrough:alias': 'vf:2',
             'group_policy': 'isolate'}
    HOST = hosts.HostShape(
        sockets=2, cores_per_cell=2, threads=1, memory_mib=8 * GIB,
        dedicated='0-3')

    def start_host(self, numa_policy: str) -> None:
        self.nova.stage.flags(report_in_placement=True, device_spec=[
            json.dumps({'vendor_id': '8086', 'product_id': '1515'})],
            alias=[json.dumps({
                'name': 'vf', 'vendor_id': '8086', 'product_id': '1515',
                'device_type': 'type-VF', 'numa_policy': numa_policy})],
            group='pci')
        self.nova.stage.flags(pci_in_placement=True, group='filter_scheduler')
        self.nova.start_host('host', self.HOST, fakelibvirt.HostPCIDevicesInfo(
            num_pfs=2, num_vfs=4))

    def devices(self, server: cloud.Server) -> tuple[int, int]:
        """How many the server has, and how many Placement counts for it."""
        held = self.nova.stage.placement.get(
            f'/allocations/{server.id}').body['allocations'].values()
        return self.nova.guest_xml(server).count('<hostdev '), sum(
            amount for each in held for name, amount
            in each['resources'].items() if name.startswith('CUSTOM_PCI_'))

    def test_nova(self) -> None:
        self.start_nova()
        self.start_host('legacy')
        server = self.nova.boot('guest', self.flavor(1, GIB, self.SPECS))
        self.assertEqual('ACTIVE', server.status)
        self.assertEqual((1, 2), self.devices(server))

    def test_ours(self) -> None:
        self.start_ours()
        self.start_host('required')
        self.assert_refused(
            self.nova.boot('refused', self.flavor(1, GIB, self.SPECS)),
            'alias "vf" with policy "required": 2 wanted, 1 within reach')
        server = self.nova.boot('placed', self.flavor(
            2, 2 * GIB, {**self.SPECS, 'hw:numa_nodes': '2'}))
        self.assertEqual('ACTIVE', server.status)
        self.assertEqual((2, 2), self.devices(server))

    def test_ours_where_another_offer_is_right(self) -> None:
        """Both from one card, which Placement offers as well."""
        self.start_ours()
        self.start_host('legacy')
        server = self.nova.boot('placed', self.flavor(
            1, GIB, {**self.SPECS, 'group_policy': 'none'}))
        self.assertEqual('ACTIVE', server.status)
        self.assertEqual((2, 2), self.devices(server))
