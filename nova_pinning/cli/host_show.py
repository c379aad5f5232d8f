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

"""nova-pinning host show: a host, and what its CPUs are for."""

import argparse
from collections.abc import Iterable
import json
from typing import Any

import rich.console

from nova_pinning.cli import base
from nova_pinning.cli import drawings
from nova_pinning.cli import host_plan as plan_command
from nova_pinning.cli import options
from nova_pinning.cli import printing
from nova_pinning.document import files
from nova_pinning.drawing import host_plan as drawing
from nova_pinning.drawing import host_plan_facts
from nova_pinning.drawing import host_summary
from nova_pinning.drawing import topology
from nova_pinning.host import dump
from nova_pinning.host import load
from nova_pinning.host import model


class ShowHost(base.Command):
    """Show a host: what it is made of, and what its CPUs are for.

    A drawing of its sockets, NUMA nodes, caches and cores, its memory and
    devices, and how its kernel runs. Of a plan also what it sells, why the
    CPUs were chosen as they are, and what is doubtful.
    """

    epilog = """
        Examples::

          nova-pinning host discover > host.yaml
          nova-pinning host show host.yaml
          nova-pinning host plan host.yaml --for 8:70,16:30 > plan.yaml
          nova-pinning host show plan.yaml --svg plan.svg
          nova-pinning host show plan.yaml --format json
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'host', metavar='HOST',
            help='plan or host file (YAML or JSON), or what virsh '
                 'capabilities prints')
        parser.add_argument('--svg', metavar='FILE',
                            help='write the drawing to a file as well')
        options.add_format(
            parser, 'drawing', 'json',
            note='; json has the file and figures worked out of it')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        description = load.load(parsed_args.host)
        if parsed_args.svg is not None:
            files.replace(parsed_args.svg, drawing.svg(description))
        if parsed_args.format == 'json':
            print(json.dumps(as_dict(description), indent=2))
        else:
            _show(description, base.console())
        return base.OK


def _show(description: model.HostDescription,
          console: rich.console.Console) -> None:
    drawings.show(console, drawing.draw(description, console.width),
                  drawing.style)
    if description.plan is not None:
        plan_command.show(description, console)
    _pairs('Hardware', host_summary.hardware(description), console)
    _devices(description, console)
    _pairs('Kernel', host_summary.kernel(description.system), console)


def _pairs(heading: str, pairs: Iterable[tuple[str, str]],
           console: rich.console.Console) -> None:
    """Print labels and texts, if there are any."""
    known = tuple(pairs)
    if known:
        printing.heading(heading, console)
        printing.pairs(known, console)


def _devices(description: model.HostDescription,
             console: rich.console.Console) -> None:
    rows = list(host_summary.devices(description.pci_devices))
    if not rows:
        return
    # A column in which nothing is known of any device is left out.
    used = [column for column in range(len(rows[0]))
            if any(row[column] for row in rows)]
    printing.heading('Devices', console)
    printing.table([host_summary.DEVICE_COLUMNS[column] for column in used],
                   ([row[column] for column in used] for row in rows),
                   console)


def as_dict(description: model.HostDescription) -> dict[str, Any]:
    """A host for JSON: its file, and figures worked out of it."""
    found = host_plan_facts.facts(description)
    nodes = description.nodes
    return {
        'version': 1,
        'host': json.loads(dump.dump_json(description)),
        'figures': {
            'sockets': len({node.socket for node in nodes}),
            'nodes': len(nodes),
            'cores': sum(len(node.cores) for node in nodes),
            'cpus': len(description.cpus),
            'l3_domains': len(set(
                topology.l3_numbers(description).values())),
            'memory_mib': sum(node.memory_mib for node in nodes),
        },
        'cpus': {str(kind): str(found.cpus_of(kind))
                 for kind in host_plan_facts.Kind if found.cpus_of(kind)},
        'nodes': [{
            'id': node.id,
            'cpus': {str(kind): str(found.cpus_of(kind) & node.cpus)
                     for kind in host_plan_facts.Kind
                     if found.cpus_of(kind) & node.cpus},
            'memory': [{'for': str(part.kind), 'mib': part.mib,
                        'text': part.text}
                       for part in host_plan_facts.memory(found, node)],
        } for node in nodes],
    }
