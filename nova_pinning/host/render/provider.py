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

"""provider.yaml: the traits of a planned host."""

from collections.abc import Iterator

from nova_pinning.host.plan import model as plan_model
from nova_pinning.host.render import layout as layouts
from nova_pinning.host.render import options
from nova_pinning.placement import provider_config
from nova_pinning.placement import traits as placement_traits

PATH = (f'{provider_config.DIRECTORY.lstrip("/")}/{options.NAME}'
        f'{provider_config.SUFFIX}')


def make(layout: layouts.Layout) -> provider_config.Made | None:
    """What nova-compute is to tell Placement.

    :returns: None for a host for both classes, which has no trait of either
    :raises errors.InputError: if the host cannot be of its class
    """
    if (layout.plan.purpose is plan_model.Purpose.BOTH
            and len(placement_traits.classes(layout.host.traits)) != 1):
        return None
    return provider_config.make(layout.host)


def files(layout: layouts.Layout) -> Iterator[options.File]:
    """The file that nova-compute reads, if there is anything to say."""
    made = make(layout)
    if made is not None:
        yield options.File(
            PATH, provider_config.text(made, layout.name),
            "traits of the host's resource provider",
            'when nova-compute is restarted')
