# SPDX-License-Identifier: Apache-2.0
"""A plan of moves carried out on a cloud.

One thread looks at all moves that are under way in turn. What the cloud is
like is read anew before each move, and nothing is begun once something is
otherwise than planned; what is under way is seen to its end.
"""

from collections.abc import Callable
from collections.abc import Iterator
import time
from typing import TypeVar

from nova_pinning import errors
from nova_pinning.rebalance import apply_journal
from nova_pinning.rebalance import migration_cloud
from nova_pinning.rebalance import move_check
from nova_pinning.rebalance import move_run
from nova_pinning.rebalance import plan_model

POLL_SECONDS = 2.0
TIMEOUT_SECONDS = 3600.0
#: Looks one after the other that may fail; each was repeated by itself.
_MOST_BLIND = 5

Outcome = move_run.MoveResult | move_run.MoveProgress
_T = TypeVar('_T')


class PlanExecution:
    """A plan on its way.

    :ivar results: of the moves that this run has brought to an end
    :ivar halted: why no more moves are begun, '' for no reason
    :ivar problems: what keeps the plan from being carried out at all, found
        by :meth:`prepare`, which comes first
    :param timeout_seconds: after which a move is given up, and a live one
        aborted
    :param is_stopping: whether no more moves shall be begun
    """

    def __init__(self, cloud: migration_cloud.MigrationCloud,
                 plan: plan_model.RebalancePlan,
                 journal: apply_journal.ApplyJournal | None, *,
                 parallel: int = 1,
                 timeout_seconds: float = TIMEOUT_SECONDS,
                 poll_seconds: float = POLL_SECONDS,
                 is_stopping: Callable[[], bool] = lambda: False,
                 sleep: Callable[[float], None] = time.sleep,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.plan = plan
        self.results: list[move_run.MoveResult] = []
        self.problems: list[str] = []
        self.halted = ''
        self._cloud = cloud
        self._journal = journal
        self._parallel = parallel
        self._timeout_seconds = timeout_seconds
        self._poll_seconds = poll_seconds
        self._is_stopping = is_stopping
        self._sleep = sleep
        self._clock = clock
        self._done: set[int] = set()
        self._running: dict[int, move_run.MoveRun] = {}
        self._cells: dict[str, move_check.Cells] = {}
        self._hosts: dict[str, move_check.HostGuests] = {}
        self._blind = 0

    @property
    def left(self) -> tuple[int, ...]:
        """Positions of the moves that are not done, in order."""
        return tuple(position for position in range(len(self.plan.moves))
                     if position not in self._done)

    @property
    def parked(self) -> tuple[plan_model.PlannedMove, ...]:
        """Moves that have brought guests to where they are not to stay."""
        return tuple(
            move for position, move in enumerate(self.plan.moves)
            if move.is_parking and position in self._done
            and not self._moved_on(position))

    @property
    def under_way(self) -> tuple[plan_model.PlannedMove, ...]:
        """Moves that were begun and have not ended."""
        return tuple(run.move for run in self._running.values())

    def _moved_on(self, position: int) -> bool:
        guest = self.plan.moves[position].guest
        return any(self.plan.moves[later].guest == guest and
                   later in self._done
                   for later in range(position + 1, len(self.plan.moves)))

    def prepare(self) -> None:
        """Find out what is done, and whether the rest can be done.

        Fills :attr:`problems`. Can be repeated before :meth:`run`.

        :raises errors.InputError: if the plan is not one for this cloud
        :raises errors.CloudError: if the cloud cannot be worked with
        """
        self.problems.clear()
        self._done.clear()
        self._running.clear()
        self._hosts.clear()
        moves: dict[str, list[tuple[int, plan_model.PlannedMove]]] = {}
        for position, move in enumerate(self.plan.moves):
            moves.setdefault(move.guest, []).append((position, move))
        self._check_hosts()
        stages = move_check.each(
            lambda guest: move_check.stage(moves[guest], self._cloud,
                                           self._journal), list(moves))
        if stages and all(stage.look is None and 'no such guest'
                          in stage.problem for stage in stages.values()):
            raise errors.InputError(
                f'none of the {len(stages)} guests of the plan is in cloud '
                f'{self._cloud.name}', advice='is it a plan for another one?')
        adopted = []
        for guest, stage in stages.items():
            self._cells[guest] = stage.cells
            self._done.update(
                position for position, _move in moves[guest][:stage.done])
            if stage.problem:
                self.problems.append(f'guest {guest}: {stage.problem}')
            elif stage.look:
                adopted.append((*moves[guest][stage.done], stage.look))
        self._check_order()
        for host in {self.plan.moves[position].target
                     for position in self.left}:
            self._hosts[host] = move_check.host_guests(self._cloud, host)
        if not self.problems:
            # A guest that is under way may be counted on either host.
            for position, move, _look in adopted:
                self._hosts[move.target].pop(move.guest, None)
            found = move_check.prediction(
                ((position, self.plan.moves[position])
                 for position in self.left), self._hosts)
            if found:
                self.problems.append(found)
        for position, move, look in adopted:
            self._running[position] = self._run_of(
                position, move, self._known(position, look))

    def _check_hosts(self) -> None:
        known = self._cloud.compute_services()
        for position, move in enumerate(self.plan.moves):
            for name in (move.source, move.target):
                if name not in known:
                    raise errors.InputError(
                        f'move {position}: cloud {self._cloud.name} has no '
                        f'host {name}',
                        advice='is it a plan for another one?')

    def _check_order(self) -> None:
        """Find moves that were done before those that they come after."""
        for position in sorted(self._done):
            for before in self.plan.moves[position].after:
                if before not in self._done:
                    self.problems.append(
                        f'move {position} is done, though move {before}, '
                        'which comes before it, is not')

    def _known(self, position: int,
               look: migration_cloud.GuestLook) -> frozenset[int]:
        """The migrations of a guest that are not of the move under way."""
        asked = self._journal and self._journal.last(position, 'asked')
        if asked:
            return frozenset(asked.get('known', ()))
        return frozenset(migration.id for migration in look.migrations
                         if migration != look.underway)

    def run(self) -> Iterator[Outcome]:
        """Carry out what is left.

        :returns: what happens, as it happens
        :raises errors.CloudError: if the cloud cannot be asked any more; what
            is under way goes on
        """
        while True:
            if self._is_stopping() and not self.halted and self.left:
                self._halt('it was told to stop')
            yield from self._begin()
            if self._running:
                self._sleep(self._poll_seconds)
            elif self.halted or not self.left:
                return
            before = len(self._done)
            for position, run in list(self._running.items()):
                outcome = self._patiently(run.step)
                if outcome is None:
                    continue
                if isinstance(outcome, move_run.MoveResult):
                    del self._running[position]
                    self._end(outcome)
                yield outcome
            if len(self._done) > before:
                # Placement gets back what a guest has left only after nova
                # calls its migration completed.
                self._sleep(self._poll_seconds)

    def _begin(self) -> Iterator[Outcome]:
        """Begin moves, as many as may be under way."""
        for position in self.left:
            if self.halted or len(self._running) >= self._parallel:
                return
            if position in self._running or not self._is_ready(position):
                continue
            move = self.plan.moves[position]
            refusal = self._patiently(lambda: self._refusal(move))
            if refusal is None:
                return
            if refusal:
                result = move_run.MoveResult(
                    position=position, move=move, message=refusal,
                    status=move_run.MoveStatus.CHANGED)
                self._end(result)
                yield result
                return
            run = self._run_of(position, move, None)
            self._running[position] = run
            outcome = self._patiently(run.step)
            if isinstance(outcome, move_run.MoveResult):
                del self._running[position]
                self._end(outcome)
            if outcome is not None:
                yield outcome

    def _is_ready(self, position: int) -> bool:
        move = self.plan.moves[position]
        return (self._done.issuperset(move.after) and all(
            earlier in self._done for earlier in range(position)
            if self.plan.moves[earlier].guest == move.guest))

    def _refusal(self, move: plan_model.PlannedMove) -> str:
        """Why a move is not begun, '' if it may be."""
        look = self._cloud.look(move.guest)
        if look is None:
            return 'there is no such guest any more'
        if not look.is_quiet:
            return ('somebody else is at work on the guest: '
                    f'{look.task_state or look.status}')
        if look.host != move.source:
            return f'the guest is on {look.host or "no host"}'
        if look.status not in move_run.MOVABLE[move.kind]:
            return move_run.state_text(look, move.kind)
        cells = self._cloud.cells(move.guest)
        if cells is None:
            return 'there is no such guest any more'
        if cells != self._cells[move.guest]:
            return (f'the guest is on {move_run.cells_text(cells)} of its '
                    'host, not on '
                    f'{move_run.cells_text(self._cells[move.guest])}')
        refusal = move_check.host_refusal(self._cloud, move)
        if refusal:
            return refusal
        under_way = {run.move.guest for run in self._running.values()}
        refusal = move_check.others_moving(
            self._cloud, move.target, {move.guest, *under_way})
        if refusal:
            return refusal
        found = move_check.host_guests(self._cloud, move.target)
        refusal = move_check.differences(
            self._hosts[move.target], found, under_way)
        if refusal:
            return f'{move.target} is not as planned: {refusal}'
        return move_check.conflict(move, found)

    def _run_of(self, position: int, move: plan_model.PlannedMove,
                known: frozenset[int] | None) -> move_run.MoveRun:
        return move_run.MoveRun(
            self._cloud, move, position, write=self._write, known=known,
            clock=self._clock, timeout_seconds=self._timeout_seconds)

    def _end(self, result: move_run.MoveResult) -> None:
        self.results.append(result)
        self._write('ended', move=result.position, guest=result.move.guest,
                    status=str(result.status), message=result.message,
                    cells=result.cells, copied=result.copied)
        move = result.move
        if result.is_on_target:
            self._done.add(result.position)
            self._cells[move.guest] = result.cells
            if move.source in self._hosts:
                self._hosts[move.source].pop(move.guest, None)
            if move.target in self._hosts and result.cells:
                self._hosts[move.target][move.guest] = result.cells
        if result.status is move_run.MoveStatus.DEVIATED:
            found = move_check.prediction(
                ((position, self.plan.moves[position])
                 for position in self.left if position not in self._running),
                self._hosts)
            if found:
                self._halt(f'{result.message}, and so {found}')
        elif result.status is not move_run.MoveStatus.DONE:
            self._halt(f'move {result.position}: {result.message}')

    def _halt(self, reason: str) -> None:
        if not self.halted:
            self.halted = reason
            self._write('halted', message=reason)

    def _write(self, event: str, **content: object) -> None:
        assert self._journal is not None, 'nothing is carried out without one'
        self._journal.write(event, **content)

    def _patiently(self, ask: Callable[[], _T]) -> _T | None:
        """What is asked for, or None if the cloud did not answer this time.

        :raises errors.CloudError: if it has not for too often
        """
        try:
            answer = ask()
        except errors.CloudError as error:
            self._blind += 1
            if self._blind >= _MOST_BLIND:
                self._write('halted', message=str(error))
                raise
            # Some time passes before it is asked again.
            self._sleep(self._poll_seconds)
            return None
        self._blind = 0
        return answer
