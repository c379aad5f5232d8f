# SPDX-License-Identifier: Apache-2.0
"""Nova as a library: in a program of one's own, not in one of its services.

This module imports nothing of nova, so that it can be asked first.
"""

import contextlib
from importlib import metadata
import logging
import os
import warnings


def prepare() -> None:
    """Have nova imported quietly, and without eventlet taking over.

    To be called before anything of nova is imported. Nova patches the whole
    process for eventlet in some of its packages unless it is told not to
    (nova.monkey_patch), and eventlet warns about itself when it is imported.
    Told so, nova has oslo.service run on threads. In 2025.2 and 2026.1 that
    fails if something of oslo.service was imported before, which by default
    runs on eventlet.
    """
    os.environ.setdefault('OS_NOVA_DISABLE_EVENTLET_PATCHING', '1')
    for module in ('futurist._utils', 'nova.monkey_patch'):
        warnings.filterwarnings('ignore', module=module)
    # 2025.2 warns services that run on threads, which this is not.
    logging.getLogger('nova.monkey_patch').setLevel(logging.ERROR)
    # Releases whose oslo.service has no such hook have nothing to settle.
    with contextlib.suppress(ImportError, AttributeError):
        from oslo_service import backend

        backend.register_backend_default_hook(
            lambda: backend.BackendType.THREADING)


def nova_version() -> str:
    """The version of the nova that is installed: '34.0.0'."""
    return metadata.version('nova')
