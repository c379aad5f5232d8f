# SPDX-License-Identifier: Apache-2.0
"""Whether a fleet survives the loss of hosts, and what reserve it lacks."""

import dataclasses
import enum

from nova_pinning import model


class SurvivalVerdict(enum.StrEnum):
    """Whether all guests of lost hosts come up elsewhere.

    YES is shown by evacuations that were carried out one after the other, NO
    is proved, and UNKNOWN is neither.
    """

    YES = 'yes'
    NO = 'no'
    UNKNOWN = 'unknown'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evacuation:
    """One guest, evacuated to the host that nova is told.

    :param guest: its UUID
    :param source: the host that was lost
    :param fit: where nova-compute's claim on the target puts it, None for a
        floating guest
    """

    guest: str
    source: str
    target: str
    name: str = ''
    fit: model.Fit | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DownGuest:
    """A guest that does not come up.

    :param reason: for people, with the figures
    :param is_certain: whether no host would take it even if it came first,
        so that it is down whatever becomes of the others
    """

    guest: str
    host: str
    vcpus: int
    memory_mib: int
    reason: str
    name: str = ''
    flavor: str = ''
    is_certain: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostLoss:
    """What becomes of the guests when one host, or one rack, is lost.

    :param name: of the host, or of what the hosts have in common
    :param hosts: that are lost
    :param guests: how many they have
    :param vcpus: of those
    :param down: guests that do not come up in the best evacuation that was
        found; () if all do
    :param least_down: a proved lower bound of their number
    :param doubt: something that is not known on which an unknown verdict
        depends; '' for nothing
    :param evacuations: in an order in which each fits at its turn
    :param is_unguided: whether they also come up where nova-scheduler
        chooses the hosts with its weighers as they are by default, the
        guests in any order that was tried
    """

    name: str
    hosts: tuple[str, ...]
    guests: int
    vcpus: int
    verdict: SurvivalVerdict
    down: tuple[DownGuest, ...] = ()
    least_down: int = 0
    doubt: str = ''
    evacuations: tuple[Evacuation, ...] = ()
    is_unguided: bool = False

    @property
    def is_proved_least(self) -> bool:
        """Whether no other evacuation leaves fewer guests down."""
        return len(self.down) == self.least_down


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReserveHosts:
    """Empty hosts that are to be added.

    :param like: the host whose cells, traits and aggregates they have
    """

    like: str
    count: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FailoverReserve:
    """Empty hosts with which all losses are survived.

    :param hosts: to add; () if none are needed
    :param least: no fewer hosts will do, proved
    :param unmended: losses that no such hosts mend, with the reason
    """

    hosts: tuple[ReserveHosts, ...] = ()
    least: int = 0
    unmended: tuple[tuple[str, str], ...] = ()

    @property
    def count(self) -> int:
        return sum(added.count for added in self.hosts)

    @property
    def is_least(self) -> bool:
        """Whether it is proved that fewer hosts would not do."""
        return self.count == self.least


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FailoverReport:
    """All losses that were looked at.

    :param groups: what is lost together: 'host', 'aggregate', or the key of
        aggregates' metadata
    :param losses: in the fleet's order
    :param reserve: None if it was not asked for
    :param ungrouped: hosts that are in none of the groups
    :param taken_at: of the fleet, ISO 8601
    """

    groups: str
    losses: tuple[HostLoss, ...]
    reserve: FailoverReserve | None = None
    ungrouped: tuple[str, ...] = ()
    taken_at: str = ''

    def of_verdict(self, verdict: SurvivalVerdict) -> tuple[HostLoss, ...]:
        """The losses that end so."""
        return tuple(loss for loss in self.losses if loss.verdict is verdict)

    @property
    def verdict(self) -> SurvivalVerdict:
        """Whether the fleet survives each of the losses."""
        found = {loss.verdict for loss in self.losses}
        for verdict in (SurvivalVerdict.NO, SurvivalVerdict.UNKNOWN):
            if verdict in found:
                return verdict
        return SurvivalVerdict.YES
