# SPDX-License-Identifier: Apache-2.0
"""Versions of nova, and which of them can be upgraded to which."""

from collections.abc import Mapping
import dataclasses
import re

from nova_pinning import errors
from nova_pinning.model import nova_release

_VERSION = re.compile(r'([1-9][0-9]{0,3})\.([0-9]{1,4})\.([0-9]{1,4})')
_RELEASE_NAME = re.compile(r'20[0-9]{2}\.[12]')

#: Three numbers, as nova numbers what it publishes: 33, 0, 2.
Numbers = tuple[int, int, int]


def numbers(text: str) -> Numbers:
    """The numbers of a version such as '33.0.2'.

    :raises ValueError: if it is none
    """
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f'{text!r} is not a version of nova such as 33.0.2')
    major, minor, patch = map(int, match.groups())
    return major, minor, patch


@dataclasses.dataclass(frozen=True, slots=True)
class NovaVersion:
    """A version of nova that a cloud runs, or is to run.

    :param name: how people call it: '2026.1', or '33.0.2' if it is of no
        release that is known
    :param numbers: None if it is not known, and newer than all that are
    :param release: None if it is newer than all that are known
    :param newer_than: the newest version of its release that is known, if
        this one is newer
    """

    name: str
    numbers: Numbers | None
    release: nova_release.NovaRelease | None
    newer_than: Numbers | None = None

    @property
    def is_tested(self) -> bool:
        """Whether all that is told of it was tried with its release."""
        return self.release in nova_release.TESTED and self.newer_than is None

    @property
    def is_newer_than_known(self) -> bool:
        return self.release is None

    @property
    def doubt(self) -> str:
        """Why what is told of it may not be so; '' if it was tried.

        A clause without a full stop.
        """
        if self.is_tested:
            return ''
        if self.newer_than is not None:
            return (f'{self} is newer than nova {joined(self.newer_than)}, '
                    'the newest of its release that is known here: what was '
                    'mended since is told of it too')
        newest = nova_release.TESTED[-1]
        how = (f'newer than {newest}, the newest' if self.is_newer_than_known
               else 'not among the releases')
        return (f'{self} is {how} that all this is tested with: what is told '
                'of it is not tried')

    def is_older_than(self, other: 'NovaVersion') -> bool:
        """Whether one is of an earlier version; False if nobody can tell."""
        if self.numbers is not None and other.numbers is not None:
            return self.numbers < other.numbers
        return self.release_name < other.release_name

    @property
    def release_name(self) -> str:
        """Of its release, known or not: '2027.1'."""
        if self.release is not None:
            return self.release.name
        return self.name if self.numbers is None else _release_name(
            self.numbers[0])

    def __str__(self) -> str:
        if self.release is None or self.numbers is None:
            return self.name
        return f'{self.name} (nova {joined(self.numbers)})'


def joined(version: Numbers) -> str:
    """The numbers as people write them: '33.0.2'."""
    return '.'.join(map(str, version))


def _release_name(major: int) -> str:
    """Of the release with such a first number: two came out each year."""
    first = nova_release.RELEASES[0]
    years, half = divmod(major - first.major, 2)
    return f'{int(first.name[:4]) + years}.{half + 1}'


def parse(text: str, newest: Mapping[str, Numbers],
          where: errors.Location) -> NovaVersion:
    """A version by its number, or by the name of its release.

    :param text: '2026.1' and 'gazpacho' are the newest version of that
        release, '33.0.2' is just that one
    :param newest: version of each release, by the release's name
    :param where: what errors call it
    :raises errors.InputError: if there is no such release
    """
    if _VERSION.fullmatch(text):
        own = numbers(text)
        if own[0] > nova_release.NEWEST.major:
            return NovaVersion(text, own, None)
        release = nova_release.of_nova_version(text)
        if release is None:
            raise errors.InputError(
                f'nova {text} is older than all releases that are known '
                'here', where, _known())
        known = newest[release.name]
        return NovaVersion(release.name, own, release,
                           known if own > known else None)
    try:
        release = nova_release.of_name(text)
    except nova_release.UnknownRelease:
        if _RELEASE_NAME.fullmatch(text) and text > nova_release.NEWEST.name:
            return NovaVersion(text, None, None)
        raise errors.InputError(
            f'{text!r} is not a release of nova that is known here', where,
            _known()) from None
    return NovaVersion(release.name, newest[release.name], release)


def _known() -> str:
    names = ', '.join(release.name for release in nova_release.RELEASES)
    return f'known are {names}, and versions of nova such as 33.0.2'


def oldest_supported(release_name: str) -> str:
    """The oldest release whose computes a release's other services suffer.

    Nova's services do not start while there are older ones
    (nova.utils.raise_if_old_compute): of two SLURP releases in a row none may
    be left out, nor one on the way to a release between them
    (nova.objects.service.OLDEST_SUPPORTED_SERVICE_VERSION).

    :param release_name: '2026.2'; one that is not known yet will do
    :returns: the name of the last SLURP release before, those that end in .1
    """
    year, half = map(int, release_name.split('.'))
    return f'{year}.1' if half > 1 else f'{year - 1}.1'


def check_path(before: NovaVersion, after: NovaVersion) -> None:
    """Make sure that nova can be upgraded so.

    :raises errors.InputError: if nova does not support it
    """
    where = errors.Location('--to')
    if after.is_older_than(before):
        raise errors.InputError(
            f'{after} is older than {before}, which is to be upgraded; nova '
            'cannot be downgraded', where)
    least = oldest_supported(after.release_name)
    if before.release_name < least:
        raise errors.InputError(
            f'nova does not support an upgrade from {before.release_name} to '
            f'{after.release_name}: its services do not start while any '
            f'nova-compute is older than {least}', where,
            f'upgrade to {least} first')
