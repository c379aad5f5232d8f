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

"""Which class of hosts a guest belongs on."""

from collections.abc import Mapping
import re

from nova_pinning.flavors import model as flavor_model
from nova_pinning.model import hostclass

# Numbered and named groups, as nova.scheduler.utils.ResourceRequest has them.
_PCPU_KEY = re.compile(r'resources[a-zA-Z0-9_-]{0,64}:PCPU')


def guest_class(
    extra_specs: Mapping[str, str], image_policy: str | None,
    *other_policies: str | None,
) -> hostclass.HostClass:
    """The class of a guest with these extra specs.

    Dedicated if any of its vCPUs is to be pinned, by flavor or image, unless
    the flavor says otherwise with ``pinning:class``.

    :param image_policy: the image's hw_cpu_policy
    :param other_policies: CPU policies that are known from elsewhere
    :raises hostclass.UnknownClass: if the flavor names a class that there is
        not
    """
    named = extra_specs.get(flavor_model.CLASS_KEY)
    if named is not None:
        return hostclass.parse(
            named, f'flavor extra spec {flavor_model.CLASS_KEY}')
    policies = {extra_specs.get('hw:cpu_policy'), image_policy,
                *other_policies}
    if policies & {'dedicated', 'mixed'} or any(
            _PCPU_KEY.fullmatch(key) and value.strip(' 0')
            for key, value in extra_specs.items()):
        return hostclass.HostClass.DEDICATED
    return hostclass.HostClass.SHARED
