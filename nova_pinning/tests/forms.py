# SPDX-License-Identifier: Apache-2.0
"""Whether tests take their short forms, as testing.rst says."""

import os

SHORT = bool(os.environ.get('CI'))


def turns(count, fault, faults):
    """The requests, of so many, that a fault befalls in turn.

    All of them; in CI every sixth request meets one of the faults.

    :param faults: all that are tried
    """
    if SHORT:
        return range(6 * faults.index(fault), count, 6 * len(faults))
    return range(count)
