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

"""Platforms by name.

Each is imported where it is used only, for some need what is not installed
everywhere.
"""

import importlib

from nova_pinning.bench import model
from nova_pinning.bench.platforms import base
from nova_pinning.bench.platforms import settings

_PLATFORMS = {
    model.PlatformName.BARE_METAL: ('host', 'HostPlatform'),
    model.PlatformName.CONTAINER: ('container', 'ContainerPlatform'),
    model.PlatformName.GUEST: ('guest', 'GuestPlatform'),
    model.PlatformName.CONTAINER_IN_GUEST: ('nested', 'NestedPlatform'),
    model.PlatformName.NOVA: ('server', 'ServerPlatform'),
}


def make(name: model.PlatformName,
         how: settings.Settings) -> base.Platform:
    """A platform; nothing is started, nor looked for."""
    module, kind = _PLATFORMS[name]
    found = importlib.import_module(f'{__package__}.{module}')
    platform: base.Platform = getattr(found, kind)(how)
    return platform
