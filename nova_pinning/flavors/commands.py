# SPDX-License-Identifier: Apache-2.0
"""A flavor as the commands of OpenStackClient that create it."""

from collections.abc import Iterator
import shlex

from nova_pinning.flavors import flavor_model


def create_commands(flavor: flavor_model.Flavor) -> tuple[str, ...]:
    """The shell commands that create a flavor, each in one or more lines.

    The first creates it with all its extra specs; ``openstack flavor create``
    takes one project, so further ones have a command each.
    """
    create = ['openstack flavor create', *_options(flavor),
              *(f'--property={shlex.quote(f"{key}={value}")}'
                for key, value in flavor.extra_specs.items()),
              named(flavor.name)]
    return (' \\\n  '.join(create), *(
        f'openstack flavor set --project={shlex.quote(project)} '
        f'{named(flavor.name)}' for project in flavor.projects[1:]))


def named(*names: str) -> str:
    """Names as the last words of a command, whatever they look like."""
    words = ' '.join(map(shlex.quote, names))
    # Else they would be taken for options.
    return f'-- {words}' if any(
        name.startswith('-') for name in names) else words


def _options(flavor: flavor_model.Flavor) -> Iterator[str]:
    if flavor.id:
        yield f'--id={shlex.quote(flavor.id)}'
    yield (f'--vcpus {flavor.vcpus} --ram {flavor.memory_mib} '
           f'--disk {flavor.disk_gib}')
    if flavor.ephemeral_gib:
        yield f'--ephemeral {flavor.ephemeral_gib}'
    if flavor.swap_mib:
        yield f'--swap {flavor.swap_mib}'
    if flavor.rxtx_factor != 1.0:
        yield f'--rxtx-factor {flavor.rxtx_factor:g}'
    if flavor.description:
        yield f'--description={shlex.quote(flavor.description)}'
    if not flavor.is_public:
        yield '--private'
    if flavor.projects:
        yield f'--project={shlex.quote(flavor.projects[0])}'
