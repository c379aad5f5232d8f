# SPDX-License-Identifier: Apache-2.0
"""What platforms have in common that start instances on this host."""

import contextlib
import itertools
import pathlib
from typing import Self

from nova_pinning.host import machine_files
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import cgroups
from nova_pinning.instance_bench import workspace


class Holder:
    """Has a directory, and instances whose files are in it."""

    _directory: pathlib.Path

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._instances: list[platform_interface.Instance] = []
        self._numbers = itertools.count()

    def __enter__(self) -> Self:
        self._directory = self._stack.enter_context(
            workspace.temporary(_clear))
        return self

    def __exit__(self, *_unused: object) -> None:
        # Each of these is done, whatever becomes of the others; the last
        # comes first.
        for instance in self._instances:
            self._stack.callback(instance.close)
        self._instances.clear()
        self._stack.close()


def _clear(space: pathlib.Path) -> None:
    """Remove what is left of a run: control groups and files.

    Instances have ended with it, since their standard input has.

    :param space: its directory
    :raises bench_errors.BenchError: if something is still mounted, or runs;
        the directory stays then, for the next run to try again
    """
    cgroups.sweep(machine_files.Tree(), space.name)
    workspace.remove(space)
