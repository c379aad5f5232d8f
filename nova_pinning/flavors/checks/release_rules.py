# SPDX-License-Identifier: Apache-2.0
"""N1xx: what the cloud's release of nova does not have.

They look at the releases that a check is told the cloud may run, and find
nothing where it is not told. What is in which release is in
:mod:`nova_pinning.flavors.release_support`.
"""

from nova_pinning.admission import pci_alias
from nova_pinning.checks import check_rule
from nova_pinning.checks.check_rule import Severity
from nova_pinning.flavors.checks import checked
from nova_pinning.flavors import release_support
from nova_pinning.model import nova_release

_SAY_WHICH = 'say with --release which of them the cloud runs'


def _violation(
    subject: checked.CheckedFlavor,
    lacking: tuple[nova_release.NovaRelease, ...], key: str, message: str,
    advice: str, severity: Severity | None = None,
) -> check_rule.Violation:
    """What some of the releases lack; no more than a warning if not all."""
    if lacking != subject.releases:
        message += ('; the cloud runs '
                    f'{release_support.listed(subject.releases)}')
        advice = f'{_SAY_WHICH}; {advice}'
        severity = Severity.WARNING
    return subject.violation(message, (key,), advice, severity)


@check_rule.rule(
    'N101', Severity.ERROR, 'extra spec that the release does not know',
    why='nova-api refuses to store it (status 400, from microversion 2.86 '
        'on); in a flavor that has it all the same, from an older '
        'microversion or a newer release, it does not do what it says',
    advice='leave it out until the cloud is upgraded')
def unknown_extra_spec(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    for key, value in subject.specs.items():
        support = release_support.EXTRA_SPECS.get(key)
        if support is None:
            continue
        lacking = tuple(release for release in subject.releases
                        if not support.takes(value, release))
        if lacking:
            yield _violation(
                subject, lacking, key, _spec_message(support, value, lacking),
                _spec_advice(support, value))
        elif subject.releases and support.until:
            releases = release_support.listed(subject.releases)
            yield subject.violation(
                f'nova {releases} stores {key}, but {support.without}',
                (key,),
                f'what is read is {support.successor}', Severity.WARNING)


def _spec_message(support: release_support.Support, value: str,
                  lacking: tuple[nova_release.NovaRelease, ...]) -> str:
    what = checked.shown(support.key, value)
    old = f'nova {release_support.listed(lacking)}'
    first = support.first_with(value)
    if first is None:
        return (f'{old} refuses {what}: no release takes '
                f'anything but {support.accepted}')
    told = f'{old} does not know {what}'
    if support.until:
        return f'{told}, which went after {support.until}'
    told += f', which came with {first}'
    if not any(map(support.has_key, lacking)):
        return f'{told}; if it is there all the same, {support.without}'
    if not all(map(support.has_key, lacking)):
        return told
    return f'{told}; if it is there all the same, no server is created'


def _spec_advice(support: release_support.Support, value: str) -> str:
    first = support.first_with(value)
    if first is None:
        return f'it may be {support.accepted}'
    if support.until:
        return f'what is read is {support.successor}'
    return f'leave {support.key} out until all of the cloud runs {first}'


@check_rule.rule(
    'N102', Severity.WARNING, 'image property that the release does not know',
    why='Glance stores any property; nova ignores those that it does not '
        'know, and refuses every server of an image that has one with a '
        'value that it does not know (status 400)',
    advice='take it from the image until the cloud is upgraded')
def unknown_image_property(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    for key, value in subject.image.items():
        lacking = tuple(
            release for release in subject.releases
            if not release_support.is_known_property(key, value, release))
        if not lacking:
            continue
        what = checked.shown(key, value)
        old = f'nova {release_support.listed(lacking)}'
        support = release_support.IMAGE_PROPERTIES.get(key)
        first = (support.first_with(value) if support else
                 release_support.PROPERTY_VALUES[key, value])
        is_ignored = support is not None and not any(
            map(support.has_key, lacking))
        if support is not None and is_ignored:
            message = (f'{old} ignores {what}, which came with '
                       f'{support.since}: {support.without}')
        else:
            message = f'{old} refuses images with {what}'
            message += (f', which came with {first}' if first else
                        f'; no release takes anything but '
                        f'{support.accepted}' if support else '')
        yield _violation(
            subject, lacking, key, message,
            f'take {key} from the image'
            + (f' until all of the cloud runs {first}' if first else ''),
            None if is_ignored else Severity.ERROR)


@check_rule.rule(
    'N103', Severity.ERROR, 'trait that no host of the release has',
    why='no host reports it, so Placement offers none, or refuses the query '
        'where its own os-traits are as old, and no guest finds a host',
    advice='leave it out until the cloud is upgraded')
def unreported_trait(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    for key, trait in release_support.required_traits(subject.specs,
                                                      subject.image):
        first = release_support.TRAITS.get(trait)
        if first is None:
            continue
        lacking = tuple(release for release in subject.releases
                        if release < first)
        if lacking:
            yield _violation(
                subject, lacking, key,
                f'no host of nova {release_support.listed(lacking)} has trait '
                f'{trait}, which came with {first}',
                f'leave {checked.shown_name(key)} out until all of the cloud '
                f'runs {first}')


@check_rule.rule(
    'N104', Severity.NOTE, 'PCI devices without the request filter for them',
    why='with [filter_scheduler] pci_in_placement, nova-scheduler asks '
        'Placement for devices of a kind, whoever looks after them: another '
        "service's, such as Cyborg's, too",
    advice='have no other service report devices of this resource class and '
           'these traits')
def unowned_devices(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    if pci_alias.KEY not in subject.specs:
        return
    first = release_support.REQUEST_FILTERS['owner_nova_filter']
    lacking = tuple(release for release in subject.releases
                    if release < first)
    if lacking:
        yield subject.violation(
            f'nova {release_support.listed(lacking)} has no request filter '
            f'owner_nova_filter, which came with {first} and asks for trait '
            f'{release_support.OWNER_TRAIT}', (pci_alias.KEY,))
