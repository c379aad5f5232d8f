# SPDX-License-Identifier: Apache-2.0
"""What room is made for: guests of certain sizes."""

import collections
from collections.abc import Sequence
import dataclasses
import statistics

from nova_pinning.admission import guest_request
from nova_pinning.admission import resident_guest
from nova_pinning.document import terms
from nova_pinning import errors
from nova_pinning import model
from nova_pinning.model import hostclass


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlotSize:
    """A size of guests that there shall be more room for.

    :param request: one guest of that size
    :param weight: what room for one counts, beside other sizes
    :param name: as people gave it, '16' or a flavor's name
    """

    request: guest_request.GuestRequest
    name: str
    weight: terms.Positive = 1.0


def dedicated_slot(
    vcpus: int, memory_mib: int | None = None, weight: float = 1.0,
    guests: Sequence[resident_guest.ResidentGuest] = (),
) -> SlotSize:
    """A pinned guest of one NUMA cell, without a thread policy.

    :param vcpus: at least 1
    :param memory_mib: None for as much a vCPU as ``guests`` have that are
        pinned, in the median; if there are none, memory is not looked at
    :param guests: of the fleet; the most frequent page size among them is
        that of the slot
    :raises errors.InputError: if vcpus or memory_mib is less than 1
    """
    if vcpus < 1:
        raise errors.InputError(
            f'a guest of {vcpus} vCPUs', errors.Location('--for'),
            'give a number of vCPUs from 1 up')
    pinned = [guest for guest in guests
              if guest.topology is not None and guest.topology.is_pinned]
    page_size_kib = None
    if pinned:
        page_sizes = collections.Counter(
            guest.fit and guest.fit.page_size_kib
            or guest.topology.cells[0].page_size_kib
            for guest in pinned if guest.topology is not None)
        page_size_kib = min(page_sizes, key=lambda size: (
            -page_sizes[size], size or 0))
    if memory_mib is None:
        memory_mib = 0
        if pinned:
            memory_mib = _whole_pages(vcpus * statistics.median_low(
                guest.memory_mib // guest.vcpus for guest in pinned),
                page_size_kib)
    elif memory_mib < 1:
        raise errors.InputError(
            f'a guest of {memory_mib} MiB', errors.Location('--for'),
            'give an amount of memory from 1 MiB up')
    topology = model.Guest(
        (model.GuestCell(tuple(range(vcpus)), (), memory_mib,
                         page_size_kib),),
        model.CpuPolicy.DEDICATED)
    return SlotSize(
        request=guest_request.of_shape(
            str(vcpus), vcpus, memory_mib, hostclass.HostClass.DEDICATED,
            topology, extra_specs={'hw:cpu_policy': 'dedicated'}),
        name=str(vcpus), weight=weight)


def _whole_pages(memory_mib: int, page_size_kib: int | None) -> int:
    """Memory in whole pages, if it has to be in pages of one size."""
    page_mib = (page_size_kib or 0) // 1024
    if page_mib <= 1:
        return memory_mib
    return -(-memory_mib // page_mib) * page_mib
