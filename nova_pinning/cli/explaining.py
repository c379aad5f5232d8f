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

"""An explanation for people."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

import rich.console
import rich.text

from nova_pinning.cli import drawings
from nova_pinning.cli import printing
from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.drawing import guest as guest_drawing
from nova_pinning.fit import cell as one_cell
from nova_pinning.fleet.explain import explanation
from nova_pinning.fleet.explain import judge
from nova_pinning.fleet.explain import moves
from nova_pinning.fleet.explain import picture
from nova_pinning.fleet.explain import sums
from nova_pinning.fleet.explain import ways
from nova_pinning.fleet import standing as fleet_standing
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning import model
from nova_pinning.reports import fits

# Hosts that stand for many.
_EXAMPLES = 3
_STATUS_TRAIT = 'COMPUTE_STATUS_DISABLED'


def show(found: explanation.Explanation, console: rich.console.Console,
         remarks: Sequence[str] = (), lists_hosts: bool = False) -> None:
    """Print the sum, what Placement alone says, and what would help.

    :param remarks: what else is worth knowing
    :param lists_hosts: whether to print a line for each host, too
    """
    flavor = found.wanted.flavor
    total = len(found.verdicts)
    printing.title(
        f'{flavor.name} ({flavor.vcpus} vCPUs, '
        f'{quantities.shown_memory(flavor.memory_mib)}, '
        f'{found.wanted.guest_class})', console)
    printing.say(f'{found.sentence}.', console, '  ')
    for remark in remarks:
        printing.say(f'Note: {remark}', console, '  ')
    _show_placement(found, console)
    if found.groups:
        printing.heading('Why not', console)
        printing.table(
            ('hosts', 'cause', 'for example'),
            [(f'{group.count:,}', group.text, _example(group.verdicts[0]))
             for group in found.groups], console, ('hosts',))
    if lists_hosts:
        printing.heading('Hosts', console)
        printing.table(('host', 'verdict'), [
            (one.host, 'fits' if one.fits else one.figures)
            for one in found.verdicts], console)
    if not found.fitting:
        printing.heading('What would make it fit, each tried', console)
        lines = list(_helps(found.helps))
        for line in lines or ('nothing that was tried',):
            printing.say(line, console, '  ')
        return
    printing.heading('It fits', console)
    printing.say(f'on {_on(found.fitting)} of {total:,}', console, '  ')


def _example(verdict: judge.Verdict) -> str:
    return f'{verdict.host}: {verdict.figures}'


def _show_placement(found: explanation.Explanation,
                    console: rich.console.Console) -> None:
    printing.heading('Before the filters: Placement alone', console)
    for number, query in enumerate(found.wanted.queries):
        printing.say(('or for ' if number else 'is asked for ')
                     + _query(query), console, '  ')
    total = len(found.verdicts)
    printing.say(
        f'would exclude {found.excluded:,} of '
        f'{sums.counted(total, "host")}'
        + (': ' if found.placement_groups else '')
        + ', '.join(f'{one.count:,} {one.text}'
                    for one in found.placement_groups), console, '  ')
    unknown = sorted({trait for one in found.verdicts
                      for trait in one.unknown_traits})
    if unknown:
        count = sum(bool(one.unknown_traits) for one in found.verdicts)
        printing.say(
            f'Not known for {sums.counted(count, "host")}: traits '
            f'{", ".join(unknown)}; they are taken to be as they should',
            console, '  ')


def _query(query: fleet_wanted.Query) -> str:
    parts = [', '.join(f'{name} {amount:,}' for name, amount
                       in sorted(query.resources.items()))]
    if query.required:
        parts.append('traits ' + ', '.join(sorted(query.required)))
    forbidden = query.forbidden - {_STATUS_TRAIT}
    if forbidden:
        parts.append('not ' + ', '.join(sorted(forbidden)))
    return '; '.join(parts)


def _helps(helps: explanation.Helps) -> Iterator[str]:
    for way in (*helps.properties, *helps.smaller):
        yield _way(way)
    for host in helps.disabled[:_EXAMPLES]:
        reason = f' ({host.disabled_reason})' if host.disabled_reason else ''
        yield f'- enable host {host.name}, which is disabled{reason}'
    if len(helps.disabled) > _EXAMPLES:
        yield (f'- or one of {len(helps.disabled) - _EXAMPLES:,} more '
               'disabled hosts')
    for found, guests in ((helps.single, 'one guest'),
                          (helps.pairs, 'two guests')):
        for one in found.shown:
            yield '- ' + _clearing(one)
        if len(found.hosts) > len(found.shown):
            yield (f'- in all, moving {guests} makes room on any one of '
                   f'{sums.counted(len(found.hosts), "host")}')


def _way(way: ways.Way) -> str:
    return f'- {way.text}: fits on {_on(way.hosts)}'


def _clearing(one: moves.Clearing) -> str:
    return ', and '.join(
        f'move guest {move.guest.uuid} ({_guest(move)}) from {one.host} to '
        f'{move.target}' for move in one.moves) + f': fits on {one.host}'


def _guest(move: moves.Move) -> str:
    guest = move.guest
    parts = [part for part in (guest.name, guest.flavor) if part]
    return ', '.join((*parts, f'{guest.vcpus} vCPUs'))


def _on(hosts: Sequence[str]) -> str:
    """'2 hosts (a, b)'."""
    names = ', '.join(hosts[:_EXAMPLES])
    more = ', ...' if len(hosts) > _EXAMPLES else ''
    return f'{sums.counted(len(hosts), "host")} ({names}{more})'


def show_host(verdict: judge.Verdict, standing: fleet_standing.Standing,
              wanted: fleet_wanted.Wanted,
              console: rich.console.Console) -> None:
    """Print what each layer says of one host, and its cells."""
    host = standing.host
    printing.heading(f'Host {host.name}, layer by layer', console)
    printing.pairs(_layers(verdict, standing), console)
    if isinstance(verdict.outcome, model.Fit):
        for line in fits.lines(verdict.outcome):
            printing.say(line, console, '    ')
    if not host.cells:
        return
    guests = sums.counted(len(standing.guests), 'guest')
    printing.heading(f'Its cells, with {guests}', console)
    asked = 0
    if isinstance(verdict.outcome, model.Refusal):
        asked = verdict.outcome.guest_cell or 0
    printing.table(
        ('cell', 'free CPUs', 'whole cores', 'free memory', 'free pages',
         f'lacks for guest cell {asked}' if asked else 'lacks'),
        [_cell(cell, standing, wanted, asked)
         for cell in standing.engine.cells], console)
    console.print()
    drawings.show(console, guest_drawing.draw(
        picture.description(host),
        cpuset.union(cpuset.CpuSet(cell.pinned_cpus)
                     for cell in standing.engine.cells),
        picture.placement(wanted, verdict.outcome), console.width),
        guest_drawing.style)


def _layers(
    verdict: judge.Verdict, standing: fleet_standing.Standing,
) -> Iterator[tuple[str, str]]:
    host = standing.host
    yield 'the host', 'is enabled' if host.is_enabled else (
        'is disabled' + (f': {host.disabled_reason}'
                         if host.disabled_reason else ''))
    yield 'Placement', 'offers it' if not verdict.exclusions else (
        'excludes it: ' + '; '.join(map(str, verdict.exclusions)))
    if verdict.unknown_traits:
        yield '', ('whether it has these traits is not known: '
                   + ', '.join(sorted(verdict.unknown_traits)))
    yield 'HostClassFilter', (
        f'refuses it: {verdict.class_refusal}'
        if verdict.class_refusal is not None
        else 'passes it' if host.host_class is not None
        else "passes it: nothing tells the host's class")
    yield 'PinnedTopologyFilter', (
        f'refuses it: {verdict.outcome}'
        if isinstance(verdict.outcome, model.Refusal) else 'passes it')


def _cell(cell: model.CellView, standing: fleet_standing.Standing,
          wanted: fleet_wanted.Wanted, asked: int) -> tuple[str, ...]:
    """A row of the table of cells.

    :param asked: the guest cell that it is compared with
    """
    assert isinstance(cell, model.HostCell)
    free = cell.free_cpus
    whole = sum(len(core) == size and size > 0 for core, size
                in zip(cell.free_cores, cell.core_sizes))
    lacks = ''
    guest = wanted.topology
    if guest is not None:
        shortage = one_cell.shortage(
            cell, standing.engine, guest, guest.demands[asked])
        lacks = 'nothing' if shortage is None else str(
            shortage).removeprefix(f'cell {cell.id} has ')
    return (
        str(cell.id),
        f'{len(free)} of {cell.dedicated_count}'
        + (f': {free}' if free else ''),
        str(whole),
        quantities.shown_memory(
            max(0, cell.memory_mib - cell.memory_used_mib)),
        ', '.join(_pages(cell.pages)),
        lacks)


def _pages(pools: Iterable[model.PagePool]) -> Iterator[str]:
    """Free pages by size, but for those that all memory is made of."""
    for pool in pools:
        if pool.size_kib > 4:
            yield (f'{pool.total - pool.used - pool.reserved:,} of '
                   f'{quantities.shown_page_size(pool.size_kib)}')
