# SPDX-License-Identifier: Apache-2.0
"""What nova would make of a flavor on a host, before anyone boots it.

Importing it imports nova's libvirt driver, which takes seconds.
"""

from nova_pinning.bridge.preview.compose import preview_guest
from nova_pinning.bridge.preview.result import Preview

__all__ = ['Preview', 'preview_guest']
