# SPDX-License-Identifier: Apache-2.0
"""nova-pinning guest show: what nova would make of a flavor on a host."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import sys
import textwrap
import typing

import rich.console
import rich.text

from nova_pinning.bridge.offline import standalone
from nova_pinning.checks import check_rule
from nova_pinning.checks import report
from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import display
from nova_pinning.cli import select
from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import host_separation
from nova_pinning.flavors import listing
from nova_pinning.flavors import release_support
from nova_pinning.host import guest_affinity
from nova_pinning.host import host_loader
from nova_pinning.host import host_model
from nova_pinning import model
from nova_pinning.presentation import drawing
from nova_pinning.presentation import fit_text
from nova_pinning.presentation import guest_drawing
from nova_pinning.presentation import printing
from nova_pinning.presentation import terminal_drawing

if typing.TYPE_CHECKING:
    from nova_pinning.bridge.offline import placement_queries
    from nova_pinning.bridge.preview import result

#: Findings about the host that the preview has in words of its own, and what
#: more guests would leave of it.
_TOLD = ('P312', 'P601', 'P602', 'P606')


def _libvirt_version(text: str) -> tuple[int, ...]:
    """A version of libvirt.

    :raises argparse.ArgumentTypeError: if it is none
    """
    try:
        return tuple(map(int, text.split('.')))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a version such as 8.0.0') from None


class ShowGuest(display.ShowOne):
    """Show the guest that nova would make of a flavor on a host.

    What nova would ask Placement, where the guest's vCPUs and memory would
    go or why they do not fit, the XML for libvirt, and a drawing of the
    host. All of it comes from the code of the nova that is installed; no
    cloud and no hypervisor is needed. Without --image-property it is an image
    without properties. With --release, or nova_release in the
    catalogue, it is said what another release of nova does not know, and in
    what its query and XML differ; they are not made for it. The exit status
    is 1 if the guest does not fit, if it is not known whether Placement would
    offer the host, or if flavor check has an error to tell.

    Examples::

      nova-pinning guest show --flavor flavors.yaml:enterprise.2xlarge \\
          --host-file host.yaml -f svg > guest.svg
      nova-pinning guest show --host-file host.yaml --used 2-5,42-45 \\
          --flavor 'vcpus=8 ram=16GiB hw:cpu_policy=dedicated'
      nova-pinning guest show --host-file host.yaml --release 2025.1 \\
          --flavor 'vcpus=8 ram=16GiB hw:cpu_policy=dedicated'
      nova-pinning guest show --flavor flavors.yaml:enterprise.large \\
          --host-file host.yaml -f xml
    """

    pages = ('placement', 'fit', 'xml', 'drawing')
    texts = ('svg',)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            '--flavor', required=True, metavar='FLAVOR',
            help="FILE:NAME of a catalogue, or 'key=value key=value ...' "
                 'with vcpus, ram (MiB, or with a unit), disk and extra '
                 'specs')
        parser.add_argument(
            '--host-file', required=True, metavar='FILE',
            help='host file (YAML or JSON)')
        parser.add_argument(
            '--used', type=common_options.cpu_list, default=cpuset.CpuSet(),
            metavar='CPUS',
            help='host CPUs that other guests are pinned to, such as '
                 '2-5,42-45')
        parser.add_argument(
            '--libvirt', type=_libvirt_version, metavar='VERSION',
            help="the version of the host's libvirt, such as 8.0.0, on which "
                 'some of the XML depends (default: the latest)')
        common_options.add_image_properties(parser)
        common_options.add_release(
            parser, 'the release of nova that the cloud runs, such as 2025.1: '
            'what it does not know, and in what it differs from the one that '
            'is installed, is told')

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        flavor, sold = select.flavor_and_catalogue(parsed_args.flavor)
        cloud = release_support.CloudRelease.of(
            parsed_args.release or (sold.release if sold else None),
            standalone.nova_version())
        host = host_loader.load(parsed_args.host_file)
        unknown = parsed_args.used - host.cpus
        if unknown:
            raise errors.InputError(
                f'CPUs {unknown} are not on host {host.name}',
                errors.Location('--used'))
        # Loads most of nova, so not before the files are known to be good.
        standalone.prepare()
        from nova_pinning.bridge.offline import nova_judgement
        from nova_pinning.bridge import preview
        from nova_pinning.flavors.checks import flavor_check_run
        properties = common_options.image_properties(parsed_args)
        known_specs, known_properties = cloud.readable(
            flavor.extra_specs, properties)
        try:
            seen = preview.preview_guest(
                dataclasses.replace(flavor, extra_specs=known_specs),
                known_properties, host, parsed_args.used, parsed_args.libvirt)
        except errors.InputError as error:
            raise errors.InputError(
                select.without_made_up_name(error), error.where,
                error.advice) from error
        checked = flavor_check_run.make_report(
            flavor_check_run.check(
                [flavor], nova_judgement.judging, (host,), properties,
                cloud=cloud,
                separation=sold.separation if sold else
                host_separation.DEFAULT),
            [flavor], flavor.where.source, cloud)
        shown = _Shown(
            flavor, host, parsed_args.used, seen, checked, cloud,
            tuple(release_support.preview_differences(
                cloud, flavor.extra_specs, properties)))
        if not shown.works:
            self.status = base_command.FINDINGS
        return display.fields(
            shown.as_dict(),
            lambda console: shown.print(parsed_args.formatter, console),
            texts={'svg': lambda: terminal_drawing.svg(shown.drawn())})


@dataclasses.dataclass
class _Shown:
    """A preview for people and for machines."""

    _flavor: flavor_model.Flavor
    _host: host_model.HostDescription
    _used: cpuset.CpuSet
    _seen: result.Preview
    _checked: report.CheckReport
    _cloud: release_support.CloudRelease
    _differences: tuple[str, ...]

    def __post_init__(self) -> None:
        self._found = [
            finding for finding in self._checked.findings
            if finding.severity is not check_rule.Severity.NOTE
            and finding.code not in _TOLD]
        self._errors = [finding for finding in self._found
                        if finding.severity is check_rule.Severity.ERROR]
        #: Whether it fits and nothing else is in the way; None if that is
        #: not known.
        self.works = (
            False if self._seen.refusal is not None or self._errors
            else None if self._seen.undecided else True)

    def drawn(self) -> drawing.Drawing:
        """The host with the guest, or with why it is not there."""
        placement = self._seen.placement
        if self._seen.refusal is not None:
            placement = guest_affinity.GuestAffinity(
                vcpu_cpus={}, name=self._flavor.name,
                refusal=str(self._seen.refusal))
        return guest_drawing.draw(self._host, self._used, placement)

    def print(self, form: str, console: rich.console.Console) -> None:
        """Print all parts with headings, or one of them without."""
        if form in ShowGuest.pages:
            if form != 'fit':
                for difference in self._differences:
                    print(f'warning: {difference}', file=sys.stderr)
            getattr(self, f'_print_{form}')(console)
            return
        flavor = self._flavor
        console.print(rich.text.Text(
            f'{flavor.name} ({flavor.vcpus} vCPUs, '
            f'{quantities.shown_memory(flavor.memory_mib)}) '
            f'on {self._host.name}',
            'bold'))
        for heading, part in (
                ('What nova asks Placement', 'placement'),
                ('libvirt XML', 'xml'),
                ('The host', 'drawing'),
                ('The outcome', 'fit')):
            if part == 'xml' and self._seen.xml is None:
                continue
            console.print()
            if self._differences and part in ('placement', 'xml'):
                heading += f', by {self._cloud.installed_title}'
            console.print(rich.text.Text(heading, 'bold underline'))
            getattr(self, f'_print_{part}')(console)

    def _print_placement(self, console: rich.console.Console) -> None:
        for label, query in (('', self._seen.query),
                             ('or else', self._seen.fallback)):
            if query is None:
                continue
            if label:
                console.print(f'{label}')
            printing.pairs(_query_lines(query), console)

    def _print_xml(self, console: rich.console.Console) -> None:
        # As it is, for those who pipe it on.
        print((self._seen.xml or '').rstrip(), file=sys.stdout)

    def _print_drawing(self, console: rich.console.Console) -> None:
        terminal_drawing.show(self.drawn(), console)

    def _print_fit(self, console: rich.console.Console) -> None:
        seen = self._seen
        if seen.refusal is not None:
            console.print(rich.text.Text.assemble(
                ('Does not fit', 'bold red'), f': {seen.refusal}'))
        else:
            if self._errors:
                console.print(rich.text.Text.assemble(
                    ('Does not work', 'bold red'), ', though there is room: '
                    f'see {", ".join(self._codes())} below'))
            else:
                console.print(rich.text.Text.assemble(
                    ('May fit', 'bold yellow'),
                    f': of the host {seen.undecided}')
                    if seen.undecided else
                    rich.text.Text('Fits', 'bold green'))
            for line in self._fit_lines():
                for part in textwrap.wrap(
                        line, console.width - 2, subsequent_indent='    ',
                        break_on_hyphens=False):
                    console.print(f'  {part}')
        for remark in (*self._differences, *seen.remarks, *[
                f'Of host {self._host.name}, {doubt.text}'
                for doubt in seen.doubts]):
            console.print(f'Note: {remark}')
        for finding in self._found:
            console.print(f'{finding.severity.capitalize()} {finding.code}: '
                          f'{finding.message}; {finding.advice}')
        for waived in self._checked.waived:
            console.print(
                f'Left out: {waived.finding.code}, {waived.reason}')

    def _fit_lines(self) -> Iterable[str]:
        seen = self._seen
        if seen.placement is not None and not seen.placement.vcpu_cpus:
            return 'its vCPUs float over all CPUs of the host',
        return fit_text.lines(_fit(seen.fit))

    def _codes(self) -> list[str]:
        return list(dict.fromkeys(error.code for error in self._errors))

    def as_dict(self) -> dict[str, typing.Any]:
        """The preview for machines."""
        seen = self._seen
        return {
            'version': 1,
            'flavor': listing.as_dict(self._flavor),
            'host': self._host.name,
            'used_cpus': str(self._used),
            'nova': self._cloud.installed,
            'release': self._cloud.title or None,
            'differences': list(self._differences),
            'fits': self.works,
            'refusal': _refusal(seen.refusal),
            'doubts': [doubt.text for doubt in seen.doubts],
            'placement': {
                'query': _query(seen.query),
                'fallback': seen.fallback and _query(seen.fallback)},
            'cells': fit_text.as_list(_fit(seen.fit)),
            'xml': seen.xml,
            'remarks': list(seen.remarks),
            'findings': report.findings_as_dicts(self._found),
            'waived': self._checked.as_dict()['waived']}


def _fit(outcome: model.Fit | model.Refusal | None) -> model.Fit:
    """Where the guest goes, without cells if it floats or does not fit."""
    return outcome if isinstance(outcome, model.Fit) else model.Fit(())


def _query_lines(
        query: placement_queries.SchedulerQuery) -> Iterator[tuple[str, str]]:
    for group in query.asked.groups:
        name = f'group {group.suffix}' if group.suffix else 'resources'
        yield name, ', '.join([_amounts(dict(group.resources)), *(
            f'{word} {trait}' for word, traits in (
                ('with', group.required), ('without', group.forbidden))
            for trait in sorted(traits) if group.suffix)])
    own = [group for group in query.asked.groups if not group.suffix]
    for word, traits in (
            ('required', query.asked.root_required.union(
                *[group.required for group in own])),
            ('forbidden', query.asked.root_forbidden.union(
                *[group.forbidden for group in own]))):
        if traits:
            yield word, ', '.join(sorted(traits))


def _amounts(resources: Mapping[str, int]) -> str:
    return ', '.join(f'{name} {amount}'
                     for name, amount in sorted(resources.items()))


def _refusal(refusal: model.Refusal | None) -> dict[str, str] | None:
    if refusal is None:
        return None
    return {'reason': refusal.reason.value, 'message': str(refusal)}


def _query(query: placement_queries.SchedulerQuery) -> dict[str, typing.Any]:
    return {
        'resources': dict(query.resources),
        'required': list(query.required),
        'forbidden': list(query.forbidden),
        'groups': [{
            'suffix': group.suffix, 'resources': dict(group.resources),
            'required': sorted(group.required),
            'forbidden': sorted(group.forbidden),
        } for group in query.asked.groups],
        'querystring': query.querystring}
