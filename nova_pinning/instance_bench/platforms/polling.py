# SPDX-License-Identifier: Apache-2.0
"""Waiting for what has to be looked at again and again."""

from collections.abc import Iterator
import time


def looks(seconds: float, pause: float) -> Iterator[None]:
    """One look at once, and more until the time is over.

    :param seconds: after which there is no further look
    :param pause: in seconds, between two looks
    """
    limit = time.monotonic() + seconds
    while True:
        yield
        if time.monotonic() >= limit:
            return
        time.sleep(pause)
