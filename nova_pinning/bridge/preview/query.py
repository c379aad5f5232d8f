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

"""What a host has to answer to what nova-scheduler asks Placement."""

from collections.abc import Iterator

import os_traits

from nova_pinning.bridge import queries
from nova_pinning import cpuset
from nova_pinning.host import engine
from nova_pinning.host import model as host_model
from nova_pinning import model

_THREADS = os_traits.HW_CPU_HYPERTHREADING
#: Traits that are looked at elsewhere, or that every host has.
_KNOWN = (_THREADS, queries.OWNER)


def refusal(
    asked: tuple[queries.Query, queries.Query | None],
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
    query: queries.Query,
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
    query: queries.Query, description: host_model.HostDescription,
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
