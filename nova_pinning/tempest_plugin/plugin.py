# SPDX-License-Identifier: Apache-2.0
"""What tempest loads."""

import os
import pathlib
from typing import Any

from tempest.test_discover import plugins

from nova_pinning.tempest_plugin import config


class NovaPinningTempestPlugin(plugins.TempestPlugin):
    """Tests of CPU pinning, and their options."""

    def load_tests(self) -> tuple[str, str]:
        """The directory of the tests, and the one that imports start from."""
        here = pathlib.Path(__file__).resolve().parent
        return os.fspath(here / 'tests'), os.fspath(here.parent.parent)

    def register_opts(self, conf: Any) -> None:
        conf.register_group(config.GROUP)
        conf.register_opts(config.OPTIONS, group=config.GROUP)

    def get_opt_lists(self) -> list[tuple[str, list[Any]]]:
        return [(config.GROUP.name, config.OPTIONS)]
