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
