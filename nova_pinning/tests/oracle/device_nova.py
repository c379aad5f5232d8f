# SPDX-License-Identifier: Apache-2.0
"""What nova itself makes of a drawn cloud: its trackers, filters and claims.

The services are left out, not their code: the tracker of PCI devices and what
it reports to Placement, nova-scheduler's request for a flavor, its filters,
the claim of the resource tracker, and what is counted afterwards.
"""

import collections
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import copy
import dataclasses
import functools
import json
import types
from typing import Any
from unittest import mock
import uuid as uuid_lib

import jsonschema
from nova.compute import claims
from nova.compute import pci_placement_translator
from nova.compute import provider_tree
from nova.compute import utils as compute_utils
import nova.conf
from nova import context as nova_context
from nova import exception
from nova import objects
from nova.objects import pci_device
from nova.objects import pci_device_pool
from nova.pci import devspec
from nova.pci import manager
from nova.pci import request as pci_request
from nova.pci import stats as pci_stats
from nova.scheduler import filters as nova_filters
from nova.scheduler.filters import numa_topology_filter
from nova.scheduler.filters import pci_passthrough_filter
from nova.scheduler import request_filter
from nova.scheduler import utils as scheduler_utils
from nova.virt import hardware

from nova_pinning.flavors import flavor_model
from nova_pinning.tests.oracle import device_cloud
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.oracle import scheduled_cases

CONF = nova.conf.CONF
objects.register_all()
#: That nova-scheduler hands on to the claim.
LIMITS = objects.NUMATopologyLimits(
    cpu_allocation_ratio=1.0, ram_allocation_ratio=1.0)
#: What nova's code raises where a claim comes to nothing.
_CLAIM_FAILS = (
    exception.NovaException, IndexError, KeyError)
#: Of nova, in this order.
FILTERS = (pci_passthrough_filter.PciPassthroughFilter,
           numa_topology_filter.NUMATopologyFilter)


@contextlib.contextmanager
def prepared(cloud: device_cloud.DrawnCloud) -> Iterator[None]:
    """Have nova's options be the cloud's.

    Its objects are shared by copies that are made to be thrown away.
    """
    options = (('filter_scheduler', 'pci_in_placement', cloud.in_placement),
               ('pci', 'alias', device_cloud.aliases_json(cloud)),
               ('compute', 'packing_host_numa_cells_allocation_strategy',
                cloud.packs))

    def same(one: Any, _memo: Any) -> Any:
        return one

    with contextlib.ExitStack() as stack:
        for group, name, value in options:
            stack.callback(CONF.set_override, name, getattr(
                CONF[group], name), group)
            CONF.set_override(name, value, group)
        for kind in (pci_device.PciDevice, devspec.PciDeviceSpec,
                     objects.NUMATopology):
            stack.enter_context(mock.patch.multiple(
                kind, __deepcopy__=same, create=True))
        # A list of devices compares all of their fields.
        stack.enter_context(mock.patch.multiple(
            pci_device.PciDevice, __eq__=object.__eq__,
            __ne__=object.__ne__))
        # A schema is right or wrong once and for all.
        stack.enter_context(mock.patch.object(
            jsonschema.Draft202012Validator, 'check_schema'))
        pci_request.get_alias_from_config.cache_clear()
        stack.callback(pci_request.get_alias_from_config.cache_clear)
        yield


@dataclasses.dataclass(frozen=True, slots=True)
class NovaOrder:
    """A server that is asked for, as nova-conductor has it.

    :param spec: nova.objects.RequestSpec
    :param queries: of nova-scheduler to Placement, the second only if it has
        no use for the first
    """

    spec: Any
    queries: tuple[str, ...]

    @property
    def wanted(self) -> int:
        """How many devices."""
        return sum(request.count
                   for request in self.spec.pci_requests.requests)


def order(flavor: flavor_model.Flavor,
          properties: Mapping[str, str]) -> NovaOrder:
    """What nova makes of a flavor and an image.

    :raises nova.exception.NovaException: if it refuses them
    """
    nova_flavor = objects.Flavor(
        id=1, flavorid=flavor.name, name=flavor.name, vcpus=flavor.vcpus,
        memory_mb=flavor.memory_mib, root_gb=0, ephemeral_gb=0, swap=0,
        rxtx_factor=1.0, vcpu_weight=0, disabled=False, is_public=True,
        description=None, extra_specs=dict(flavor.extra_specs), projects=[])
    image = objects.ImageMeta.from_dict({
        'id': '00000000-0000-0000-0000-000000000002',
        'disk_format': 'qcow2', 'container_format': 'bare', 'min_disk': 0,
        'min_ram': 0, 'size': 0, 'properties': dict(properties)})
    topology = hardware.numa_get_constraints(nova_flavor, image)
    requests = pci_request.get_pci_requests_from_flavor(
        nova_flavor, affinity_policy=hardware.get_pci_numa_policy_constraint(
            nova_flavor, image))
    requests.instance_uuid = '00000000-0000-0000-0000-000000000001'
    for number, request in enumerate(requests.requests):
        request.request_id = oracle_case.request_id(number)
    spec = objects.RequestSpec(
        instance_uuid=requests.instance_uuid, flavor=nova_flavor, image=image,
        numa_topology=topology, pci_requests=requests, num_instances=1,
        is_bfv=False, requested_destination=None, requested_resources=[],
        request_level_params=objects.RequestLevelParams(),
        scheduler_hints={}, force_hosts=None, force_nodes=None)
    spec.generate_request_groups_from_pci_requests()
    context = nova_context.RequestContext(is_admin=True)
    request_filter.compute_status_filter(context, spec)
    first = scheduler_utils.resources_from_request_spec(context, spec, None)
    asked = [first]
    if first.cpu_pinning_requested:
        asked.append(scheduler_utils.resources_from_request_spec(
            context, spec, None, enable_pinning_translate=False))
    # Placement is asked for all that there are.
    for one in asked:
        one._limit = None
    return NovaOrder(spec, tuple(one.to_querystring() for one in asked))


@dataclasses.dataclass(frozen=True, slots=True)
class NovaGuest:
    """A server on a host.

    :param order: what was asked for
    :param topology: nova.objects.InstanceNUMATopology as claimed, or None
    :param pci_requests: with what Placement chose
    :param addresses: of its devices
    :param allocations: in Placement, by provider and resource class
    """

    uuid: str
    flavor: flavor_model.Flavor
    order: NovaOrder
    topology: Any
    pci_requests: Any
    addresses: tuple[str, ...]
    allocations: Mapping[str, Mapping[str, int]]


class NovaHost:
    """A host as nova-compute and nova-scheduler have it.

    :ivar tracker: nova.pci.manager.PciDevTracker
    :ivar tree: nova.compute.provider_tree.ProviderTree
    :ivar allocations: in Placement, by consumer, as nova's report client
        gives them
    """

    def __init__(self, drawn: device_cloud.DrawnHost) -> None:
        self.drawn = drawn
        self.name = drawn.name
        self.guests: list[NovaGuest] = []
        self.allocations: dict[str, Any] = {}
        self.topology = _topology(drawn)
        node = types.SimpleNamespace(id=1, numa_topology=None)
        with self._options(), mock.patch.object(
                objects.PciDeviceList, 'get_by_compute_node',
                lambda *_args: objects.PciDeviceList(objects=[])):
            self.tracker = manager.PciDevTracker(
                nova_context.get_admin_context(), node)
            self.tracker.stats.numa_topology = self.topology
            self.tracker.update_devices_from_hypervisor_resources(
                json.dumps(drawn.devices))
        for number, device in enumerate(self.tracker.pci_devs, 1):
            device.id = number
        self.tree = provider_tree.ProviderTree()
        self.tree.new_root(drawn.name, drawn.name)
        self.tree.update_inventory(drawn.name, self._root_inventory())
        self.tree.update_traits(drawn.name, {*drawn.traits, 'OWNER_NOVA'} | (
            {'HW_CPU_HYPERTHREADING'} if any(
                len(core) > 1 for cell in drawn.cells for core in cell.cores)
            else set()))
        self.report()

    @contextlib.contextmanager
    def _options(self) -> Iterator[None]:
        for name, value in (
                ('report_in_placement', self.drawn.reports),
                ('device_spec', list(map(json.dumps,
                                         self.drawn.device_spec)))):
            CONF.set_override(name, value, 'pci')
        try:
            yield
        finally:
            for name in ('report_in_placement', 'device_spec'):
                CONF.clear_override(name, 'pci')

    def _root_inventory(self) -> dict[str, dict[str, Any]]:
        totals = {
            'VCPU': sum(len(cell.shared) for cell in self.drawn.cells),
            'PCPU': sum(len(cell.dedicated) for cell in self.drawn.cells),
            'MEMORY_MB': sum(cell.memory_mib for cell in self.drawn.cells)}
        return {name: {
            'total': total, 'min_unit': 1, 'max_unit': total, 'step_size': 1,
            'reserved': 0, 'allocation_ratio': 1.0}
            for name, total in totals.items() if total}

    def report(self) -> None:
        """Tell Placement, as nova-compute does time and again."""
        # The same each time, for Placement's order hangs on them.
        with self._options(), mock.patch.object(
                pci_placement_translator.uuidutils, 'generate_uuid',
                lambda dashed: str(uuid_lib.uuid5(
                    uuid_lib.UUID(self.name),
                    str(len(self.tree.get_provider_uuids()))))):
            pci_placement_translator.update_provider_tree_for_pci(
                self.tree, self.name, self.tracker, self.allocations, [])

    @property
    def pools(self) -> Any:
        """nova.objects.PciDevicePoolList, of which nova-scheduler knows."""
        return self.tracker.stats.to_device_pools_obj()

    def state(self, candidates: Sequence[dict[str, Any]]) -> Any:
        """A new nova.scheduler.host_manager.HostState."""
        return scheduled_cases.host_state(
            self.name, self.topology, pci_stats=pci_stats.PciDeviceStats(
                self.topology, pci_device_pool.from_pci_stats(json.loads(
                    json.dumps(self.pools.obj_to_primitive())))),
            cpu_allocation_ratio=1.0, ram_allocation_ratio=1.0,
            allocation_candidates=[*candidates], uuid=self.name,
            nodename=self.name)

    def passing(self, asked: NovaOrder,
                candidates: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those of Placement's candidates that nova's filters let pass."""
        left = filtered(FILTERS, [self.state(candidates)], asked.spec)
        return left[0].allocation_candidates if left else []

    def claimed(self, asked: NovaOrder, candidate: Mapping[str, Any],
                uuid: str) -> 'NovaClaim | None':
        """What nova-compute's claim comes to; nothing is kept of it.

        :returns: None if it fails
        """
        before = self._saved()
        try:
            return self._claim(asked, candidate, uuid)
        finally:
            self._restore(before)

    def taking(self, guest: 'NovaGuest', candidate: Mapping[str, Any],
               is_live: bool) -> 'NovaClaim | None':
        """What the claim for a guest that moves here comes to.

        :returns: None if it fails, or takes other devices than Placement has
            allocated
        """
        before = self._saved()
        try:
            claim = self._claim(
                guest.order, candidate, guest.uuid,
                NovaMove(is_live, guest.topology))
            if claim is None:
                return None
            given = collections.Counter(
                device.extra_info.get('rp_uuid')
                for device in self.tracker.pci_devs
                if device.address in claim.addresses)
            allocated = collections.Counter(
                providers[0] for suffix, providers
                in candidate['mappings'].items() if suffix)
            return claim if allocated in ({}, given) else None
        finally:
            self._restore(before)

    def place(self, flavor: flavor_model.Flavor, asked: NovaOrder,
              candidate: Mapping[str, Any], uuid: str) -> NovaGuest:
        """Have a guest come for which :meth:`claimed` is right."""
        done = self._claim(asked, candidate, uuid)
        assert done is not None
        self.tracker.allocate_instance({'uuid': uuid, 'pci_devices': []})
        self.topology = done.host_topology
        self.tracker.stats.numa_topology = done.host_topology
        given = {
            provider: dict(found['resources'])
            for provider, found in candidate['allocations'].items()}
        self.allocations[uuid] = {
            'allocations': {provider: {'resources': dict(amounts),
                                       'generation': 1}
                            for provider, amounts in given.items()},
            'project_id': 'p', 'user_id': 'u', 'consumer_generation': 1}
        self.report()
        guest = NovaGuest(uuid, flavor, asked, done.topology,
                          done.pci_requests, done.addresses, given)
        self.guests.append(guest)
        return guest

    def _claim(self, asked: NovaOrder, candidate: Mapping[str, Any],
               uuid: str, move: 'NovaMove | None' = None,
               ) -> 'NovaClaim | None':
        """As nova.compute.resource_tracker.ResourceTracker claims."""
        built = _cloned(asked.spec.pci_requests, uuid)
        context = nova_context.get_admin_context()
        compute_utils.update_pci_request_with_placement_allocations(
            context, None, built.requests, candidate['mappings'])
        node, tracker = _Node(self.topology), types.SimpleNamespace(
            pci_tracker=self.tracker)
        limits = {'numa_topology': LIMITS}
        instance = types.SimpleNamespace(
            uuid=uuid, numa_topology=move.topology if move else copy.deepcopy(
                asked.spec.numa_topology))
        instance.obj_clone = lambda: instance
        requests = built
        try:
            if move is None:
                claim = claims.Claim(
                    context, instance, self.name, tracker, node, requests,
                    limits=limits)
            else:
                requests = pci_request.get_pci_requests_from_flavor(
                    asked.spec.flavor)
                requests.instance_uuid = uuid
                claim = claims.MoveClaim(
                    context, instance, self.name, asked.spec.flavor,
                    asked.spec.image, tracker, node, requests, move,
                    limits=limits)
                if move.is_live_migration:
                    requests = built
            topology = claim.claimed_numa_topology
            devices = self.tracker.claim_instance(context, requests, topology)
            after = hardware.numa_usage_from_instance_numa(
                self.topology, topology)
        except _CLAIM_FAILS:
            return None
        if len(devices) != asked.wanted or not _is_right(
                self.topology, topology):
            return None
        return NovaClaim(topology, requests, after, tuple(sorted(
            device.address for device in devices)))

    def _saved(self) -> Any:
        stats = self.tracker.stats
        return ([(pool, dict(pool), list(pool['devices']))
                 for pool in stats.pools],
                [(device, dict(device.__dict__))
                 for device in self.tracker.pci_devs],
                dict(self.tracker.claims), dict(self.tracker.allocations))

    def _restore(self, before: Any) -> None:
        pools, devices, claimed, allocated = before
        for pool, values, own in pools:
            pool.clear()
            pool.update(values, devices=own)
        self.tracker.stats.pools[:] = [pool for pool, _, _ in pools]
        for device, values in devices:
            device.__dict__.clear()
            device.__dict__.update(values)
        for held, was in ((self.tracker.claims, claimed),
                          (self.tracker.allocations, allocated)):
            held.clear()
            held.update(was)


@dataclasses.dataclass(frozen=True, slots=True)
class NovaMove:
    """What a claim reads of a nova.objects.Migration and its server.

    :param topology: of the server where it is
    """

    is_live_migration: bool
    topology: Any


@dataclasses.dataclass(frozen=True, slots=True)
class NovaClaim:
    """A claim that is right.

    :param host_topology: of the host, with the guest on it
    """

    topology: Any
    pci_requests: Any
    host_topology: Any
    addresses: tuple[str, ...]


class _Node:
    """What a claim reads of a nova.objects.ComputeNode."""

    def __init__(self, topology: Any) -> None:
        self._topology = topology

    def __contains__(self, _name: str) -> bool:
        return True

    @functools.cached_property
    def numa_topology(self) -> str:
        return self._topology._to_json()


def filtered(kinds: Iterable[Any], states: Sequence[Any],
             spec: Any) -> list[Any]:
    """The hosts that filters leave, as nova-scheduler runs them."""
    return list(nova_filters.HostFilterHandler().get_filtered_objects(
        [kind() for kind in kinds], states, spec) or ())


def _cloned(requests: Any, uuid: str) -> Any:
    """A copy as it comes over the message bus."""
    made = objects.InstancePCIRequests.obj_from_primitive(
        json.loads(json.dumps(requests.obj_to_primitive())))
    made.instance_uuid = uuid
    return made


def _is_right(host: Any, guest: Any) -> bool:
    """Whether a claim is right by the figures of host and guest.

    That pins of the guest are free CPUs of their cells, numa_usage has said.
    """
    if guest is None:
        return True
    cells = {cell.id: cell for cell in host.cells}
    if len({cell.id for cell in guest.cells}) < len(guest.cells):
        return False
    for cell in guest.cells:
        if len(cell.cpu_pinning or ()) != len(cell.pcpuset):
            return False
        if not set((cell.cpu_pinning or {}).values()) <= (
                cells[cell.id].pcpuset):
            return False
        if cell.pagesize is None and (
                cells[cell.id].memory_usage + cell.memory
                > cells[cell.id].memory):
            return False
    return True


def _topology(drawn: device_cloud.DrawnHost) -> Any:
    made = objects.NUMATopology(cells=[
        objects.NUMACell(
            id=number, cpuset=set(cell.shared), pcpuset=set(cell.dedicated),
            memory=cell.memory_mib, cpu_usage=0, memory_usage=0,
            pinned_cpus=set(), siblings=[set(core) for core in cell.cores],
            mempages=[objects.NUMAPagesTopology(
                size_kb=4, total=(cell.memory_mib - 2 * cell.pages) * 256,
                used=0, reserved=0), *([objects.NUMAPagesTopology(
                    size_kb=2048, total=cell.pages, used=0, reserved=0)]
                    if cell.pages else [])],
            network_metadata=objects.NetworkMetadata(
                physnets=set(), tunneled=False), socket=cell.socket)
        for number, cell in enumerate(drawn.cells)])
    return objects.NUMATopology.obj_from_db_obj(made._to_json())
