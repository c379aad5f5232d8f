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

"""Makes nova's functional harness run on real threads.

Nova is leaving eventlet, but its harness still patches the whole process
with it unless told otherwise, and it must be told before anything else of
nova is imported. Import this first wherever the harness is used; it has
nothing to offer but that. Where eventlet is in use already, or somebody
has set the variable, things stay as they are.
"""

import os
import sys

if 'eventlet' not in sys.modules:
    os.environ.setdefault('OS_NOVA_DISABLE_EVENTLET_PATCHING', '1')

import nova.tests.functional  # noqa: E402,F401
