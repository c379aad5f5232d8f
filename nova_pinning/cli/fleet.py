# SPDX-License-Identifier: Apache-2.0
"""nova-pinning fleet: what is in a snapshot, and what is odd about it."""

import argparse
from collections.abc import Iterable
from collections.abc import Iterator
import itertools
from typing import TypeVar

import rich.console

from nova_pinning.admission import gaps
from nova_pinning.checks import check_rule
from nova_pinning.checks import report
from nova_pinning.cli import base_command
from nova_pinning.cli import checking
from nova_pinning.cli import display
from nova_pinning.cli import fleets
from nova_pinning.document import quantities
from nova_pinning.fleet import problems
from nova_pinning.fleet import snapshot
from nova_pinning.fleet import summary
from nova_pinning.presentation import findings_text
from nova_pinning.presentation import host_structure
from nova_pinning.presentation import printing
from nova_pinning.presentation import typed_table
from nova_pinning import units

_T = TypeVar('_T')


class ShowFleet(display.ShowOne):
    """Show what is in a fleet snapshot.

    The hosts by class and kind, what is sold of them, and the guests by
    flavor.

    Examples::

      nova-pinning fleet show fleet.json.zst
      nova-pinning fleet show fleet.json --format json
      nova-pinning fleet generate --hosts 100 | nova-pinning fleet show -
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        fleets.add_argument(parser)

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        # What is odd is part of what is shown.
        fleet = fleets.load(parsed_args, warn=False)
        with fleets.progress('counting'):
            figures = summary.summarise(fleet)
        return display.fields(
            summary.as_dict(fleet, figures),
            lambda console: _show(fleet, figures, console))


class CheckFleet(base_command.FileCommand):
    """Look for what is odd about a fleet snapshot.

    Guests on hosts that are not there, pinned to CPUs that their host has
    not or that another guest has, hosts without NUMA topology, more memory,
    pages or devices in use than there are. Ends in status 1 if anything is
    found that --fail-on counts.

    Examples::

      nova-pinning fleet check fleet.json.zst
      nova-pinning fleet check fleet.json --fail-on error --format json
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        fleets.add_argument(parser)
        checking.add_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        def check() -> report.CheckReport:
            fleet = fleets.load(parsed_args, warn=False)
            with fleets.progress('checking'):
                return problems.make_report(fleet, problems.find(fleet),
                                            parsed_args.fleet)

        return checking.run(parsed_args, check)


def _show(fleet: snapshot.Fleet, figures: summary.FleetSummary,
          console: rich.console.Console) -> None:
    printing.say(problems.size(fleet), console)
    said = [(name, text) for name, text in (
        ('taken', fleet.taken_at), ('from', fleet.source)) if text]
    printing.pairs(said, console)
    if fleet.hosts:
        _hosts(figures, console)
    fleets.show_doubts(gaps.counted(fleet.hosts), console, 'Not known')
    if fleet.guests:
        _guests(figures, console)
    console.print()
    printing.say(_odd(figures), console)


def _hosts(figures: summary.FleetSummary,
           console: rich.console.Console) -> None:
    printing.heading('Hosts', console)
    typed_table.show(
        ('class', *map(typed_table.count, (
            'hosts', 'guests', 'CPUs', 'sold', 'share', 'memory', 'used'))),
        itertools.chain.from_iterable(
            _total(name or 'not known', total)
            for name, total in figures.classes.items()), console)
    printing.heading('Kinds of hosts', console)
    shown = list(itertools.islice(figures.kinds.items(), findings_text.LIMIT))
    typed_table.show(
        (typed_table.count('hosts'), 'class', 'cells', 'memory', 'besides'),
        ((number, *_kind(kind)) for kind, number in shown), console)
    _more(len(figures.kinds), len(shown), 'kinds', console)


def _guests(figures: summary.FleetSummary,
            console: rich.console.Console) -> None:
    shown = figures.flavors[:findings_text.LIMIT]
    printing.heading('Guests', console)
    typed_table.show(
        ('flavor', 'class', *map(typed_table.count, (
            'guests', 'vCPUs', 'memory'))),
        ((use.name or 'not known', use.guest_class, use.guests, use.vcpus,
          _memory(use.memory_mib)) for use in shown), console)
    _more(len(figures.flavors), len(shown), 'flavors', console)
    caches = figures.caches
    if caches.caches > caches.fewest:
        printing.say(
            f'L3 caches of a pinned guest (fewest): {caches.text}; '
            f'{_share(caches.on_fewest, caches.guests)} of the guests on the '
            'fewest', console)


def _more(there_are: int, shown: int, what: str,
          console: rich.console.Console) -> None:
    if there_are > shown:
        printing.say(f'and {there_are - shown:,} more {what} (-f json has '
                     'all)', console)


def _odd(figures: summary.FleetSummary) -> str:
    if not figures.findings:
        return 'Nothing odd was found.'
    return (f'Odd: {check_rule.summary(figures.findings)}, which nova-pinning '
            'fleet check tells.')


def _total(name: str, total: summary.FleetTotal) -> Iterator[tuple[str, ...]]:
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
    if mib >= units.MIB_PER_TIB:
        return f'{mib / units.MIB_PER_TIB:,.1f} TiB'
    return host_structure.memory(mib)


def _share(part: int, whole: int) -> str:
    return f'{part / whole:.1%}' if whole else ''


def _kind(kind: summary.HostKind) -> tuple[str, str, str, str]:
    """Class, cells, memory and the rest of a kind of hosts, in words."""
    cells = ', '.join(
        f'{number} x {_cell_cpus(dedicated, shared)}'
        for (dedicated, shared), number in _counted(
            (dedicated, shared) for dedicated, shared, _mib in kind.cells))
    memory = ', '.join(
        f'{number} x {host_structure.memory(mib)}'
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
