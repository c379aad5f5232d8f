# SPDX-License-Identifier: Apache-2.0
"""Whole requests through nova's own HostManager.

That is what nova-scheduler computes, from the rows of the database to the host
that is chosen. To wait for the database, for Placement and for the message bus
is no part of it.
"""

# nova.objects has its classes only once they are registered.
from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
import copy
import typing as ty

from nova import objects
from nova.objects import service
from nova.scheduler import host_manager
from oslo_utils import timeutils

from benchmarks.speed import hosts
from nova_pinning.bridge.offline import nova_options

Options = Mapping[str, list[str]]

_DEFAULT = [
    'ComputeFilter', 'ComputeCapabilitiesFilter', 'ImagePropertiesFilter',
    'ServerGroupAntiAffinityFilter', 'ServerGroupAffinityFilter']

#: [filter_scheduler] with nova's filter for topologies beside its default
#: ones, and with ours, beside all of nova's weighers.
NOVA: Options = {'enabled_filters': [*_DEFAULT, 'NUMATopologyFilter']}
OURS: Options = {
    'available_filters': ['nova.scheduler.filters.all_filters',
                          'nova_pinning.scheduler.filters.all_filters'],
    'enabled_filters': [*_DEFAULT, 'HostClassFilter', 'PinnedTopologyFilter'],
    'weight_classes': ['nova.scheduler.weights.all_weighers',
                       'nova_pinning.scheduler.weights.all_weighers']}


class HostRows(ty.NamedTuple):
    """What is read of one host: from nova's database, and from Placement."""

    compute: dict[str, ty.Any]
    service: dict[str, ty.Any]
    candidates: list[dict[str, ty.Any]]


def rows(record: hosts.Record, candidates: list[dict[str, ty.Any]],
         ) -> HostRows:
    """Return what is read of a host."""
    return HostRows(hosts.row(record), {
        key: None for key in objects.Service.fields
        if key != 'availability_zone'} | {
            'id': 1, 'uuid': record.uuid, 'host': record.name,
            'binary': 'nova-compute', 'topic': 'compute', 'report_count': 1,
            'disabled': False, 'forced_down': False,
            'version': service.SERVICE_VERSION,
            'last_seen_up': timeutils.utcnow()}, candidates)


class _HostManager(host_manager.HostManager):
    """Nova's, with no database behind it and no instances to track."""

    def _nothing(self, *_args: object) -> dict[str, ty.Any]:
        return {}

    refresh_cells_caches = _init_aggregates = _nothing
    _init_instance_info = _get_instance_info = _nothing


class WholeRequestSide:
    """One of the two contestants: the filters and weighers of a nova.conf."""

    def __init__(self, options: Options,
                 aggregates: Sequence[objects.Aggregate]) -> None:
        with nova_options.applied({
                # No service goes down because the machine is busy.
                (None, 'service_down_time'): 10 ** 6,
                **{('filter_scheduler', name): value
                   for name, value in options.items()}}):
            self._manager = _HostManager()
        self._manager.update_aggregates(list(aggregates))

    def __call__(self, found: list[HostRows], spec: objects.RequestSpec,
                 ) -> tuple[str, ...]:
        states = self._host_states(found)
        candidates = {row.compute['uuid']: row.candidates for row in found}
        for state in states:
            state.allocation_candidates = copy.deepcopy(candidates[state.uuid])
        passed = self._manager.get_filtered_hosts(states, spec)
        weighed = self._manager.get_weighed_hosts(passed, spec)
        for best in weighed[:1]:
            best.obj.consume_from_request(spec)
        return tuple(sorted(item.obj.host for item in weighed))

    def _host_states(self, found: list[HostRows],
                     ) -> list[host_manager.HostState]:
        computes = [hosts.compute_node(row.compute) for row in found]
        services = {row.service['host']: objects.Service._from_db_object(
            None, objects.Service(), row.service) for row in found}
        return list(self._manager._get_host_states(
            None, {objects.CellMapping.CELL0_UUID: computes}, services))
