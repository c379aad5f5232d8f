# SPDX-License-Identifier: Apache-2.0
"""The commands that put right what the audit finds."""

from collections.abc import Iterable
import shlex

from nova_pinning.flavors import commands
from nova_pinning.flavors import flavor_model
from nova_pinning.model import hostclass
from nova_pinning.segregation import segregation_model

# With --amend an inventory keeps what is not named; aggregates are set
# without a generation before 1.19, and traits are there since 1.6.
_INVENTORY = 'openstack resource provider inventory set --amend'
_TRAITS = 'openstack --os-placement-api-version 1.6 resource provider trait'
_AGGREGATES = ('openstack --os-placement-api-version 1.18 '
               'resource provider aggregate')


def set_class(host: segregation_model.MarkedHost,
              host_class: hostclass.HostClass) -> str:
    """Mark a host."""
    return f'openstack pinning host set --class {host_class} ' \
           f'{commands.named(host.name)}'


def move_away(server: segregation_model.HostedServer) -> tuple[str, ...]:
    """Have nova move a server to a host where it belongs.

    Empty if nova would not, as it is (the check_instance_state of
    nova.compute.api.API). One that is resized must not be confirmed unasked.
    """
    if is_moved_live(server):
        return ('openstack server migrate --live-migration --wait '
                f'{server.id}',)
    match server.status:
        case 'SHUTOFF':
            return (f'openstack server migrate --wait {server.id}',
                    f'openstack server resize confirm {server.id}')
        case 'SHELVED':
            return (f'openstack server shelve --offload {server.id}',)
    return ()


def is_moved_live(server: segregation_model.HostedServer) -> bool:
    """Whether nova moves a server while it runs."""
    return server.status in ('ACTIVE', 'PAUSED')


def set_property(
    subject: flavor_model.Flavor | segregation_model.HostAggregate, key: str,
    value: str | None,
) -> str:
    """Set an extra spec of a flavor or some of an aggregate's metadata.

    :param value: None to take it away
    """
    kind = ('flavor' if isinstance(subject, flavor_model.Flavor)
            else 'aggregate')
    action, told = (('unset', key) if value is None
                    else ('set', f'{key}={value}'))
    return (f'openstack {kind} {action} --property {shlex.quote(told)} '
            f'{commands.named(subject.name)}')


def add_host(aggregate: segregation_model.HostAggregate,
             host: segregation_model.MarkedHost) -> str:
    """Put a host into an aggregate."""
    return ('openstack aggregate add host '
            f'{commands.named(aggregate.name, host.name)}')


def join_in_placement(aggregate: segregation_model.HostAggregate,
                      host: segregation_model.MarkedHost) -> str:
    """Put a provider into an aggregate, where Placement has it."""
    return _set_anew(_AGGREGATES, 'aggregate', host, add=aggregate.uuid)


def leave_in_placement(aggregate: segregation_model.HostAggregate,
                       host: segregation_model.MarkedHost) -> str:
    """Take a provider out of an aggregate, where Placement has it."""
    return _set_anew(_AGGREGATES, 'aggregate', host, remove=(aggregate.uuid,))


def create_trait(trait: str) -> str:
    """Make a trait known to Placement; fine if it is."""
    return f'openstack --os-placement-api-version 1.6 trait create {trait}'


def add_trait(host: segregation_model.MarkedHost,
              trait: str) -> tuple[str, ...]:
    """Give a trait to a host's provider, which keeps the others."""
    return (create_trait(trait), _set_anew(_TRAITS, 'trait', host, add=trait))


def remove_traits(host: segregation_model.MarkedHost,
                  names: Iterable[str]) -> str:
    """Take traits off a host's provider, which keeps the others."""
    return _set_anew(_TRAITS, 'trait', host, remove=sorted(names))


def _set_anew(command: str, option: str, host: segregation_model.MarkedHost, *,
              add: str = '', remove: Iterable[str] = ()) -> str:
    """Set all that a provider has of something.

    osc-placement can neither add one nor take one away. What is there has to
    be known before, or all of it would be lost.
    """
    unwanted = ''.join(f' -e {name}' for name in remove)
    keep = f'grep -vx{unwanted} | ' if unwanted else ''
    more = f' --{option} {add}' if add else ''
    return (f'old=$({command} list -f value {host.provider}) && '
            f'{command} set{more} $(echo "$old" | {keep}'
            f"sed -n 's/./--{option} &/p') {host.provider}")


def set_allocation_ratio(host: segregation_model.MarkedHost,
                         resource_class: str) -> str:
    """Stop a provider from offering more of something than it has."""
    return (f'{_INVENTORY} --resource {resource_class}:allocation_ratio=1.0 '
            f'{host.provider}')
