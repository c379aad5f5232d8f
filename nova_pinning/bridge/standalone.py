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

"""Nova as a library: in a program of one's own, not in one of its services.

This module imports nothing of nova, so that it can be asked first.
"""

import os
import warnings


def prepare() -> None:
    """Have nova imported quietly, and without eventlet taking over.

    To be called before anything of nova is imported. Nova patches the whole
    process for eventlet in some of its packages unless it is told not to
    (nova.monkey_patch), and eventlet warns about itself when it is imported.
    """
    os.environ.setdefault('OS_NOVA_DISABLE_EVENTLET_PATCHING', '1')
    for module in ('futurist._utils', 'nova.monkey_patch'):
        warnings.filterwarnings('ignore', module=module)
