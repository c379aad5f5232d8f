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

"""The files that put a plan into force.

Nothing here writes to a disk, but for ``directory``.
"""

from collections.abc import Iterator
from collections.abc import Mapping

from nova_pinning.host import model
from nova_pinning.host.render import deploy
from nova_pinning.host.render import interrupts
from nova_pinning.host.render import irqbalance
from nova_pinning.host.render import kernel
from nova_pinning.host.render import layout as layouts
from nova_pinning.host.render import nova_conf
from nova_pinning.host.render import openvswitch
from nova_pinning.host.render import options
from nova_pinning.host.render import provider
from nova_pinning.host.render import quiet
from nova_pinning.host.render import readme
from nova_pinning.host.render import systemd
from nova_pinning.host.render import tuned

_DEPLOYED = {
    options.Format.ANSIBLE: deploy.ansible,
    options.Format.KOLLA: deploy.kolla,
    options.Format.OPENSTACK_ANSIBLE: deploy.openstack_ansible,
}


def files(
    planned: model.HostDescription,
    wanted: options.Options = options.Options(),
) -> Mapping[str, options.File]:
    """All files for one kind of host.

    The same plan and options give the same files.

    :returns: by path, in the order of installing, README.txt last
    :raises errors.InputError: if there is no plan, or it cannot be put into
        force the way it is wanted
    """
    layout = layouts.layout(planned)
    found = tuple(_plain(layout, wanted))
    if wanted.format in _DEPLOYED:
        found = tuple(_DEPLOYED[wanted.format](layout, wanted, found))
    found += (readme.file(layout, wanted, found),)
    return {one.path: one for one in found}


def _plain(layout: layouts.Layout,
           wanted: options.Options) -> Iterator[options.File]:
    """The files as they go on a host."""
    yield kernel.grub(layout, wanted)
    yield kernel.plain(layout, wanted)
    yield from kernel.pages(layout)
    yield from systemd.files(layout, wanted)
    yield irqbalance.file(layout)
    yield from interrupts.files(layout)
    yield from quiet.files(layout)
    yield from tuned.files(layout, wanted)
    yield from openvswitch.files(layout)
    yield nova_conf.file(layout, wanted)
    yield from provider.files(layout)
