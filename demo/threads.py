# SPDX-License-Identifier: Apache-2.0
"""Makes nova's functional harness run on real threads, where it can.

Nova is leaving eventlet, but its harness still patches the whole process
with it unless told otherwise, and it must be told before anything else of
nova is imported. Import this first wherever the harness is used; it has
nothing to offer but that. Where eventlet is in use already, or somebody
has set the variable, things stay as they are.

Up to 2026.1 the harness keeps each database in one connection to SQLite in
memory, which real threads cannot share: "cannot start a transaction within a
transaction". There it is eventlet, which up to 2025.1 is all that nova has.
"""

import importlib.util
import os
import sys

_VARIABLE = 'OS_NOVA_DISABLE_EVENTLET_PATCHING'

#: Whether the harness is made for real threads: it ends those of this module.
IS_FOR_NATIVE = (
    importlib.util.find_spec('nova.thread_pool_factory') is not None)

if 'eventlet' not in sys.modules and _VARIABLE not in os.environ:
    # Eventlet is asked for as well, since nova looks more than once.
    os.environ[_VARIABLE] = str(int(IS_FOR_NATIVE))

from nova import monkey_patch  # noqa: E402
import nova.tests.functional  # noqa: E402,F401
# Up to 2025.1, nova.api.wsgi takes for granted that somebody has imported it.
import webob.dec  # noqa: E402,F401

# In 2025.2 the harness does not do it, and what nova imports first takes the
# backend of oslo.service that is for real threads.
if not IS_FOR_NATIVE and hasattr(monkey_patch, 'patch'):
    monkey_patch.patch()
