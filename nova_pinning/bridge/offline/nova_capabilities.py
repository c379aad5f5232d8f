# SPDX-License-Identifier: Apache-2.0
"""What the nova that is installed has, of what not all releases have.

Everything that depends on the release of nova stands here, and goes by what
is there: distributions take changes into older releases.
"""

from collections.abc import Callable
from collections.abc import Iterable
import types
from typing import Any

from nova.pci import devspec
from nova.scheduler import request_filter


def functions(module: types.ModuleType,
              names: Iterable[str]) -> tuple[Callable[..., Any], ...]:
    """Those functions of a module that this nova has, in this order."""
    return tuple(getattr(module, name)
                 for name in names if hasattr(module, name))


#: Whether nova-scheduler only asks for providers of nova's own, those with
#: the trait OWNER_NOVA (2026.2).
REQUIRES_OWNER = hasattr(request_filter, 'owner_nova_filter')

#: Whether nova.pci.devspec looks at options (2025.2), besides its callers.
DEVICE_SPECS_HAVE_OPTIONS = hasattr(devspec, 'CONF')
