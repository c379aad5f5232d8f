# SPDX-License-Identifier: Apache-2.0
"""What is so: Placement's counts and the hosts, in its own process.

It answers as Placement, nova's database and the nova-computes of all hosts
do. A thread for each client calls its methods, as many at once as there are
clients.
"""

import collections
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import json
import random
import threading
from typing import Any
import uuid as uuid_module

from nova import objects
from nova.virt import hardware

from benchmarks.hotspots import history
from benchmarks.hotspots import model
from benchmarks.hotspots import setups
from nova_pinning.bridge import nova_options

_NAMESPACE = uuid_module.UUID('3f0f0a52-6d1f-4f6b-9a3e-0c7b1d8e5a21')
#: The size whose room is looked at in the end.
_LARGE = max(guest.vcpus for guest in setups.GUESTS)
#: How long nova-schedulers may take to get ready.
_START_SECONDS = 300


class _Provider:
    """A host in Placement."""

    def __init__(self, capacity: Mapping[str, int]) -> None:
        self.capacity = capacity
        self.used: collections.Counter[str] = collections.Counter()

    def has(self, resources: Mapping[str, int]) -> bool:
        return all(self.used[name] + count <= self.capacity.get(name, 0)
                   for name, count in resources.items())


class _Compute:
    """A nova-compute.

    :ivar claims: nova.objects.InstanceNUMATopology of its guests, by UUID
    """

    def __init__(self, row: model.Row) -> None:
        self.lock = threading.Lock()
        self.row = row
        self.claims: dict[str, Any] = {}
        self._failed_builds = 0

    def topology(self) -> Any:
        return objects.NUMATopology.obj_from_db_obj(self.row.numa_topology)

    def build(self, uuid: str, guest: int, limits: Any) -> bool:
        """As nova.compute.claims.Claim, then ResourceTracker.

        A claim that fails leaves the instance's topology as it was, since it
        is tried on a copy; only one that is aborted later on clears its
        cells' ids.
        """
        with self.lock:
            claimed = hardware.numa_fit_instance_to_host(
                self.topology(), history.guest_topology(guest).obj_clone(),
                provider_mapping=None, limits=limits)
            if claimed is None:
                # Not written until the next change, which is within a minute.
                self._failed_builds += 1
                return False
            self.claims[uuid] = claimed
            self._write(guest, claimed)
            self._failed_builds = 0
            return True

    def remove(self, uuid: str, guest: int) -> None:
        with self.lock:
            self._write(guest, self.claims.pop(uuid), is_leaving=True)

    def _write(self, guest: int, claimed: Any,
               is_leaving: bool = False) -> None:
        """Count a guest and write the row, as ResourceTracker._update."""
        sign = -1 if is_leaving else 1
        kind, row = setups.GUESTS[guest], self.row
        usage = hardware.numa_usage_from_instance_numa(
            self.topology(), claimed, free=is_leaving)
        self.row = row._replace(
            numa_topology=json.dumps(usage.obj_to_primitive()),
            memory_used_mib=row.memory_used_mib + sign * kind.memory_mib,
            vcpus_used=row.vcpus_used + sign * kind.vcpus,
            guests=row.guests + sign, failed_builds=self._failed_builds)


class Truth:
    """The cloud that nova-schedulers share."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._placement_lock = threading.Lock()
        self._lock = threading.Lock()

    def begin(self, run: setups.Run) -> None:
        """Make everything as it is at the start of a run."""
        objects.register_all()
        self.close()
        self._stack.enter_context(nova_options.applied(run.setup.options))
        fleet = history.fleet(run.scene, run.seed, run.setup.history)
        self._draws = random.Random(f'requests-{run.seed}')
        self._leavers = random.Random(f'leavers-{run.seed}')
        self._requests: Iterator[int] = iter(range(run.scene.requests))
        self._everybody = threading.Barrier(run.scene.processes)
        names = [str(uuid_module.uuid5(_NAMESPACE, host.name))
                 for host in fleet.hosts]
        self._providers = {
            name: _Provider(host.capacity)
            for name, host in zip(names, fleet.hosts)}
        self._most = run.scene.filled * sum(
            host.capacity['PCPU'] for host in fleet.hosts)
        #: Guests by UUID: those on their way, and those on a host.
        self._under_way: dict[str, int] = {}
        self._allocations: dict[str, tuple[str, Mapping[str, int]]] = {}
        self._guests: dict[str, tuple[str, int]] = {}
        self._computes = {
            name: _Compute(model.Row(
                name, host.name, host.numa_topology,
                host.capacity['MEMORY_MB'], 0, 0, 0, 0))
            for name, host in zip(names, fleet.hosts)}
        for placed_guest in fleet.placed_guests:
            provider = names[placed_guest.host]
            self.allocate(placed_guest.uuid, provider,
                          history.resources(placed_guest.guest))
            compute, kind = self._computes[provider], setups.GUESTS[
                placed_guest.guest]
            compute.claims[placed_guest.uuid] = placed_guest.claimed
            compute.row = compute.row._replace(
                memory_used_mib=compute.row.memory_used_mib
                + kind.memory_mib,
                vcpus_used=compute.row.vcpus_used + kind.vcpus,
                guests=compute.row.guests + 1)
            self._guests[placed_guest.uuid] = provider, placed_guest.guest

    def close(self) -> None:
        """Give nova's options back."""
        self._stack.close()

    def ready(self) -> None:
        """Wait until all nova-schedulers are ready.

        :raises threading.BrokenBarrierError: if one does not come
        """
        self._everybody.wait(_START_SECONDS)

    def abort(self) -> None:
        """Have the run end: no request comes any more."""
        self._everybody.abort()
        with self._lock:
            self._requests = iter(range(0))

    def arrive(self, last: str | None = None) -> model.Arrival | None:
        """The next request, None after the last; some guests leave first.

        :param last: UUID of the one that is at its end with that
        """
        with self._lock:
            if last is not None:
                self._under_way.pop(last, None)
            if next(self._requests, None) is None:
                return None
            arrival = model.Arrival(
                history.new_uuid(self._draws), history.draw(self._draws))
            self._under_way[arrival.uuid] = arrival.guest
            leaving = list(self._leaving())
        for uuid, provider, guest in leaving:
            self._computes[provider].remove(uuid, guest)
            self.release(uuid)
        return arrival

    def _leaving(self) -> Iterator[tuple[str, str, int]]:
        """Guests drawn at random, until all others have room.

        Those under way are counted too: the fleet never gets fuller than it
        is to be.
        """
        sold = sum(setups.GUESTS[guest].vcpus for guest in (
            *self._under_way.values(),
            *(guest for _provider, guest in self._guests.values())))
        while sold > self._most and self._guests:
            uuid = self._leavers.choice(list(self._guests))
            provider, guest = self._guests.pop(uuid)
            sold -= setups.GUESTS[guest].vcpus
            yield uuid, provider, guest

    # Placement

    def candidates(self, resources: Mapping[str, int]) -> list[str]:
        """The providers that have room: GET /allocation_candidates."""
        with self._placement_lock:
            return [name for name, provider in self._providers.items()
                    if provider.has(resources)]

    def allocate(self, uuid: str, provider: str,
                 resources: Mapping[str, int]) -> bool:
        """Claim, if there still is room: PUT /allocations/{uuid}."""
        with self._placement_lock:
            inventory = self._providers[provider]
            if not inventory.has(resources):
                return False
            inventory.used.update(resources)
            self._allocations[uuid] = provider, resources
            return True

    def release(self, uuid: str) -> None:
        """Drop what is claimed: DELETE /allocations/{uuid}."""
        with self._placement_lock:
            provider, resources = self._allocations.pop(uuid)
            self._providers[provider].used.subtract(resources)

    # Nova's database, and nova-compute

    def rows(self, uuids: list[str]) -> list[model.Row]:
        """Compute nodes."""
        return [self._computes[uuid].row for uuid in uuids]

    def build(self, arrival: model.Arrival, host: str,
              limits: Mapping[str, Any] | None) -> bool:
        """Have a nova-compute claim a guest; whether it does.

        :param host: UUID of the compute node
        :param limits: the primitive of nova.objects.NUMATopologyLimits
        """
        numa_limits = None
        if limits is not None:
            numa_limits = objects.NUMATopologyLimits.obj_from_primitive(limits)
        if not self._computes[host].build(
                arrival.uuid, arrival.guest, numa_limits):
            return False
        with self._lock:
            del self._under_way[arrival.uuid]
            self._guests[arrival.uuid] = host, arrival.guest
        return True

    def end(self) -> model.State:
        """What the run has led to; after the last request."""
        cpus = sold = usable = 0
        for name, compute in self._computes.items():
            cpus += self._providers[name].capacity['PCPU']
            for cell in compute.topology().cells:
                sold += len(cell.pinned_cpus)
                usable += cell.avail_pcpus // _LARGE * _LARGE
        return model.State(
            sold / cpus, (cpus - sold - usable) / cpus, tuple(self._wrong()))

    def _wrong(self) -> Iterator[str]:
        """What does not add up: guests, topologies, and Placement."""
        counted: dict[str, collections.Counter[str]] = {
            name: collections.Counter() for name in self._providers}
        for uuid, (name, guest) in self._guests.items():
            counted[name].update(history.resources(guest))
            if self._allocations.get(uuid, ('',))[0] != name:
                yield f'guest {uuid} on {name} has no allocation there'
            if uuid not in self._computes[name].claims:
                yield f'guest {uuid} is not on {name}'
        if len(self._allocations) != len(self._guests):
            yield (f'{len(self._allocations)} allocations for '
                   f'{len(self._guests)} guests')
        for name, compute in self._computes.items():
            provider = self._providers[name]
            if +provider.used != counted[name]:
                yield f'Placement counts {provider.used} on {name}'
            if any(count > provider.capacity[resource]
                   for resource, count in provider.used.items()):
                yield f'Placement has sold too much of {name}'
            yield from _wrong_pins(compute)


def _wrong_pins(compute: _Compute) -> Iterator[str]:
    pins = collections.Counter(
        cpu for claimed in compute.claims.values() for cell in claimed.cells
        for cpu in cell.cpu_pinning.values())
    if any(count > 1 for count in pins.values()):
        yield f'two guests have the same CPU of {compute.row.name}'
    cells = compute.topology().cells
    if pins.keys() != {cpu for cell in cells for cpu in cell.pinned_cpus}:
        yield f'guests of {compute.row.name} do not have the CPUs in use'
    for cell in cells:
        if not cell.pinned_cpus <= cell.pcpuset:
            yield f'{compute.row.name} has sold CPUs that it does not have'
        if cell.memory_usage > cell.memory:
            yield f'{compute.row.name} has sold too much memory'
