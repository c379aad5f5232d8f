#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""A simulation decided by nova's own classes.

Filters and weighers are loaded by name, as nova-scheduler loads them, and run
by the handlers that nova.scheduler.host_manager.HostManager runs them with,
over its HostStates. Guests are claimed by the functions with which
nova-compute claims and counts.

Importing this imports nova: call ``bridge.standalone.prepare()`` first.
"""

from collections.abc import Mapping
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
import numpy

from nova_pinning.bridge import claim
from nova_pinning.bridge import nova_objects
from nova_pinning.bridge import settings as nova_settings
from nova_pinning import errors
from nova_pinning.fleet import devices
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet.simulate import configuration as configurations
from nova_pinning.fleet.simulate import fast
from nova_pinning.fleet.simulate import hosts
from nova_pinning.fleet.simulate import ledger as ledgers
from nova_pinning.fleet.simulate import offers
from nova_pinning.fleet.simulate import settings
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning.placement import traits as placement_traits
from nova_pinning.scheduler import classes
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import mix
from nova_pinning.scheduler import requests

_FILTERS = (
    'nova_pinning.scheduler.filters.HostClassFilter',
    'nova.scheduler.filters.pci_passthrough_filter.PciPassthroughFilter',
    'nova_pinning.scheduler.filters.PinnedTopologyFilter',
)
_OWN_WEIGHERS = 'nova_pinning.scheduler.weights'
_NAMESPACE = uuid_module.UUID('7d1e2f5a-2f0e-4f5c-8f5e-6f6f1c0f3a10')
_INSTANCE = '00000000-0000-0000-0000-000000000001'
_DEVICE_TYPE = 'type-PCI'


class BestFitWeigher(nova_weights.BaseHostWeigher):
    """Prefers the host whose cells are left with the fewest free CPUs.

    For comparison only: nova has no such weigher.
    """

    def _weigh_object(self, obj: Any, weight_properties: Any) -> float:
        request = requests.read(weight_properties)
        if request.guest is None or not request.guest.is_pinned:
            return 0.0
        placement = fitting.place(obj, request)
        assert isinstance(placement, fitting.Placement)
        return -float(sum(
            cell.free_count - len(cell_fit.pins) - len(cell_fit.emulator_cpus)
            for cell, cell_fit in zip(placement.cells, placement.fit.cells)))


@dataclasses.dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of guest.

    :param wanted: kept alive, since its address is the key to this
    :param primitive: of its RequestSpec, as it comes off the message bus
    """

    wanted: fleet_wanted.Wanted
    asked: tuple[offers.Asked, ...]
    primitive: Any


class Replay:
    """A scheduler for ``simulate.run`` that is nova's.

    Options of nova apply from the beginning until :meth:`close`, so there can
    be only one in a process at a time.
    """

    def __init__(
        self,
        ledger: ledgers.Ledger,
        configuration: configurations.Configuration,
        fleet: fleet_model.Fleet,
    ) -> None:
        objects.register_all()
        self.ledger = ledger
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(
            nova_settings.applied(_options(configuration)))
        mix.recent.cache_clear()
        self._context = nova_context.RequestContext(
            user_id='simulation', project_id='simulation', is_admin=False)
        self._filter_handler = nova_filters.HostFilterHandler()
        self._filters = [
            found() for found in
            self._filter_handler.get_matching_classes(_FILTERS)]
        self._weight_handler = nova_weights.HostWeightHandler()
        self._weighers = [found() for found in self._weigher_classes(
            configuration)]
        self._placement = offers.Placement(ledger)
        self._kinds: dict[int, _Kind] = {}
        self._aggregates = _Aggregates(ledger, fleet)
        #: What the database of nova-compute has of each host, and the
        #: HostState made from it, with the version that it is of.
        self._topologies = [
            nova_objects.host_topology(ledger.engine(place))
            for place in range(len(ledger.hosts))]
        self._states: dict[int, tuple[int, Any]] = {}
        self._claims: dict[str, Any] = {}

    def close(self) -> None:
        """Give nova's options back."""
        self._stack.close()
        mix.recent.cache_clear()

    def _weigher_classes(
        self, configuration: configurations.Configuration,
    ) -> list[type[Any]]:
        """Nova's, in the order of their names, then others.

        Nova loads its own in the order in which they lie in their directory,
        which differs from machine to machine.
        """
        theirs = sorted(
            nova_weights.all_weighers(),
            key=lambda found: (found.__module__, found.__name__))
        names = [f'{_OWN_WEIGHERS}.{name}'
                 for name in configurations.OWN_WEIGHERS
                 if name in configuration.multipliers]
        if configuration.multipliers.get(configurations.BEST_FIT):
            names.append(f'{__name__}.{BestFitWeigher.__name__}')
        return [*theirs, *self._weight_handler.get_matching_classes(names)]

    def place(self, uuid: str, wanted: fleet_wanted.Wanted,
              known: fast.Decision | None = None) -> fast.Decision:
        """Put a guest where nova would.

        :param known: the decision, if it was made in an earlier run
        """
        kind = self._kinds.get(id(wanted)) or self._new_kind(wanted)
        spec = objects.RequestSpec.obj_from_primitive(
            kind.primitive, self._context)
        found = self._placement.offers(kind.asked)
        places = numpy.flatnonzero(found.any).tolist()
        if not places:
            # Filters and weighers see requests that find hosts only.
            return fast.Decision(None)
        if known is not None:
            if known.host is None:
                requests.read(spec)
                return known
            places = [known.host]
        chosen = self._chosen(places, found, spec)
        if chosen is None:
            return fast.Decision(None)
        place, state = chosen
        self._claim(uuid, place, state, spec, wanted, found)
        return known or fast.Decision(place)

    def _new_kind(self, wanted: fleet_wanted.Wanted) -> _Kind:
        kind = self._kinds[id(wanted)] = _Kind(
            wanted, self._placement.asked(wanted),
            _spec(wanted, self._context).obj_to_primitive())
        return kind

    def _chosen(self, places: list[int], found: offers.Offers,
                spec: Any) -> tuple[int, Any] | None:
        """As nova.scheduler.manager.SchedulerManager._get_sorted_hosts.

        With host_subset_size = 1, and without shuffling.
        """
        states = [self._state(place, found) for place in places]
        passed = self._filter_handler.get_filtered_objects(
            self._filters, states, spec)
        if not passed:
            return None
        weighed = self._weight_handler.get_weighed_objects(
            self._weighers, passed, spec)
        best = weighed[0].obj
        return next((place, state) for place, state in zip(places, states)
                    if state is best)

    def _state(self, place: int, found: offers.Offers) -> Any:
        """The HostState of a host, as it is for a new request."""
        version = int(self.ledger.version[place])
        known = self._states.get(place)
        if known is None or known[0] != version:
            known = self._states[place] = version, self._new_state(place)
        state = known[1]
        provider = state.uuid
        state.limits = {}
        state.allocation_candidates = [
            {'allocations': {provider: {'resources': dict(resources)}},
             'mappings': {'': [provider]}}
            for resources, fine in found.by_query if fine[place]]
        return state

    def _new_state(self, place: int) -> Any:
        """As nova.scheduler.host_manager.HostManager makes one."""
        ledger, host = self.ledger, self.ledger.hosts[place]
        memory_mib, disk_gib = host.memory_mib, host.disk_gib or 0
        topology = self._topologies[place]
        compute = objects.ComputeNode(
            uuid=str(uuid_module.uuid5(_NAMESPACE, host.name)),
            host=host.name, hypervisor_hostname=host.name,
            memory_mb=memory_mib,
            free_ram_mb=int(ledger.free_memory_mib[place]),
            local_gb=disk_gib,
            local_gb_used=disk_gib - int(ledger.free_disk_gib[place]),
            free_disk_gb=int(ledger.free_disk_gib[place]),
            disk_available_least=None,
            vcpus=int(ledger.total_vcpus[place]),
            vcpus_used=int(ledger.used_vcpus[place]), updated_at=None,
            numa_topology=topology and json.dumps(
                topology.obj_to_primitive()),
            pci_device_pools=_pools(ledger, place), host_ip='192.0.2.1',
            hypervisor_type='QEMU', hypervisor_version=9000000,
            cpu_info='{}', supported_hv_specs=[],
            stats={'num_instances': str(int(ledger.guests[place])),
                   'io_workload': '0'},
            metrics='[]', cpu_allocation_ratio=host.cpu_allocation_ratio,
            ram_allocation_ratio=host.ram_allocation_ratio,
            disk_allocation_ratio=host.disk_allocation_ratio)
        state = host_manager.HostState(
            host.name, host.name, objects.CellMapping.CELL0_UUID)
        state.update(compute=compute, service={'disabled': False},
                     aggregates=self._aggregates.of_host(place), inst_dict={})
        if topology is not None:
            nova_objects.keep_threads(
                state.numa_topology, ledger.engine(place))
        return state

    def _claim(self, uuid: str, place: int, state: Any, spec: Any,
               wanted: fleet_wanted.Wanted, found: offers.Offers) -> None:
        """As nova.compute.claims.Claim and the resource tracker.

        :raises InputError: if nova-compute would not claim the guest
        """
        answer = None
        asked = spec.pci_requests.requests
        if spec.numa_topology is not None:
            answer = hardware.numa_fit_instance_to_host(
                self._topologies[place], spec.numa_topology.obj_clone(),
                provider_mapping=None,
                limits=state.limits.get('numa_topology'),
                pci_requests=asked, pci_stats=state.pci_stats)
            if answer is None:
                raise self._unclaimed(place, wanted)
            self._count(place, answer)
        taken: tuple[fleet_model.PciUse, ...] = ()
        if asked:
            before = _counts(state.pci_stats)
            try:
                state.pci_stats.apply_requests(
                    asked, None, answer.cells if answer else None)
            except exception.PciDeviceRequestFailed:
                raise self._unclaimed(place, wanted) from None
            after = _counts(state.pci_stats)
            taken = tuple(
                fleet_model.PciUse(kind, node, count - after.get(
                    (kind, node), 0))
                for (kind, node), count in before.items()
                if count != after.get((kind, node), 0))
        self._claims[uuid] = answer
        lodger = self.ledger.lodger(
            place, wanted, claim.fit_from_nova(answer) if answer else None,
            found.resources(place))
        self.ledger.take(uuid, dataclasses.replace(lodger, devices=taken))

    def _unclaimed(self, place: int,
                   wanted: fleet_wanted.Wanted) -> errors.InputError:
        return errors.InputError(
            f'nova-compute does not claim guest {wanted.name} on host '
            f'{self.ledger.hosts[place].name}, which its scheduler chose',
            None, 'leave [pinning] check_nova_claim on, or simulate with '
            '--fast')

    def _count(self, place: int, answer: Any,
               is_leaving: bool = False) -> None:
        """Count a guest's use of its host's cells as nova-compute does."""
        self._topologies[place] = hardware.numa_usage_from_instance_numa(
            self._topologies[place], answer, free=is_leaving)
        nova_objects.keep_threads(
            self._topologies[place], self.ledger.engine(place))

    def remove(self, uuid: str) -> None:
        """Take a guest off its host."""
        lodger = self.ledger.lodgers[uuid]
        place = lodger.host
        self.ledger.release(uuid)
        answer = self._claims.pop(uuid, None)
        if answer is not None:
            self._count(place, answer, is_leaving=True)
        elif lodger.fit is not None:
            # One of the fleet's own guests, which others may overlap.
            self._topologies[place] = nova_objects.host_topology(
                self.ledger.engine(place))


def _options(
    configuration: configurations.Configuration,
) -> Mapping[tuple[str | None, str], Any]:
    options: dict[tuple[str | None, str], Any] = {
        ('compute', 'packing_host_numa_cells_allocation_strategy'):
            configuration.packs_cells,
        # Aggregates tell all about hosts.
        ('pinning', 'traits_refresh_seconds'): 0,
    }
    for name, multiplier in configuration.weighers:
        if name in configurations.NOVA_MULTIPLIERS:
            options['filter_scheduler', configurations.MULTIPLIER_OPTIONS[
                name]] = (
                multiplier)
    for name, value in settings.values(configuration).items():
        options['pinning', name] = value
    return options


class _Aggregates:
    """The aggregates of hosts, with what is known of each in another way."""

    def __init__(self, ledger: ledgers.Ledger,
                 fleet: fleet_model.Fleet) -> None:
        self._fleet = {one.name: one for one in fleet.aggregates}
        self._ledger = ledger

    def of_host(self, place: int) -> list[Any]:
        host = self._ledger.hosts[place]
        metadata = {}
        if host.host_class is not None:
            metadata[classes.CLASS_KEY] = str(host.host_class)
        l3_cpus = hosts.l3_cpus(host, self._fleet)
        if l3_cpus is not None:
            metadata[placement_traits.L3_KEY] = str(l3_cpus)
        found = [self._aggregate('known', metadata)]
        found.extend(
            self._aggregate(name, {
                key: value
                for key, value in self._fleet[name].metadata.items()
                if key not in (classes.CLASS_KEY,
                               placement_traits.L3_KEY)})
            for name in host.aggregates if name in self._fleet)
        return found

    @staticmethod
    def _aggregate(name: str, metadata: Mapping[str, str]) -> Any:
        return objects.Aggregate(
            id=1, name=name, hosts=[], metadata=dict(metadata))


def _pools(ledger: ledgers.Ledger, place: int) -> Any:
    """nova.objects.PciDevicePoolList of what is free on a host."""
    return pci_device_pool.from_pci_stats([
        {'vendor_id': pool.kind.vendor_id, 'product_id': pool.kind.product_id,
         'numa_node': pool.numa_node, 'count': pool.total,
         'dev_type': _DEVICE_TYPE}
        for pool in devices.free(
            ledger.hosts[place].pci_pools, ledger.uses[place])])


def _counts(
    stats: Any,
) -> dict[tuple[fleet_model.DeviceKind, int | None], int]:
    counts: dict[tuple[fleet_model.DeviceKind, int | None], int] = {}
    for pool in stats.pools:
        key = (fleet_model.DeviceKind(pool['vendor_id'], pool['product_id']),
               pool['numa_node'])
        counts[key] = counts.get(key, 0) + pool['count']
    return counts


def _spec(wanted: fleet_wanted.Wanted, context: Any) -> Any:
    """nova.objects.RequestSpec of a wanted guest."""
    flavor = wanted.flavor
    nova_flavor = objects.Flavor(
        id=1, name=flavor.name, flavorid=flavor.id or '1',
        memory_mb=flavor.memory_mib, vcpus=flavor.vcpus,
        root_gb=flavor.disk_gib, ephemeral_gb=flavor.ephemeral_gib,
        swap=flavor.swap_mib, rxtx_factor=1.0, vcpu_weight=0, disabled=False,
        is_public=True, description=None,
        extra_specs={**flavor.extra_specs,
                     classes.CLASS_KEY: str(wanted.guest_class)})
    topology = None
    if wanted.topology is not None:
        topology = nova_objects.instance_topology(wanted.topology)
    return objects.RequestSpec.from_components(
        context, _INSTANCE, objects.ImageMeta.from_dict({}), nova_flavor,
        numa_topology=topology,
        pci_requests=objects.InstancePCIRequests(
            instance_uuid=_INSTANCE,
            requests=[_pci_request(number, one)
                      for number, one in enumerate(wanted.devices)]),
        filter_properties={'scheduler_hints': {}}, instance_group=None,
        availability_zone=None,
        security_groups=objects.SecurityGroupList(objects=[]))


def _pci_request(number: int, request: fleet_model.PciRequest) -> Any:
    return objects.InstancePCIRequest(
        count=request.count, alias_name=request.alias,
        request_id=str(uuid_module.uuid5(_NAMESPACE, str(number))),
        numa_policy=request.policy,
        spec=[{'vendor_id': kind.vendor_id, 'product_id': kind.product_id,
               'dev_type': _DEVICE_TYPE} for kind in request.kinds])
