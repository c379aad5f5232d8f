# SPDX-License-Identifier: Apache-2.0
"""What room is made for: guests of certain sizes."""

from collections.abc import Sequence
import dataclasses

from nova_pinning import errors
from nova_pinning.fleet import guest_request
from nova_pinning.fleet import snapshot


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlotSize:
    """A size of guests that there shall be more room for.

    :param request: one guest of that size
    :param weight: what room for one counts, beside other sizes
    :param name: as people gave it, '16' or a flavor's name
    """

    request: guest_request.GuestRequest
    name: str
    weight: float = 1.0


def dedicated_slot(
    vcpus: int, memory_mib: int | None = None, weight: float = 1.0,
    guests: Sequence[snapshot.FleetGuest] = (),
) -> SlotSize:
    """A pinned guest of one NUMA cell, without a thread policy.

    :param vcpus: at least 1
    :param memory_mib: None for as much a vCPU as ``guests`` have that are
        pinned, in the median; if there are none, memory is not looked at
    :param guests: of the fleet; the most frequent page size among them is
        that of the slot
    :raises errors.InputError: if vcpus or memory_mib is less than 1
    """
    raise NotImplementedError
