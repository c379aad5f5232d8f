# SPDX-License-Identifier: Apache-2.0
"""All rules over all flavors."""

import collections
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import itertools

from nova_pinning.admission import guest_request
from nova_pinning.checks import check_rule
from nova_pinning.checks import report
from nova_pinning.checks import waiver
from nova_pinning.flavors.checks import cache_rules
from nova_pinning.flavors.checks import checked
from nova_pinning.flavors.checks import classes
from nova_pinning.flavors.checks import cpus
from nova_pinning.flavors.checks import devices
from nova_pinning.flavors.checks import filter_rules
from nova_pinning.flavors.checks import host_fit_rules
from nova_pinning.flavors.checks import memory
from nova_pinning.flavors.checks import nova_rules
from nova_pinning.flavors.checks import quotas
from nova_pinning.flavors.checks import release_rules
from nova_pinning.flavors.checks import scs_rules
from nova_pinning.flavors.checks import target
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import host_separation
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
    filter_rules,
    host_fit_rules,
    cache_rules,
    scs_rules,
    groups={
        'N0': 'What nova refuses',
        'N1': "What the cloud's release of nova does not have",
        'P1': 'CPUs',
        'P2': 'Memory and NUMA cells',
        'P3': 'Devices',
        'P4': 'Weights and limits',
        'P5': 'Classes, traits and names',
        'P6': 'The hosts at hand',
        'S0': "Names of Sovereign Cloud Stack's standards"})

#: What there is to say of a flavor of Ironic's: nothing of CPUs, memory and
#: classes of hosts, since a node is taken as a whole.
_BAREMETAL = ('P503', 'P505', 'P508', 'P509')

#: Has flavors judged by nova, under an image's properties and with the PCI
#: aliases that nova knows: nova_pinning.bridge.offline.nova_judgement.judging.
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
    separation: host_separation.Separation = host_separation.DEFAULT,
    has_scs: bool = False,
) -> tuple[check_rule.Finding, ...]:
    """Look for mistakes in flavors, wherever they come from.

    :param judging: nova's own checks
    :param hosts: to check against, taken to be empty
    :param image_properties: of the image that guests boot from, as Glance
        has them; None if it may be any image
    :param pci_aliases: the PCI aliases that nova knows; None if it knows all
        that the flavors ask for
    :param cloud: the release of nova that the flavors are for
    :param separation: what keeps the classes of guests apart
    :param has_scs: whether to hold them to Sovereign Cloud Stack's standards
    :returns: what was found, flavor by flavor, what nova refuses first
    :raises errors.InputErrors: for image properties that nova does not know
    """
    flavors = tuple(flavors)
    image = image_properties or {}
    targets = target.targets(hosts)
    judged: list[tuple[checked.CheckedFlavor, nova_rules.Judgement]] = []
    with judging(flavors, None if image_properties is None else
                 cloud.readable({}, image)[1], pci_aliases) as judge:
        for flavor in flavors:
            judgement = judge(dataclasses.replace(
                flavor,
                extra_specs=cloud.readable(flavor.extra_specs, image)[0]))
            judged.append((checked.CheckedFlavor(
                flavor, image, judgement.guest, judgement.is_accepted,
                targets, cloud.releases, image_properties is not None,
                separation, has_scs=has_scs), judgement))
    sizes = _sizes(subject for subject, _judgement in judged)
    findings: list[check_rule.Finding] = []
    for subject, judgement in judged:
        findings += [
            refusal.rule.finding(subject.violation(
                refusal.message, refusal.keys, refusal.advice))
            for refusal in judgement.refusals]
        if targets:
            subject = dataclasses.replace(
                subject, companions=tuple(itertools.dropwhile(
                    lambda size: size.vcpus >= subject.flavor.vcpus,
                    sizes[_family(subject)])))
        findings += (
            finding for finding in RULES.run(subject)
            if not subject.is_baremetal or finding.code in _BAREMETAL)
    return tuple(findings)


def _family(subject: checked.CheckedFlavor) -> tuple[str, str]:
    """What flavors have in common that are sold next to each other."""
    return (subject.specs.get(flavor_model.FAMILY_KEY, ''),
            subject.host_class)


def _sizes(
    subjects: Iterable[checked.CheckedFlavor],
) -> dict[tuple[str, str], list[guest_request.GuestRequest]]:
    """The pinned guests of each family, each size once, the largest first."""
    sizes: dict[tuple[str, str], dict[int, guest_request.GuestRequest]] = (
        collections.defaultdict(dict))
    for subject in subjects:
        if subject.guest and subject.is_pinned:
            sizes[_family(subject)].setdefault(
                subject.flavor.vcpus, dataclasses.replace(
                    subject.request, devices=()))
    return collections.defaultdict(list, {
        family: [sizes[vcpus] for vcpus in sorted(sizes, reverse=True)]
        for family, sizes in sizes.items()})


def make_report(
    findings: tuple[check_rule.Finding, ...],
    flavors: Sequence[flavor_model.Flavor], source: str,
    cloud: release_support.CloudRelease = release_support.CloudRelease(),
    hosts: Sequence[host_model.HostDescription] = (),
) -> report.CheckReport:
    """What a check of flavors has to say.

    Findings of rules that a flavor's catalogue has it ignore do not count.

    :param source: a catalogue, or a cloud
    :param cloud: the release of nova that they were checked for
    :param hosts: that they were checked against
    :raises errors.InputError: if there is no such rule
    """
    with_disk = [flavor.name for flavor in flavors
                 if hosts and flavor.local_disk_gib]
    more = f' and {len(with_disk) - 1} more' if len(with_disk) > 1 else ''
    untold = [f'disks, of {with_disk[0]}{more}'] if with_disk else []
    ignored = {flavor.name: flavor.ignored for flavor in flavors}
    for flavor in flavors:
        waiver.check_codes(flavor.ignored, RULES, flavor.where)
    kept: list[check_rule.Finding] = []
    waived: list[waiver.WaivedFinding] = []
    for finding in findings:
        counted, not_counted = waiver.sort_out(
            (finding,), ignored.get(finding.name, {}))
        kept += counted
        waived += not_counted
    return report.CheckReport(
        name='flavor', rules=RULES, findings=tuple(kept),
        waived=tuple(waived), source=source,
        scope=f'in {len(flavors)} flavor{"" if len(flavors) == 1 else "s"}',
        head={'flavors': len(flavors), 'nova': cloud.installed,
              'releases': list(map(str, cloud.releases)),
              'remarks': list(cloud.remarks),
              'not_compared': untold},
        notes=(*_notes(cloud), *((
            ('Not compared with the hosts, whose files do not tell:',
             *untold),) if untold else ())),
        figures=(report.Figure('checked', 'Flavors that were checked',
                               {(): len(flavors)}),))


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
