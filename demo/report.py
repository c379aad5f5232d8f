# SPDX-License-Identifier: Apache-2.0
"""Shows what came out of the story: on the terminal and in files."""

from collections.abc import Mapping
from collections.abc import Sequence
import pathlib
import tempfile

from rich import console as rich_console

from demo import outcome
from nova_pinning import cpuset
from nova_pinning.document import atomic_file
from nova_pinning.host import engine
from nova_pinning.host import host_model
from nova_pinning.presentation import drawing
from nova_pinning.presentation import guest_drawing
from nova_pinning.presentation import moves_drawing
from nova_pinning.presentation import printing
from nova_pinning.presentation import terminal_drawing
from nova_pinning.presentation import typed_table

_FREE, _KEPT, _FLOATING = (
    drawing.Tile(style, guest_drawing.SIGNS[style]) for style in (
        drawing.TileStyle.FREE, drawing.TileStyle.KEPT,
        drawing.TileStyle.FLOATING))


def show(result: outcome.Outcome, console: rich_console.Console) -> None:
    """Print the whole outcome: who is where, drawings, refusals, checks."""
    letters = moves_drawing.symbols()
    tiles = {guest.name: drawing.Tile(
        drawing.TileStyle.PINNED, next(letters), number)
        for number, guest in enumerate(
            guest for guest in result.guests if guest.cpus)}
    styles = {tile.sign: terminal_drawing.style(tile)
              for tile in (*tiles.values(), _FLOATING)}
    printing.heading('Where the guests are', console)
    typed_table.show(
        (typed_table.Column(title='', style=styles.__getitem__),
         'guest', 'class', 'host', 'cell', 'CPUs'),
        [(tiles.get(guest.name, _FLOATING).sign,
          guest.name, guest.kind, guest.host,
          ','.join(map(str, guest.host_cells)) or 'any',
          str(guest.cpus) or f'any of {guest.placed.floats_over}')
         for guest in result.guests], console)
    for host in result.hosts:
        printing.heading(f'The CPUs of {host.name}', console)
        terminal_drawing.show(_host_drawing(host, [
            guest for guest in result.guests if guest.host == host.name],
            tiles), console)
    for refused in result.refused:
        printing.heading(f'Refused: {refused.name}', console)
        printing.pairs((
            ('asked for', refused.asks), ('nova says', refused.fault),
            *refused.reasons.items()), console)
    printing.heading('Did it come out as told?', console)
    printing.pairs([('yes' if held else 'NO', promise)
                    for promise, held in result.checks.items()], console)


def _host_drawing(
    host: host_model.HostDescription, guests: Sequence[outcome.Guest],
    tiles: Mapping[str, drawing.Tile],
) -> drawing.Drawing:
    shared = engine.shared_cpus(host)
    by_cpu = dict.fromkeys(host.cpus, _KEPT)
    by_cpu |= dict.fromkeys(engine.dedicated_cpus(host), _FREE)
    by_cpu |= dict.fromkeys(shared, _FLOATING)
    for guest in guests:
        by_cpu |= dict.fromkeys(guest.cpus, tiles.get(guest.name, _FLOATING))
    # What the signs mean that are not the letter of a guest.
    legend = [(tile, f'{guest_drawing.MEANINGS[tile.style]}: {cpus}')
              for tile in (_FREE, _KEPT) if (cpus := cpuset.CpuSet(
                  cpu for cpu, own in by_cpu.items() if own is tile))]
    floating = [guest.placed.vcpus for guest in guests if not guest.cpus]
    if floating:
        vcpus = sum(floating)
        legend.append((_FLOATING, (
            f'{len(floating)} guests with {vcpus} vCPUs float over these '
            f'{len(shared)} CPUs, {vcpus / len(shared):g} vCPUs for each '
            f'where {host.nova.cpu_allocation_ratio:g} are allowed')))
    return drawing.Drawing(
        '', hosts=(drawing.DrawnHost(
            host.name, drawing.sockets(host),
            (drawing.DrawnState('', by_cpu),)),),
        legend=tuple(legend))


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
