# SPDX-License-Identifier: Apache-2.0
"""What can go wrong while something is measured."""


class BenchError(Exception):
    """A case could not be measured; results so far are kept.

    :param message: what is wrong and where, without a full stop
    :param advice: what to do about it
    """

    def __init__(self, message: str, advice: str = '') -> None:
        super().__init__(message)
        self.advice = advice


class InstanceError(BenchError):
    """An instance does not come up, does not answer, or has gone."""


class WorkloadError(BenchError):
    """A command failed, or what it printed has no figure in it."""
