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

"""What platforms have in common that start instances on this host."""

import contextlib
import itertools
import pathlib
from typing import Self

from nova_pinning.bench.platforms import base
from nova_pinning.bench.platforms import runtimes
from nova_pinning.bench.platforms import workspace


class Holder:
    """Has a directory, and instances whose files are in it."""

    def __init__(self) -> None:
        self._workspace: workspace.Workspace | None = None
        self._instances: list[base.Instance] = []
        self._numbers = itertools.count()

    def __enter__(self) -> Self:
        workspace.clear_left_over(runtimes.clear)
        self._workspace = workspace.Workspace()
        return self

    def __exit__(self, *_unused: object) -> None:
        # Each of these is done, whatever becomes of the others; the last
        # comes first.
        with contextlib.ExitStack() as stack:
            if self._workspace:
                stack.callback(self._workspace.unlock)
                stack.callback(runtimes.clear, self._workspace.path)
            for instance in self._instances:
                stack.callback(instance.close)
        self._instances.clear()
        self._workspace = None

    @property
    def _directory(self) -> pathlib.Path:
        assert self._workspace is not None
        return self._workspace.path
