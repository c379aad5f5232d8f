# SPDX-License-Identifier: Apache-2.0
"""What makes this project a plugin of OpenStackClient.

Every ``openstack`` command imports this module, so it has to be quick.
"""

from __future__ import annotations

import argparse
from typing import Any
from typing import TYPE_CHECKING
import urllib.parse

if TYPE_CHECKING:
    from nova_pinning.flavors import flavor_cloud

DEFAULT_API_VERSION = '1'
API_NAME = 'pinning'
API_VERSION_OPTION = 'os_pinning_api_version'
API_VERSIONS = {'1': 'nova_pinning.osc.plugin'}

#: What openstacksdk calls a cloud that has no name of its own.
_NAMELESS = ('defaults', 'envvars', '', None)


def make_client(instance: Any) -> flavor_cloud.FlavorCloud:
    """The cloud that the command line names.

    :param instance: osc_lib's ClientManager
    """
    from nova_pinning.flavors import flavor_cloud
    connection = instance.sdk_connection
    return flavor_cloud.FlavorCloud(connection, _name(connection.config))


def build_option_parser(
        parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Global options: none."""
    return parser


def _name(config: Any) -> str:
    """How to call a cloud: as in clouds.yaml, or by its address."""
    name = config.name
    if name in _NAMELESS:
        auth = config.get_auth_args()
        url = str(auth.get('auth_url') or auth.get('endpoint') or '')
        name = urllib.parse.urlsplit(url).netloc or 'without a name'
    region = config.get_region_name()
    return f'{name}/{region}' if region else name
