# SPDX-License-Identifier: Apache-2.0
"""Which known defects hit an operation on a guest, by the nova of its host.

This is what explanations, the audit and plans of moves ask. What an upgrade
hits all over a fleet is nova_pinning.upgrade.upgrade_check's.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses

from nova_pinning.fleet import snapshot
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
            'fixed': {str(release): '.'.join(map(str, first))
                      for release, first in defect.fixed}}


@dataclasses.dataclass(frozen=True, slots=True)
class KnownDefects:
    """The defects of a cloud that is not just being upgraded.

    :param usual: what hosts run of which it is not known; None if nothing is
        told of them then
    """

    usual: nova_version.NovaVersion | None = None
    defects: register.DefectRegister = dataclasses.field(
        default_factory=register.shipped)

    def version_of(
        self, host: snapshot.FleetHost,
    ) -> nova_version.NovaVersion | None:
        """What a host runs, None if it is not known."""
        return version_of(self.defects, host, self.usual)

    def hitting(self, operation: defect_model.Operation,
                place: hits.GuestOnHost) -> Iterator[DefectHit]:
        """What goes wrong with an operation on a guest where it is.

        Defects of what only two releases side by side have are left out, and
        none is told where the version is not known.
        """
        version = self.version_of(place.host)
        if version is None:
            return
        for defect in self.defects.defects:
            if (operation not in defect.operations or defect.beside
                    or not defect.affects(version)):
                continue
            reason = hits.GUEST_HITS[defect.hits](place) if (
                defect.hits in hits.GUEST_HITS) else ''
            if reason:
                yield DefectHit(defect, reason, is_sure=(
                    defect.started_before is None))


def version_of(
    defects: register.DefectRegister, host: snapshot.FleetHost,
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


def as_place(guest: snapshot.FleetGuest,
             hosts: Mapping[str, snapshot.FleetHost],
             ) -> hits.GuestOnHost | None:
    """A guest where it is; None if it is on no host that is known."""
    host = hosts.get(guest.host)
    return hits.GuestOnHost(guest, host) if host is not None else None
