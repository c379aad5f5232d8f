# SPDX-License-Identifier: Apache-2.0
"""What the commands under ``openstack pinning`` have in common."""

import argparse
from collections.abc import Callable
from collections.abc import Iterator
import functools
import json
import sys
from typing import Any
from typing import TypeVar

from osc_lib.command import command

from nova_pinning.cli import base_command
from nova_pinning.cli import display
from nova_pinning import errors
from nova_pinning.flavors import flavor_cloud
from nova_pinning.osc import applying
from nova_pinning.segregation import segregation_cloud

_T = TypeVar('_T')


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

    def print_document(self, **content: Any) -> None:
        """Print a document about the cloud."""
        print(json.dumps(self.document(**content), indent=2))

    def carry_out(
        self, results: Iterator[_T], total: int, what: str, form: str,
        show: Callable[[_T], object], as_dict: Callable[[_T], Any],
        **head: Any,
    ) -> list[_T]:
        """Do what there is to do, and tell what became of it.

        :param results: of what is done when each is asked for
        :param total: how many there will be, of ``what``
        :param form: what --format says: text, or json for a document
        :param show: prints a result for people
        :param as_dict: makes one of the document's
        :param head: what the document says besides
        """
        done: list[_T] = []
        try:
            with applying.interruptible(done, total, what):
                for result in applying.with_progress(results, total, what):
                    done.append(result)
                    if form == 'text':
                        show(result)
        finally:
            if form == 'json':
                self.print_document(
                    **head, results=list(map(as_dict, done)))
        return done

    def is_agreed(self, parsed_args: argparse.Namespace, what: str,
                  has_changed: Callable[[], bool]) -> bool:
        """Whether to go on: asks, unless --yes says so.

        :param has_changed: whether the cloud's ``what`` are no longer as they
            were shown, when the question may have stood there for long
        :raises errors.CloudError: if so
        """
        if parsed_args.yes:
            return True
        if not applying.is_agreed(self.cloud.name, parsed_args.format):
            return False
        if has_changed():
            raise errors.CloudError(
                f'its {what} have changed since, so nothing was done; run the '
                'command again')
        return True

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            return base_command.run_reporting(super().run, parsed_args)
        except errors.CloudError as error:
            print(f'error: cloud {self.cloud.name}: {error}', file=sys.stderr)
            return base_command.FINDINGS


class CloudLister(CloudCommand, display.ListDisplay):
    """A command that lists what a cloud has."""
