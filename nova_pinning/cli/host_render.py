# SPDX-License-Identifier: Apache-2.0
"""nova-pinning host render: the files that put a plan into force."""

import argparse
import re

from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning import errors
from nova_pinning.host import host_loader
from nova_pinning.host import render
from nova_pinning.host.render import directory
from nova_pinning.host.render import options

_UNIT = re.compile(r'(?!\.)[A-Za-z0-9:_.@\\-]{1,247}', re.ASCII)
_NAME = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}', re.ASCII)

_unit = common_options.accepted(
    lambda text: f'{text.removesuffix(".service")}.service',
    lambda unit: bool(_UNIT.fullmatch(unit.removesuffix('.service'))),
    'a name of a systemd service such as nova-compute')
# It becomes one of a file.
_name = common_options.accepted(
    str, lambda name: bool(_NAME.fullmatch(name)),
    'the name of a host or group')


class RenderPlan(base_command.FileCommand):
    """Write the files that put a plan into force.

    They are a snippet of nova.conf, provider.yaml, the kernel's command line,
    the variables of tuned, and a unit that places interrupts and the kernel's
    own work; for OVS-DPDK also what Open vSwitch is told. Each says what it
    is for and how it comes into force; README.txt has the order. Nothing
    outside of the directory, which is made, is touched.

    Examples::

      nova-pinning host render plan.yaml -o rendered
      nova-pinning host render plan.yaml -o rendered \\
          --isolation tickless --confine affinity --service ceph-osd@1
      nova-pinning host render plan.yaml -o kolla \\
          --format kolla --host compute-1 --host compute-2
      nova-pinning host render plan.yaml -o ansible \\
          --format ansible --group dedicated
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('plan', metavar='PLAN',
                            help='what nova-pinning host plan has written')
        parser.add_argument('-o', '--output', required=True, metavar='DIR',
                            type=common_options.file_path,
                            help='directory to make')
        common_options.add_format(
            parser, *map(str, options.RenderFormat),
            note=', which lie as they go on a host; the others are variables '
                 'and overrides for those who deploy with Ansible')
        parser.add_argument(
            '--confine', choices=[str(way) for way in options.Confinement],
            help="how host services are kept on their CPUs: by tuned's "
                 'profile cpu-partitioning, which also switches timer ticks '
                 'off (tuned, the default of hosts with dedicated or polling '
                 'CPUs), or by CPUAffinity= of systemd (affinity, the default '
                 'of others)')
        parser.add_argument(
            '--service', action='append', default=[], metavar='UNIT',
            type=_unit,
            help='a systemd service that is told its CPUs by name, whatever '
                 'its own unit says; may be given several times')
        parser.add_argument(
            '--isolation', choices=[str(level) for level in options.Isolation],
            default=str(options.Isolation.NONE),
            help='how far the kernel keeps off dedicated and polling CPUs: '
                 'not (none, the default), without timer ticks '
                 '(tickless: nohz_full, rcu_nocbs), out of load balancing '
                 'while the host runs (partition: an isolated cpuset '
                 'partition, Linux 6.1), or both from boot on (full: '
                 'isolcpus); tuned is always tickless')
        named = parser.add_mutually_exclusive_group()
        named.add_argument(
            '--host', action='append', default=[], metavar='HOST', type=_name,
            help='a host of this kind in the Ansible inventory, for the '
                 'formats for Ansible; may be given several times')
        named.add_argument(
            '--group', metavar='NAME', type=_name,
            help='in the place of --host, a group of the Ansible inventory '
                 'in which all hosts are of this kind')

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        chosen = _options(parsed_args)
        planned = host_loader.load_plan(parsed_args.plan)
        files = render.files(planned, chosen)
        directory.write(parsed_args.output, files.values())
        for path in files:
            print(path)
        return base_command.OK


def _options(parsed_args: argparse.Namespace) -> options.RenderOptions:
    """What the command line says.

    :raises errors.InputError: what is wrong with it
    """
    made = options.RenderOptions(
        format=options.RenderFormat(parsed_args.format),
        services=tuple(dict.fromkeys(parsed_args.service)),
        confinement=parsed_args.confine and options.Confinement(
            parsed_args.confine),
        isolation=options.Isolation(parsed_args.isolation),
        hosts=tuple(dict.fromkeys(parsed_args.host)),
        group=parsed_args.group or '')
    if made.format is not options.RenderFormat.FILES:
        if not made.hosts and not made.group:
            raise errors.InputError(
                'a plan is for one kind of host',
                errors.Location(f'--format {made.format}'),
                'name them with --host, or with --group a group of the '
                'inventory in which all hosts are of this kind')
    elif made.hosts or made.group:
        raise errors.InputError(
            'the files are for any host of this kind',
            errors.Location('--host' if made.hosts else '--group'),
            'use it with one of the formats for Ansible')
    return made
