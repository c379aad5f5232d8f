# SPDX-License-Identifier: Apache-2.0
"""The files that put a plan into force.

Nothing here writes to a disk, but for ``directory``.
"""

from collections.abc import Iterator
from collections.abc import Mapping

from nova_pinning.host import host_model
from nova_pinning.host.render import deploy
from nova_pinning.host.render import interrupts
from nova_pinning.host.render import irqbalance
from nova_pinning.host.render import kernel
from nova_pinning.host.render import nova_conf
from nova_pinning.host.render import openvswitch
from nova_pinning.host.render import options
from nova_pinning.host.render import partition
from nova_pinning.host.render import planned_host
from nova_pinning.host.render import provider
from nova_pinning.host.render import readme
from nova_pinning.host.render import runtime_settings
from nova_pinning.host.render import systemd
from nova_pinning.host.render import tuned

_DEPLOYED = {
    options.RenderFormat.ANSIBLE: deploy.ansible,
    options.RenderFormat.KOLLA: deploy.kolla,
    options.RenderFormat.OPENSTACK_ANSIBLE: deploy.openstack_ansible,
}


def files(
    planned: host_model.HostDescription,
    options: options.RenderOptions = options.RenderOptions(),
) -> Mapping[str, options.RenderedFile]:
    """All files for one kind of host.

    The same plan and options give the same files.

    :returns: by path, in the order of installing, README.txt last
    :raises errors.InputError: if there is no plan, or it cannot be put into
        force the way it is wanted
    """
    layout = planned_host.planned_host_of(planned)
    rendered = tuple(_plain(layout, options))
    if options.format in _DEPLOYED:
        rendered = tuple(_DEPLOYED[options.format](layout, options, rendered))
    rendered += (readme.file(layout, options, rendered),)
    return {file.path: file for file in rendered}


def _plain(layout: planned_host.PlannedHost,
           options: options.RenderOptions) -> Iterator[options.RenderedFile]:
    """The files as they go on a host."""
    yield kernel.grub(layout, options)
    yield kernel.plain(layout, options)
    yield from kernel.pages(layout)
    yield from systemd.files(layout, options)
    yield irqbalance.file(layout)
    yield from interrupts.files(layout)
    yield from runtime_settings.files(layout)
    yield from partition.files(layout, options)
    yield from tuned.files(layout, options)
    yield from openvswitch.files(layout)
    yield nova_conf.file(layout, options)
    yield from provider.files(layout)
