# SPDX-License-Identifier: Apache-2.0
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
