# SPDX-License-Identifier: Apache-2.0
"""What a guest's flavor asks of its host, from the guest's own XML.

From 2025.2 on nova writes a flavor's extra specs into the metadata of the
domain. Before, only the flavor's name stands there, and what it asks for has
to come from a catalogue.
"""

from collections.abc import Mapping
from xml.etree import ElementTree

from nova_pinning.agent import agent_model

L3_WAYS = 'pinning:l3_ways'
MEMORY_BANDWIDTH = 'pinning:memory_bandwidth'
_MOST = 1_000_000

_NOVA = '{http://openstack.org/xmlns/libvirt/nova/1.1}'


def of_domain(
    root: ElementTree.Element,
    flavors: Mapping[str, Mapping[str, str]] | None = None,
) -> agent_model.Wishes:
    """The wishes of a <domain>.

    :param flavors: extra specs by flavor name, for guests whose XML has none
    """
    flavor = root.find(f'metadata/{_NOVA}instance/{_NOVA}flavor')
    if flavor is None:
        return agent_model.Wishes()
    specs = flavor.find(f'{_NOVA}extraSpecs')
    if specs is not None:
        return of_extra_specs({
            spec.get('name', ''): spec.text or ''
            for spec in specs.iterfind(f'{_NOVA}extraSpec')})
    return of_extra_specs((flavors or {}).get(flavor.get('name', ''), {}))


def of_extra_specs(specs: Mapping[str, str]) -> agent_model.Wishes:
    """The wishes in extra specs; what cannot be read is told, and ignored."""
    values, problems = {}, []
    for key in (L3_WAYS, MEMORY_BANDWIDTH):
        text = specs.get(key, '0').strip()
        if text.isdecimal() and int(text) <= _MOST:
            values[key] = int(text)
        else:
            values[key] = 0
            problems.append(f'{key}={text!r} is no number from 1 on')
    return agent_model.Wishes(values[L3_WAYS], values[MEMORY_BANDWIDTH],
                              tuple(problems))
