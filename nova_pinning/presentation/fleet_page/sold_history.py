# SPDX-License-Identifier: Apache-2.0
"""How much of a fleet was sold at several times."""

from collections.abc import Iterable

from nova_pinning.fleet import snapshot
from nova_pinning.fleet import summary
from nova_pinning.presentation.fleet_page import page_data


def history(
    fleets: Iterable[snapshot.Fleet],
) -> tuple[page_data.SoldAt, ...]:
    """What snapshots of a fleet tell, the first of them first.

    Those that do not say when they were taken are left out.
    """
    return tuple(sorted((_sold_at(fleet) for fleet in fleets
                         if fleet.taken_at), key=lambda sold: sold.taken_at))


def _sold_at(fleet: snapshot.Fleet) -> page_data.SoldAt:
    classes = summary.summarise(fleet).classes.values()
    return page_data.SoldAt(
        taken_at=fleet.taken_at, hosts=len(fleet.hosts),
        guests=len(fleet.guests),
        dedicated_cpus=sum(total.dedicated_cpus for total in classes),
        pinned_cpus=sum(total.pinned_cpus for total in classes))
