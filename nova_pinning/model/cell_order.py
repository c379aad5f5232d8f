# SPDX-License-Identifier: Apache-2.0
"""Which host cells nova-compute's claim comes to, by release of nova.

Nova's fit is the same in all releases from 2025.1 to 2026.2; that of 2024.1
does not look at free pages. Besides, what differs is what
nova.compute.claims.Claim gives it: before 2026.2 the host's PCI devices only
for guests that ask for some, and so a claim has not kept other guests away
from cells with devices, as the scheduler's fit always has (bug 2144660).
"""

from __future__ import annotations

import enum

from nova_pinning.model import nova_release


class CellOrder(enum.Enum):
    """The host cells that come first for a guest that asks for no devices.

    It only matters on hosts that have devices. Those who ask for some get the
    cells with the most of them first in all releases.
    """

    FEWEST_DEVICES = 'those with the fewest free devices'
    ANY_DEVICES = 'the emptiest, whatever devices they have'
    UNKNOWN = 'either'


_FIXED_IN = nova_release.of_name('2026.2')
_LAST_BEFORE = nova_release.of_name('2026.1')
_LAST_THAT_FORGETS = nova_release.of_name('2024.1')

#: Releases before that of which some point releases have the fix and others
#: have not. There is none up to 31.3.1, 32.2.1 and 33.0.2. The service
#: version does not tell point releases apart.
PARTLY_FIXED: frozenset[nova_release.NovaRelease] = frozenset()


def of_service_version(version: int | None) -> CellOrder:
    """How a nova-compute that reports this service version claims.

    :param version: None if it is not known
    """
    if version is None:
        return CellOrder.UNKNOWN
    if version >= _FIXED_IN.service_version:
        return CellOrder.FEWEST_DEVICES
    # Made while 2026.2 was developed: before the fix, or after it.
    if version > _LAST_BEFORE.service_version:
        return CellOrder.UNKNOWN
    if PARTLY_FIXED.intersection(nova_release.of_service_version(version)):
        return CellOrder.UNKNOWN
    return CellOrder.ANY_DEVICES


def may_forget_pages(version: int | None) -> bool:
    """Whether claims of a nova-compute may not see which pages are free.

    Those of 2024.1 do not (bug 1811886). 2024.2, whose claims do, reports the
    same service version.

    :param version: None if it is not known
    """
    return version is None or version <= _LAST_THAT_FORGETS.service_version


def of_release(name: str | None) -> CellOrder:
    """How nova-compute of a release claims.

    :param name: '2025.1' or such; None if it is not known, and then the
        newest is assumed
    :raises: nova_release.UnknownRelease
    """
    release = nova_release.of_name(name) if name else nova_release.NEWEST
    return of_service_version(release.service_version)
