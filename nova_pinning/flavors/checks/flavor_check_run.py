# SPDX-License-Identifier: Apache-2.0
"""All rules over all flavors."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
import contextlib
import dataclasses

from nova_pinning.checks import check_rule
from nova_pinning.checks import report
from nova_pinning.flavors.checks import checked
from nova_pinning.flavors.checks import classes
from nova_pinning.flavors.checks import cpus
from nova_pinning.flavors.checks import devices
from nova_pinning.flavors.checks import host_fit_rules
from nova_pinning.flavors.checks import memory
from nova_pinning.flavors.checks import nova_rules
from nova_pinning.flavors.checks import quotas
from nova_pinning.flavors.checks import release_rules
from nova_pinning.flavors.checks import target
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import release_support
from nova_pinning.host import host_model

#: All rules, by code.
RULES: check_rule.Registry[checked.CheckedFlavor] = check_rule.Registry(
    nova_rules,
    release_rules,
    cpus,
    memory,
    devices,
    quotas,
    classes,
    host_fit_rules,
    groups={
        'N0': 'What nova refuses',
        'N1': "What the cloud's release of nova does not have",
        'P1': 'CPUs',
        'P2': 'Memory and NUMA cells',
        'P3': 'Devices',
        'P4': 'Weights and limits',
        'P5': 'Classes, traits and names',
        'P6': 'The hosts at hand'})

#: Has flavors judged by nova, under an image's properties and with the PCI
#: aliases that nova knows: nova_pinning.bridge.nova_judgement.judging.
Judging = Callable[
    [Iterable[flavor_model.Flavor], Mapping[str, str] | None,
     Collection[str] | None],
    contextlib.AbstractContextManager[
        Callable[[flavor_model.Flavor], nova_rules.Judgement]]]


def check(
    flavors: Iterable[flavor_model.Flavor], judging: Judging,
    hosts: Iterable[host_model.HostDescription] = (),
    image_properties: Mapping[str, str] | None = None,
    pci_aliases: Collection[str] | None = None,
    cloud: release_support.CloudRelease = release_support.CloudRelease(),
) -> tuple[check_rule.Finding, ...]:
    """Look for mistakes in flavors, wherever they come from.

    :param judging: nova's own checks
    :param hosts: to check against, taken to be empty
    :param image_properties: of the image that guests boot from, as Glance
        has them
    :param pci_aliases: the PCI aliases that nova knows; None if it knows all
        that the flavors ask for
    :param cloud: the release of nova that the flavors are for
    :returns: what was found, flavor by flavor, what nova refuses first
    :raises errors.InputErrors: for image properties that nova does not know
    """
    flavors = tuple(flavors)
    image = image_properties or {}
    targets = target.targets(hosts)
    findings: list[check_rule.Finding] = []
    with judging(flavors, cloud.readable({}, image)[1], pci_aliases) as judge:
        for flavor in flavors:
            judgement = judge(dataclasses.replace(
                flavor,
                extra_specs=cloud.readable(flavor.extra_specs, image)[0]))
            subject = checked.CheckedFlavor(
                flavor, image, judgement.guest, judgement.is_accepted,
                targets, cloud.releases)
            findings += [
                refusal.rule.finding(subject.violation(
                    refusal.message, refusal.keys, refusal.advice))
                for refusal in judgement.refusals]
            findings += RULES.run(subject)
    return tuple(findings)


def make_report(
    findings: tuple[check_rule.Finding, ...], number: int, source: str,
    cloud: release_support.CloudRelease = release_support.CloudRelease(),
) -> report.CheckReport:
    """What a check of so many flavors has to say.

    :param source: a catalogue, or a cloud
    :param cloud: the release of nova that they were checked for
    """
    return report.CheckReport(
        name='flavor', rules=RULES, findings=findings, source=source,
        scope=f'in {number} flavor{"" if number == 1 else "s"}',
        head={'flavors': number, 'nova': cloud.installed,
              'releases': list(map(str, cloud.releases)),
              'remarks': list(cloud.remarks)},
        notes=_notes(cloud),
        figures=(report.Figure('checked', 'Flavors that were checked',
                               {(): number}),))


def _notes(
    cloud: release_support.CloudRelease,
) -> tuple[tuple[str, ...], ...]:
    """For which release and by which nova flavors were checked."""
    items = list(cloud.remarks)
    if cloud.releases and not cloud.is_installed:
        items += [
            f'what nova {cloud.title} does not have, N1xx, is known from '
            'tables',
            f'what nova refuses, N0xx, is what {cloud.installed_title} says, '
            'which is installed here']
    return (('The release of nova:', *items),) if items else ()
