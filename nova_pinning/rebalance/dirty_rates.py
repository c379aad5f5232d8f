# SPDX-License-Identifier: Apache-2.0
"""How fast guests write to their memory, where somebody has said so."""

from collections.abc import Mapping

from nova_pinning.fleet import snapshot

#: In a server's metadata or a flavor's extra specs: a class, or MiB/s.
KEY = 'pinning:dirty_rate'
#: MiB/s that each class is reckoned with. They are round figures, and not
#: measured: a guest that does nothing, one that serves, one that writes as
#: fast as a 4 Gbit/s link copies.
CLASSES = {'idle': 1.0, 'low': 50.0, 'high': 500.0}


def of_guest(guest: snapshot.FleetGuest,
             extra_specs: Mapping[str, str]) -> float | None:
    """What a guest writes per second, in MiB.

    :param extra_specs: of its flavor; its own metadata outweigh them
    :returns: None if it is not known, or what is said makes no sense
    """
    text = guest.metadata.get(KEY) or extra_specs.get(KEY) or ''
    if text in CLASSES:
        return CLASSES[text]
    try:
        rate = float(text)
    except ValueError:
        return None
    # Neither below nothing, nor what float() makes of 'nan' or 'inf'.
    return rate if 0 <= rate < 2 ** 40 else None
