# SPDX-License-Identifier: Apache-2.0
"""FragmentationWeigher, on hosts with PCI devices."""

import random

import hypothesis
from hypothesis import strategies
from nova import exception
from nova.virt import hardware

from nova_pinning.bridge import pci
from nova_pinning.scheduler import mix
from nova_pinning.scheduler import requests
from nova_pinning.scheduler import weights
from nova_pinning.tests.oracle import scheduled_cases
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit.scheduler import test_weights
from nova_pinning.tests.unit import unit_base

GPU, NIC = '2330', '101e'


def _pools(product, *counts, first=0):
    """Pools of one device each, as nova makes them.

    :param counts: near each cell
    """
    nodes = [node for node, count in enumerate(counts) for _ in range(count)]
    return [
        {'vendor_id': '10de', 'product_id': product, 'numa_node': node,
         'dev_type': 'type-PCI', 'count': 1,
         'address': f'0000:{first + number:02x}:00.0'}
        for number, node in enumerate(nodes)]


def _asks(product, count, policy='required'):
    return {'count': count, 'alias': product, 'policy': policy,
            'spec': [{'vendor_id': '10de', 'product_id': product}]}


def _case(guest, asked=(), gpus=(0, 0), nics=(0, 0), pinned=((), ())):
    """A host of two cells of 16 CPUs with devices, and a guest."""
    return oracle_cases.case(
        [oracle_cases.host_cell(
            number, range(16 * number, 16 * number + 16), socket=number,
            pinned=[16 * number + cpu for cpu in taken])
         for number, taken in enumerate(pinned)],
        oracle_cases.guest(*guest), pci={
            'pools': [*_pools(GPU, *gpus), *_pools(NIC, *nics, first=64)],
            'requests': list(asked), 'mapping': None})


def _sold(case, *guests):
    """How many of the last guest nova fits on a host beside the others."""
    topology, stats, sold = case.host(), case.pci_stats(), 0
    left = list(guests)
    while True:
        guest = left[0]
        asked = guest.pci_requests()
        fitted = hardware.numa_fit_instance_to_host(
            topology, guest.guest(), None, pci_requests=asked,
            pci_stats=stats)
        if fitted is None:
            return sold
        topology = hardware.numa_usage_from_instance_numa(topology, fitted)
        try:
            stats.apply_requests(asked, None, fitted.cells)
        except exception.PciDeviceRequestFailed:
            return sold
        sold += len(left) == 1
        left = left[1:] or left


class TestDevices(test_weights.WithoutFreeCpus):

    def _costs(self, cases, sizes):
        """What the guest costs on each host, where these were asked for.

        :param cases: hosts, with the guest
        """
        self.addCleanup(mix.forget)
        mix.forget()
        for size in sizes:
            spec = scheduled_cases.spec_of(size)
            requests.note_instance(spec, requests.read(spec))
        spec = scheduled_cases.spec_of(cases[0])
        states = [scheduled_cases.state_of(case) for case in cases]
        weigher = weights.FragmentationWeigher()
        request = weigher._request(spec)
        return [-weigher._weight(state, request)
                for state in states], request.recent_mix

    @unit_base.settings(60)
    @hypothesis.given(strategies.integers(0, 10**6))
    def test_against_nova(self, number):
        """What is lost is what nova could sell before, and not after."""
        draws = random.Random(number)

        def guest():
            cells = draws.choice((1, 1, 2))
            policy = draws.choice(('required', 'preferred', 'socket', None))
            asked = [_asks(GPU, draws.choice((1, 2, 4, 5)), policy)
                     ] if draws.random() < 0.8 else []
            # As for ports, of which each is a request.
            asked += [_asks(NIC, 1, policy)] * draws.choice((0, 0, 1, 2))
            return ((draws.randint(1, 8), 64),) * cells, asked

        host = {
            name: [draws.randint(0, most) for _cell in range(2)]
            for name, most in (('gpus', 6), ('nics', 3))}
        host['pinned'] = [
            draws.sample(range(16), draws.choice((0, 4, 12)))
            for _cell in range(2)]
        sizes = [_case(*guest(), **host) for _size in range(3)]
        case = sizes[0]
        hypothesis.assume(_sold(case, case))
        (found,), shares = self._costs([case], sizes[1:])
        vcpus = sum(len(cell.pcpuset) for cell in case.guest().cells)
        of_size = {}
        for size in sizes:
            request = requests.read(scheduled_cases.spec_of(size))
            of_size[mix.sizes(request.guest, pci.demands(
                request.pci_requests))[0]] = size
        expected = -vcpus + sum(
            share * size.guest_vcpus * (
                _sold(case, of_size[size])
                - _sold(case, case, of_size[size]))
            for size, share in shares)
        self.assertAlmostEqual(expected, found)

    def test_groups_stay_whole(self):
        """A guest of one goes where groups have been begun.

        Nova's PCIWeigher takes it to the host with the fewest free devices.
        """
        small, group = [_asks(GPU, 1)], [_asks(GPU, 4)]
        whole, begun = [
            _case([(2, 64)], small, gpus) for gpus in ((4, 0), (3, 3))]
        costs, _mix = self._costs(
            [whole, begun], [_case([(8, 64)], group)])
        self.assertGreater(costs[0], costs[1])

    def test_without_devices(self):
        """CPUs that guests with devices need are left to them."""
        hosts = [_case([(8, 64)], gpus=gpus, pinned=[range(4), range(4)])
                 for gpus in ((0, 0), (2, 2))]
        costs, _mix = self._costs(
            hosts, [_case([(6, 64)], [_asks(GPU, 1)])] * 9)
        self.assertLess(costs[0], costs[1])

    def test_more_cpus_than_devices_need(self):
        """They are for any guest."""
        hosts = [_case([(8, 64)], gpus=gpus) for gpus in ((0, 0), (1, 1))]
        costs, _mix = self._costs(
            hosts, [_case([(6, 64)], [_asks(GPU, 1)])])
        self.assertEqual(*costs)
