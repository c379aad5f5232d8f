# SPDX-License-Identifier: Apache-2.0
"""How a host answers what nova-scheduler asks Placement."""

from collections.abc import Iterator

from nova_pinning.bridge import placement_parser
from nova_pinning.bridge import placement_queries
from nova_pinning import cpuset
from nova_pinning.host import engine
from nova_pinning.host import host_model
from nova_pinning import model
from nova_pinning.placement import inventory

_COMPARED = (inventory.VCPU, inventory.PCPU, inventory.MEMORY_MB)
#: Traits that are looked at elsewhere, or that every host has.
_KNOWN = (inventory.THREADS, placement_queries.OWNER)


def refusal(
    both_queries: tuple[placement_queries.SchedulerQuery,
                        placement_queries.SchedulerQuery | None],
    description: host_model.HostDescription,
    used: cpuset.CpuSet,
) -> model.Refusal | None:
    """Why Placement would not offer a host, None if it would.

    Placement's own parser reads the query; CPUs, memory and traits are
    compared. Memory that guests use is not known,
    and neither are floating vCPUs. A host that is not said to have any traits
    may have all of them, since what virsh prints says nothing about them.

    :param used: CPUs that guests are pinned to
    """
    first, second = both_queries
    unreadable = placement_parser.refusal(first.querystring)
    if unreadable:
        return model.Refusal(
            model.Reason.ALLOCATION,
            detail=f'it refuses the query (status 400): {unreadable}')
    shortages = list(_shortages(first, description, used))
    if not shortages:
        return None
    if second and not list(_shortages(second, description, used)):
        return None
    return model.Refusal(
        model.Reason.ALLOCATION, detail='; '.join(shortages))


def _shortages(
    query: placement_queries.SchedulerQuery,
    description: host_model.HostDescription,
    used: cpuset.CpuSet,
) -> Iterator[str]:
    """What a host has too little of, as nova-compute reports it."""
    dedicated = engine.dedicated_cpus(description)
    for lack in inventory.resource_shortages(
            inventory.host_inventories(
                engine.engine_host(description),
                description.nova.reserved_memory_mib),
            {inventory.PCPU: len(dedicated & used)},
            {name: need for name, need in query.resources.items()
             if name in _COMPARED}):
        yield (f'{lack.have} {lack.name} left of {lack.total}, '
               f'{lack.need} needed')
    for mismatch in inventory.trait_mismatches(
            frozenset(query.required), frozenset(query.forbidden),
            description.traits, description.has_threads,
            description.tells_trait):
        yield f'the host {mismatch}'


def resource_remarks(
    query: placement_queries.SchedulerQuery,
    description: host_model.HostDescription, xml: str,
) -> Iterator[str]:
    """What is asked for that neither a description nor the XML here shows.

    :param xml: the guest's; '' if there is none
    """
    for name, amount in sorted(query.resources.items()):
        if name in (*_COMPARED, inventory.DISK_GB):
            continue
        unseen = ''
        if xml and not any(element in xml for element in _SHOWN.get(name, ())):
            unseen = '; the XML here does not show what the guest gets of it'
        if name.startswith('CUSTOM_PMEM_NAMESPACE_'):
            unseen = ('; the path and the size of the memory in the XML are '
                      'made up')
        yield (f'Placement is asked for {amount} {name}; whether host '
               f'{description.name} has that is not in its '
               f'description{unseen}')


#: What of the XML shows a resource, by its class.
_SHOWN = {'MEM_ENCRYPTION_CONTEXT': ('<launchSecurity',)}


def trait_remarks(
    query: placement_queries.SchedulerQuery,
    description: host_model.HostDescription,
) -> Iterator[str]:
    """The traits of which a description does not say if the host has them.

    A description has the traits that operators set, CUSTOM_*, or none at all;
    the others are reported by nova-compute.
    """
    for trait in query.required:
        if trait in (*description.traits, *_KNOWN):
            continue
        if not description.tells_trait(trait):
            yield (f'Placement offers hosts with trait {trait} only; whether '
                   f'host {description.name} has it is not in its '
                   'description')
