#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""nova-pinning guest show: what nova would make of a flavor on a host."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from collections.abc import Mapping
import json
import sys
import textwrap
import typing

import rich.console
import rich.text

from nova_pinning.bridge import standalone
from nova_pinning.cli import base
from nova_pinning.cli import drawings
from nova_pinning.cli import options
from nova_pinning.cli import select
from nova_pinning import cpuset
from nova_pinning.document import files
from nova_pinning.document import quantities
from nova_pinning import drawing
from nova_pinning.drawing import guest as guest_drawing
from nova_pinning.drawing import svg
from nova_pinning import errors
from nova_pinning.flavors import finding
from nova_pinning.flavors import listing
from nova_pinning.flavors import model
from nova_pinning.flavors import report
from nova_pinning.host import load
from nova_pinning.host import model as host_model
from nova_pinning import model as engine
from nova_pinning.reports import fits

if typing.TYPE_CHECKING:
    from nova_pinning.bridge.preview import result
    from nova_pinning.bridge import queries

_PARTS = ('placement', 'fit', 'xml', 'drawing')


class ShowGuest(base.Command):
    """Show the guest that nova would make of a flavor on a host.

    What nova would ask Placement, where the guest's vCPUs and memory would
    go or why they do not fit, the XML for libvirt, and a drawing of the
    host. All of it comes from nova's own code; no cloud and no hypervisor
    is needed. The exit status is 1 if the guest does not fit.
    """

    epilog = """
        Examples::

          nova-pinning guest show --flavor flavors.yaml:enterprise.2xlarge \\
              --host host.yaml --svg guest.svg
          nova-pinning guest show --host host.yaml --used 2-5,42-45 \\
              --flavor 'vcpus=8 ram=16GiB hw:cpu_policy=dedicated'
          virsh capabilities > capabilities.xml
          nova-pinning guest show --flavor flavors.yaml:enterprise.large \\
              --host capabilities.xml --dedicated-cpus 2-39,42-79 --only xml
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--flavor', required=True, metavar='FLAVOR',
            help="FILE:NAME of a catalogue, or 'key=value key=value ...' "
                 'with vcpus, ram (MiB, or with a unit), disk and extra '
                 'specs')
        parser.add_argument(
            '--host', required=True, metavar='FILE',
            help='host file (YAML or JSON), or what virsh capabilities '
                 'prints')
        parser.add_argument(
            '--used', type=options.cpu_list, default=cpuset.CpuSet(),
            metavar='CPUS',
            help='host CPUs that other guests are pinned to, such as '
                 '2-5,42-45')
        parser.add_argument(
            '--dedicated-cpus', type=options.cpu_list, metavar='CPUS',
            help="[compute] cpu_dedicated_set in place of the file's")
        parser.add_argument(
            '--shared-cpus', type=options.cpu_list, metavar='CPUS',
            help="[compute] cpu_shared_set in place of the file's")
        options.add_image_properties(parser)
        parser.add_argument('--svg', metavar='FILE',
                            help='write the drawing to a file as well')
        output = parser.add_mutually_exclusive_group()
        options.add_format(output, 'table', 'json')
        output.add_argument('--only', choices=_PARTS, metavar='PART',
                            help='print one part of it: '
                                 + ', '.join(_PARTS))
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        flavor = select.flavor(parsed_args.flavor)
        host = load.override(load.load(parsed_args.host),
                             dedicated=parsed_args.dedicated_cpus,
                             shared=parsed_args.shared_cpus)
        unknown = parsed_args.used - host.cpus
        if unknown:
            raise errors.InputError(
                f'CPUs {unknown} are not on host {host.name}',
                errors.Location('--used'))
        # Loads most of nova, so not before the files are known to be good.
        standalone.prepare()
        from nova_pinning.bridge import preview
        from nova_pinning.flavors import checks
        properties = options.image_properties(parsed_args)
        seen = preview.preview(flavor, properties, host, parsed_args.used)
        found = [one for one in checks.check([flavor], (), properties)
                 if one.severity is not finding.Severity.NOTE]
        shown = _Shown(flavor, host, parsed_args.used, seen, found)
        if parsed_args.svg is not None:
            files.replace(parsed_args.svg, svg.render(
                host, parsed_args.used, shown.placement))
        if parsed_args.format == 'json':
            print(json.dumps(shown.as_dict(), indent=2))
        else:
            shown.print(parsed_args.only)
        return base.OK if seen.refusal is None else base.FINDINGS


class _Shown:
    """A preview for people and for machines."""

    def __init__(self, flavor: model.Flavor, host: host_model.HostDescription,
                 used: cpuset.CpuSet, seen: result.Preview,
                 found: list[finding.Finding]) -> None:
        self._flavor = flavor
        self._host = host
        self._used = used
        self._seen = seen
        self._found = found
        #: What to draw.
        self.placement = seen.placement
        if seen.refusal is not None:
            self.placement = drawing.Placement(
                vcpu_cpus={}, name=flavor.name, refusal=str(seen.refusal))

    def print(self, only: str | None) -> None:
        """Print all parts with headings, or one of them without."""
        console = base.console()
        if only:
            getattr(self, f'_print_{only}')(console)
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
            console.print(rich.text.Text(heading, 'bold underline'))
            getattr(self, f'_print_{part}')(console)

    def _print_placement(self, console: rich.console.Console) -> None:
        for label, query in (('', self._seen.query),
                             ('or else', self._seen.fallback)):
            if query is None:
                continue
            if label:
                console.print(f'{label}')
            for name, value in _query_lines(query):
                console.print(f'  {name:<10} {value}', soft_wrap=True)

    def _print_xml(self, console: rich.console.Console) -> None:
        # As it is, for those who pipe it on.
        print((self._seen.xml or '').rstrip(), file=sys.stdout)

    def _print_drawing(self, console: rich.console.Console) -> None:
        drawings.show(console, guest_drawing.draw(
            self._host, self._used, self.placement, console.width),
            guest_drawing.style)

    def _print_fit(self, console: rich.console.Console) -> None:
        seen = self._seen
        if seen.refusal is not None:
            console.print(rich.text.Text.assemble(
                ('Does not fit', 'bold red'), f': {seen.refusal}'))
        else:
            console.print(rich.text.Text('Fits', 'bold green'))
            for line in fits.lines(_fit(seen.outcome)):
                for part in textwrap.wrap(
                        line, console.width - 2, subsequent_indent='    ',
                        break_on_hyphens=False):
                    console.print(f'  {part}')
        for remark in seen.remarks:
            console.print(f'Note: {remark}')
        for one in self._found:
            console.print(f'{one.severity.capitalize()} {one.code}: '
                          f'{one.message}')

    def as_dict(self) -> dict[str, typing.Any]:
        """The preview for machines."""
        seen = self._seen
        return {
            'version': 1,
            'flavor': listing.as_dict(self._flavor),
            'host': self._host.name,
            'used_cpus': str(self._used),
            'fits': seen.refusal is None,
            'refusal': _refusal(seen.refusal),
            'placement': {
                'query': _query(seen.query),
                'fallback': seen.fallback and _query(seen.fallback),
            },
            'cells': fits.as_list(_fit(seen.outcome)),
            'xml': seen.xml,
            'remarks': list(seen.remarks),
            'findings': report.as_dict(self._found, 1)['findings'],
        }


def _fit(outcome: engine.Fit | engine.Refusal | None) -> engine.Fit:
    """Where the guest goes, without cells if it floats or does not fit."""
    return outcome if isinstance(outcome, engine.Fit) else engine.Fit(())


def _query_lines(query: queries.Query) -> Iterator[tuple[str, str]]:
    for group in query.groups:
        name = f'group {group.suffix}' if group.suffix else 'resources'
        yield name, _amounts(group.resources)
    if query.required:
        yield 'required', ', '.join(query.required)
    if query.forbidden:
        yield 'forbidden', ', '.join(query.forbidden)


def _amounts(resources: Mapping[str, int]) -> str:
    return ', '.join(f'{name} {amount}'
                     for name, amount in sorted(resources.items()))


def _refusal(refusal: engine.Refusal | None) -> dict[str, str] | None:
    if refusal is None:
        return None
    return {'reason': refusal.reason.value, 'message': str(refusal)}


def _query(query: queries.Query) -> dict[str, typing.Any]:
    return {
        'resources': dict(query.resources),
        'required': list(query.required),
        'forbidden': list(query.forbidden),
        'groups': [{
            'suffix': group.suffix, 'resources': dict(group.resources),
            'required': list(group.required),
            'forbidden': list(group.forbidden),
        } for group in query.groups],
        'querystring': query.querystring,
    }
