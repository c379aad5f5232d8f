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

"""The nova.conf of a described host, for the length of one preview."""

from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import json
import logging
import re
from typing import Any

import nova.conf
from nova.conf import neutron
from nova.pci import request as pci_request
from oslo_config import cfg

from nova_pinning.host import model as host_model

CONF = nova.conf.CONF

#: Vendor and product of no device: for aliases that the host does not have.
_NO_DEVICE = ('ffff', 'ffff')

Options = Mapping[tuple[str | None, str], Any]


def options(
    description: host_model.HostDescription, aliases: set[str],
) -> Options:
    """The options that a preview depends on, by group and name.

    :param aliases: PCI aliases that the flavor asks for; those that no
        device of the host has are known to nova all the same, so that the
        host is refused and not the flavor
    """
    settings = description.nova
    devices = [one for one in description.pci_devices if one.alias]
    known = {(one.alias, one.vendor_id, one.product_id) for one in devices}
    missing = aliases - {one.alias for one in devices}
    known |= {(alias, *_NO_DEVICE) for alias in missing}
    return {
        ('compute', 'cpu_dedicated_set'): _cpus(settings.dedicated_cpus),
        ('compute', 'cpu_shared_set'): _cpus(settings.shared_cpus),
        (None, 'vcpu_pin_set'): None,
        (None, 'cpu_allocation_ratio'): settings.cpu_allocation_ratio,
        (None, 'ram_allocation_ratio'): settings.ram_allocation_ratio,
        (None, 'reserved_host_memory_mb'): settings.reserved_memory_mib,
        (None, 'reserved_huge_pages'): [
            {'node': str(node), 'size': str(size), 'count': str(count)}
            for (node, size), count in sorted(
                settings.reserved_huge_pages.items())] or None,
        ('pci', 'alias'): [
            json.dumps({'name': alias, 'vendor_id': vendor,
                        'product_id': product, 'device_type': 'type-PCI'})
            for alias, vendor, product in sorted(known)],
        ('pci', 'device_spec'): [
            json.dumps({'address': _address(one.address)})
            for one in devices],
        (None, 'instances_path'): '/var/lib/nova/instances',
        ('libvirt', 'virt_type'): 'kvm',
        ('libvirt', 'images_type'): 'qcow2',
    }


def _address(address: str) -> dict[str, str]:
    """A PCI address as a pattern, which matches nothing else.

    Nova looks up what is no pattern in the /sys of this machine.

    :param address: '0000:3b:00.0'
    """
    domain, bus, slot, function = re.split('[:.]', address)
    return {'domain': domain, 'bus': bus, 'slot': slot,
            'function': f'[{function}]'}


def _cpus(cpus: Any) -> str | None:
    return str(cpus) if cpus else None


@contextlib.contextmanager
def applied(wanted: Options) -> Iterator[None]:
    """Let options apply while the with statement lasts, and keep nova quiet.

    Options and loggers are one for the whole process, so only one thread may
    do this at a time. What was set before is set again afterwards.
    """
    logger = logging.getLogger('nova')
    level = logger.level
    with contextlib.ExitStack() as stack:
        _initialise(stack)
        stack.callback(logger.setLevel, level)
        logger.setLevel(logging.CRITICAL + 1)
        # Nova remembers the aliases that it has read.
        stack.callback(pci_request.get_alias_from_config.cache_clear)
        pci_request.get_alias_from_config.cache_clear()
        for (group, name), value in wanted.items():
            stack.callback(_restore, group, name, _override(group, name))
            CONF.set_override(name, value, group)
        yield


def _initialise(stack: contextlib.ExitStack) -> None:
    """Do as nova's programs do before they look at options."""
    try:
        CONF.find_file('nova.conf')
    except cfg.NotInitializedError:
        CONF([], project='nova', default_config_files=[],
             default_config_dirs=[], use_env=False)
        stack.callback(CONF.clear)
    neutron.register_dynamic_opts(CONF)


_UNSET = object()


def _override(group: str | None, name: str) -> Any:
    """The value that somebody has put in an option's place, if any."""
    # oslo.config has no public way to tell an override from a value that was
    # read from a file.
    return CONF._get_opt_info(name, group).get('override', _UNSET)


def _restore(group: str | None, name: str, value: Any) -> None:
    if value is _UNSET:
        CONF.clear_override(name, group)
    else:
        CONF.set_override(name, value, group)
