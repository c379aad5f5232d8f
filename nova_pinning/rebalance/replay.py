# SPDX-License-Identifier: Apache-2.0
"""Moves carried out one after the other, as nova would."""

from collections.abc import Sequence

from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import plan_model


def fleet_after(
    fleet: snapshot.Fleet, moves: Sequence[plan_model.PlannedMove],
) -> snapshot.Fleet:
    """The fleet after some or all moves of a plan that was made for it."""
    raise NotImplementedError
