# SPDX-License-Identifier: Apache-2.0
"""Platforms by name.

Each is imported where it is used only, for some need what is not installed
everywhere.
"""

import pkgutil

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import settings

_PLATFORMS = {
    bench_model.PlatformName.BARE_METAL: 'host:HostPlatform',
    bench_model.PlatformName.CONTAINER: 'container:ContainerPlatform',
    bench_model.PlatformName.GUEST: 'guest:GuestPlatform',
    bench_model.PlatformName.CONTAINER_IN_GUEST: 'nested:NestedPlatform',
    bench_model.PlatformName.NOVA: 'server:ServerPlatform',
}


def make(name: bench_model.PlatformName,
         how: settings.PlatformSettings) -> platform_interface.Platform:
    """A platform; nothing is started, nor looked for."""
    platform: platform_interface.Platform = pkgutil.resolve_name(
        f'{__package__}.{_PLATFORMS[name]}')(how)
    return platform
