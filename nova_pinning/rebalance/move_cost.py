# SPDX-License-Identifier: Apache-2.0
"""What moves cost: bytes, time, and how long guests stand still."""

import dataclasses

from nova_pinning.rebalance import plan_model


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CostSettings:
    """What the time that moves take is reckoned with.

    :param bandwidth_mib: per second, of one migration
    :param parallel: migrations at once at most
    :param window_seconds: in which all moves have to be done, None for any
    :param shared_storage: whether disks are where both hosts reach them, so
        that none is copied
    :param post_copy: whether nova may switch a guest over before all its
        memory has come ([libvirt] live_migration_permit_post_copy)
    :param auto_converge: whether QEMU slows a guest down that writes faster
        than is copied ([libvirt] live_migration_permit_auto_converge)
    """

    bandwidth_mib: float = 1000.0
    parallel: int = 1
    window_seconds: float | None = None
    shared_storage: bool = True
    post_copy: bool = False
    auto_converge: bool = False


def priced(plan: plan_model.RebalancePlan,
           settings: CostSettings) -> plan_model.RebalancePlan:
    """The plan with the seconds of each move."""
    return plan
