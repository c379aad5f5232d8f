# SPDX-License-Identifier: Apache-2.0
"""The files that put a plan into force.

Nothing here writes to a disk, but for ``directory``.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses

from nova_pinning.host import host_model
from nova_pinning.host.render import drivers
from nova_pinning.host.render import forms
from nova_pinning.host.render import host_unit
from nova_pinning.host.render import kernel
from nova_pinning.host.render import manifest
from nova_pinning.host.render import nova_conf
from nova_pinning.host.render import openvswitch
from nova_pinning.host.render import options
from nova_pinning.host.render import partition
from nova_pinning.host.render import planned_host
from nova_pinning.host.render import provider
from nova_pinning.host.render import readme
from nova_pinning.host.render import systemd
from nova_pinning.host.render import tuned


def files(
    planned: host_model.HostDescription,
    chosen: options.RenderOptions = options.RenderOptions(),
) -> Mapping[str, manifest.RenderedFile]:
    """All files for one kind of host.

    The same plan and options give the same files.

    :param planned: has a plan
    :returns: by path, in the order of installing, README.txt last
    :raises errors.InputError: if the plan cannot be put into force the way it
        is wanted
    """
    layout = planned_host.planned_host_of(planned)
    if chosen.confinement is None:
        chosen = dataclasses.replace(
            chosen, confinement=options.Confinement.TUNED if layout.quiet_cpus
            else options.Confinement.AFFINITY)
    plain = rendered = tuple(_plain(layout, chosen))
    if chosen.format in forms.FORMS:
        rendered = tuple(forms.files(layout, chosen, plain))
    rendered += (readme.file(layout, chosen, plain, rendered),)
    return {file.path: file for file in rendered}


def _plain(layout: planned_host.PlannedHost,
           chosen: options.RenderOptions) -> Iterator[manifest.RenderedFile]:
    """The files as they go on a host."""
    yield from kernel.files(layout, chosen)
    yield from tuned.files(layout, chosen)
    yield from systemd.files(layout, chosen)
    yield from host_unit.files(layout, chosen)
    yield from partition.files(layout, chosen)
    yield from openvswitch.files(layout)
    yield from drivers.files(layout)
    yield nova_conf.file(layout, chosen)
    yield from provider.files(layout)
