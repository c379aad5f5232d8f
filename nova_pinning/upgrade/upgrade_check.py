# SPDX-License-Identifier: Apache-2.0
"""Which guests and hosts of a fleet an upgrade of nova hits.

While it is under way, the services that are not computes run the new version,
and each host the old one or the new one. After it all run the new one.
"""

import collections
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import enum
import functools
from typing import Any

from nova_pinning.admission import gaps
from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning.checks import check_rule
from nova_pinning.checks import report
from nova_pinning import errors
from nova_pinning.fleet import migration
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.host import words
from nova_pinning.upgrade import defect_model
from nova_pinning.upgrade import hits
from nova_pinning.upgrade import known_hits
from nova_pinning.upgrade import nova_version
from nova_pinning.upgrade import register

# Names in a note.
_SHOWN = 5


class UpgradePhase(enum.StrEnum):
    """When a defect hits."""

    DURING = 'during the upgrade'
    AFTER = 'after it'


@dataclasses.dataclass(frozen=True, slots=True)
class NovaUpgrade:
    """From which nova to which.

    :param upgraded_at: when the last of the hosts that run the new version
        was upgraded, as launched_at of a guest; '' if not known. A guest on
        one of these that was launched later is taken to have been started by
        the new version
    """

    before: nova_version.NovaVersion
    after: nova_version.NovaVersion
    upgraded_at: str = ''


# No slots: what is worked out of it is kept.
@dataclasses.dataclass(frozen=True)
class UpgradedFleet:
    """A fleet that is to be upgraded, or just is."""

    fleet: snapshot.Fleet
    upgrade: NovaUpgrade
    defects: register.DefectRegister

    @functools.cached_property
    def homeless(self) -> Sequence[resident_guest.ResidentGuest]:
        """Guests on hosts that the fleet has not got."""
        names = {host.name for host in self.fleet.hosts}
        return [guest for guest in self.fleet.guests
                if guest.host not in names]

    @functools.cached_property
    def hosts(self) -> Sequence[hits.HostWithGuests]:
        guests = occupied.guests_by_host(self.fleet)
        return [hits.HostWithGuests(host, guests[host.name])
                for host in self.fleet.hosts]

    @functools.cached_property
    def versions(self) -> Mapping[str, nova_version.NovaVersion]:
        """What each host runs now."""
        upgrade = self.upgrade
        return {
            host.name: known_hits.version_of(
                self.defects, host, upgrade.before, upgrade.after)
            or upgrade.before for host in self.fleet.hosts}


def phases(defect: defect_model.Defect, upgrade: NovaUpgrade,
           own: nova_version.NovaVersion) -> tuple[UpgradePhase, ...]:
    """When a defect can hit a guest of a host, or the host.

    :param own: what the host runs now
    """
    if defect.beside is not None:
        # What such a guest has, it got where it is; it goes wrong on the way
        # back from an older host.
        is_newer = own.release is None or own.release >= defect.beside
        return (UpgradePhase.DURING,) if (
            is_newer and defect.affects(upgrade.before)) else ()
    is_after = defect.affects(upgrade.after)
    is_during = is_after or (
        defect.service is defect_model.NovaService.COMPUTE
        and defect.affects(own))
    return tuple(phase for phase, hit in (
        (UpgradePhase.DURING, is_during), (UpgradePhase.AFTER, is_after))
        if hit)


def _find(defect: defect_model.Defect,
          subject: UpgradedFleet) -> Iterator[check_rule.Violation]:
    """All that a defect hits."""
    upgrade = subject.upgrade
    when: dict[nova_version.NovaVersion, tuple[UpgradePhase, ...]] = {}
    for place in subject.hosts:
        own = subject.versions[place.host.name]
        if own not in when:
            when[own] = phases(defect, upgrade, own)
        if not when[own]:
            continue
        if defect.hits in hits.HOST_HITS:
            reason = hits.HOST_HITS[defect.hits](place)
            if reason:
                yield _violation(defect, upgrade, reason, own, place.host)
            continue
        hit = hits.GUEST_HITS[defect.hits]
        for guest in place.guests:
            if _is_spared(defect, guest):
                continue
            reason = hit(hits.GuestOnHost(guest, place.host))
            if reason:
                reason = _as_started(defect, upgrade, own, guest, reason)
            if reason:
                yield _violation(defect, upgrade, reason, own, place.host,
                                 guest)


def _is_spared(defect: defect_model.Defect,
               guest: resident_guest.ResidentGuest) -> bool:
    """Whether nova does nothing with a guest, as it is, that goes wrong."""
    return (defect.is_of_live_migration
            and not migration.is_in_state_for_live(guest))


def _as_started(
    defect: defect_model.Defect, upgrade: NovaUpgrade,
    own: nova_version.NovaVersion, guest: resident_guest.ResidentGuest,
    reason: str,
) -> str:
    """The reason if it matters by which release the guest was started.

    '' if that was one that does not matter.
    """
    release = defect.started_before
    if release is None:
        return reason
    if own.release is not None and own.release < release:
        return f'{reason}, and was started before {release}'
    if upgrade.upgraded_at and guest.launched_at > upgrade.upgraded_at:
        return ''
    return f'{reason}, unless it was restarted on {release}'


def _violation(
    defect: defect_model.Defect, upgrade: NovaUpgrade, reason: str,
    own: nova_version.NovaVersion, host: offered_host.OfferedHost,
    guest: resident_guest.ResidentGuest | None = None,
) -> check_rule.Violation:
    when = phases(defect, upgrade, own)
    is_old = defect.affects(upgrade.before) and defect.beside is None
    is_on_the_way_out = is_old and not defect.affects(upgrade.after)
    advice = defect.on_the_way_out if is_on_the_way_out else ''
    message = f'{reason}; hit {" and ".join(when)}'
    if is_old:
        message += f', as on {upgrade.before.name}'
    severity = None
    if is_old and not defect_model.OF_AN_UPGRADE.intersection(
            defect.operations):
        # The upgrade makes nothing of it worse.
        severity = check_rule.Severity.NOTE
    return check_rule.Violation(
        subject=(f'guest {guest.uuid}' if guest else f'host {host.name}'),
        kind='guest' if guest else 'host',
        id=guest.uuid if guest else '',
        name=(guest.name or guest.uuid) if guest else host.name,
        host=host.name, message=message, severity=severity,
        advice=advice,
        remediation=() if advice else tuple(
            command.format(guest=guest.uuid if guest else '', host=host.name)
            for command in defect.commands
            if _helps_now(defect, own)),
        details={
            'bug': defect.bug or None,
            'phases': [phase.name.lower() for phase in when],
            'operations': list(map(str, defect.operations)),
            'in_releases': list(map(str, defect.in_releases)),
            'fixed': defect.fixed_by_release,
            'launched_at': guest.launched_at if guest else ''})


def _helps_now(defect: defect_model.Defect,
               own: nova_version.NovaVersion) -> bool:
    """Whether a host is so far that commands mend what they are for."""
    return (defect.started_before is None or own.release is None
            or own.release >= defect.started_before)


def _of_defect(
    defect: defect_model.Defect,
) -> check_rule.Rule[UpgradedFleet]:
    named = f'{defect.name}: ' if defect.bug else ''
    operations = ', '.join(defect.operations)
    mended = (f'; right in {defect.fixed_text}' if defect.fixed
              else '; no release that is known here is right')
    advice = defect.before
    if defect.after:
        advice = f'before: {defect.before}; after: {defect.after}'
    return check_rule.Rule(
        defect.code, defect.severity, f'{named}{defect.title}',
        why=f'{defect.why}. Concerns {operations}{mended}',
        advice=advice, find=functools.partial(_find, defect))


def _of_host(name: str, message: str) -> check_rule.Violation:
    return check_rule.Violation(subject=f'host {name}', kind='host', name=name,
                                host=name, message=message)


@check_rule.rule(
    'U901', check_rule.Severity.ERROR,
    'host whose nova is too old for the new services',
    why='nova-api, nova-scheduler and nova-conductor of the new release do '
        'not start while any nova-compute is so old',
    advice='upgrade the host, or delete its compute service if it is gone')
def too_old(subject: UpgradedFleet) -> check_rule.Violations:
    after = subject.upgrade.after.release_name
    least = nova_version.oldest_supported(after)
    for name, version in subject.versions.items():
        own = version.release_name
        if own < least:
            yield _of_host(
                name, f'runs {own}; {after} takes no older than {least}')


@check_rule.rule(
    'U902', check_rule.Severity.WARNING,
    'host whose nova is newer than what is upgraded to',
    why='nova supports computes that are older than its other services, not '
        'newer ones',
    advice='give --to the release that the hosts are to run')
def too_new(subject: UpgradedFleet) -> check_rule.Violations:
    after = subject.upgrade.after
    for name, own in subject.versions.items():
        if (own.release is not None and after.release is not None
                and own.release > after.release):
            yield _of_host(name, f'runs {own.release}')


@functools.cache
def rules() -> check_rule.Registry[UpgradedFleet]:
    """All rules: those of the upgrade itself, and one for each defect."""
    defects = register.shipped()
    registry: check_rule.Registry[UpgradedFleet] = check_rule.Registry(
        groups=defects.groups)
    for rule in (too_old, too_new, *map(_of_defect, defects.defects)):
        registry.add(rule)
    return registry


def upgrade_of(
    fleet: snapshot.Fleet, before: str, after: str, upgraded_at: str = '',
) -> NovaUpgrade:
    """What is upgraded to what.

    :param before: version or release; '' for the oldest that hosts run
    :param after: version or release
    :raises errors.InputError: if there is no such version, if nova cannot be
        upgraded so, or if nothing tells what hosts run
    """
    defects = register.shipped()
    target = defects.version(after, '--to')
    if not before:
        known = sorted(filter(None, (
            host.nova_release for host in fleet.hosts)))
        if not known:
            raise errors.InputError(
                'the snapshot does not tell which nova its hosts run',
                fleet.where, 'say it with --from, such as --from 2025.1')
        before = known[0]
    upgrade = NovaUpgrade(
        defects.version(before, '--from'), target, upgraded_at)
    nova_version.check_path(upgrade.before, upgrade.after)
    return upgrade


def check(fleet: snapshot.Fleet, upgrade: NovaUpgrade,
          source: str) -> report.CheckReport:
    """What an upgrade hits.

    :param source: what the fleet is from, a file or a cloud
    """
    subject = UpgradedFleet(fleet, upgrade, register.shipped())
    findings = tuple(rules().run(subject))
    counts = collections.Counter(
        version.name for version in subject.versions.values())
    return report.CheckReport(
        name='upgrade', rules=rules(), findings=findings, source=source,
        scope=f'in {len(fleet.hosts):,} hosts and {len(fleet.guests):,} '
              f'guests, from {upgrade.before} to {upgrade.after}',
        head={
            'source': source,
            'from': _as_dict(upgrade.before), 'to': _as_dict(upgrade.after),
            'upgraded_at': upgrade.upgraded_at,
            'hosts': len(fleet.hosts), 'guests': len(fleet.guests),
            'releases': dict(sorted(counts.items())),
            'gaps': gaps.as_list(fleet.hosts),
            'remarks': list(remarks(subject))},
        notes=_notes(subject),
        figures=(report.Figure(
            'hosts', 'Hosts by the release that they run',
            {(name,): count for name, count in sorted(counts.items())},
            ('release',)),))


def _as_dict(version: nova_version.NovaVersion) -> dict[str, Any]:
    return {'release': version.name,
            'nova': nova_version.joined(version.numbers)
            if version.numbers else None}


def _notes(subject: UpgradedFleet) -> tuple[tuple[str, ...], ...]:
    told = tuple(remarks(subject))
    return (('What is not sure:', *told),) if told else ()


def remarks(subject: UpgradedFleet) -> Iterator[str]:
    """What could not be found out, a sentence each without a full stop."""
    upgrade, fleet = subject.upgrade, subject.fleet
    for version in (upgrade.before, upgrade.after):
        if not version.is_tested:
            yield (f'{version.doubt}; nova-scheduler tries itself when it '
                   'starts with our filters, and that decides')
    unknown = [host.name for host in fleet.hosts if host.nova_release is None]
    if unknown:
        yield ('the snapshot names no release of nova that is known here for '
               f'{_listed(unknown)}; taken for {upgrade.before}')
    for kind, number, example in gaps.counted(fleet.hosts):
        yield (f'{gaps.NAMES[kind]}, of {words.count(number, "host")} '
               f'({example}): what defects need of it hits nobody here')
    if subject.homeless:
        yield ('nothing is told of '
               f'{words.count(len(subject.homeless), "guest")} on hosts that '
               f'are not in the fleet, such as {subject.homeless[0].host}')
    stopped = sum(not migration.is_in_state_for_live(guest)
                  for place in subject.hosts for guest in place.guests)
    if stopped:
        yield ('nothing of live migration is told of '
               f'{words.count(stopped, "guest")} in a state in which nova '
               'moves none live, such as stopped')
    undated = sum(not guest.launched_at for guest in fleet.guests)
    if undated and any(
            defect.hits in hits.NEED_LAUNCHED_AT and phases(
                defect, upgrade, upgrade.before)
            for defect in subject.defects.defects):
        yield (f'the snapshot does not tell when {undated:,} '
               f'{"guest was" if undated == 1 else "guests were"} launched; '
               'taken for younger than Victoria (2020)')


def _listed(names: Sequence[str]) -> str:
    if len(names) > _SHOWN:
        return words.count(len(names), 'host')
    return words.listed(names) if len(names) > 1 else f'host {names[0]}'
