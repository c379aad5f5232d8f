# SPDX-License-Identifier: Apache-2.0
"""Whether a cloud is as a plan of moves takes it to be."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent import futures
import dataclasses
from typing import TypeVar

from nova_pinning.rebalance import apply_journal
from nova_pinning.rebalance import migration_cloud
from nova_pinning.rebalance import move_run
from nova_pinning.rebalance import plan_model

Cells = tuple[migration_cloud.PlacedCell, ...]
#: Where the guests of a host lie that have NUMA cells, by their UUIDs.
HostGuests = dict[str, Cells]

#: Requests at once; requests keeps so many connections.
_JOBS = 8
_T = TypeVar('_T')


def host_guests(cloud: migration_cloud.MigrationCloud,
                host: str) -> HostGuests:
    """What is on a host now.

    :raises errors.CloudError: if that cannot be read
    """
    servers = [server.id for server in cloud.listed_servers(host)
               if server.may_have_topology]
    return {server: cells for server, cells
            in each(cloud.cells, servers).items() if cells}


def conflict(move: plan_model.PlannedMove,
             guests: Mapping[str, Cells]) -> str:
    """Who has CPUs on the target that the plan gives to the guest.

    :param guests: on the target
    :returns: for people, '' for nobody
    """
    wanted = _cpus(move_run.fit_cells(move.target_fit))
    for guest, cells in sorted(guests.items()):
        taken = wanted & _cpus(cells)
        if taken and guest != move.guest:
            return (f'guest {guest} has CPU {min(taken)} of {move.target}, '
                    f'which the plan gives to {move.guest}')
    return ''


def prediction(
    moves: Iterable[tuple[int, plan_model.PlannedMove]],
    guests: Mapping[str, HostGuests],
) -> str:
    """Why moves do not fit one after the other, '' if they do.

    :param moves: with their positions, in the order of the plan
    :param guests: of each target, before them
    """
    hosts = {host: dict(present) for host, present in guests.items()}
    for position, move in moves:
        found = conflict(move, hosts[move.target])
        if found:
            return f'move {position}: {found}'
        if move.source in hosts:
            hosts[move.source].pop(move.guest, None)
        hosts[move.target][move.guest] = move_run.fit_cells(move.target_fit)
    return ''


def differences(expected: Mapping[str, Cells], found: Mapping[str, Cells],
                ignored: Collection[str]) -> str:
    """Who has come to a host, left it, or lies elsewhere; '' for nobody.

    :param ignored: guests that are under way
    """
    for guest in sorted({*expected, *found}.difference(ignored)):
        if guest not in expected:
            return f'guest {guest} has come to it'
        if guest not in found:
            return f'guest {guest} has left it'
        if expected[guest] != found[guest]:
            return (f'guest {guest} is on '
                    f'{move_run.cells_text(found[guest])}, not '
                    f'{move_run.cells_text(expected[guest])}')
    return ''


def host_refusal(cloud: migration_cloud.MigrationCloud,
                 move: plan_model.PlannedMove) -> str:
    """Why nova would not move anything from the one host to the other.

    :raises errors.CloudError: if that cannot be read
    """
    services = cloud.compute_services()
    for name in (move.source, move.target):
        if name not in services:
            return f'there is no host {name} any more'
        if not services[name].is_up:
            return f'nova-compute of {name} is down'
    if services[move.target].disabled_reason:
        return (f'{move.target} is disabled: '
                f'{services[move.target].disabled_reason}')
    return ''


def others_moving(cloud: migration_cloud.MigrationCloud, host: str,
                  ignored: Collection[str]) -> str:
    """Whose migration holds room on a host, '' for nobody's.

    :param ignored: guests whose migrations are known of
    :raises errors.CloudError: if that cannot be read
    """
    for migration in cloud.migrations(host=host):
        if migration.is_over or migration.server in ignored:
            continue
        if migration.status == migration_cloud.FINISHED and (
                migration.source == host):
            return (f'guest {migration.server} may still come back to {host}, '
                    f'since migration {migration.id} is not confirmed')
        return (f'guest {migration.server} is on its way from '
                f'{migration.source} to {migration.target or "a host"} '
                f'(migration {migration.id})')
    return ''


@dataclasses.dataclass(frozen=True, slots=True)
class GuestStage:
    """How much of a plan is done of one guest's moves.

    :param done: moves that are done
    :param cells: where the guest lies
    :param problem: why that cannot be told, or it cannot go on
    :param look: at the guest, if the next move is under way already
    """

    done: int
    cells: Cells = ()
    problem: str = ''
    look: migration_cloud.GuestLook | None = None


def stage(
    moves: Sequence[tuple[int, plan_model.PlannedMove]],
    cloud: migration_cloud.MigrationCloud,
    journal: apply_journal.ApplyJournal | None,
) -> GuestStage:
    """Tell where a guest is on its way through a plan.

    The cloud says it, where a guest does not come by the same place twice. The
    journal says which of the moves that would do it is at.

    :param moves: of the guest, with their positions
    :raises errors.CloudError: if the cloud cannot be asked
    """
    written = _done_by_journal(moves, journal)
    if written == len(moves):
        return GuestStage(written)
    guest = moves[0][1].guest
    look = cloud.look(guest)
    if look is None:
        return GuestStage(0, problem='there is no such guest any more')
    if look.is_quiet and look.status == 'ERROR':
        return GuestStage(0, problem=(
            f'the guest is in ERROR on {look.host or "no host"}: '
            f'{look.fault or "nova does not say why"}'))
    if not look.is_quiet:
        return _under_way(moves, look, written, journal)
    cells = cloud.cells(guest) or ()
    first = moves[0][1]
    places = [(first.source, move_run.fit_cells(first.source_fit)), *(
        (move.target, move_run.fit_cells(move.target_fit))
        for _position, move in moves)]
    fitting = [
        number for number, place in enumerate(places)
        if place == (look.host, cells)
        or number and place[0] == look.host and _deviated(
            journal, moves[number - 1][0])]
    if not fitting:
        return GuestStage(0, cells, f'the guest is on {look.host or "no host"}'
                          f', {move_run.cells_text(cells)}, not on '
                          f'{places[written][0]}, '
                          f'{move_run.cells_text(places[written][1])}')
    # A move may have been done since the last line.
    done = next((number for number in (written, written + 1)
                 if number in fitting), fitting[0])
    if done < len(moves):
        kind = moves[done][1].kind
        if look.status not in move_run.MOVABLE[kind]:
            return GuestStage(done, cells, move_run.state_text(look, kind))
    return GuestStage(done, cells)


def _under_way(
    moves: Sequence[tuple[int, plan_model.PlannedMove]],
    look: migration_cloud.GuestLook, written: int,
    journal: apply_journal.ApplyJournal | None,
) -> GuestStage:
    underway = look.underway
    if underway is None:
        # Between the request and the migration there is only the task.
        if look.task_state and journal and journal.last(
                moves[written][0], 'asked'):
            return GuestStage(written, look=look)
    else:
        fitting = [number for number, (_position, move) in enumerate(moves)
                   if move_run.is_of(underway, move)]
        if fitting:
            return GuestStage(written if written in fitting else fitting[0],
                              look=look)
    what = look.task_state or look.status
    if underway:
        what = f'migration {underway.id} is {underway.status}'
    return GuestStage(0, problem=f'somebody else is at work on it: {what}')


def _done_by_journal(
    moves: Sequence[tuple[int, plan_model.PlannedMove]],
    journal: apply_journal.ApplyJournal | None,
) -> int:
    if journal is None:
        return 0
    done = 0
    for position, _move in moves:
        ended = journal.last(position, 'ended')
        if ended is None or ended.get('status') not in (
                move_run.MoveStatus.DONE, move_run.MoveStatus.DEVIATED):
            break
        done += 1
    return done


def _deviated(journal: apply_journal.ApplyJournal | None,
              position: int) -> bool:
    """Whether a move was asked for, and was not seen to have ended well."""
    if journal is None:
        return False
    last = journal.last(position, 'asked', 'ended')
    return last is not None and last.get('status') != move_run.MoveStatus.DONE


def each(ask: Callable[[str], _T], guests: Sequence[str]) -> dict[str, _T]:
    """What is said of each guest, several requests at once."""
    pool = futures.ThreadPoolExecutor(_JOBS, 'guests')
    try:
        return dict(zip(guests, pool.map(ask, guests), strict=True))
    finally:
        pool.shutdown(cancel_futures=True)


def _cpus(cells: Cells) -> frozenset[int]:
    return frozenset(cpu for _host_cell, pins in cells for _vcpu, cpu in pins)
