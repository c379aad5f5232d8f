# SPDX-License-Identifier: Apache-2.0
"""Shows what came out of the story: on the terminal and in files."""

from collections.abc import Iterator
from collections.abc import Mapping
import os
import pathlib
import tempfile

from rich import console as rich_console
from rich import padding
from rich import table
from rich import text

from demo import outcome
from nova_pinning import cpuset
from nova_pinning import presentation

# Backgrounds that black letters can be read on; neighbours differ much.
_GUEST_STYLES = tuple(f'black on color({number})' for number in (
    114, 215, 111, 221, 176, 80, 210, 150, 183, 222, 117, 174))
_STYLES = {
    'title': 'bold',
    'label': 'dim',
    'kept': 'dim',
    'free': 'bold',
    'floating': 'cyan',
}


def show(result: outcome.Outcome, console: rich_console.Console) -> None:
    """Print the whole outcome: who is where, drawings, refusals, checks."""
    names = presentation.symbols()
    tiles = {guest.name: presentation.TextTile(next(names), f'guest:{number}')
             for number, guest in enumerate(
                 guest for guest in result.guests if guest.placed.pins)}
    _heading(console, 'Where the guests are')
    console.print(_guest_table(result, tiles))
    for host in result.hosts:
        _heading(console, f'The CPUs of {host.name}')
        for line in _host_drawing(host, result, tiles, console.width):
            console.print(line)
    for refused in result.refused:
        _show_refused(refused, console)
    _heading(console, 'Did it come out as told?')
    grid = table.Table.grid(padding=(0, 1))
    for check in result.checks:
        held = (text.Text('yes', 'green') if check.held
                else text.Text('NO', 'bold red'))
        grid.add_row(' ', held, check.text)
    console.print(grid)


def _heading(console: rich_console.Console, title: str) -> None:
    console.print()
    console.print(text.Text(title, 'bold'))


def _guest_table(
    result: outcome.Outcome, tiles: Mapping[str, presentation.TextTile],
) -> table.Table:
    found = table.Table(box=None, pad_edge=False, padding=(0, 1),
                        header_style='underline')
    for column in ('', 'guest', 'class', 'host', 'cell', 'CPUs'):
        found.add_column(column, no_wrap=column != 'CPUs')
    for guest in result.guests:
        placed = guest.placed
        tile = tiles.get(guest.name, presentation.FLOATING)
        found.add_row(
            text.Text(f' {tile.symbol} ', _style(tile.mark)),
            guest.name, guest.kind, guest.host,
            ','.join(map(str, placed.host_cells)) or 'any',
            str(placed.cpus) or f'any of {placed.floats_over}')
    return found


def _host_drawing(
    host: outcome.Host,
    result: outcome.Outcome,
    tiles: Mapping[str, presentation.TextTile],
    width: int,
) -> Iterator[text.Text]:
    guests = result.guests_on(host.name)
    by_cpu = dict.fromkeys(host.dedicated, presentation.FREE)
    by_cpu |= dict.fromkeys(host.shared, presentation.FLOATING)
    for guest in guests:
        by_cpu |= dict.fromkeys(guest.placed.cpus, tiles.get(
            guest.name, presentation.FLOATING))
    cells = [
        presentation.DrawnCell(
            f'cell {cell.id} (socket {cell.socket}, '
            f'{cell.memory_mib // 1024} GiB)', cell.cores)
        for cell in host.cells]
    for line in presentation.draw_cells(cells, by_cpu, width):
        yield _rich(line)
    for line in _legend(host, guests, by_cpu):
        yield _rich(line)


def _legend(
    host: outcome.Host,
    guests: list[outcome.Guest],
    by_cpu: Mapping[int, presentation.TextTile],
) -> Iterator[presentation.Line]:
    """What the signs mean that are not the letter of a guest."""
    everything = cpuset.CpuSet(
        cpu for cell in host.cells for core in cell.cores for cpu in core)
    kept = everything - host.dedicated - host.shared
    free = [cpu for cpu, tile in by_cpu.items() if tile is presentation.FREE]
    floating = [guest.placed.vcpus for guest in guests
                if not guest.placed.pins]
    if free:
        yield _explained(presentation.FREE, f'free: {cpuset.CpuSet(free)}')
    if kept:
        yield _explained(presentation.KEPT, f"kept for the host's own: {kept}")
    if floating:
        vcpus = sum(floating)
        yield _explained(
            presentation.FLOATING,
            f'{len(floating)} guests with {vcpus} vCPUs float over these '
            f'{len(host.shared)} CPUs,')
        yield [presentation.TextSpan(
            f'    {vcpus / len(host.shared):g} vCPUs for each where '
            f'{host.ratio:g} are allowed')]


def _explained(tile: presentation.TextTile, meaning: str) -> presentation.Line:
    return [
        presentation.TextSpan('  '),
        presentation.TextSpan(tile.symbol, tile.mark),
        presentation.TextSpan(f' {meaning}')]


def _show_refused(
    refused: outcome.Refused, console: rich_console.Console,
) -> None:
    _heading(console, f'Refused: {refused.name}')
    grid = table.Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column()
    grid.add_row('asked for', refused.asks)
    grid.add_row('nova says', refused.fault)
    for why in refused.reasons:
        grid.add_row(text.Text(why.source, 'bold'), why.text)
    console.print(padding.Padding(grid, (0, 0, 0, 2)))


def _rich(line: presentation.Line) -> text.Text:
    return text.Text.assemble(
        *[(span.text, _style(span.mark)) for span in line], no_wrap=True)


def _style(mark: str) -> str:
    kind, _, number = mark.partition(':')
    if kind == 'guest':
        return _GUEST_STYLES[int(number) % len(_GUEST_STYLES)]
    return _STYLES.get(kind, '')


def check_directory(directory: pathlib.Path) -> None:
    """Make sure that files can be written to a directory; make it if need be.

    :raises OSError: if they cannot
    """
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=directory):
        pass


def write_guests(
    result: outcome.Outcome, directory: pathlib.Path,
) -> list[pathlib.Path]:
    """Write each guest's XML to its own file.

    :raises OSError: if that fails
    """
    paths = []
    for guest in result.guests:
        path = directory / f'{guest.name}.xml'
        write_file(path, guest.xml)
        paths.append(path)
    return paths


def write_file(path: pathlib.Path, content: str) -> None:
    """Write a file so that it is there whole or not at all.

    :raises OSError: if that fails
    """
    descriptor, name = tempfile.mkstemp(
        dir=path.parent, prefix=f'.{path.name}.')
    try:
        with open(descriptor, 'w', encoding='utf-8') as file:
            file.write(content)
        # mkstemp is for secrets; these files are for anyone to read.
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
