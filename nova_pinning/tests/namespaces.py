# SPDX-License-Identifier: Apache-2.0
"""Whether tests may have namespaces; root of a container often may not."""

import functools
import subprocess


@functools.cache
def missing(*kinds: str) -> str:
    """Why there can be none, '' if there can.

    :param kinds: options of unshare(1)
    """
    try:
        done = subprocess.run(['unshare', *kinds, 'true'], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)
    except FileNotFoundError:
        return 'unshare is not installed (Debian: util-linux)'
    return done.stderr.strip()
