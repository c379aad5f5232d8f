# SPDX-License-Identifier: Apache-2.0
"""Hosts, guests and how the one fits on the other: plain, frozen values."""

from nova_pinning.model.cell_order import CellOrder
from nova_pinning.model.guest import CpuPolicy
from nova_pinning.model.guest import Demand
from nova_pinning.model.guest import Guest
from nova_pinning.model.guest import GuestCell
from nova_pinning.model.guest import PAGE_WORDS
from nova_pinning.model.guest import PAGES_ANY
from nova_pinning.model.guest import PAGES_LARGE
from nova_pinning.model.guest import PAGES_SMALL
from nova_pinning.model.guest import ThreadPolicy
from nova_pinning.model.host import CellView
from nova_pinning.model.host import Host
from nova_pinning.model.host import HostCell
from nova_pinning.model.host import PagePool
from nova_pinning.model.outcome import CellFit
from nova_pinning.model.outcome import Fit
from nova_pinning.model.outcome import Reason
from nova_pinning.model.outcome import Refusal
from nova_pinning.model.outcome import Shortage
from nova_pinning.model.outcome import summarise

__all__ = [
    'PAGES_ANY', 'PAGES_LARGE', 'PAGES_SMALL', 'PAGE_WORDS',
    'CellFit', 'CellOrder', 'CellView', 'CpuPolicy', 'Demand', 'Fit', 'Guest',
    'GuestCell', 'Host', 'HostCell', 'PagePool', 'Reason', 'Refusal',
    'Shortage', 'ThreadPolicy', 'summarise',
]
