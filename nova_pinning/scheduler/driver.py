# SPDX-License-Identifier: Apache-2.0
"""Nova's own scheduling and claims in this process, without its services.

Filters and weighers are loaded by name, as nova-scheduler loads them, and run
by the handlers that nova.scheduler.host_manager.HostManager runs them with,
over its HostStates. Guests are claimed by the functions with which
nova-compute claims and counts.

Importing this imports nova: call ``bridge.standalone.prepare()`` first.
"""

from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import json
from typing import Any
import uuid as uuid_module

from nova import context as nova_context
from nova import exception
from nova import objects
from nova.objects import pci_device_pool
from nova.scheduler import filters as nova_filters
from nova.scheduler import host_manager
from nova.scheduler import weights as nova_weights
from nova.virt import hardware

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.bridge import claim
from nova_pinning.bridge import nova_objects
from nova_pinning.bridge import nova_options
from nova_pinning.fit import score
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.model import nova_release
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import mix
from nova_pinning.scheduler import requests

_CLASS_FILTER = 'nova_pinning.scheduler.filters.HostClassFilter'
_FILTERS = (
    _CLASS_FILTER,
    'nova.scheduler.filters.pci_passthrough_filter.PciPassthroughFilter',
    'nova_pinning.scheduler.filters.PinnedTopologyFilter',
)
_OWN_WEIGHERS = 'nova_pinning.scheduler.weights'
_NAMESPACE = uuid_module.UUID('7d1e2f5a-2f0e-4f5c-8f5e-6f6f1c0f3a10')
_INSTANCE = '00000000-0000-0000-0000-000000000001'


class BestFitWeigher(nova_weights.BaseHostWeigher):
    """Prefers the host whose cells are left with the fewest free CPUs.

    For comparison only: nova has no such weigher.
    """

    def _weigh_object(self, obj: Any, weight_properties: Any) -> float:
        request = requests.read(weight_properties)
        if request.guest is None or not request.guest.is_pinned:
            return 0.0
        placement = fitting.fit_on_host(obj, request)
        assert isinstance(placement, fitting.FittedGuest)
        return -float(score.left_over(placement.guest, placement.cells))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ComputeNodeRecord:
    """What nova's record of a compute node says, as guests come and go.

    :param topology: its cells, with what is pinned there
    :param free_memory_mib: may be below 0, as in nova
    :param pci_pools: the devices that are free
    :param aggregates: (name, metadata) of those that it is in
    """

    host: snapshot.FleetHost
    topology: model.Host
    free_memory_mib: int
    free_disk_gib: int
    total_vcpus: int
    used_vcpus: int
    guests: int
    pci_pools: Collection[snapshot.PciPool]
    aggregates: Collection[tuple[str, Mapping[str, str]]]


@dataclasses.dataclass(frozen=True, slots=True)
class NodeClaim:
    """What nova-compute gave a guest.

    :param topology: nova's InstanceNUMATopology, None for guests without
    """

    topology: Any
    devices: tuple[snapshot.PciUse, ...]

    @property
    def fit(self) -> model.Fit | None:
        return (None if self.topology is None
                else claim.fit_from_nova(self.topology))


class SimulatedNova:
    """Schedules and claims with nova's classes.

    Options of nova apply from the beginning until :meth:`close`, so there can
    be only one in a process at a time.

    :param options: by group and name
    :param own_weighers: class names of this project's weighers to load
    :param topologies: of the hosts, with nothing taken but by guests that
        are there from the beginning
    :param keeps_classes: whether to load HostClassFilter
    """

    def __init__(
        self, options: nova_options.Options, own_weighers: Collection[str],
        topologies: Sequence[model.Host], *, keeps_classes: bool = True,
    ) -> None:
        objects.register_all()
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(nova_options.applied(options))
        mix.forget()
        self._context = nova_context.RequestContext(
            user_id='simulation', project_id='simulation', is_admin=False)
        self._filter_handler = nova_filters.HostFilterHandler()
        self._filters = [
            filter_class() for filter_class in
            self._filter_handler.get_matching_classes([
                name for name in _FILTERS
                if keeps_classes or name != _CLASS_FILTER])]
        self._weight_handler = nova_weights.HostWeightHandler()
        self._weighers = [weigher_class() for weigher_class in
                          self._weigher_classes(own_weighers)]
        # What the database of nova-compute has of each host.
        self._topologies = [
            nova_objects.host_topology(topology) for topology in topologies]

    def close(self) -> None:
        """Give nova's options back."""
        self._stack.close()
        mix.forget()

    def _weigher_classes(self, own: Collection[str]) -> list[type[Any]]:
        """Nova's, in the order of their names, then others.

        Nova loads its own in the order in which they lie in their directory,
        which differs from machine to machine.
        """
        theirs = sorted(
            nova_weights.all_weighers(),
            key=lambda weigher: (weigher.__module__, weigher.__name__))
        best_fit = BestFitWeigher.__name__
        names = [f'{__name__ if name == best_fit else _OWN_WEIGHERS}.{name}'
                 for name in own]
        return [*theirs, *self._weight_handler.get_matching_classes(names)]

    def primitive(self, request: guest_request.GuestRequest) -> Any:
        """The RequestSpec of a guest as it comes off the message bus."""
        return _spec(request, self._context).obj_to_primitive()

    def spec(self, primitive: Any, uuid: str) -> Any:
        """The RequestSpec of one guest, which the weighers' mix counts."""
        spec = objects.RequestSpec.obj_from_primitive(
            primitive, self._context)
        spec.instance_uuid = str(uuid_module.uuid5(_NAMESPACE, uuid))
        # The filters count the instance too late for a decision that is
        # known.
        requests.note_instance(spec, requests.read(spec))
        return spec

    def choose(self, states: Sequence[Any], spec: Any) -> int | None:
        """Which of some hosts nova takes, None if they all are filtered out.

        As nova.scheduler.manager.SchedulerManager._get_sorted_hosts with
        host_subset_size = 1, and without shuffling.
        """
        passed = self._filter_handler.get_filtered_objects(
            self._filters, list(states), spec)
        if not passed:
            return None
        best = self._weight_handler.get_weighed_objects(
            self._weighers, passed, spec)[0].obj
        return next(
            index for index, state in enumerate(states) if state is best)

    def state(self, index: int, node: ComputeNodeRecord) -> Any:
        """A HostState as nova.scheduler.host_manager.HostManager makes it.

        :param index: of the host among those of the beginning
        """
        host = node.host
        memory_mib, disk_gib = host.memory_mib, host.disk_gib or 0
        topology = self._topologies[index]
        release = (nova_release.of_name(host.nova_release)
                   if host.nova_release else nova_release.NEWEST)
        compute = objects.ComputeNode(
            uuid=str(uuid_module.uuid5(_NAMESPACE, host.name)),
            host=host.name, hypervisor_hostname=host.name,
            memory_mb=memory_mib, free_ram_mb=node.free_memory_mib,
            local_gb=disk_gib, local_gb_used=disk_gib - node.free_disk_gib,
            free_disk_gb=node.free_disk_gib, disk_available_least=None,
            vcpus=node.total_vcpus, vcpus_used=node.used_vcpus,
            updated_at=None, numa_topology=topology and json.dumps(
                topology.obj_to_primitive()),
            pci_device_pools=_pci_device_pools(node.pci_pools),
            host_ip='192.0.2.1',
            hypervisor_type='QEMU', hypervisor_version=9000000,
            cpu_info='{}', supported_hv_specs=[],
            stats={'num_instances': str(node.guests), 'io_workload': '0'},
            metrics='[]', cpu_allocation_ratio=host.cpu_allocation_ratio,
            ram_allocation_ratio=host.ram_allocation_ratio,
            disk_allocation_ratio=host.disk_allocation_ratio)
        state = host_manager.HostState(
            host.name, host.name, objects.CellMapping.CELL0_UUID)
        state.update(
            compute=compute, service={
                'disabled': False, 'version': release.service_version},
            inst_dict={},
            aggregates=[objects.Aggregate(
                id=1, name=name, hosts=[], metadata=dict(metadata))
                for name, metadata in node.aggregates])
        if topology is not None:
            nova_objects.keep_threads(state.numa_topology, node.topology)
        return state

    @staticmethod
    def offer(state: Any, candidates: Collection[Mapping[str, int]]) -> None:
        """Give a HostState what Placement answers to a new request.

        :param candidates: the resources of each query that found the host
        """
        provider = state.uuid
        state.limits = {}
        state.allocation_candidates = [
            {'allocations': {provider: {'resources': dict(resources)}},
             'mappings': {'': [provider]}} for resources in candidates]

    def claim(self, index: int, state: Any, spec: Any,
              topology: model.Host) -> NodeClaim | None:
        """As nova.compute.claims.Claim and the resource tracker.

        :param topology: of the host, whose cores keep their order
        :returns: None if nova-compute would not claim the guest
        """
        answer = None
        pci_requests = spec.pci_requests.requests
        if spec.numa_topology is not None:
            pci_stats = state.pci_stats
            if not pci_requests and (
                    topology.claim_order is model.CellOrder.ANY_DEVICES):
                pci_stats = None
            answer = hardware.numa_fit_instance_to_host(
                self._topologies[index], spec.numa_topology.obj_clone(),
                provider_mapping=None,
                limits=state.limits.get('numa_topology'),
                pci_requests=pci_requests, pci_stats=pci_stats)
            if answer is None:
                return None
            self._count(index, answer, topology)
        taken: tuple[snapshot.PciUse, ...] = ()
        if pci_requests:
            before = _counts(state.pci_stats)
            try:
                state.pci_stats.apply_requests(
                    pci_requests, None, answer.cells if answer else None)
            except exception.PciDeviceRequestFailed:
                return None
            after = _counts(state.pci_stats)
            taken = tuple(
                snapshot.PciUse(keys, node, count - after.get(
                    (keys, node), 0))
                for (keys, node), count in before.items()
                if count != after.get((keys, node), 0))
        return NodeClaim(answer, taken)

    def release(self, index: int, claim: NodeClaim | None,
                topology: model.Host) -> None:
        """Give back what a guest has on its host.

        :param claim: None for a guest that was there from the beginning,
            which others may overlap
        :param topology: of the host without the guest
        """
        if claim is None:
            self._topologies[index] = nova_objects.host_topology(topology)
        elif claim.topology is not None:
            self._count(index, claim.topology, topology, is_leaving=True)

    def _count(self, index: int, answer: Any, topology: model.Host,
               is_leaving: bool = False) -> None:
        """Count a guest's use of its host's cells as nova-compute does."""
        self._topologies[index] = hardware.numa_usage_from_instance_numa(
            self._topologies[index], answer, free=is_leaving)
        nova_objects.keep_threads(self._topologies[index], topology)


def _pci_device_pools(pools: Collection[snapshot.PciPool]) -> Any:
    """nova.objects.PciDevicePoolList of free devices."""
    return pci_device_pool.from_pci_stats([
        {**dict(pool.keys), 'numa_node': pool.numa_node, 'count': pool.total}
        for pool in pools])


def _counts(stats: Any) -> dict[tuple[devices.Pairs, int | None], int]:
    """Devices by the keys and the node of their pool."""
    counts: dict[tuple[devices.Pairs, int | None], int] = {}
    for pool in stats.pools:
        key = (tuple(sorted((name, value) for name, value in pool.items()
                            if name not in ('numa_node', 'count'))),
               pool['numa_node'])
        counts[key] = counts.get(key, 0) + pool['count']
    return counts


def _spec(other_request: guest_request.GuestRequest, context: Any) -> Any:
    """nova.objects.RequestSpec of a guest."""
    nova_flavor = objects.Flavor(
        id=1, name=other_request.name, flavorid='1',
        memory_mb=other_request.memory_mib, vcpus=other_request.vcpus,
        root_gb=other_request.disk_gib, ephemeral_gb=0, swap=0,
        rxtx_factor=1.0, vcpu_weight=0, disabled=False,
        is_public=True, description=None,
        extra_specs={**dict(other_request.extra_specs),
                     hostclass.CLASS_KEY: str(other_request.guest_class)})
    topology = None
    if other_request.topology is not None:
        topology = nova_objects.instance_topology(other_request.topology)
    return objects.RequestSpec.from_components(
        context,
        _INSTANCE,
        objects.ImageMeta.from_dict({}),
        nova_flavor,
        numa_topology=topology,
        pci_requests=objects.InstancePCIRequests(
            instance_uuid=_INSTANCE,
            requests=[
                _pci_request(number, request)
                for number, request in enumerate(other_request.devices)]),
        filter_properties={'scheduler_hints': {}},
        instance_group=None,
        availability_zone=None,
        security_groups=objects.SecurityGroupList(objects=[]))


def _pci_request(number: int, request: snapshot.PciRequest) -> Any:
    return objects.InstancePCIRequest(
        count=request.count, alias_name=request.alias,
        request_id=str(uuid_module.uuid5(_NAMESPACE, str(number))),
        numa_policy=request.policy,
        spec=list(map(dict, request.specs)))
