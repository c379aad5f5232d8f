# SPDX-License-Identifier: Apache-2.0
"""The releases of nova, by the names and numbers that tell of them.

Operators speak of 2025.1, Python packages of nova 31, and the services of a
cloud of the service version that they report.
"""

from __future__ import annotations

from collections.abc import Callable

from nova_pinning import compat


class UnknownRelease(ValueError):
    """No release of nova has that name."""


@compat.dataclass(frozen=True, slots=True, order=True)
class NovaRelease:
    """A release, which is less than those that came after it.

    :param major: first number of nova's own version: 31
    :param name: of the coordinated release of OpenStack: '2025.1'
    :param code_name: what nova.objects.service calls it: 'Epoxy'
    :param service_version: the highest one that its nova-compute reports,
        from nova.objects.service.SERVICE_VERSION; two releases can have the
        same
    :param microversion: the highest of its compute API is 2.N, from
        nova.api.openstack.api_version_request
    """

    major: int
    name: str
    code_name: str
    service_version: int
    microversion: int

    def __str__(self) -> str:
        return self.name


#: From the oldest to the newest that is known.
RELEASES = (
    # Nova's own SERVICE_VERSION_ALIASES say 66 of Caracal, which is Bobcat's.
    NovaRelease(29, '2024.1', 'Caracal', 67, 96),
    NovaRelease(30, '2024.2', 'Dalmatian', 67, 96),
    NovaRelease(31, '2025.1', 'Epoxy', 68, 100),
    NovaRelease(32, '2025.2', 'Flamingo', 70, 100),
    NovaRelease(33, '2026.1', 'Gazpacho', 72, 103),
    NovaRelease(34, '2026.2', 'Hibiscus', 74, 104),
)

#: The releases that everything here is tested with. Of 2024.1 it is filters,
#: weighers and traits.
TESTED = tuple(release for release in RELEASES
               if release.name != '2024.2' and release.major >= 29)

NEWEST = RELEASES[-1]

#: The first that live-migrates guests with PCI devices of a flavor.
MOVES_DEVICES = next(release for release in RELEASES if release.major == 31)

#: The first that live-migrates guests with a TPM, if hw:tpm_secret_security is
#: host, and no nova-compute of their cell is older
#: (nova.compute.api.MIN_COMPUTE_VTPM_LIVE_MIGRATION).
MOVES_TPMS = next(release for release in RELEASES if release.major == 33)


def of_name(name: str) -> NovaRelease:
    """The release called '2025.1' or 'epoxy'.

    :raises: UnknownRelease, which lists those that are known
    """
    for release in RELEASES:
        if name.casefold() in (release.name, release.code_name.casefold()):
            return release
    raise UnknownRelease(
        f'{name!r} is not a release of nova that is known here; these are: '
        + ', '.join(release.name for release in RELEASES))


def of_nova_version(version: str) -> NovaRelease | None:
    """The release of a version of nova, such as '31.3.1'.

    :returns: None if it is older or newer than all that are known
    """
    first = version.partition('.')[0]
    return next((release for release in RELEASES
                 if first == str(release.major)), None)


def of_service_version(version: int) -> tuple[NovaRelease, ...]:
    """The releases that a service may be of that reports this version.

    :param version: Service.version of nova's API of objects
    :returns: as :func:`of_microversion`
    """
    return _with(version, lambda release: release.service_version)


def of_microversion(microversion: int) -> tuple[NovaRelease, ...]:
    """The releases that a compute API may be of, by its highest version.

    Several releases have the same one. One that none has is of what was
    developed for the release that came next.

    :param microversion: N of 2.N
    :returns: from the oldest on; empty if it is newer or older than all that
        are known
    """
    return _with(microversion, lambda release: release.microversion)


def _with(number: int,
          number_of: Callable[[NovaRelease], int]) -> tuple[NovaRelease, ...]:
    if number < number_of(RELEASES[0]):
        return ()
    same = tuple(release for release in RELEASES
                 if number_of(release) == number)
    return same or tuple(release for release in RELEASES
                         if number_of(release) > number)[:1]
