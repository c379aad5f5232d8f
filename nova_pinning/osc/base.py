# SPDX-License-Identifier: Apache-2.0
"""What the commands under ``openstack pinning`` have in common."""

import argparse
import functools
import sys
from typing import Any

from osc_lib.command import command

from nova_pinning.cli import base_command
from nova_pinning.cli import display
from nova_pinning import errors
from nova_pinning.flavors import flavor_cloud
from nova_pinning.segregation import segregation_cloud


class CloudCommand(base_command.DescribedCommand, command.Command):
    """A command that asks a cloud.

    Bad input ends in status 2, a cloud that cannot be worked with in 1.
    """

    @property
    def cloud(self) -> flavor_cloud.FlavorCloud:
        """The cloud to work with."""
        return self.app.client_manager.pinning

    @functools.cached_property
    def host_cloud(self) -> segregation_cloud.SegregationCloud:
        """The same cloud's hosts, aggregates and servers."""
        return segregation_cloud.SegregationCloud(
            self.app.client_manager.sdk_connection, self.cloud.name)

    def document(self, **content: Any) -> dict[str, Any]:
        """A document for JSON about the cloud."""
        return {'version': 1, 'cloud': self.cloud.name, **content}

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            return base_command.run_reporting(super().run, parsed_args)
        except errors.CloudError as error:
            print(f'error: cloud {self.cloud.name}: {error}', file=sys.stderr)
            return base_command.FINDINGS


class CloudLister(CloudCommand, display.ListDisplay):
    """A command that lists what a cloud has."""


class CloudShowOne(CloudCommand, display.ShowDisplay):
    """A command that shows one thing of a cloud."""
