# SPDX-License-Identifier: Apache-2.0
"""A defect of nova, as the register has it."""

from collections.abc import Mapping
import dataclasses
import enum
from typing import Annotated

from nova_pinning.checks import check_rule
from nova_pinning.document import codec
from nova_pinning import errors
from nova_pinning.model import nova_release
from nova_pinning import spelling
from nova_pinning.upgrade import hits
from nova_pinning.upgrade import nova_version


class Operation(enum.StrEnum):
    """What goes wrong."""

    BOOT = 'boot'
    LIVE_MIGRATION = 'live migration'
    COLD_MIGRATION = 'cold migration'
    EVACUATION = 'evacuation'
    UNSHELVING = 'unshelving'
    STOP = 'stop of a guest'
    START_UP = 'start of nova-compute'


#: What takes a guest to another host, resizes among cold migrations.
MOVES = frozenset({
    Operation.LIVE_MIGRATION, Operation.COLD_MIGRATION, Operation.EVACUATION})
#: What an upgrade itself does: hosts are drained, and nova-compute restarts.
OF_AN_UPGRADE = frozenset({Operation.LIVE_MIGRATION, Operation.START_UP})


class NovaService(enum.StrEnum):
    """Whose code is wrong. The other services are upgraded before computes."""

    COMPUTE = 'nova-compute'
    SCHEDULER = 'nova-scheduler'
    CONDUCTOR = 'nova-conductor'


@dataclasses.dataclass(frozen=True, slots=True)
class Proof:
    """What shows that there is such a defect, and where: one of these.

    :param test: runs the release's own code
    :param commit: in nova, mends it
    """

    test: Annotated[str, codec.Limit(
        title='the name of a test', pattern='^[a-z0-9_]+$')] = ''
    commit: Annotated[str, codec.Limit(
        title='the id of a commit, 7 to 40 hexadecimal digits',
        pattern='^[0-9a-f]{7,40}$')] = ''

    def __post_init__(self) -> None:
        if bool(self.test) == bool(self.commit):
            raise ValueError('is to name either a test or a commit')


def _hit(name: str) -> str:
    known = hits.GUEST_HITS | hits.HOST_HITS
    if name not in known:
        raise ValueError(f'there is no function {name}; '
                         + spelling.did_you_mean(name, known))
    return name


def _first_versions(
    versions: Mapping[str, nova_version.Numbers],
) -> tuple[tuple[nova_release.NovaRelease, nova_version.Numbers], ...]:
    if not versions:
        raise ValueError('names no release')
    firsts = []
    for name, first in versions.items():
        try:
            release = nova_release.of_name(name)
        except nova_release.UnknownRelease as error:
            raise codec.MisfitError(str(error), name) from None
        if first[0] != release.major:
            raise codec.MisfitError(
                f'{nova_version.joined(first)} is not a version of {name}',
                name)
        firsts.append((release, first))
    return tuple(sorted(firsts))


Sentence = Annotated[str, codec.Limit(
    title='text that does not end in a full stop', minLength=1,
    maxLength=2000, pattern='[^.]$')]
Version = Annotated[nova_version.Numbers, codec.Form(
    Annotated[str, codec.Limit(
        title='a version of nova such as 33.0.2',
        pattern=r'^[1-9][0-9]{0,3}[.][0-9]{1,4}[.][0-9]{1,4}$')],
    nova_version.joined, nova_version.numbers)]
Release = Annotated[nova_release.NovaRelease, codec.Form(
    str, str, nova_release.of_name)]
#: The first version of each of several releases.
FirstVersions = Annotated[
    tuple[tuple[nova_release.NovaRelease, nova_version.Numbers], ...],
    codec.Form(Mapping[str, Version], dict, _first_versions)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A defect of nova.

    :param code: never given to another one
    :param bug: its number on Launchpad, '' if it has none
    :param title: what goes wrong, in a few words
    :param why: what comes of it
    :param hits: name of the function in nova_pinning.upgrade.hits that tells
        whom
    :param since: the first version of each release that has it; a release
        that is newer than all of these has it too, an older one has not;
        empty if all that are known have it
    :param fixed: likewise, the first versions that have it no more
    :param started_before: hits guests only that were last started on an older
        release than this; None if that does not matter
    :param beside: hits only guests on hosts that run this release or a newer
        one, while others have the defect; None if that does not matter
    :param before: what to do before the upgrade
    :param after: what to do after it, '' if it is the same
    :param on_the_way_out: what to do where the old version has it and the new
        one has not, '' if it is the same
    :param commands: for each guest or host, with {guest} and {host}
    :param where: in the register
    """

    code: Annotated[str, codec.Limit(
        title='a code such as U101', pattern='^U[1-9][0-9]{2}$')]
    bug: Annotated[str, codec.Form(Annotated[int, codec.Limit(
        title='the number of a bug on Launchpad', minimum=1000000,
        maximum=9999999)], int, str)] = ''
    title: Sentence
    why: Sentence
    severity: check_rule.Severity
    operations: Annotated[tuple[Operation, ...], codec.Limit(
        title='a list of operations, each once', minItems=1)]
    service: NovaService
    hits: Annotated[str, codec.Form(str, str, _hit)]
    before: Sentence
    shown_by: Proof
    since: FirstVersions = ()
    fixed: FirstVersions = ()
    started_before: Release | None = None
    beside: Release | None = None
    after: Sentence = ''
    on_the_way_out: Sentence = ''
    commands: tuple[Sentence, ...] = ()
    where: errors.Location = dataclasses.field(
        default=errors.Location(''), compare=False)

    def __post_init__(self) -> None:
        if len(set(self.operations)) < len(self.operations):
            raise codec.MisfitError('is in there twice', 'operations')

    @property
    def name(self) -> str:
        """How people are told which it is."""
        return f'bug {self.bug}' if self.bug else self.code

    @property
    def is_of_live_migration(self) -> bool:
        """Whether nothing else goes wrong."""
        return set(self.operations) == {Operation.LIVE_MIGRATION}

    def affects(self, version: nova_version.NovaVersion) -> bool:
        """Whether a version has it.

        One that is newer than all that are known has what was never mended.
        """
        if version.numbers is None or version.release is None:
            return not self.fixed
        if self.since and not _has_reached(version, self.since):
            return False
        return not (self.fixed and _has_reached(version, self.fixed))

    @property
    def fixed_text(self) -> str:
        """Where it is mended: 'nova 29.2.1, 30.1.0, and from 31.0.0 on'."""
        if not self.fixed:
            return 'no release that is known here'
        return _in_words(self.fixed)

    @property
    def fixed_by_release(self) -> dict[str, str]:
        """The first version of each release that is right, for JSON."""
        return {str(release): nova_version.joined(first)
                for release, first in self.fixed}

    @property
    def since_text(self) -> str:
        """Where it came in, likewise; '' if all that are known have it."""
        return _in_words(self.since) if self.since else ''

    @property
    def in_releases(self) -> tuple[nova_release.NovaRelease, ...]:
        """The known releases of which at least one version has it."""
        return tuple(
            release for release in nova_release.RELEASES
            if any(self.affects(nova_version.NovaVersion(
                release.name, numbers, release))
                for numbers in self._telling(release)))

    def _telling(
        self, release: nova_release.NovaRelease,
    ) -> tuple[nova_version.Numbers, ...]:
        """Versions of a release that tell: the first, and that of since."""
        first = (release.major, 0, 0)
        since = dict(self.since).get(release)
        return (first,) if since is None else (first, since)


def _in_words(firsts: FirstVersions) -> str:
    *older, newest = [nova_version.joined(first)
                      for _release, first in sorted(firsts)]
    text = f'from {newest} on' if not older else (
        f'{", ".join(older)}, and from {newest} on')
    return f'nova {text}'


def _has_reached(version: nova_version.NovaVersion,
                 firsts: FirstVersions) -> bool:
    """Whether a version is one of these or a later one."""
    assert version.release is not None and version.numbers is not None
    first = dict(firsts).get(version.release)
    if first is not None:
        return version.numbers >= first
    return version.release > max(release for release, _first in firsts)
