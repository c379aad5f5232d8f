# SPDX-License-Identifier: Apache-2.0
"""Nova's claim, for those who may never have to ask for it.

Importing this does not import nova, which takes longer than to plan for a
small fleet. The first question does.
"""

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.bridge.offline import standalone
from nova_pinning import fit
from nova_pinning import model


def predict_claim(
    attempt: fit.ClaimAttempt, choice: fit.CellChoice, bounds: fit.ClaimBounds,
) -> fit.Claim | model.Refusal:
    """As :func:`nova_pinning.bridge.offline.fleet_claim.predict_claim`."""
    standalone.prepare()
    from nova_pinning.bridge.offline import fleet_claim
    return fleet_claim.predict_claim(attempt, choice, bounds)


#: For those who mind what nova gets wrong of claims.
BOUNDS = fit.ClaimBounds(ask_nova=predict_claim)


def claimed_fit(
    occupancy: host_occupancy.HostOccupancy,
    request: guest_request.GuestRequest,
    packs_cells: bool = False,
) -> model.Fit | None:
    """As :func:`nova_pinning.bridge.offline.fleet_claim.claimed_fit`."""
    standalone.prepare()
    from nova_pinning.bridge.offline import fleet_claim
    return fleet_claim.claimed_fit(occupancy, request, packs_cells)
