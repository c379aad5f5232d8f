# SPDX-License-Identifier: Apache-2.0
"""provider.yaml: the traits of a planned host."""

from collections.abc import Iterator

from nova_pinning.host import plan_model
from nova_pinning.host import provider_config
from nova_pinning.host.render import manifest
from nova_pinning.host.render import planned_host
from nova_pinning.placement import placement_traits

PATH = (f'{provider_config.DIRECTORY.lstrip("/")}/{manifest.NAME}'
        f'{provider_config.SUFFIX}')


def make(
        layout: planned_host.PlannedHost
) -> provider_config.ProviderFile | None:
    """What nova-compute is to tell Placement.

    :returns: None for a host for both classes, which has no trait of either
    :raises errors.InputError: if the host cannot be of its class
    """
    if (layout.plan.purpose is plan_model.Purpose.BOTH
            and len(placement_traits.classes_of(layout.host.traits)) != 1):
        return None
    return provider_config.make(layout.host)


def files(layout: planned_host.PlannedHost) -> Iterator[manifest.RenderedFile]:
    """The file that nova-compute reads, if there is anything to say."""
    made = make(layout)
    if made is not None:
        yield manifest.RenderedFile(
            PATH, provider_config.text(made, layout.name),
            "traits of the host's resource provider",
            'when nova-compute is restarted',
            part=manifest.ManifestPart.TRAITS)
