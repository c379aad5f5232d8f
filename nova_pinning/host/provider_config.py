# SPDX-License-Identifier: Apache-2.0
"""provider.yaml: traits and inventories that nova-compute reports as well.

nova-compute reads ``/etc/nova/provider_config/*.yaml`` when it starts
(nova.compute.provider_config) and puts the traits that stand there on its
provider whenever it reports to Placement. It never takes one away that stands
there no longer.
"""

from collections.abc import Mapping
import dataclasses

import yaml

from nova_pinning import errors
from nova_pinning.fit import score
from nova_pinning.host import cache_capacity
from nova_pinning.host import engine
from nova_pinning.host import host_model
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits

#: Where nova-compute looks, unless [compute] provider_config_location says
#: otherwise.
DIRECTORY = '/etc/nova/provider_config'

#: Of the files there nova reads those whose names end so.
SUFFIX = '.yaml'

#: In place of a UUID: the provider of the host on which the file lies.
COMPUTE_NODE = '$COMPUTE_NODE'

_SCHEMA_VERSION = '1.0'


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderFile:
    """What a host's provider.yaml is to say of its own provider.

    :param inventories: how much there is of custom resource classes
    :param notes: what was left out and why, a sentence each
    """

    traits: frozenset[str]
    inventories: Mapping[str, int] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()


def make(description: host_model.HostDescription) -> ProviderFile:
    """What the provider.yaml of a host has to say.

    Its class is what its traits say, or else what the CPUs tell that nova may
    use.

    :raises errors.InputError: if the class does not show, or is one that the
        host cannot be of
    """
    notes = []
    host_class = _host_class(description)
    _check_cpus(description, host_class)
    traits = description.traits | {placement_traits.TRAIT_OF[host_class]}
    told = frozenset(trait for trait in traits
                     if placement_traits.l3_cpus([trait]))
    l3_cpus, why_not = _l3_cpus(description)
    if l3_cpus:
        told |= {placement_traits.l3_trait(l3_cpus)}
    elif not told:
        notes.append(f'There is no trait for the L3 caches: {why_not}')
    if len(told) > 1:
        raise errors.InputError(
            f'{" and ".join(sorted(told))} cannot both be true',
            description.where, 'take those that are wrong from its traits, '
            'or correct what it says of its L3 caches')
    inventories: Mapping[str, int] = {}
    caches = cache_capacity.of_host(description)
    if caches is not None:
        told |= caches.traits
        inventories = caches.totals
    return ProviderFile(traits | told, inventories, tuple(notes))


def text(made: ProviderFile, host: str) -> str:
    """A provider.yaml.

    :param host: name of the host, for the head of the file
    """
    head = [
        f'Traits of compute host {host}, for its nova-compute.',
        'Written by: nova-pinning host show --format provider-config',
        f'Belongs into: {DIRECTORY}/, under a name that ends in {SUFFIX}.',
        'nova-compute reads it when it starts, and takes no trait away that',
        'is no longer in it: that needs "openstack pinning host set" as well.',
        *made.notes]
    body = {
        'meta': {'schema_version': _SCHEMA_VERSION},
        'providers': [{
            'identification': {'uuid': COMPUTE_NODE},
            **({'inventories': {'additional': [
                {resource: _inventory(total)}
                for resource, total in made.inventories.items()]}}
               if made.inventories else {}),
            'traits': {'additional': sorted(made.traits)}}]}
    return ''.join(f'# {line}\n' for line in head) + yaml.safe_dump(
        body, sort_keys=False)


def _inventory(total: int) -> dict[str, int | float]:
    """Of what is never sold twice, in pieces of one."""
    return {'total': total, 'reserved': 0, 'min_unit': 1, 'max_unit': total,
            'step_size': 1, 'allocation_ratio': 1.0}


def _host_class(
    description: host_model.HostDescription,
) -> hostclass.HostClass:
    """The class that a host file shows."""
    advice = ('say which with its traits: '
              + ' or '.join(placement_traits.TRAIT_OF.values()))
    try:
        host_class = placement_traits.host_class(
            (), placement_traits.classes_of(description.traits),
            engine.engine_cells(description))
    except hostclass.UnknownClass as error:
        raise errors.InputError(
            str(error), description.where, advice) from error
    if host_class is None:
        raise errors.InputError(
            'neither its traits nor its CPUs tell whether the host is '
            'dedicated or shared', description.where, advice)
    return host_class


def _check_cpus(description: host_model.HostDescription,
                host_class: hostclass.HostClass) -> None:
    """Refuse a class whose guests the host has no CPUs for.

    :raises errors.InputError: if so
    """
    find_cpus = (engine.dedicated_cpus
                 if host_class is hostclass.HostClass.DEDICATED
                 else engine.shared_cpus)
    if not find_cpus(description):
        raise errors.InputError(
            f'a {host_class} host needs CPUs for {host_class} guests, and '
            'this one has none', description.where,
            f'set nova.{host_class}_cpus')


def _l3_cpus(description: host_model.HostDescription) -> tuple[int, str]:
    """The number by which CacheLocalityWeigher finds the L3 domains.

    The weigher knows no more of a host than the CPUs that guests can get, so
    it counts the cores of a domain with as many threads each as guests can
    get of a core. Where they can get all threads, which is the rule, that is
    all CPUs of the domain; cores that are kept for the host count too.

    :returns: (the number, ''), or (0, why there is none)
    """
    domains = {domain for node in description.nodes
               for domain in node.l3_domains}
    if not domains or any(
            not any(cpu in domain for domain in node.l3_domains)
            for node in description.nodes for cpu in node.cpus):
        return 0, 'the host file does not say which CPUs share one'
    cores = [core for node in description.nodes for core in node.cores]
    sizes = {sum(any(cpu in domain for cpu in core) for core in cores)
             for domain in domains}
    if len(sizes) > 1:
        return 0, ('they serve different numbers of cores, '
                   f'{", ".join(map(str, sorted(sizes)))}')
    cells = [cell.cores for cell in engine.engine_cells(description)]
    threads = max((len(core) for cell in cells for core in cell), default=0)
    number = sizes.pop() * threads
    domain_of = {cpu: domain for domain in domains for cpu in domain}
    for index, cell in enumerate(cells):
        others = cells[:index] + cells[index + 1:]
        if not _tells_apart(
                score.l3_domains(cell, number, others), domain_of):
            return 0, ('the numbers of the CPUs do not go through them one '
                       'after the other, so that one number would mislead')
    return number, ''


def _tells_apart(numbered: Mapping[int, int],
                 domain_of: Mapping[int, object]) -> bool:
    """Whether numbers stand for domains, one for one."""
    pairs = {(number, domain_of[cpu]) for cpu, number in numbered.items()}
    return (len(pairs) == len({number for number, _domain in pairs})
            == len({domain for _number, domain in pairs}))
