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

"""nova-pinning fleet: what is in a snapshot, and what is odd about it."""

import argparse
from collections.abc import Iterable
from collections.abc import Iterator
import itertools
import json
from typing import Any
from typing import TypeVar

import rich.console

from nova_pinning.cli import base
from nova_pinning.cli import fleets
from nova_pinning.cli import options
from nova_pinning.cli import printing
from nova_pinning.cli import reporting
from nova_pinning.document import quantities
from nova_pinning.drawing import topology
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import problems
from nova_pinning.fleet import summary
from nova_pinning.reports import findings

# Columns of the longest bar.
_BAR = 40
_MIB_PER_TIB = 1024 * 1024

_T = TypeVar('_T')


class ShowFleet(base.Command):
    """Show what is in a fleet snapshot.

    The hosts by class and kind, what is sold of them, the guests by flavor,
    and how full the hosts are.
    """

    epilog = """
        Examples::

          nova-pinning fleet show fleet.json.zst
          nova-pinning fleet show fleet.json --format json
          nova-pinning fleet generate --hosts 100 | nova-pinning fleet show -
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        fleets.add_argument(parser)
        parser.add_argument('--limit', metavar='N',
                            type=options.number(1, 10 ** 6),
                            default=findings.LIMIT,
                            help='kinds of hosts, and flavors, in the table '
                            '(default: %(default)s)')
        options.add_format(parser, 'table', 'json')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        # What is odd is part of what is shown.
        fleet = fleets.load(parsed_args, warn=False)
        with fleets.progress('counting'):
            figures = summary.summarise(fleet)
        if parsed_args.format == 'json':
            print(json.dumps(summary.as_dict(fleet, figures), indent=2))
        else:
            _show(fleet, figures, base.console(), parsed_args.limit)
        return base.OK


class CheckFleet(base.Command):
    """Look for what is odd about a fleet snapshot.

    Guests on hosts that are not there, pinned to CPUs that their host has
    not or that another guest has, hosts without NUMA topology, more memory,
    pages or devices in use than there are. Ends in status 1 if anything is
    found that --fail-on counts.
    """

    epilog = """
        Examples::

          nova-pinning fleet check fleet.json.zst
          nova-pinning fleet check fleet.json --fail-on error --format json
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        fleets.add_argument(parser)
        reporting.add_options(parser, has_metrics=False)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        reporting.check_output(parsed_args)
        fleet = fleets.load(parsed_args, warn=False)
        with fleets.progress('checking'):
            found = problems.find(fleet)
        reporting.write(
            parsed_args,
            show=lambda console, limit: _report(fleet, found, console, limit),
            as_dict=lambda: _findings_dict(fleet, found))
        return findings.exit_status(
            found, problems.Severity(parsed_args.fail_on))


def _report(fleet: fleet_model.Fleet, found: tuple[problems.Finding, ...],
            console: rich.console.Console, limit: int) -> None:
    for code, group in itertools.groupby(found, lambda one: one.code):
        findings.show(code, problems.RULES[code].title, tuple(group),
                      console, limit, subject=lambda one: one.subject)
    findings.wrap(f'{findings.summary(found)} in {_size(fleet)}', '', console)


def _findings_dict(fleet: fleet_model.Fleet,
                   found: tuple[problems.Finding, ...]) -> dict[str, Any]:
    """The findings for JSON; every key is always there."""
    return {
        'version': 1,
        'hosts': len(fleet.hosts),
        'guests': len(fleet.guests),
        'totals': {str(severity): number for severity, number
                   in findings.count(found).items()},
        'findings': [{
            'code': one.code,
            'severity': str(one.severity),
            'subject': one.subject,
            'host': one.host or None,
            'guests': list(one.guests),
            'message': one.message,
            'why': one.why,
            'advice': one.advice,
        } for one in found],
    }


def _size(fleet: fleet_model.Fleet) -> str:
    hosts, guests = len(fleet.hosts), len(fleet.guests)
    return (f'{hosts:,} host{"" if hosts == 1 else "s"} with {guests:,} '
            f'guest{"" if guests == 1 else "s"}')


def _show(fleet: fleet_model.Fleet, figures: summary.Summary,
          console: rich.console.Console, limit: int) -> None:
    printing.say(_size(fleet), console)
    said = [(name, text) for name, text in (
        ('taken', fleet.taken_at), ('from', fleet.source)) if text]
    printing.pairs(said, console)
    if fleet.hosts:
        _hosts(figures, console, limit)
    if fleet.guests:
        _guests(figures, console, limit)
    console.print()
    printing.say(_odd(figures), console)


def _hosts(figures: summary.Summary, console: rich.console.Console,
           limit: int) -> None:
    printing.heading('Hosts', console)
    numbers = ('hosts', 'guests', 'CPUs', 'sold', 'share', 'memory', 'used')
    printing.table(
        ('class', *numbers),
        itertools.chain.from_iterable(
            _total(name or 'not known', total)
            for name, total in figures.classes.items()),
        console, numbers)
    printing.heading('Kinds of hosts', console)
    shown = list(itertools.islice(figures.kinds.items(), limit))
    printing.table(
        ('hosts', 'class', 'cells', 'memory', 'besides'),
        ((f'{number:,}', *_kind(kind)) for kind, number in shown),
        console, ('hosts',))
    _more(len(figures.kinds), len(shown), 'kinds', console)
    if sum(figures.fullness):
        printing.heading('Hosts by share of dedicated CPUs sold', console)
        for line in _bars(figures.fullness, console):
            console.print(line, soft_wrap=True)


def _guests(figures: summary.Summary, console: rich.console.Console,
            limit: int) -> None:
    printing.heading('Guests', console)
    columns = ('guests', 'vCPUs', 'memory')
    printing.table(
        ('flavor', 'class', *columns),
        ((use.name or 'not known', use.guest_class, f'{use.guests:,}',
          f'{use.vcpus:,}', _memory(use.memory_mib))
         for use in figures.flavors[:limit]), console, columns)
    _more(len(figures.flavors), len(figures.flavors[:limit]), 'flavors',
          console)


def _more(there_are: int, shown: int, what: str,
          console: rich.console.Console) -> None:
    if there_are > shown:
        printing.say(f'and {there_are - shown:,} more {what} (--limit)',
                     console)


def _odd(figures: summary.Summary) -> str:
    if not figures.found:
        return 'Nothing odd was found.'
    return (f'Odd: {findings.summary(figures.found)}, which nova-pinning '
            'fleet check tells.')


def _total(name: str, total: summary.Total) -> Iterator[tuple[str, ...]]:
    """A line for the dedicated CPUs, and one for the shared ones."""
    hosts = f'{total.hosts:,}'
    if total.disabled:
        hosts += f' ({total.disabled:,} disabled)'
    left: tuple[str, ...] = name, hosts, f'{total.guests:,}'
    memory = _memory(total.memory_mib), _memory(total.memory_used_mib)
    rows = []
    if total.dedicated_cpus:
        rows.append((f'{total.dedicated_cpus:,}', f'{total.pinned_cpus:,}',
                     _share(total.pinned_cpus, total.dedicated_cpus)))
    if total.shared_cpus:
        rows.append((f'{total.shared_cpus:,} shared',
                     f'{total.floating_vcpus:,} vCPUs',
                     _share(total.floating_vcpus, total.floating_limit)))
    for row in rows or [('0', '0', '')]:
        yield (*left, *row, *memory)
        left, memory = ('', '', ''), ('', '')


def _memory(mib: int) -> str:
    if mib >= _MIB_PER_TIB:
        return f'{mib / _MIB_PER_TIB:,.1f} TiB'
    return topology.memory(mib)


def _share(part: int, whole: int) -> str:
    return f'{part / whole:.1%}' if whole else ''


def _kind(kind: summary.Kind) -> tuple[str, str, str, str]:
    """Class, cells, memory and the rest of a kind of hosts, in words."""
    cells = ', '.join(
        f'{number} x {_cell_cpus(dedicated, shared)}'
        for (dedicated, shared), number in _counted(
            (dedicated, shared) for dedicated, shared, _mib in kind.cells))
    memory = ', '.join(
        f'{number} x {topology.memory(mib)}'
        for mib, number in _counted(mib for *_cpus, mib in kind.cells))
    besides = [f'{kind.threads} threads a core'] if kind.threads > 1 else []
    if kind.l3_domains:
        besides.append(f'{kind.l3_domains} L3')
    sizes = {size_kib for pages in kind.huge_pages_mib
             for size_kib, mib in pages if mib}
    besides += [f'{quantities.shown_page_size(size_kib)} pages'
                for size_kib in sorted(sizes)]
    besides += [f'{number} of {device}' for device, number in kind.devices]
    return (kind.host_class or 'not known', cells or 'none', memory or '-',
            ', '.join(besides))


def _cell_cpus(dedicated: int, shared: int) -> str:
    parts = [f'{dedicated} dedicated'] if dedicated else []
    if shared:
        parts.append(f'{shared} shared')
    return ' and '.join(parts) or 'no CPUs'


def _counted(values: Iterable[_T]) -> list[tuple[_T, int]]:
    """How many of equal values follow each other."""
    return [(value, len(list(group)))
            for value, group in itertools.groupby(values)]


def _bars(fullness: tuple[int, ...],
          console: rich.console.Console) -> Iterator[str]:
    most = max(fullness)
    width = len(f'{most:,}')
    longest = min(_BAR, console.width - width - 13)
    for place, number in enumerate(fullness):
        low = place * 100 // (summary.BINS - 1)
        name = 'all' if low == 100 else f'{low}-{low + 9} %'
        # What is there is seen, however little it is.
        bar = printing.bar(-(-number * longest // most), 0, console)
        yield f'  {name:>7}  {number:>{width},}  {bar}'.rstrip()
