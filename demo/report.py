# SPDX-License-Identifier: Apache-2.0
"""Shows what came out of the story: on the terminal and in files."""

from collections.abc import Iterator
from collections.abc import Mapping
import pathlib
import tempfile

from rich import console as rich_console
from rich import padding
from rich import table
from rich import text

from demo import outcome
from nova_pinning import cpuset
from nova_pinning.document import atomic_file
from nova_pinning.presentation import drawing
from nova_pinning.presentation import guest_drawing
from nova_pinning.presentation import moves_drawing
from nova_pinning.presentation import terminal_drawing

_FREE, _KEPT, _FLOATING = (
    drawing.Tile(style, guest_drawing.SIGNS[style]) for style in (
        drawing.TileStyle.FREE, drawing.TileStyle.KEPT,
        drawing.TileStyle.FLOATING))


def show(result: outcome.Outcome, console: rich_console.Console) -> None:
    """Print the whole outcome: who is where, drawings, refusals, checks."""
    names = moves_drawing.symbols()
    tiles = {guest.name: drawing.Tile(
        drawing.TileStyle.PINNED, next(names), number)
        for number, guest in enumerate(
            guest for guest in result.guests if guest.placed.vcpu_pins)}
    _heading(console, 'Where the guests are')
    console.print(_guest_table(result, tiles))
    for host in result.hosts:
        _heading(console, f'The CPUs of {host.description.name}')
        terminal_drawing.show(_host_drawing(host, result, tiles), console)
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
    result: outcome.Outcome, tiles: Mapping[str, drawing.Tile],
) -> table.Table:
    found = table.Table(box=None, pad_edge=False, padding=(0, 1),
                        header_style='underline')
    for column in ('', 'guest', 'class', 'host', 'cell', 'CPUs'):
        found.add_column(column, no_wrap=column != 'CPUs')
    for guest in result.guests:
        tile = tiles.get(guest.name, _FLOATING)
        found.add_row(
            text.Text(f' {tile.sign} ', terminal_drawing.style(tile)),
            guest.name, guest.kind, guest.host,
            ','.join(map(str, guest.host_cells)) or 'any',
            str(guest.cpus) or f'any of {guest.placed.floats_over}')
    return found


def _host_drawing(
    host: outcome.Host, result: outcome.Outcome,
    tiles: Mapping[str, drawing.Tile],
) -> drawing.Drawing:
    name = host.description.name
    guests = result.guests_on(name)
    by_cpu = dict.fromkeys(host.description.cpus, _KEPT)
    by_cpu |= dict.fromkeys(host.dedicated, _FREE)
    by_cpu |= dict.fromkeys(host.shared, _FLOATING)
    for guest in guests:
        by_cpu |= dict.fromkeys(
            guest.cpus, tiles.get(guest.name, _FLOATING))
    return drawing.Drawing(
        '', hosts=(drawing.DrawnHost(
            name, drawing.sockets(host.description),
            (drawing.DrawnState('', by_cpu),)),),
        legend=tuple(_legend(host, guests, by_cpu)))


def _legend(
    host: outcome.Host, guests: list[outcome.Guest],
    by_cpu: Mapping[int, drawing.Tile],
) -> Iterator[tuple[drawing.Tile, str]]:
    """What the signs mean that are not the letter of a guest."""
    for tile, meaning in ((_FREE, 'free'), (_KEPT, "kept for the host's own")):
        cpus = cpuset.CpuSet(
            cpu for cpu, own in by_cpu.items() if own is tile)
        if cpus:
            yield tile, f'{meaning}: {cpus}'
    floating = [guest.placed.vcpus for guest in guests
                if not guest.placed.vcpu_pins]
    if floating:
        vcpus = sum(floating)
        yield _FLOATING, (
            f'{len(floating)} guests with {vcpus} vCPUs float over these '
            f'{len(host.shared)} CPUs, {vcpus / len(host.shared):g} vCPUs for '
            f'each where {host.ratio:g} are allowed')


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


def check_directory(directory: pathlib.Path) -> None:
    """Make sure that files can be written to a directory; make it if need be.

    :raises OSError: if they cannot
    """
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=directory):
        pass


def write_guests(result: outcome.Outcome, directory: pathlib.Path) -> None:
    """Write each guest's XML to its own file.

    :raises errors.InputError: if that fails
    """
    for guest in result.guests:
        # For anyone to read.
        atomic_file.replace(directory / f'{guest.name}.xml', guest.xml, 0o644)
