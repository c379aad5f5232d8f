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

"""The traits by which a host's resource provider tells what it is for."""

from collections.abc import Iterable
from collections.abc import Mapping
import re
import types

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

_L3_TRAIT = re.compile(rf'{PREFIX}L3_CPUS_([1-9][0-9]{{0,5}})')


def classes(traits: Iterable[str]) -> frozenset[hostclass.HostClass]:
    """The classes that traits name: none, one, or by mistake both."""
    found = set(traits)
    return frozenset(host_class for host_class, trait in TRAIT_OF.items()
                     if trait in found)


def class_traits(
    host_class: hostclass.HostClass | None,
) -> tuple[frozenset[str], frozenset[str]]:
    """What a provider of a class has to have, and what it must not have.

    :param host_class: None for a provider of no class
    :returns: (traits to add, traits to remove)
    """
    wanted = frozenset({TRAIT_OF[host_class]} if host_class else ())
    return wanted, frozenset(TRAIT_OF.values()) - wanted


def l3_trait(cpus: int) -> str:
    """The trait of a host whose L3 domains hold so many host CPUs each.

    :raises ValueError: if that is no number from 1 to 999999
    """
    trait = f'{PREFIX}L3_CPUS_{cpus}'
    if not _L3_TRAIT.fullmatch(trait):
        raise ValueError(f'{cpus} is no number of CPUs from 1 to 999999')
    return trait


def parse_l3_cpus(text: str) -> int | None:
    """What an aggregate says under L3_KEY, None if that is no such number."""
    found = re.fullmatch('[0-9]{1,6}', text.strip(), re.ASCII)
    return int(found[0]) or None if found else None


def l3_cpus(traits: Iterable[str]) -> int | None:
    """The host CPUs in each L3 domain, None if no trait tells.

    The smallest number if several do.
    """
    return min((int(found[1]) for found in map(_L3_TRAIT.fullmatch, traits)
                if found), default=None)
