# SPDX-License-Identifier: Apache-2.0
"""nova-pinning host plan: which CPUs of a host are for what."""

import argparse
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import functools
import re
import sys
from typing import Any

import rich.console

from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning.host import host_loader
from nova_pinning.host import host_model
from nova_pinning.host import hostfile_writer
from nova_pinning.host import levers
from nova_pinning.host.plan import device_groups
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import planner
from nova_pinning.host import plan_model
from nova_pinning.host import words
from nova_pinning.presentation import printing
from nova_pinning.presentation import typed_table

_MAX_CPUS = 65536
_MAX_RATIO = 1000.0


class PlanHost(base_command.FileCommand):
    """Plan which CPUs of a host are for what.

    Chooses CPUs for the host itself, for emulator threads and shared guests,
    and for OVS-DPDK; all others are for pinned guests. Cores are never split.
    Of all ways to choose, it takes the one that leaves most to sell of the
    guests given with --for, and among those one that is near the host's
    devices and keeps caches apart. Memory is shared out to huge pages, and
    interrupts to CPUs.

    Writes the host file with a plan in it, and says on the error output what
    the plan sells, why it is as it is, how other choices compare, and what is
    doubtful.

    Examples::

      nova-pinning host plan host.yaml --for 8:70,16:30 > plan.yaml
      nova-pinning host plan host.yaml --host-cpus 4 --shared-cpus 4 \\
          --output plan.yaml
      nova-pinning host plan host.yaml --class both --choice 2
      nova-pinning host plan host.yaml --pci-alias nvme=144d:a80a
      nova-pinning host plan host.yaml --for 4:40,8:30,16:20,32:10 --caches
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            'host', metavar='HOST',
            help='host file or plan (YAML or JSON); a plan is made again, as '
                 'the options say')
        parser.add_argument(
            '--class',
            dest='purpose',
            metavar='CLASS',
            choices=[str(purpose) for purpose in plan_model.Purpose],
            default='dedicated',
            help='dedicated, shared or both; dedicated by default')
        parser.add_argument(
            '--for', dest='sizes', metavar='SIZES',
            help='guests to plan for: vCPUs[xCELLS], with weights if need '
                 'be, such as 8:70,16:30 or 48x2; without CELLS they have '
                 'as few NUMA cells as they need; if not given, 4, 8 and 16 '
                 'vCPUs, as they fit')
        _add_cpu_options(parser)
        _add_memory_options(parser)
        parser.add_argument(
            '--wake-latency', dest='wake_us', metavar='MICROSECONDS',
            type=common_options.number(0, levers.MOST_WAKE_US),
            help='have idle CPUs of guests wake up in so many microseconds '
                 '(C-states), 0 for no idle states at all; costs power, and '
                 'a part of the highest clock. If not given, nothing is said')
        parser.add_argument(
            '--without-lever', dest='without_levers', action='append',
            default=[], metavar='NAME', choices=sorted(levers.LEVERS),
            help='leave alone what the kernel could be told while it runs: '
                 + ', '.join(sorted(levers.LEVERS))
                 + '; may be given several times')
        parser.add_argument(
            '--pci-alias', dest='pci_aliases', action='append', default=[],
            metavar='NAME=DEVICES',
            help='devices that guests get under a name, and that no longer '
                 'serve the host: nvme, gpu, nic, VENDOR:PRODUCT or an '
                 'address; of those that have virtual functions, these; may '
                 'be given several times')
        parser.add_argument(
            '--pci-group', dest='pci_groups', action='append', default=[],
            metavar='NAME=KIND',
            help='sell the devices of a PCI alias in groups as well, each '
                 'under an alias of its own: those behind one PCIe switch '
                 '(switch), that Fabric Manager can give to one guest '
                 '(partition), or that have NVLinks to each other (nvlink); '
                 'needs PCI devices in Placement; may be given several times')
        parser.add_argument(
            '--mdev-type', dest='mdev_types', action='append', default=[],
            metavar='TYPE=DEVICES',
            help='have nova divide devices, named as for --pci-alias, into '
                 'mediated devices (vGPUs) of a type such as nvidia-699; may '
                 'be given several times')
        parser.add_argument(
            '--choice', type=common_options.number(1, _MAX_CPUS), default=1,
            metavar='N',
            help='take the N-th best choice instead of the best one')
        parser.add_argument(
            '--caches', action='store_true',
            help='simulate on how many L3 caches guests will lie, as the host '
                 'is and with what firmware and nova could do about it, and '
                 'what that sells; takes some seconds')
        common_options.add_format(parser, 'yaml', 'json')
        common_options.add_output(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        request = _request(parsed_args)
        common_options.check_output(parsed_args.output)
        description = host_loader.load(parsed_args.host)
        planned = planner.plan(description, request)
        show_caches = None
        if parsed_args.caches:
            planned, show_caches = _with_caches(planned, request)
        text = (hostfile_writer.dump_json(planned) if parsed_args.format
                == 'json' else hostfile_writer.dump(planned))
        common_options.write_output(parsed_args.output, text)
        console = base_command.console(sys.stderr)
        if description.plan is not None:
            printing.say(
                'note: the plan in this file is made again: class, sizes, '
                'numbers of CPUs and memory are those of the options; PCI '
                'aliases stay', console)
        show(planned, console)
        if show_caches is not None:
            show_caches(console)
        return base_command.OK


def _with_caches(
    planned: host_model.HostDescription, request: plan_request.PlanOptions,
) -> tuple[host_model.HostDescription,
           Callable[[rich.console.Console], None]]:
    """The plan with what is found of L3 caches, and what shows that."""
    # It takes a while to load.
    from nova_pinning.cli import fleets
    from nova_pinning.presentation import cache_report
    from nova_pinning.simulation import cache_forecast

    with fleets.progress('simulating') as tell:
        study = cache_forecast.study(planned, request, tell=tell)
    return cache_report.noted(planned, study), functools.partial(
        cache_report.show, study)


def _add_cpu_options(parser: argparse.ArgumentParser) -> None:
    cpus = common_options.number(0, _MAX_CPUS)
    parser.add_argument(
        '--host-cpus', type=common_options.number(1, _MAX_CPUS), metavar='N',
        help='CPUs for the host, rounded up to whole cores; if not given, 2 '
             'and 1 for each 40 CPUs, or 1 for each 10 Gbit/s of its NICs if '
             'those are more, at most twice as many')
    parser.add_argument(
        '--shared-cpus', type=cpus, metavar='N',
        help='CPUs for emulator threads and shared guests; if not given, '
             'none for class dedicated and half of what is left for both; '
             'class shared has all')
    parser.add_argument(
        '--poll-cpus', type=cpus, default=0, metavar='N',
        help='CPUs that poll NICs for OVS-DPDK, on the nodes of the NICs')
    parser.add_argument(
        '--cpu-allocation-ratio', metavar='RATIO',
        type=common_options.accepted(
            float, lambda ratio: 0 < ratio <= _MAX_RATIO,
            f'a number above 0, up to {_MAX_RATIO:g}'),
        help='vCPUs of shared guests for each CPU; if not given, what the '
             'host file says, or 4 for classes shared and both')


def _add_memory_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--page-size', dest='page_size_kib', metavar='SIZE',
        help='of the huge pages for guests, one that the host has such as '
             '1GiB or 2MiB, or none; if not given, 1GiB if nodes are large '
             'enough, and none for class shared')
    parser.add_argument(
        '--host-memory', dest='host_memory_mib', metavar='AMOUNT',
        help='memory for the host; if not given, 8GiB and 4 %% of all, up to '
             'a quarter of it')


def _request(parsed_args: argparse.Namespace) -> plan_request.PlanOptions:
    """What the options ask for.

    :raises errors.InputError: if they do not go together
    """
    names = [field.name for field in dataclasses.fields(
        plan_request.PlanOptions)]
    given = {name: value for name, value in vars(parsed_args).items()
             if name in names and value is not None}
    purpose = plan_model.Purpose(parsed_args.purpose)
    for option, name in (('--for', 'sizes'), ('--shared-cpus', 'shared_cpus')):
        if purpose is plan_model.Purpose.SHARED and name in given:
            raise errors.InputError(
                'goes with --class dedicated and both only: shared guests '
                'float over all CPUs that are left', errors.Location(option))
    read: Callable[[str, errors.Location], Any]
    for option, name, read in (
            ('--for', 'sizes', plan_request.parse_sizes),
            ('--page-size', 'page_size_kib', plan_request.parse_page_size),
            ('--host-memory', 'host_memory_mib', quantities.memory_mib)):
        if name in given:
            given[name] = read(given[name], errors.Location(option))
    return plan_request.PlanOptions(**given | {
        'purpose': purpose,
        'pci_aliases': tuple(_named_devices(
            parsed_args.pci_aliases, '--pci-alias', 'gpu=10de:20b5')),
        'pci_groups': _groups(parsed_args.pci_groups),
        'mdev_types': tuple(_named_devices(
            parsed_args.mdev_types, '--mdev-type', 'nvidia-699=10de:20b5')),
        'without_levers': frozenset(parsed_args.without_levers)})


def _named_devices(texts: list[str], option: str,
                   example: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, equals, what = text.partition('=')
        if not name or not equals or not what:
            raise errors.InputError(
                f'{text!r} does not name devices', errors.Location(option),
                f'write it like {example}')
        # As catalogues have it: flavors part aliases by ',' and ':'.
        if not re.fullmatch('[^\\s:,]{1,64}', name):
            raise errors.InputError(
                f'no flavor can name {name!r}', errors.Location(option),
                'write at most 64 characters, none of them blank, "," or ":"')
        yield name, what


def _groups(texts: list[str]) -> dict[str, device_groups.GroupBy]:
    where = errors.Location('--pci-group')
    kinds = common_options.pairs(texts, where, 'h100=switch')
    for kind in kinds.values():
        if kind not in [*device_groups.GroupBy]:
            raise errors.InputError(
                f'{kind!r} makes no groups', where,
                f'write {words.listed([*device_groups.GroupBy])}')
    return {alias: device_groups.GroupBy(kind)
            for alias, kind in kinds.items()}


def show(planned: host_model.HostDescription,
         console: rich.console.Console) -> None:
    """Say what a plan is, what it sells, and why."""
    plan = planned.plan
    assert plan is not None
    printing.heading(f'Plan of {planned.name}, class {plan.purpose}', console)
    _show_uses(planned, plan, console)
    # The other choices by the numbers that --choice has for them.
    others = [number for number in range(1, len(plan.alternatives) + 2)
              if number != plan.choice]
    if plan.sizes:
        printing.heading('What it sells', console)
        _show_sales(plan, others, console)
        stranded = plan.offer.stranded_cpus
        if stranded:
            printing.say('Left when the mix is full: ' + ', '.join(
                f'{words.count(cpus, "CPU")} of node {node}'
                for node, cpus in stranded.items()), console)
    if plan.alternatives:
        printing.heading('Other choices', console)
        for number, other in zip(others, plan.alternatives):
            printing.say(f'choice {number}: {other.difference}', console, '  ')
    printing.heading('Why', console)
    for reason in plan.reasons:
        printing.say(f'{reason.subject}: {reason.text}', console, '  ')
    for warning in plan.warnings:
        console.print()
        printing.say(f'warning {warning.code}: {warning.message}; '
                     f'{warning.advice}', console)


def _show_uses(planned: host_model.HostDescription, plan: plan_model.HostPlan,
               console: rich.console.Console) -> None:
    """Who gets what."""
    nova = planned.nova
    typed_table.show(
        ('', typed_table.count('number'), 'CPUs', 'by node'),
        [(name, len(cpus), str(cpus), _by_node(planned, cpus))
         for name, cpus in (('host', plan.host_cpus),
                            ('polling', plan.poll_cpus),
                            ('shared', nova.shared_cpus),
                            ('dedicated', nova.dedicated_cpus)) if cpus],
        console)


def _by_node(planned: host_model.HostDescription, cpus: cpuset.CpuSet) -> str:
    counts = {node.id: len(node.cpus & cpus) for node in planned.nodes}
    return ', '.join(f'{node}: {count}' for node, count in counts.items()
                     if count)


def _show_sales(plan: plan_model.HostPlan, others: Sequence[int],
                console: rich.console.Console) -> None:
    """What each choice sells, side by side.

    :param others: the numbers of the choices that were not taken
    """
    rows = []
    for index, (size, sale) in enumerate(zip(plan.sizes, plan.offer.sales)):
        cells = f' in {sale.cells} cells' if sale.cells > 1 else ''
        weight = f', weight {size.weight}' if len(plan.sizes) > 1 else ''
        rows.append((
            f'{words.count(sale.vcpus, "vCPU")}{cells}{weight}',
            sale.alone, sale.left_cpus, sale.mixed,
            *(other.offer.sales[index].alone
              for other in plan.alternatives)))
    if len(plan.sizes) > 1:
        rows.append((
            'all mixed', '', '', plan.offer.figures[0],
            *(other.offer.figures[0] for other in plan.alternatives)))
    typed_table.show(('', *map(typed_table.count, (
        'alone', 'CPUs left', 'mixed',
        *(f'choice {number}' for number in others)))), rows, console)
