# SPDX-License-Identifier: Apache-2.0
"""What nova-compute's claim would make of one request's guest."""

from __future__ import annotations

from collections.abc import Sequence
import types
from typing import Any

from nova import objects

from nova_pinning.bridge import claim
from nova_pinning.bridge import topology
from nova_pinning import fit
from nova_pinning import model


class ClaimPredictor:
    """Asks nova about the guest of one request, on any host.

    :param guest: None if it cannot be read, and then nobody asks
    :param network_metadata: nova.objects.NetworkMetadata or None
    :param ids: by which its cells are known; None for a new server's
    """

    __slots__ = ('_guest', '_ids', '_limits', '_network_metadata',
                 '_nova_guest')

    def __init__(
        self,
        guest: model.Guest | None,
        network_metadata: Any,
        ids: Sequence[int] | None = None,
    ) -> None:
        self._guest = guest
        self._ids = ids
        self._network_metadata = network_metadata
        self._limits: dict[tuple[float | None, float | None], Any] = {}
        self._nova_guest: claim.NovaGuest | None = None

    def limits(self, ratios: tuple[float | None, float | None]) -> Any:
        """nova.objects.NUMATopologyLimits; hosts with like ratios share it.

        Nova only ever reads it, and making one takes as long as a fit.

        :param ratios: the host's CPU and RAM allocation ratios
        """
        limits = self._limits.get(ratios)
        if limits is None:
            cpu_ratio, ram_ratio = ratios
            limits = objects.NUMATopologyLimits(
                cpu_allocation_ratio=cpu_ratio, ram_allocation_ratio=ram_ratio)
            if self._network_metadata:
                limits.network_metadata = self._network_metadata
            self._limits[ratios] = limits
        return limits

    def predict(
        self, attempt: fit.ClaimAttempt, choice: fit.CellChoice,
        bounds: fit.ClaimBounds,
    ) -> fit.Claim | model.Refusal:
        """As :func:`nova_pinning.bridge.claim.predict_claim`.

        :param attempt: on a host that is a view of nova's objects
        """
        # Asked of few hosts, so what it takes is made here.
        if self._nova_guest is None:
            assert self._guest is not None
            self._nova_guest = claim.NovaGuest(self._guest, ids=self._ids)
        host = attempt.host
        limits = self.limits(
            (host.cpu_allocation_ratio, host.ram_allocation_ratio))
        return claim.predict_claim(
            self._nova_guest.under(limits),
            types.SimpleNamespace(cells=topology.nova_cells(host.cells)),
            attempt, choice, bounds)
