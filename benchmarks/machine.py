# SPDX-License-Identifier: Apache-2.0
"""The machine that figures come from, beside which they have to stand."""

import importlib.metadata
import os
import platform

from nova_pinning.host.discover import system
from nova_pinning.host import machine_files


def words() -> str:
    """Where the figures come from, in a line that does not name it."""
    model = system.cpu_info(machine_files.Tree()).get('model name')
    return (f'{model or platform.machine()} '
            f'({len(os.sched_getaffinity(0))} CPUs), '
            f'{platform.system()} {platform.machine()}, '
            f'{platform.python_implementation()} {platform.python_version()}, '
            f'nova {importlib.metadata.version("nova")}')
