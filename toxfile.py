# SPDX-License-Identifier: Apache-2.0
"""Lets tox environments share one virtual environment.

Nova and what it needs take about a minute to install, and most of our tox
environments need the same packages. tox rebuilds a directory whenever it is
used under another environment's name; the runner below leaves the name out
of that comparison. What really matters (the interpreter, the packages, the
constraints) is still compared, so a change in any of them rebuilds it.
"""

from tox.plugin import impl
from tox.tox_env import info
from tox.tox_env.python.virtual_env import runner


class SharedInfo(info.Info):
    def compare(self, value, section, sub_section=None):
        if sub_section is None and isinstance(value, dict) and 'name' in value:
            value = value | {'name': 'shared'}
        return super().compare(value, section, sub_section)


class SharedRunner(runner.VirtualEnvRunner):
    @staticmethod
    def id():
        return 'shared'

    @property
    def cache(self):
        return SharedInfo(self.env_dir)


@impl
def tox_register_tox_env(register):
    register.add_run_env(SharedRunner)
