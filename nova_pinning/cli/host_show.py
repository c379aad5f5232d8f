# SPDX-License-Identifier: Apache-2.0
"""nova-pinning host show: a host, and what its CPUs are for."""

import argparse
import json
from typing import Any

import rich.console

from nova_pinning.cli import base_command
from nova_pinning.cli import display
from nova_pinning.cli import host_plan
from nova_pinning.host import core_division
from nova_pinning.host import host_loader
from nova_pinning.host import host_model
from nova_pinning.host import hostfile_writer
from nova_pinning.host import provider_config
from nova_pinning.presentation import host_structure
from nova_pinning.presentation import plan_drawing
from nova_pinning.presentation import plan_facts
from nova_pinning.presentation import printing
from nova_pinning.presentation import terminal_drawing


class ShowHostFile(display.ShowOne):
    """Show a host: what it is made of, and what its CPUs are for.

    A drawing of its sockets, NUMA nodes, caches and cores, its memory and
    devices. Of a plan also what it sells, why the CPUs were chosen as they
    are, and what is doubtful. What else is known of a host is in its file.

    The format provider-config is the file by which its nova-compute tells
    Placement of the traits that hosts are kept apart by, CPUs that share an L3
    cache, and those of the host file. It goes to /etc/nova/provider_config on
    the host, under a name that ends in .yaml; then restart nova-compute.

    Examples::

      nova-pinning host discover > host.yaml
      nova-pinning host show host.yaml
      nova-pinning host plan host.yaml --for 8:70,16:30 > plan.yaml
      nova-pinning host show plan.yaml -f svg > plan.svg
      nova-pinning host show plan.yaml --format json
      nova-pinning host show host.yaml -f provider-config > pinning.yaml
      nova-pinning host show plan.yaml -f value -c cpus_dedicated
    """
    pages, texts = ('drawing',), ('svg', 'provider-config')

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            'host', metavar='HOST',
            help='plan or host file (YAML or JSON)')

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        description = host_loader.load(parsed_args.host)
        return display.fields(
            as_dict(description), lambda console: _show(description, console),
            texts={
                'svg': lambda: terminal_drawing.svg(
                    plan_drawing.draw(description)),
                'provider-config': lambda: _provider_config(description)})


def _provider_config(description: host_model.HostDescription) -> str:
    """provider.yaml, with what was left out of it on the error output."""
    made = provider_config.make(description)
    base_command.tell('note', made.notes)
    base_command.tell('warning', _divided_cores(description))
    return provider_config.text(made, description.name)


def _show(description: host_model.HostDescription,
          console: rich.console.Console) -> None:
    terminal_drawing.show(plan_drawing.draw(description), console)
    if description.plan is not None:
        host_plan.show(description, console)
    for text in _divided_cores(description):
        printing.say(f'warning: {text}', console)


def _divided_cores(description: host_model.HostDescription) -> list[str]:
    """Which cores are divided, and what to do; empty if none is."""
    divided = core_division.of_host(description)
    return [f'{divided}; {core_division.ADVICE}'] if divided else []


def as_dict(description: host_model.HostDescription) -> dict[str, Any]:
    """A host for JSON: its file, and figures worked out of it."""
    figures = plan_facts.facts(description)
    nodes = description.nodes
    return {
        'version': 1,
        'host': json.loads(hostfile_writer.dump_json(description)),
        'figures': {
            'sockets': len(description.sockets()),
            'nodes': len(nodes),
            'cores': sum(len(node.cores) for node in nodes),
            'cpus': len(description.cpus),
            'l3_domains': len(set(
                host_structure.l3_numbers(description).values())),
            'memory_mib': sum(node.memory_mib for node in nodes)},
        'divided_cores': core_division.of_host(description),
        'cpus': {str(kind): str(figures.cpus_of(kind))
                 for kind in plan_drawing.KINDS if figures.cpus_of(kind)},
        'nodes': [{
            'id': node.id,
            'cpus': {str(kind): str(figures.cpus_of(kind) & node.cpus)
                     for kind in plan_drawing.KINDS
                     if figures.cpus_of(kind) & node.cpus},
            'memory': [{'for': str(part.kind), 'mib': part.mib,
                        'text': part.text}
                       for part in plan_facts.memory(figures, node)],
        } for node in nodes]}
