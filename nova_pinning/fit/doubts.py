#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Where nova's own fit is in doubt, without asking it."""

from collections.abc import Sequence
import math
from typing import NamedTuple

from nova_pinning import fit
from nova_pinning import model


class Attempt(NamedTuple):
    """The same as the engine sees it, with the names that fit.fit() has."""

    host: model.Host
    guest: model.Guest
    pci: fit.PciCheck | None = None


def permutations_before(order: Sequence[int], chosen: Sequence[int]) -> int:
    """How many permutations nova walks through before it comes to chosen.

    :param order: host cell ids in the order in which nova tries them
    :param chosen: the ids of the guest's host cells
    """
    left = list(order)
    before = 0
    for index, cell_id in enumerate(chosen):
        position = left.index(cell_id)
        del left[position]
        before += position * math.perm(len(left), len(chosen) - index - 1)
    return before


def is_doubtful(attempt: Attempt) -> bool:
    """Whether nova is known to get guests of this kind wrong at times."""
    guest = attempt.guest
    if any((cell.page_size_kib or 0) < 0 for cell in guest.cells):
        return True
    if guest.is_pinned:
        if (guest.emulator_isolated and
                guest.thread_policy is model.ThreadPolicy.ISOLATE):
            return True
        if any(cell.dedicated_count and not cell.free_in_cores and
               cell.free_count for cell in attempt.host.cells):
            # Sibling lists that are empty or overlap: nova fails on the one
            # and pins two vCPUs to one CPU on the other.
            return True
    if len(guest.cells) < 2:
        return False
    return (len(set(guest.demands)) > 1 or
            guest.cpu_policy is model.CpuPolicy.MIXED or
            any(cell.page_size_kib for cell in guest.cells) or
            fit.set_check(attempt.host, guest, attempt.pci) is not None)
