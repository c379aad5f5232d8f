# SPDX-License-Identifier: Apache-2.0
"""The traits by which a host's resource provider tells what it is for.

And the aggregate metadata that say of hosts what no trait does.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
import re
import types

from nova_pinning.model import flag
from nova_pinning.model import hostclass

#: What all of them begin with.
PREFIX = 'CUSTOM_PINNING_'
DEDICATED = f'{PREFIX}DEDICATED'
SHARED = f'{PREFIX}SHARED'

TRAIT_OF: Mapping[hostclass.HostClass, str] = types.MappingProxyType({
    hostclass.HostClass.DEDICATED: DEDICATED,
    hostclass.HostClass.SHARED: SHARED,
})

#: Aggregate metadata with the number of host CPUs in each L3 domain, for
#: whoever knows better than traits.
L3_KEY = 'pinning:l3_cpus'

#: Aggregate metadata with the option of the same name in group [compute] of
#: the hosts' nova.conf, for a scheduler whose own has another value.
PACKING_KEY = 'pinning:packing_host_numa_cells_allocation_strategy'

_L3_TRAIT = re.compile(rf'{PREFIX}L3_CPUS_([1-9][0-9]{{0,5}})')


def classes_of(traits: Iterable[str]) -> frozenset[hostclass.HostClass]:
    """The classes that traits name: none, one, or by mistake both."""
    trait_names = set(traits)
    return frozenset(host_class for host_class, trait in TRAIT_OF.items()
                     if trait in trait_names)


def host_class(
    aggregates: Iterable[hostclass.NamedMetadata],
    marked: frozenset[hostclass.HostClass],
    cells: Iterable[hostclass.CpusOfCell],
) -> hostclass.HostClass | None:
    """The class of a host, None if nothing tells.

    What aggregates and traits state counts, and both have to agree. The
    host's CPUs are looked at only where neither says anything.

    :param aggregates: that the host is in
    :param marked: the classes that traits name, as :func:`classes` finds them
    :raises hostclass.UnknownClass: if something names a class that there is
        not, or both are named; it was set on purpose, so nothing outweighs
        anything else
    """
    named = hostclass.class_of_aggregates(aggregates)
    if len(marked) > 1:
        raise hostclass.UnknownClass(
            f'its provider has both {DEDICATED} and {SHARED}')
    for mark in marked:
        if named not in (None, mark):
            raise hostclass.UnknownClass(
                f'its aggregates name {named} under {hostclass.CLASS_KEY}, '
                f'its provider has {TRAIT_OF[mark]}')
        return mark
    return named or hostclass.class_of_cpus(cells)


def class_traits(
    host_class: hostclass.HostClass | None,
) -> tuple[frozenset[str], frozenset[str]]:
    """What a provider of a class has to have, and what it must not have.

    :param host_class: None for a provider of no class
    :returns: (traits to add, traits to remove)
    """
    required = frozenset({TRAIT_OF[host_class]} if host_class else ())
    return required, frozenset(TRAIT_OF.values()) - required


def l3_trait(cpus: int) -> str:
    """The trait of a host whose L3 domains hold so many host CPUs each.

    :raises ValueError: if that is not a number from 1 to 999999
    """
    trait = f'{PREFIX}L3_CPUS_{cpus}'
    if not _L3_TRAIT.fullmatch(trait):
        raise ValueError(f'{cpus} is not a number of CPUs from 1 to 999999')
    return trait


def parse_l3_cpus(text: str) -> int | None:
    """The value of L3_KEY in an aggregate, None if it is invalid."""
    match = re.fullmatch('[0-9]{1,6}', text.strip(), re.ASCII)
    return int(match[0]) or None if match else None


def parse_packing(text: str) -> bool | None:
    """The value of PACKING_KEY in an aggregate, None if it is invalid."""
    return flag.parse(text)


def l3_cpus(traits: Iterable[str]) -> int | None:
    """The host CPUs in each L3 domain, None if no trait tells.

    The smallest number if several do.
    """
    return min((int(match[1]) for match in map(_L3_TRAIT.fullmatch, traits)
                if match), default=None)
