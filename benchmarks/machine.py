# SPDX-License-Identifier: Apache-2.0
"""The machine that figures come from, beside which they have to stand."""

from collections.abc import Mapping
import importlib.metadata
import os
import platform
from typing import Any

from nova_pinning.host.discover import system
from nova_pinning.host import machine_files


def facts() -> dict[str, Any]:
    """Describe where the figures come from, without naming the machine."""
    model = system.cpu_info(machine_files.Tree()).get('model name')
    return {
        'cpu_model': model or platform.machine(),
        'cpus': len(os.sched_getaffinity(0)),
        'system': f'{platform.system()} {platform.machine()}',
        'python': f'{platform.python_implementation()} '
                  f'{platform.python_version()}',
        'load_average': list(os.getloadavg()),
        'versions': {name: importlib.metadata.version(name) for name in (
            'nova', 'nova-pinning', 'oslo.versionedobjects')}}


def words(facts: Mapping[str, Any]) -> str:
    """The same in a line."""
    return (f'{facts["cpu_model"]} ({facts["cpus"]} CPUs), '
            f'{facts["system"]}, {facts["python"]}, nova '
            f'{facts["versions"]["nova"]}')
