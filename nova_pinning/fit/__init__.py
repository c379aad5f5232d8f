# SPDX-License-Identifier: Apache-2.0
"""The engine: does a guest fit on a host, and exactly where.

Words that the engine uses. Where nova has one, it is nova's.

Hosts:

host cell
    A NUMA node of a host: CPUs, memory and its pages, and what is near
    (nova.objects.NUMACell).
CPU, core, thread, sibling
    A CPU is what the kernel numbers and a vCPU runs on: one thread of a core.
    A core's CPUs are siblings of each other; without SMT it has one.
L3 domain
    The CPUs of a cell that share an L3 cache.
dedicated, shared
    CPUs that vCPUs are pinned to, each for one of them, and CPUs that vCPUs
    float over (nova's cpu_dedicated_set and cpu_shared_set). A cell where
    both are the same CPUs is called legacy.
allocatable
    The CPUs that guests may have at all, dedicated and shared. The host keeps
    the others for itself.
pinned
    Of a vCPU: to run on one host CPU only. Of a host CPU: to have such a
    vCPU. A stray pin is one outside the dedicated CPUs.
pages, pool
    The memory of a cell in pages of one size is a pool.

Guests:

guest cell
    A NUMA cell of a guest; each goes on its own host cell
    (nova.objects.InstanceNUMACell).
demand
    What one guest cell asks of the host cell it is put on.
thread policy
    prefer takes any free CPUs, require whole cores, isolate whole cores for
    one vCPU each (hw:cpu_thread_policy).
emulator threads
    What QEMU runs beside the vCPUs; isolated ones get their own CPU.
size
    A kind of guest on sale, as far as counting goes: so many equal cells with
    so many vCPUs and so much memory each.

The one on the other:

room
    What a host cell has left: free CPUs, by how they share cores, and free
    memory. It takes so many guest cells of a size.
stranded
    Free CPUs that no further guest of a size can be sold.
choice
    A host cell for each guest cell, the first in nova's order that will do.
fit
    A choice with the CPUs and pages that the guest gets there.
refusal, shortage
    Why there is no fit, and what one host cell lacks for one guest cell.
attempt
    A guest tried on a host, with the host's PCI devices.
claim
    nova-compute's own fit, when the guest arrives there. It counts, so it is
    predicted, or nova's code is asked.
drawback
    What speaks against a host on which the guest fits: it is for guests that
    find no other.
decision
    The fit that holds on a host, with its drawback.
"""

from __future__ import annotations

from nova_pinning.fit._cells import CellChoice
from nova_pinning.fit._cells import choose_cells
from nova_pinning.fit._cells import PciCheck
from nova_pinning.fit._cells import set_check
from nova_pinning.fit._decide import comes_alone
from nova_pinning.fit._decide import decide
from nova_pinning.fit._decide import Decision
from nova_pinning.fit._decide import is_cut_off
from nova_pinning.fit._pins import pin
from nova_pinning.fit._pins import pin_cell
from nova_pinning.fit._sizing import allowed_pools
from nova_pinning.fit._sizing import DeviceDemand
from nova_pinning.fit._sizing import free_pools
from nova_pinning.fit._sizing import Room
from nova_pinning.fit._sizing import Size
from nova_pinning.fit._sizing import spread
from nova_pinning.fit.known_defects import AskNova
from nova_pinning.fit.known_defects import Claim
from nova_pinning.fit.known_defects import ClaimAttempt
from nova_pinning.fit.known_defects import ClaimBounds
from nova_pinning.fit.known_defects import has_open_pages
from nova_pinning.fit.known_defects import is_changed_by_claims
from nova_pinning.fit.known_defects import PageSizes
from nova_pinning import model

__all__ = [
    'AskNova',
    'ClaimAttempt',
    'ClaimBounds',
    'CellChoice',
    'Claim',
    'Decision',
    'DeviceDemand',
    'PageSizes',
    'PciCheck',
    'Room',
    'Size',
    'allowed_pools',
    'choose_cells',
    'comes_alone',
    'decide',
    'fit_guest',
    'free_pools',
    'has_open_pages',
    'is_changed_by_claims',
    'is_cut_off',
    'pin',
    'pin_cell',
    'set_check',
    'spread']


def fit_guest(
    host: model.Host,
    guest: model.Guest,
    *,
    pack: bool = False,
    pci: PciCheck | None = None,
) -> model.Fit | model.Refusal:
    """The first assignment in nova's order that is valid, or why none is.

    Exact, and polynomial in the number of cells and CPUs; only guests with
    PCI devices or NUMA-aware networks can cost more, as the number of
    different sets of host cells near such devices and networks does.

    :param pack: nova's packing_host_numa_cells_allocation_strategy
    :param pci: the host's PCI devices and what the guest wants of them, None
        if the host has no tracker of them
    """
    choice = choose_cells(host, guest, pack=pack, pci=pci)
    if isinstance(choice, model.Refusal):
        return choice
    return pin(guest, choice.cells)
