# SPDX-License-Identifier: Apache-2.0
"""Makes nova's functional harness run on real threads.

Nova is leaving eventlet, but its harness still patches the whole process
with it unless told otherwise, and it must be told before anything else of
nova is imported. Import this first wherever the harness is used; it has
nothing to offer but that. Where eventlet is in use already, or somebody
has set the variable, things stay as they are. Before 2026.1 there is nothing
but eventlet for nova's services.
"""

import os
import sys

_VARIABLE = 'OS_NOVA_DISABLE_EVENTLET_PATCHING'

_is_decided = 'eventlet' in sys.modules or _VARIABLE in os.environ
if not _is_decided:
    os.environ[_VARIABLE] = '1'

from nova import monkey_patch  # noqa: E402

if not _is_decided and not hasattr(monkey_patch, 'patch'):
    del os.environ[_VARIABLE]
    monkey_patch._monkey_patch()

import nova.tests.functional  # noqa: E402,F401
# Up to 2025.1, nova.api.wsgi takes for granted that somebody has imported it.
import webob.dec  # noqa: E402,F401
