# SPDX-License-Identifier: Apache-2.0
"""Ports of loopback for servers that come later, or come back."""

import contextlib
import random
import socket


def free() -> int:
    """One that is free, and that the kernel gives to no client meanwhile.

    Of those that bind() finds by itself it may, and tests have many clients.
    """
    while True:
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.bind(('127.0.0.1', random.randrange(10_000, 20_000)))
            return tried.getsockname()[1]
