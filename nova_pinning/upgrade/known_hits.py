# SPDX-License-Identifier: Apache-2.0
"""Which known defects hit an operation on a guest, by the nova of its host.

This is what explanations, the audit and plans of moves ask. What an upgrade
hits all over a fleet is nova_pinning.upgrade.upgrade_check's.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import dataclasses

from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning.checks import check_rule
from nova_pinning.fleet import migration
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.upgrade import defect_model
from nova_pinning.upgrade import hits
from nova_pinning.upgrade import nova_version
from nova_pinning.upgrade import register


@dataclasses.dataclass(frozen=True, slots=True)
class DefectHit:
    """A defect, and why it hits.

    :param reason: what it is about the guest, a sentence without a full stop
    :param is_sure: False if the guest may have been restarted since, which
        nova does not tell
    """

    defect: defect_model.Defect
    reason: str
    is_sure: bool = True

    @property
    def sentence(self) -> str:
        """For people, without a full stop."""
        defect = self.defect
        unless = '' if self.is_sure else (
            f', unless it was restarted on {defect.started_before}')
        return f'{defect.title} ({defect.name}): {self.reason}{unless}'

    def as_dict(self) -> dict[str, object]:
        """The same for JSON."""
        defect = self.defect
        return {
            'code': defect.code, 'bug': defect.bug or None,
            'title': defect.title, 'severity': str(defect.severity),
            'reason': self.reason, 'is_sure': self.is_sure,
            'advice': defect.after or defect.before,
            'fixed': defect.fixed_by_release}


@dataclasses.dataclass(frozen=True, slots=True)
class KnownDefects:
    """The defects of a cloud that is not just being upgraded.

    The register is not read before there is need of it.

    :param usual: what hosts run of which it is not known; None if nothing is
        told of them then
    """

    usual: nova_version.NovaVersion | None = None

    def version_of(
        self, host: offered_host.OfferedHost,
    ) -> nova_version.NovaVersion | None:
        """What a host runs, None if it is not known."""
        return version_of(register.shipped(), host, self.usual)

    def hitting(self, operation: defect_model.Operation,
                guest_on_host: hits.GuestOnHost) -> Iterator[DefectHit]:
        """What goes wrong with an operation on a guest where it is.

        Defects of what only two releases side by side have are left out, and
        none is told where the version is not known, nor of a live migration
        that nova refuses as the guest is stopped.
        """
        version = self.version_of(guest_on_host.host)
        if version is None or (
                operation is defect_model.Operation.LIVE_MIGRATION
                and not migration.is_in_state_for_live(guest_on_host.guest)):
            return
        for defect in register.shipped().defects:
            if (operation not in defect.operations or defect.beside
                    or not defect.affects(version)):
                continue
            reason = hits.GUEST_HITS[defect.hits](guest_on_host) if (
                defect.hits in hits.GUEST_HITS) else ''
            if reason:
                yield DefectHit(defect, reason, is_sure=(
                    defect.started_before is None))


def version_of(
    defects: register.DefectRegister, host: offered_host.OfferedHost,
    *likely: nova_version.NovaVersion | None,
) -> nova_version.NovaVersion | None:
    """What a host runs.

    :param likely: versions that the host runs if it is of their release; the
        first of them is what it runs if its release is not known
    """
    if host.nova_release is None:
        return likely[0] if likely else None
    for version in likely:
        if (version is not None and version.release is not None
                and version.release.name == host.nova_release):
            return version
    return defects.of_release(host.nova_release)


def unknown_place(
    uuid: str, host: str, guest_class: hostclass.HostClass,
    has_cells: bool = False,
) -> hits.GuestOnHost:
    """A guest of which next to nothing is known but its class.

    A dedicated one is taken to have a NUMA cell with a pinned CPU, on a host
    of whose cells nothing is known.

    :param has_cells: whether a shared one has NUMA cells; it is taken to have
        one with a floating vCPU then
    """
    topology = None
    if guest_class is hostclass.HostClass.DEDICATED:
        topology = model.Guest(
            (model.GuestCell((0,), (), 0),), model.CpuPolicy.DEDICATED)
    elif has_cells:
        topology = model.Guest(
            (model.GuestCell((), (0,), 0),), model.CpuPolicy.SHARED)
    return hits.GuestOnHost(
        resident_guest.ResidentGuest(
            uuid=uuid, host=host, vcpus=1, memory_mib=0,
            guest_class=guest_class, topology=topology),
        offered_host.OfferedHost(name=host, cells=()))


def told(found: Iterable[DefectHit]) -> str:
    """What keeps a guest where it is, in a clause; '' if nothing does.

    What goes wrong without that is left out.
    """
    return '; '.join(hit.sentence for hit in found
                     if hit.defect.severity is check_rule.Severity.ERROR)
