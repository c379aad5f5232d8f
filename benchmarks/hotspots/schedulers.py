# SPDX-License-Identifier: Apache-2.0
"""A nova-scheduler, as far as it decides: nova's own manager, in one process.

What it asks of Placement and of nova's database, the truth answers.
"""

from collections.abc import Sequence
import concurrent.futures
import functools
import json
import logging
import random
import time
from typing import Any
from typing import Protocol

from nova import context as nova_context
from nova import exception
from nova import objects
from nova.scheduler import host_manager
from nova.scheduler import manager
from nova.scheduler import utils
import os_traits
import oslo_messaging

from benchmarks.hotspots import model
from benchmarks.hotspots import setups
from benchmarks import requests
from nova_pinning.bridge import nova_options
from nova_pinning import conf  # noqa: F401 - registers [pinning]
from nova_pinning.model import hostclass

_CELL = objects.CellMapping.CELL0_UUID
_VERSION = '1.36'


class Truth(Protocol):
    """What is asked of the truth, by a proxy or itself."""

    def ready(self) -> None: ...

    def arrive(self, last: str | None = None) -> model.Arrival | None: ...

    def candidates(self, resources: dict[str, int]) -> list[str]: ...

    def allocate(self, uuid: str, provider: str,
                 resources: dict[str, int]) -> bool: ...

    def release(self, uuid: str) -> None: ...

    def rows(self, uuids: list[str]) -> list[model.Row]: ...

    def build(self, arrival: model.Arrival, host: str,
              limits: Any) -> bool: ...


class _Placement:
    """In the place of nova.scheduler.client.report.SchedulerReportClient.

    :ivar refused: claims that were
    """

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self.refused = 0

    def get_allocation_candidates(
        self, context: Any, resources: Any,
    ) -> tuple[list[Any], dict[str, Any], str]:
        amounts = dict(resources.merged_resources())
        providers = self._truth.candidates(amounts)
        return (
            [{'allocations': {uuid: {'resources': amounts}},
              'mappings': {'': [uuid]}} for uuid in providers],
            dict.fromkeys(providers, {}), _VERSION)

    def claim_resources(self, context: Any, consumer_uuid: str,
                        alloc_request: Any, *_args: Any,
                        **_kwargs: Any) -> bool:
        (provider, allocation), = alloc_request['allocations'].items()
        if self._truth.allocate(
                consumer_uuid, provider, allocation['resources']):
            return True
        self.refused += 1
        return False

    def delete_allocation_for_instance(
            self, context: Any, consumer_uuid: str, force: bool) -> None:
        self._truth.release(consumer_uuid)


class _HostManager(host_manager.HostManager):
    """Nova's, but for where it reads from."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        super().__init__()

    def refresh_cells_caches(self) -> None:
        self.cells = {_CELL: None}
        self.enabled_cells = [None]

    def _init_aggregates(self) -> None:
        """All hosts are in the one aggregate, of dedicated hosts."""
        self._aggregates = [objects.Aggregate(
            id=1, name='dedicated', hosts=[],
            metadata={'pinning:class': str(hostclass.HostClass.DEDICATED)})]

    def _get_aggregates_info(self, host: str) -> list[Any]:
        return self._aggregates

    def _get_instance_info(self, context: Any, compute: Any) -> dict[str, Any]:
        return {}

    def _get_computes_for_cells(
        self, context: Any, cells: Any, compute_uuids: Any,
    ) -> tuple[dict[str, list[Any]], dict[str, Any]]:
        rows = self._truth.rows(list(compute_uuids))
        return ({_CELL: [_compute_node(row) for row in rows]},
                {row.name: {'disabled': False} for row in rows})


def _compute_node(row: model.Row) -> Any:
    """nova.objects.ComputeNode of a host whose CPUs are all dedicated."""
    return objects.ComputeNode(
        uuid=row.uuid, host=row.name, hypervisor_hostname=row.name,
        memory_mb=row.memory_mib, memory_mb_used=row.memory_used_mib,
        free_ram_mb=row.memory_mib - row.memory_used_mib,
        local_gb=8192, local_gb_used=0, free_disk_gb=8192,
        disk_available_least=None, vcpus=0, vcpus_used=row.vcpus_used,
        updated_at=None, numa_topology=row.numa_topology,
        pci_device_pools=None, host_ip='192.0.2.1', hypervisor_type='QEMU',
        hypervisor_version=9000000, cpu_info='{}', supported_hv_specs=[],
        stats={'num_instances': str(row.guests), 'io_workload': '0',
               'failed_builds': str(row.failed_builds)},
        metrics='[]', cpu_allocation_ratio=1.0, ram_allocation_ratio=1.0,
        disk_allocation_ratio=1.0)


class _Manager(manager.SchedulerManager):
    """Nova's, with all that it decides by; one for each thread.

    Nova's constructor connects to what is not there.
    """

    def __init__(self, hosts: _HostManager, placement: _Placement) -> None:
        self.host_manager = hosts
        self._placement = placement

    @property
    def placement_client(self) -> _Placement:
        return self._placement

    def _select_destinations(self, *args: Any) -> Any:
        """Nova's, without its notifications."""
        return self._schedule(*args)


class _Errors(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(self.format(record))


@functools.cache
def _request(guest: int) -> requests.Request:
    kind = setups.GUESTS[guest]
    return requests.Request(kind.vcpus, kind.memory_mib, kind.extra_specs)


def take_part(truth: Truth, run: setups.Run, number: int) -> model.Report:
    """Be one of the nova-schedulers until no request is left.

    Options are one thing for the whole process, so it can be only one.

    :param number: of the nova-scheduler
    """
    objects.register_all()
    log = _Errors()
    logging.getLogger().addHandler(log)
    try:
        with nova_options.applied(run.setup.options):
            # As in production.
            logging.getLogger('nova').setLevel(logging.INFO)
            random.seed(f'{run.seed}-{number}')
            hosts = _HostManager(truth)
            truth.ready()
            with concurrent.futures.ThreadPoolExecutor(
                    run.scene.threads) as pool:
                done = list(pool.map(
                    lambda _: _work(truth, hosts), range(run.scene.threads)))
    finally:
        logging.getLogger().removeHandler(log)
    return model.Report(
        tuple(result for part in done for result in part), tuple(log.messages))


def _work(truth: Truth, hosts: _HostManager) -> list[model.Outcome]:
    """Boot guests, one after the other, in one thread."""
    placement = _Placement(truth)
    scheduler = _Manager(hosts, placement)
    done = []
    arrival = truth.arrive()
    while arrival is not None:
        begun = time.perf_counter()
        placement.refused = 0
        end, retries = _boot(truth, scheduler, arrival)
        done.append(model.Outcome(
            end, placement.refused, retries, time.perf_counter() - begun))
        arrival = truth.arrive(arrival.uuid)
    return done


def _boot(truth: Truth, scheduler: _Manager, arrival: model.Arrival,
          ) -> tuple[model.End, int]:
    """Do as nova-conductor does with a new server.

    :returns: how it ended, and how many nova-computes refused it
    """
    context = nova_context.RequestContext(
        user_id='benchmark', project_id='benchmark', is_admin=False)
    spec = _request(arrival.guest).spec()
    # What nova would look up in its database for each request otherwise: the
    # aggregates of a zone, and whether all nova-computes are up to date.
    spec.availability_zone = None
    spec.root_required.add(os_traits.OWNER_NOVA)
    placement = scheduler.placement_client
    selections: Sequence[Any]
    try:
        selections, = scheduler.select_destinations(
            context, spec_obj=spec, instance_uuids=[arrival.uuid],
            return_objects=True, return_alternates=True)
    except oslo_messaging.ExpectedException as error:
        if not isinstance(error.exc_info[1], exception.NoValidHost):
            raise
        return model.End.REFUSED, 0
    retries = 0
    for number, selection in enumerate(selections):
        # The scheduler has claimed the first in Placement.
        if number and not utils.claim_resources(
                context, placement, spec, arrival.uuid,
                json.loads(selection.allocation_request), _VERSION):
            continue
        limits = selection.limits.numa_topology
        if truth.build(arrival, selection.compute_node_uuid,
                       limits and limits.obj_to_primitive()):
            return model.End.BUILT, retries
        placement.delete_allocation_for_instance(
            context, arrival.uuid, force=True)
        retries += 1
    return model.End.EXHAUSTED, retries
