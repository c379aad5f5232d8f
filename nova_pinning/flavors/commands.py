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

"""A flavor as the commands of OpenStackClient that create it."""

from collections.abc import Iterator
import shlex

from nova_pinning.flavors import model


def create_commands(flavor: model.Flavor) -> tuple[str, ...]:
    """The shell commands that create a flavor, each in one or more lines.

    The first creates it with all its extra specs; ``openstack flavor create``
    takes one project, so further ones have a command each.
    """
    create = ['openstack flavor create', *_options(flavor),
              *(f'--property {shlex.quote(f"{key}={value}")}'
                for key, value in flavor.extra_specs.items()),
              shlex.quote(flavor.name)]
    return (' \\\n  '.join(create), *(
        f'openstack flavor set --project {shlex.quote(project)} '
        f'{shlex.quote(flavor.name)}' for project in flavor.projects[1:]))


def _options(flavor: model.Flavor) -> Iterator[str]:
    if flavor.id:
        yield f'--id {shlex.quote(flavor.id)}'
    yield (f'--vcpus {flavor.vcpus} --ram {flavor.memory_mib} '
           f'--disk {flavor.disk_gib}')
    if flavor.ephemeral_gib:
        yield f'--ephemeral {flavor.ephemeral_gib}'
    if flavor.swap_mib:
        yield f'--swap {flavor.swap_mib}'
    if flavor.rxtx_factor != 1.0:
        yield f'--rxtx-factor {flavor.rxtx_factor:g}'
    if flavor.description:
        yield f'--description {shlex.quote(flavor.description)}'
    if not flavor.is_public:
        yield '--private'
    if flavor.projects:
        yield f'--project {shlex.quote(flavor.projects[0])}'
