# SPDX-License-Identifier: Apache-2.0
"""How claims of the nova that is installed, and of others, order cells."""

import json
import pathlib
from unittest import mock

from nova.db.main import models
from nova import objects
from nova.objects import pci_device_pool
from nova.objects import service
from nova.scheduler import filters as nova_filters
from nova.scheduler import host_manager

from nova_pinning.bridge import claim
from nova_pinning.bridge import nova_claim
from nova_pinning.bridge import numa
from nova_pinning.bridge import topology
from nova_pinning.model import CellOrder
from nova_pinning.model import Reason
from nova_pinning.scheduler import filters
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import requests
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base

_OLDER_NOVAS = pathlib.Path(__file__).with_name('older_novas')


class TestOrderOfCompute(oracle_cases.TestCase):

    def tearDown(self):
        super().tearDown()
        nova_claim.order_of_compute.cache_clear()

    def test_the_installed_nova(self):
        """The table and nova's own code have to agree."""
        self.assertIs(nova_claim.installed_order(),
                      nova_claim.order_of_compute(service.SERVICE_VERSION))

    def test_others_by_the_table(self):
        self.assertIs(CellOrder.ANY_DEVICES, nova_claim.order_of_compute(66))
        self.assertIs(CellOrder.UNKNOWN, nova_claim.order_of_compute(None))
        self.assertIs(CellOrder.FEWEST_DEVICES,
                      nova_claim.order_of_compute(1000))

    def test_a_fix_that_not_all_of_a_release_have(self):
        nova_claim.order_of_compute.cache_clear()
        other = (CellOrder.ANY_DEVICES
                 if nova_claim.installed_order() is CellOrder.FEWEST_DEVICES
                 else CellOrder.FEWEST_DEVICES)
        with mock.patch.object(nova_claim, 'installed_order',
                               return_value=other):
            self.assertIs(CellOrder.UNKNOWN, nova_claim.order_of_compute(
                service.SERVICE_VERSION))


class TestOlderTopologies(unit_base.TestCase, oracle_cases.TestCase):
    """What the code of older releases has written is read, and comes true.

    older_novas/write_topologies.py wrote these files, with nova 2025.1 and
    2026.1.
    """

    def setUp(self):
        super().setUp()
        self.filter = filters.PinnedTopologyFilter()

    def _documents(self):
        """By release, those that are not newer than the nova installed."""
        for path in sorted(_OLDER_NOVAS.glob('*.json')):
            document = json.loads(path.read_text())
            if document['service_version'] <= service.SERVICE_VERSION:
                yield path.stem, document

    def _state(self, document, version, topology='numa_topology'):
        """As HostManager makes it of what the compute node has stored."""
        compute = objects.ComputeNode(
            uuid='00000000-0000-0000-0000-000000000002', host='h',
            hypervisor_hostname='h', memory_mb=16384, free_ram_mb=16384,
            local_gb=10, local_gb_used=0, free_disk_gb=10,
            disk_available_least=10, vcpus=8, vcpus_used=0, updated_at=None,
            numa_topology=json.dumps(document[topology]),
            pci_device_pools=pci_device_pool.from_pci_stats(
                json.dumps(document['pci_stats'])),
            host_ip='192.0.2.1', hypervisor_type='QEMU',
            hypervisor_version=9000000, cpu_info='{}', supported_hv_specs=[],
            stats={}, metrics='[]', cpu_allocation_ratio=1.0,
            ram_allocation_ratio=1.0, disk_allocation_ratio=1.0)
        state = host_manager.HostState(
            'h', 'h', objects.CellMapping.CELL0_UUID)
        state.update(
            compute=compute, aggregates=[], inst_dict={},
            service=dict(objects.Service._from_db_object(
                None, objects.Service(), models.Service(
                    id=1, uuid='00000000-0000-0000-0000-000000000003',
                    host='h', binary='nova-compute', topic='compute',
                    report_count=1, disabled=False, forced_down=False,
                    version=version))))
        state.allocation_candidates = [{'allocations': {}, 'mappings': {}}]
        return state

    def _fitted(self, state, document):
        spec = objects.RequestSpec.obj_from_primitive(document['request_spec'])
        left = nova_filters.HostFilterHandler().get_filtered_objects(
            [self.filter], [state], spec)
        self.assertEqual([state], left)
        return fitting.last_fit(state, requests.read(spec))

    def test_there_are_some(self):
        self.assertIn('2025.1', dict(self._documents()))

    def test_the_claim_of_the_release_itself(self):
        """The emptiest cell is the first one, though it has devices."""
        for name, document in self._documents():
            claimed = claim.fit_from_nova(
                objects.InstanceNUMATopology.obj_from_primitive(
                    document['claimed']))
            fitted = self._fitted(
                self._state(document, document['service_version']), document)
            self.assertEqual(claimed, fitted.fit, name)
            self.assertEqual([0], [cell.id for cell in fitted.cells])
            self.assertIsNone(fitted.drawback)
            booked = numa.with_guest(
                self._state(document, 0).numa_topology, fitted.guest,
                fitted.fit)
            self.assertTrue(numa.is_used_alike(booked, self._state(
                document, 0, 'numa_topology_after').numa_topology))

    def test_a_newer_nova_there(self):
        """It has been upgraded, and its database still has the old rows."""
        for name, document in self._documents():
            fitted = self._fitted(self._state(document, 74), document)
            self.assertEqual([1], [cell.id for cell in fitted.cells], name)

    def test_it_is_not_known(self):
        for name, document in self._documents():
            fitted = self._fitted(self._state(document, 73), document)
            self.assertIs(Reason.NOVA_UNKNOWN, fitted.drawback.reason, name)

    def test_the_guest_with_what_it_got(self):
        """As instance_extra has it after the claim."""
        for name, document in self._documents():
            stored = objects.InstanceNUMATopology.obj_from_primitive(
                document['claimed'])
            guest = topology.guest_from_nova(stored)
            self.assertEqual((0, 1), guest.cells[0].dedicated_vcpus, name)
            self.assertEqual(2048, guest.cells[0].page_size_kib)
