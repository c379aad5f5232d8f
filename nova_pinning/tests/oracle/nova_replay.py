# SPDX-License-Identifier: Apache-2.0
"""A simulation decided by nova's own classes, without its services.

Filters and weighers are loaded by name, as nova-scheduler loads them, and run
by the handlers that nova.scheduler.host_manager.HostManager runs them with,
over its HostStates. Guests are claimed by the functions with which
nova-compute claims and counts. What Placement says, and the filters that look
at neither CPUs nor devices, ``admission`` says.

It is what the engine's simulation is compared with; no command runs it.
"""

from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import json
from typing import Any
import uuid as uuid_module

from nova import context as nova_context
from nova import objects
from nova.objects import pci_device_pool
from nova.scheduler import filters as nova_filters
from nova.scheduler import host_manager
from nova.scheduler import weights as nova_weights
from nova.virt import hardware

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import judge
from nova_pinning.admission import l3_layout
from nova_pinning.admission import offered_host
from nova_pinning.admission import providers
from nova_pinning.bridge import claim as claims
from nova_pinning.bridge import nova_objects
from nova_pinning.bridge.offline import nova_options
from nova_pinning import errors
from nova_pinning.fit import score
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.model import nova_release
from nova_pinning.model import weighers
from nova_pinning.placement import placement_traits
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import mix
from nova_pinning.scheduler import requests
from nova_pinning.simulation import admission_columns
from nova_pinning.simulation import column_scheduler
from nova_pinning.simulation import scheduler_configuration
from nova_pinning.simulation import settings

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


class NovaReplay(column_scheduler.ColumnScheduler[Any]):
    """A scheduler for ``simulation_run.run`` that is nova's.

    Options of nova apply from the beginning until :meth:`close`, so there can
    be only one in a process at a time.
    """

    def __init__(
        self, columns: admission_columns.AdmissionColumns,
        configuration: scheduler_configuration.SchedulerConfiguration,
    ) -> None:
        super().__init__(columns)
        ledger, rules = columns.ledger, columns.judge.rules
        objects.register_all()
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(
            nova_options.applied(_options(configuration)))
        mix.forget()
        self._context = nova_context.RequestContext(
            user_id='simulation', project_id='simulation', is_admin=False)
        self._filter_handler = nova_filters.HostFilterHandler()
        self._filters = [
            filter_class() for filter_class in
            self._filter_handler.get_matching_classes([
                name for name in _FILTERS
                if rules.keeps_classes or name != _CLASS_FILTER])]
        self._weight_handler = nova_weights.HostWeightHandler()
        self._weighers = [weigher_class() for weigher_class in
                          self._weigher_classes(configuration.multipliers)]
        # By the address of the request, which the columns keep alive.
        self._primitives: dict[int, Any] = {}
        self._aggregates = [
            [objects.Aggregate(id=1, name=name, hosts=[], metadata=metadata)
             for name, metadata in _metadata(host, rules.aggregates)]
            for host in ledger.hosts]
        # What the database of nova-compute has of each host.
        self._topologies = [nova_objects.host_topology(occupancy.engine)
                            for occupancy in ledger.occupancies]
        # The HostState of each host, with the version that it is of.
        self._states: dict[int, tuple[int, Any]] = {}
        # What nova-compute gave guests: nova's InstanceNUMATopology.
        self._claims: dict[str, Any] = {}

    def close(self) -> None:
        """Give nova's options back."""
        self._stack.close()
        mix.forget()

    def _weigher_classes(
        self, multipliers: Mapping[str, float],
    ) -> list[type[Any]]:
        """Nova's, in the order of their names, then others.

        Nova loads its own in the order in which they lie in their directory,
        which differs from machine to machine.
        """
        theirs = sorted(
            nova_weights.all_weighers(),
            key=lambda weigher: (weigher.__module__, weigher.__name__))
        names = [f'{_OWN_WEIGHERS}.{name}'
                 for name in weighers.OWN_WEIGHERS
                 if name in multipliers]
        if multipliers.get(scheduler_configuration.BEST_FIT):
            names.append(f'{__name__}.{BestFitWeigher.__name__}')
        return [*theirs, *self._weight_handler.get_matching_classes(names)]

    def remove(self, uuid: str) -> None:
        """Take a guest off its host."""
        index, guest = self.ledger.placed_guests[uuid]
        self.ledger.release(uuid)
        if guest.fit is None:
            return
        engine = self.ledger.occupancies[index].engine
        claimed = self._claims.pop(uuid, None)
        if claimed is None:
            # It was there from the beginning, and others may overlap it.
            self._topologies[index] = nova_objects.host_topology(engine)
        else:
            self._count(index, claimed, is_leaving=True)

    def ask(self, uuid: str, kind: admission_columns.KindColumns) -> Any:
        """The RequestSpec of one guest, which the weighers' mix counts."""
        request = kind.request
        primitive = self._primitives.get(id(request))
        if primitive is None:
            # As it comes off the message bus.
            primitive = self._primitives[id(request)] = request_spec(
                request, self._context).obj_to_primitive()
        spec = objects.RequestSpec.obj_from_primitive(
            primitive, self._context)
        spec.instance_uuid = str(uuid_module.uuid5(_NAMESPACE, uuid))
        # The filters count the instance too late for a decision that is
        # known.
        requests.note_instance(spec, requests.read(spec))
        return spec

    def choose(
        self, asked: Any, kind: admission_columns.KindColumns,
        indices: admission_columns.Flags,
    ) -> column_scheduler.SchedulingDecision:
        """As nova.scheduler.manager.SchedulerManager._get_sorted_hosts.

        With host_subset_size = 1, and without shuffling.
        """
        places = indices.tolist()
        states = [self._state(index, kind) for index in places]
        passed = self._filter_handler.get_filtered_objects(
            self._filters, states, asked)
        if not passed:
            return column_scheduler.REFUSED
        best = self._weight_handler.get_weighed_objects(
            self._weighers, passed, asked)[0].obj
        return column_scheduler.SchedulingDecision(next(
            index for index, state in zip(places, states) if state is best))

    def _state(self, index: int, kind: admission_columns.KindColumns) -> Any:
        """The HostState of a host, as it is for a new request."""
        version = int(self.ledger.version[index])
        known = self._states.get(index)
        if known is None or known[0] != version:
            known = self._states[index] = version, self._new_state(index)
        state = known[1]
        state.limits = {}
        host = self.ledger.hosts[index]
        state.allocation_candidates = [
            _of_placement(candidate, kind.request, host)
            for candidate in kind.candidates(index)]
        return state

    def _new_state(self, index: int) -> Any:
        """A HostState as nova.scheduler.host_manager.HostManager makes it."""
        ledger, host = self.ledger, self.ledger.hosts[index]
        disk_gib, free_disk_gib = (
            host.disk_gib or 0, int(ledger.free_disk_gib[index]))
        topology = self._topologies[index]
        release = (nova_release.of_name(host.nova_release)
                   if host.nova_release else nova_release.NEWEST)
        occupancy = ledger.occupancies[index]
        compute = objects.ComputeNode(
            uuid=_provider_uuid(host, providers.ROOT),
            host=host.name, hypervisor_hostname=host.name,
            memory_mb=host.memory_mib,
            free_ram_mb=int(ledger.free_memory_mib[index]),
            local_gb=disk_gib, local_gb_used=disk_gib - free_disk_gib,
            free_disk_gb=free_disk_gib, disk_available_least=None,
            vcpus=int(ledger.total_vcpus[index]),
            vcpus_used=int(ledger.used_vcpus[index]),
            updated_at=None, numa_topology=topology and json.dumps(
                topology.obj_to_primitive()),
            pci_device_pools=_pci_device_pools(host, devices.free(
                host.pci_pools, occupancy.device_uses)),
            host_ip='192.0.2.1',
            hypervisor_type='QEMU', hypervisor_version=9000000,
            cpu_info='{}', supported_hv_specs=[],
            stats={'num_instances': str(ledger.guests[index]),
                   'io_workload': '0'},
            metrics='[]', cpu_allocation_ratio=host.cpu_allocation_ratio,
            ram_allocation_ratio=host.ram_allocation_ratio,
            disk_allocation_ratio=host.disk_allocation_ratio)
        state = host_manager.HostState(
            host.name, host.name, objects.CellMapping.CELL0_UUID)
        state.update(
            compute=compute, service={
                'disabled': False, 'version': release.service_version},
            inst_dict={}, aggregates=self._aggregates[index])
        if topology is not None:
            nova_objects.keep_threads(state.numa_topology, occupancy.engine)
        return state

    def take(self, uuid: str, asked: Any, kind: admission_columns.KindColumns,
             index: int) -> None:
        """Claim a guest as nova-compute does, and enter it into the ledger.

        :raises errors.InputError: if nova-compute would not claim the guest
        """
        request, host = kind.request, self.ledger.hosts[index]
        occupancy, state = (
            self.ledger.occupancies[index], self._states[index][1])
        chosen = state.allocation_candidates[0]
        claimed = None
        if asked.numa_topology is not None:
            pci_stats = state.pci_stats
            if not request.devices and occupancy.engine.claim_order is (
                    model.CellOrder.ANY_DEVICES):
                pci_stats = None
            claimed = hardware.numa_fit_instance_to_host(
                self._topologies[index], asked.numa_topology.obj_clone(),
                provider_mapping=chosen['mappings'],
                limits=state.limits.get('numa_topology'),
                pci_requests=asked.pci_requests.requests, pci_stats=pci_stats)
            if claimed is None:
                raise errors.InputError(
                    f'nova-compute does not claim guest {request.name} on '
                    f'host {host.name}, which its scheduler chose',
                    None, 'leave [pinning] check_nova_claim on')
            self._count(index, claimed)
        use = judge.use_of(
            request, occupancy, judge.FLOATING if claimed is None
            else claims.fit_from_nova(claimed), next(
                candidate for candidate in kind.candidates(index)
                if _of_placement(candidate, request, host) == chosen))
        if uuid in self.ledger.placed_guests:
            self.remove(uuid)
        if claimed is not None:
            self._claims[uuid] = claimed
        self.ledger.take(index, judge.resident(request, occupancy, use, uuid))

    def _count(self, index: int, answer: Any,
               is_leaving: bool = False) -> None:
        """Count a guest's use of its host's cells as nova-compute does."""
        self._topologies[index] = hardware.numa_usage_from_instance_numa(
            self._topologies[index], answer, free=is_leaving)
        nova_objects.keep_threads(
            self._topologies[index], self.ledger.occupancies[index].engine)


def _options(
    configuration: scheduler_configuration.SchedulerConfiguration,
) -> Mapping[tuple[str | None, str], Any]:
    options: dict[tuple[str | None, str], Any] = {
        ('compute', 'packing_host_numa_cells_allocation_strategy'):
            configuration.packs_cells,
        # Aggregates tell all about hosts.
        ('pinning', 'traits_refresh_seconds'): 0}
    for name, multiplier in configuration.weighers:
        if name in weighers.NOVA_MULTIPLIERS:
            options[
                'filter_scheduler',
                weighers.MULTIPLIER_OPTIONS[name]] = multiplier
    for name, value in settings.values(configuration).items():
        options['pinning', name] = value
    return options


def _metadata(
    host: offered_host.OfferedHost,
    aggregates: Mapping[str, offered_host.Aggregate],
) -> Iterator[tuple[str, dict[str, str]]]:
    """Of a host's aggregates, with what is known of it in another way."""
    known = {}
    if host.host_class is not None:
        known[hostclass.CLASS_KEY] = str(host.host_class)
    l3_cpus = l3_layout.l3_cpus(host, aggregates)
    if l3_cpus is not None:
        known[placement_traits.L3_KEY] = str(l3_cpus)
    yield 'known', known
    for name in host.aggregates:
        if name in aggregates:
            yield name, {
                key: value
                for key, value in aggregates[name].metadata.items()
                if key not in (hostclass.CLASS_KEY, placement_traits.L3_KEY)}


def _provider_uuid(host: offered_host.OfferedHost, index: int) -> str:
    """The UUID of one of a host's providers, by its index in them."""
    return str(uuid_module.uuid5(_NAMESPACE, f'{host.name}\n{index}'))


def _of_placement(
    candidate: providers.Candidate, request: guest_request.GuestRequest,
    host: offered_host.OfferedHost,
) -> Mapping[str, Any]:
    """A candidate as Placement gives it.

    Groups that stand for devices are named by the requests for these, by
    which nova finds them.
    """
    names = {suffix: f'{_request_id(number)}-{place}'
             for number, device in enumerate(request.devices)
             for place, suffix in enumerate(device.groups)}
    return {
        'allocations': {
            _provider_uuid(host, index): {'resources': dict(amounts)}
            for index, amounts in candidate.allocations},
        'mappings': {
            names.get(suffix, suffix): [
                _provider_uuid(host, index) for index in indices]
            for suffix, indices in candidate.mappings}}


def _pci_device_pools(host: offered_host.OfferedHost,
                      pools: Collection[devices.PciPool]) -> Any:
    """nova.objects.PciDevicePoolList of free devices."""
    return pci_device_pool.from_pci_stats([
        {**dict(pool.keys), 'numa_node': pool.numa_node, 'count': pool.total,
         **({} if pool.provider is None else {
             'rp_uuid': _provider_uuid(host, pool.provider)})}
        for pool in pools])


def request_spec(request: guest_request.GuestRequest, context: Any) -> Any:
    """nova.objects.RequestSpec of a guest.

    :param context: nova.context.RequestContext
    """
    topology, policies = None, {}
    if request.topology is not None:
        topology = nova_objects.instance_topology(request.topology)
        # Of guests that there are from the beginning, no flavor may tell.
        policies = {
            'hw:cpu_policy': str(request.topology.cpu_policy),
            'hw:cpu_thread_policy': str(request.topology.thread_policy)}
    nova_flavor = objects.Flavor(
        id=1, name=request.name, flavorid='1',
        memory_mb=request.memory_mib, vcpus=request.vcpus,
        root_gb=request.disk_gib, ephemeral_gb=0, swap=0,
        rxtx_factor=1.0, vcpu_weight=0, disabled=False,
        is_public=True, description=None,
        extra_specs={**policies, **dict(request.extra_specs),
                     hostclass.CLASS_KEY: str(request.guest_class)})
    return objects.RequestSpec.from_components(
        context,
        _INSTANCE,
        objects.ImageMeta.from_dict({}),
        nova_flavor,
        numa_topology=topology,
        pci_requests=objects.InstancePCIRequests(
            instance_uuid=_INSTANCE,
            requests=[
                objects.InstancePCIRequest(
                    count=device.count, alias_name=device.alias,
                    request_id=_request_id(number),
                    numa_policy=device.policy,
                    spec=list(map(dict, device.specs)))
                for number, device in enumerate(request.devices)]),
        filter_properties={'scheduler_hints': {}},
        instance_group=None,
        availability_zone=None,
        security_groups=objects.SecurityGroupList(objects=[]))


def _request_id(number: int) -> str:
    return str(uuid_module.uuid5(_NAMESPACE, str(number)))
