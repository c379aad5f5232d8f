# SPDX-License-Identifier: Apache-2.0
"""What filters and weighers can tell of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata

from nova_pinning import model


class MetricsRecorder:
    """What filters and weighers tell of themselves; this one drops it.

    No method raises, and any thread may call them.

    :ivar self_test_passed: what the self-test at start-up found, None if it
        is not known
    """

    self_test_passed: bool | None = None

    def filtered(self, filter_name: str, passed: int,
                 refused: Mapping[model.Reason, int], seconds: float) -> None:
        """A filter has seen all hosts for one instance.

        :param passed: how many hosts it passed
        :param refused: how many it refused, by model.Reason
        :param seconds: that it took
        """

    def weighed(self, weigher_name: str, hosts: int, seconds: float) -> None:
        """A weigher has weighed so many hosts for one instance."""

    def held_back(self, reason: str, hosts: int, used: bool) -> None:
        """Hosts are good only where no other is left.

        :param reason: a model.Reason
        :param used: whether no other was
        """

    def differed(self, filter_name: str, who_refuses: str, reason: str,
                 hosts: int) -> None:
        """One of nova's filter and ours refuses hosts, the other does not.

        :param who_refuses: 'nova' or 'ours'
        :param reason: a model.Reason
        """

    def error(self, component: str, kind: str) -> None:
        """Something went wrong that should not.

        :param component: the filter or weigher
        :param kind: the name of the exception's class
        """

    def searched(self, longest_seconds: float, is_exceeded: bool) -> None:
        """Hosts took a search, for one instance.

        :param longest_seconds: what the host took that took longest
        :param is_exceeded: whether the request took up all its time
        """

    def self_test(self, passed: bool) -> None:
        """What the self-test at start-up found."""

    def no_host(self) -> None:
        """Our filters left no host for an instance."""

    def stop(self) -> None:
        """Write no more, and remove what was written."""


def package_version(package: str) -> str:
    """'unknown' of one that was not installed as a package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return 'unknown'
