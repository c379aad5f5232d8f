# SPDX-License-Identifier: Apache-2.0
"""Which guests may move where, as far as room has nothing to do with it."""

from collections.abc import Collection
from collections.abc import Mapping
import dataclasses

from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import plan_model
from nova_pinning.upgrade import known_hits


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MoveLimits:
    """How much may be moved.

    :param moves: at most, None for no limit
    :param memory_mib: copied at most, None for no limit
    :param fixed: UUIDs of guests that stay where they are
    """

    moves: int | None = None
    memory_mib: int | None = None
    fixed: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings:
    """What the operator decides of the rules.

    :param allows_cold: whether guests that cannot move live are moved cold,
        which stops them meanwhile; without, they stay
    :param moves_devices: whether guests with PCI devices are moved, which is
        cold; without, they stay
    :param defects: nova's known ones; None if they are not to be minded
    :param fixed_tags: guests with one of these server tags stay
    :param least_age_days: guests that nova built later stay
    :param most_age_days: guests that nova built earlier stay
    :param default_zone: of hosts that no aggregate puts in a zone
        (default_availability_zone)
    :param isolates: [scheduler] enable_isolated_aggregate_filtering
    """

    allows_cold: bool = True
    moves_devices: bool = True
    defects: known_hits.KnownDefects | None = known_hits.KnownDefects()
    fixed_tags: frozenset[str] = frozenset()
    least_age_days: float | None = None
    most_age_days: float | None = None
    default_zone: str = 'nova'
    isolates: bool = False


class MoveRules:
    """Says of any guest whether and how it may move to a host.

    Guests of equal :meth:`guest_key` are alike in all that this says, and so
    are hosts of equal :meth:`host_key`, but for what depends on where other
    guests are, which is :meth:`group_refusal`.
    """

    def __init__(self, fleet: snapshot.Fleet,
                 settings: RuleSettings = RuleSettings()) -> None:
        self._fleet = fleet
        self.settings = settings

    def guest_refusal(self, guest: snapshot.FleetGuest) -> str:
        """Why a guest cannot leave its host at all; '' if it can."""
        if not guest.is_movable:
            return 'may not be moved'
        return ''

    def host_refusal(self, guest: snapshot.FleetGuest,
                     target: snapshot.FleetHost) -> str:
        """Why a guest cannot go to a host, were it empty; '' if it can."""
        if target.name == guest.host:
            return 'nova does not migrate a guest within its host'
        return ''

    def group_refusal(self, guest: snapshot.FleetGuest, target: str,
                      hosts_of_guests: Mapping[str, str]) -> str:
        """Why the guest's server group keeps it off a host; '' if it does not.

        :param hosts_of_guests: the host of each guest at that moment, by UUID
        """
        return ''

    def is_grouped(self, guest: snapshot.FleetGuest) -> bool:
        """Whether :meth:`group_refusal` could ever say anything of it."""
        return False

    def kind(self, guest: snapshot.FleetGuest,
             target: snapshot.FleetHost) -> plan_model.MigrationKind:
        """How nova would move it there."""
        return plan_model.MigrationKind.LIVE

    def guest_key(self, guest: snapshot.FleetGuest) -> Collection[object]:
        """A hashable of all that :meth:`host_refusal` reads of a guest."""
        return (guest.guest_class, guest.is_movable)

    def host_key(self, host: snapshot.FleetHost) -> Collection[object]:
        """A hashable of all that :meth:`host_refusal` reads of a host."""
        return (host.known_class, host.traits, host.aggregates)

    def evacuation_refusal(self, guest: snapshot.FleetGuest) -> str:
        """Why nova does not evacuate a guest at all; '' if it does."""
        return ''

    def evacuation_host_refusal(self, guest: snapshot.FleetGuest,
                                target: snapshot.FleetHost) -> str:
        """Why it cannot be evacuated to a host, were it empty; '' if it
        can."""
        return ''
