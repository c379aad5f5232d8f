# SPDX-License-Identifier: Apache-2.0
"""Ways of L3 caches and groups of resctrl, as Placement counts them.

A guest with so many ways for itself takes them in the cache of each of its
NUMA cells, and one group. Placement adds up what a host has in all caches;
that no cache has too few, a trait for each number says, from one on.
"""

from collections.abc import Mapping
import re

#: Ways of L3 caches that guests can have for themselves, all caches together.
L3_WAYS = 'CUSTOM_L3_WAYS'
#: Guests that can have ways, or a limit of their own.
RESCTRL_GROUPS = 'CUSTOM_RESCTRL_GROUPS'
#: Both of them.
CLASSES = (L3_WAYS, RESCTRL_GROUPS)

#: Memory bandwidth of guests can be limited, in per cent.
BANDWIDTH_TRAIT = 'CUSTOM_PINNING_MEMORY_BANDWIDTH'

_ASKED = re.compile(r'resources[\w-]{0,64}:(\w+)', re.ASCII)
_AMOUNT = re.compile('[0-9]{1,9}')


def ways_trait(ways: int) -> str:
    """The trait of hosts each of whose L3 caches has so many for one guest."""
    return f'CUSTOM_PINNING_L3_WAYS_{ways}'


def traits(most: int, has_bandwidth: bool) -> frozenset[str]:
    """The traits of a host.

    :param most: ways of a cache that one guest can have; 0 for none
    :param has_bandwidth: whether memory bandwidth can be limited
    """
    ladder = {ways_trait(ways) for ways in range(1, most + 1)}
    return frozenset(ladder | ({BANDWIDTH_TRAIT} if has_bandwidth else set()))


def totals(ways: int, caches: int, groups: int) -> Mapping[str, int]:
    """The inventories of a host, without those of which there is nothing.

    :param ways: of each cache that guests can have
    :param groups: of guests
    """
    amounts = {L3_WAYS: ways * caches if groups else 0,
               RESCTRL_GROUPS: groups}
    return {name: amount for name, amount in amounts.items() if amount > 0}


def asked(extra_specs: Mapping[str, str]) -> dict[str, int]:
    """What a flavor asks for by resource class, in groups of any number.

    See merged_resources of nova.scheduler.utils.ResourceRequest.
    """
    amounts: dict[str, int] = {}
    for key, value in extra_specs.items():
        match = _ASKED.fullmatch(key)
        if match and _AMOUNT.fullmatch(value.strip()):
            amounts[match[1]] = amounts.get(match[1], 0) + int(value)
    return {name: amount for name, amount in amounts.items() if amount}


def request(ways: int, has_limit: bool,
            cells: int) -> tuple[Mapping[str, int], frozenset[str]]:
    """What a flavor asks Placement for.

    :param ways: that it has for itself in each cache, 0 for none
    :param has_limit: whether its memory bandwidth is limited
    :param cells: NUMA cells of the guest, 1 without
    :returns: (amounts by resource class, required traits)
    """
    amounts = {L3_WAYS: ways * cells,
               RESCTRL_GROUPS: int(bool(ways) or has_limit)}
    required = {ways_trait(ways)} if ways else set()
    if has_limit:
        required.add(BANDWIDTH_TRAIT)
    return {name: amount for name, amount in amounts.items()
            if amount}, frozenset(required)
