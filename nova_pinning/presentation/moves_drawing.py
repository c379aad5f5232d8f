# SPDX-License-Identifier: Apache-2.0
"""The hosts of a plan of moves before and after it, as a drawing.

A guest that is moved has one letter in both states; that it was parked in
between does not show.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import itertools
import string

from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning import cpuset
from nova_pinning.fit import usage
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.host import guest_affinity
from nova_pinning.host import words
from nova_pinning import model
from nova_pinning.presentation import drawing
from nova_pinning.presentation import fleet_host_picture
from nova_pinning.presentation import guest_drawing
from nova_pinning.rebalance import plan_model
from nova_pinning import spelling

_Style = drawing.TileStyle

# What a CPU is used for, but by guests that are moved.
_MEANINGS = guest_drawing.MEANINGS | {
    _Style.TAKEN: 'taken by a guest that stays'}
_TILES = {style: drawing.Tile(style, guest_drawing.SIGNS[style])
          for style in _MEANINGS}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MovedGuest:
    """A guest that is elsewhere after the plan.

    :param letter: by which drawings and tables know it
    :param title: its name, or its UUID if it has none
    """

    letter: str
    guest: str
    title: str
    vcpus: int
    source: str
    target: str
    source_fit: model.Fit | None
    target_fit: model.Fit | None

    def __str__(self) -> str:
        way = (f'from {self.source} to {self.target}'
               if self.source != self.target
               else f'away from {self.source} and back')
        return spelling.printable(
            f'{self.title}, {words.count(self.vcpus, "vCPU")}, {way}')


def letters(guests: Iterable[str]) -> dict[str, str]:
    """The letter of each guest, in the order in which they come up first.

    :param guests: UUIDs, some of them several times
    """
    return dict(zip(dict.fromkeys(guests), symbols()))


def symbols() -> Iterator[str]:
    """Names for guests: A to Z, a to z, 0 to 9, then AA, AB and so on.

    There is no x, which is the sign of guests that stay.
    """
    signs = string.ascii_uppercase + string.ascii_lowercase.replace(
        guest_drawing.SIGNS[_Style.TAKEN], '') + string.digits
    for length in itertools.count(1):
        for name in itertools.product(signs, repeat=length):
            yield ''.join(name)


def moved_guests(
        plan: plan_model.RebalancePlan) -> tuple[MovedGuest, ...]:
    """The guests of a plan with their letters, each once.

    Those that are back where they were in the end are among them.
    """
    first: dict[str, plan_model.PlannedMove] = {}
    last: dict[str, plan_model.PlannedMove] = {}
    for move in plan.moves:
        first.setdefault(move.guest, move)
        last[move.guest] = move
    named = letters(first)
    return tuple(
        MovedGuest(
            letter=named[uuid], guest=uuid,
            title=begun.name or uuid,
            vcpus=begun.vcpus, source=begun.source,
            target=last[uuid].target, source_fit=begun.source_fit,
            target_fit=last[uuid].target_fit)
        for uuid, begun in first.items())


def changed_hosts(plan: plan_model.RebalancePlan) -> set[str]:
    """The names of hosts that guests leave or come to."""
    return {name for guest in moved_guests(plan)
            for name in (guest.source, guest.target)}


def draw(plan: plan_model.RebalancePlan, fleet: snapshot.Fleet,
         title: str = '', remarks: Iterable[str] = (),
         most: int | None = None) -> drawing.Drawing:
    """Draw a plan on the fleet that it is made for.

    Of the fleet's hosts there are those that guests leave or come to.

    :param most: hosts that are drawn, None for all
    """
    guests = [(guest, drawing.Tile(_Style.PINNED, guest.letter, number))
              for number, guest in enumerate(moved_guests(plan))]
    changed = changed_hosts(plan)
    residents = occupied.guests_by_host(fleet)
    topologies = {
        guest.uuid: guest.topology for name in changed
        for guest in residents[name]}
    moved = {guest.guest for guest, _tile in guests}
    hosts = tuple(
        _host(host, guests, topologies,
              [guest for guest in residents[host.name]
               if guest.uuid not in moved])
        for host in itertools.islice(
            (host for host in fleet.hosts if host.name in changed), most))
    shown = {tile.style for host in hosts for state in host.states
             for tile in state.tiles.values()}
    return drawing.Drawing(
        title, tuple(remarks), hosts, tuple(
            (tile, _MEANINGS[style]) for style, tile in _TILES.items()
            if style in shown) + tuple(
            (tile, str(guest)) for guest, tile in guests))


def beside_table(drawn: drawing.Drawing) -> drawing.Drawing:
    """The same without what a table of the moves and its heading tell."""
    letter = drawing.Tile(_Style.PINNED, 'A')
    return dataclasses.replace(drawn, title='', remarks=(), legend=(
        (letter, 'a guest that is moved, by its letter in the table'),
        *(entry for entry in drawn.legend
          if entry[0].style is not _Style.PINNED)))


def _host(
    host: offered_host.OfferedHost,
    guests: Sequence[tuple[MovedGuest, drawing.Tile]],
    topologies: Mapping[str, model.Guest | None],
    staying: Iterable[resident_guest.ResidentGuest],
) -> drawing.DrawnHost:
    cells = {cell.id: cell for cell in host.cells}
    description = fleet_host_picture.fleet_host_description(host)
    taken = cpuset.union(
        _taken(cells, guest.topology, guest.fit) for guest in staying)
    unmoved = {
        cpu: _TILES[use.style] for cpu, use in guest_drawing.cpu_uses(
            description, taken,
            guest_affinity.GuestAffinity(vcpu_cpus={})).items()}
    states, notes = [], []
    for label, verb in (('before', 'leave'), ('after', 'come')):
        tiles, floating = dict(unmoved), []
        for guest, tile in guests:
            name, fit = ((guest.source, guest.source_fit)
                         if label == 'before'
                         else (guest.target, guest.target_fit))
            if name != host.name:
                continue
            if fit is None or not any(cell.pins for cell in fit.cells):
                floating.append(guest.letter)
            tiles |= dict.fromkeys(
                _taken(cells, topologies[guest.guest], fit)
                & description.cpus, tile)
        states.append(drawing.DrawnState(label, tiles))
        if floating:
            notes.append(
                f'without CPUs of their own {verb}: {", ".join(floating)}')
    return drawing.DrawnHost(
        spelling.printable(host.name), drawing.sockets(description),
        tuple(states), notes=tuple(notes))


def _taken(
    cells: Mapping[int, model.HostCell], topology: model.Guest | None,
    fit: model.Fit | None,
) -> cpuset.CpuSet:
    """The CPUs that a guest has for itself."""
    if topology is None or fit is None or not topology.is_pinned:
        return cpuset.CpuSet()
    return cpuset.union(
        usage.taken_cpus(cells[cell.host_cell], topology, cell)
        for cell in fit.cells if cell.host_cell in cells)
