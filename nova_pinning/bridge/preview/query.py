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

"""What nova-scheduler asks Placement, and what a host has to answer."""

from collections.abc import Iterator
from typing import Any

import nova.conf
from nova import context as nova_context
from nova.scheduler import request_filter
from nova.scheduler import utils
import os_traits

from nova_pinning.bridge.preview import guest
from nova_pinning.bridge.preview import result
from nova_pinning import cpuset
from nova_pinning.host import engine
from nova_pinning.host import model as host_model
from nova_pinning import model

CONF = nova.conf.CONF

_THREADS = os_traits.HW_CPU_HYPERTHREADING
_OWNER = 'OWNER_NOVA'
#: Traits that are looked at elsewhere, or that every host has.
_KNOWN = (_THREADS, _OWNER)

#: Nova's request filters that look at nothing but flavor, image and options.
FILTERS = (
    request_filter.require_image_type_support,
    request_filter.compute_status_filter,
    request_filter.transform_image_metadata,
    request_filter.accelerators_filter,
    request_filter.packed_virtqueue_filter,
    request_filter.ephemeral_encryption_filter,
    request_filter.virtio_sound_filter,
    request_filter.tpm_secret_security_filter,
)
#: Those that look at the cloud: its aggregates, networks and services.
OTHER_FILTERS = (
    request_filter.require_tenant_aggregate,
    request_filter.map_az_to_placement_aggregate,
    request_filter.isolate_aggregates,
    request_filter.routed_networks_filter,
    request_filter.remote_managed_ports_filter,
    request_filter.owner_nova_filter,
)


def queries(
    wanted: guest.Order,
) -> tuple[result.Query, result.Query | None]:
    """Both queries of nova-scheduler, see result.Preview.

    See nova.scheduler.manager.SchedulerManager.select_destinations. All hosts
    are taken to be of this nova's release.

    :raises nova.exception.NovaException: if the flavor is wrong
    """
    spec = guest.request_spec(wanted)
    context = nova_context.RequestContext(is_admin=False)
    for add_to in FILTERS:
        add_to(context, spec)
    # owner_nova_filter, for a cloud without hosts of older releases.
    spec.root_required.add(_OWNER)
    first = _ask(context, spec, True)
    second = None
    if (first.cpu_pinning_requested and
            not CONF.workarounds.disable_fallback_pcpu_query):
        second = _query(_ask(context, spec, False))
    return _query(first), second


def _ask(context: Any, spec: Any, pcpus: bool) -> Any:
    # The host manager is only asked about hosts that a request names.
    return utils.resources_from_request_spec(
        context, spec, None, enable_pinning_translate=pcpus)


def _query(request: Any) -> result.Query:
    return result.Query(
        groups=tuple(
            result.Group(
                suffix or '', dict(group.resources),
                tuple(sorted(group.required_traits)),
                tuple(sorted(group.forbidden_traits)))
            for suffix, group in request._rg_by_id.items()),
        root_required=tuple(sorted(request._root_required)),
        root_forbidden=tuple(sorted(request._root_forbidden)),
        querystring=request.to_querystring())


def refusal(
    asked: tuple[result.Query, result.Query | None],
    description: host_model.HostDescription,
    used: cpuset.CpuSet,
) -> model.Refusal | None:
    """Why Placement would not offer a host, None if it would.

    CPUs, memory and traits are compared. Memory that guests use is not known,
    and neither are floating vCPUs. A host that is not said to have any traits
    may have all of them, since what virsh prints says nothing about them.

    :param used: CPUs that guests are pinned to
    """
    first, second = asked
    shortages = list(_shortages(first, description, used))
    if not shortages:
        return None
    if second and not list(_shortages(second, description, used)):
        return None
    return model.Refusal(
        model.Reason.ALLOCATION, detail='; '.join(shortages))


def _shortages(
    query: result.Query,
    description: host_model.HostDescription,
    used: cpuset.CpuSet,
) -> Iterator[str]:
    """What a host has too little of, as nova-compute reports it.

    See update_provider_tree in nova/virt/libvirt/driver.py.
    """
    settings = description.nova
    memory = sum(node.memory_mib for node in description.nodes)
    shared = len(engine.shared_cpus(description))
    dedicated = settings.dedicated_cpus or cpuset.CpuSet()
    for name, total, free in (
            ('VCPU', shared, int(shared * settings.cpu_allocation_ratio)),
            ('PCPU', len(dedicated), len(dedicated - used)),
            ('MEMORY_MB', memory, int(
                (memory - settings.reserved_memory_mib) *
                settings.ram_allocation_ratio))):
        need = query.resources.get(name, 0)
        if need > free:
            yield f'{free} {name} left of {total}, {need} needed'
        elif need > total:
            yield (f'{total} {name} in all, of which one guest may not have '
                   f'more, {need} needed')
    traits = set(description.traits)
    if any(len(core) > 1 for node in description.nodes for core in node.cores):
        traits.add(_THREADS)
    for trait in query.required:
        is_told = trait == _THREADS or (
            trait.startswith('CUSTOM_') and description.traits)
        if is_told and trait not in traits:
            yield f'the host has no trait {trait}, which is required'
    for trait in query.forbidden:
        if trait in traits:
            yield f'the host has trait {trait}, which is forbidden'


def trait_remarks(
    query: result.Query, description: host_model.HostDescription,
) -> Iterator[str]:
    """The traits of which a description does not say if the host has them.

    A description has the traits that operators set, CUSTOM_*, or none at all;
    the others are reported by nova-compute.
    """
    for trait in query.required:
        if trait in (*description.traits, *_KNOWN):
            continue
        if not (trait.startswith('CUSTOM_') and description.traits):
            yield (f'Placement offers hosts with trait {trait} only; whether '
                   f'host {description.name} has it is not in its '
                   'description')
