# SPDX-License-Identifier: Apache-2.0
"""One move of a plan, from the request to its end.

Nothing is kept of what was asked but that it was. Each step looks at the guest
and does what is left to do, so that an answer that was lost, an answer that
was an error, and a command that was cut off and started again are no special
cases.
"""

from collections.abc import Callable
from collections.abc import Collection
import dataclasses
import enum

from nova_pinning.document import cpu_sequence
from nova_pinning import errors
from nova_pinning import model
from nova_pinning.rebalance import migration_cloud
from nova_pinning.rebalance import plan_model

#: How often a request is sent whose end nobody knows.
MOST_ASKED = 5
#: How long nova has to end a live migration that it was told to abort.
ABORT_SECONDS = 120.0

#: After so many looks it is seen whether the hosts are still up.
_LOOKS_AT_HOSTS = 15

#: The statuses in which nova moves a guest.
MOVABLE = {
    plan_model.MigrationKind.LIVE: ('ACTIVE', 'PAUSED'),
    plan_model.MigrationKind.COLD: ('ACTIVE', 'SHUTOFF')}
#: What nova calls such a migration.
_NOVA_KINDS = {
    plan_model.MigrationKind.LIVE: 'live-migration',
    plan_model.MigrationKind.COLD: 'migration'}


class MoveStatus(enum.StrEnum):
    """What has become of a move."""

    #: The guest is where the plan has it.
    DONE = 'done'
    #: It is on the target, on other CPUs.
    DEVIATED = 'deviated'
    #: It would have been on other CPUs, and was taken back.
    REVERTED = 'reverted'
    #: It is where it was.
    FAILED = 'failed'
    #: Nothing was asked for, or somebody else moves the guest.
    CHANGED = 'changed'
    #: The guest was deleted.
    GONE = 'gone'
    #: Nova has not come to an end with it, or not to a good one.
    STUCK = 'stuck'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MoveResult:
    """How a move ended.

    :param position: in the plan
    :param message: what went otherwise than planned, and what to do about it
    :param cells: where the guest lies now, as far as that was looked at
    :param copied: bytes
    """

    position: int
    move: plan_model.PlannedMove
    status: MoveStatus
    message: str = ''
    cells: tuple[migration_cloud.PlacedCell, ...] = ()
    copied: int = 0

    @property
    def is_on_target(self) -> bool:
        return self.status in (MoveStatus.DONE, MoveStatus.DEVIATED)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MoveProgress:
    """How far a move is.

    :param doing: what nova calls it: running, VERIFY_RESIZE, ...
    :param copied: bytes, those that were copied again included
    :param left: bytes, None while that is not known
    """

    position: int
    move: plan_model.PlannedMove
    doing: str
    copied: int = 0
    left: int | None = None


def fit_cells(fit: model.Fit | None) -> tuple[migration_cloud.PlacedCell, ...]:
    """A fit as the compute API tells of it."""
    return () if fit is None else tuple(
        (cell.host_cell, tuple(sorted(cell.pins))) for cell in fit.cells)


def cells_text(cells: Collection[migration_cloud.PlacedCell]) -> str:
    """Such as 'CPUs 4-7 of cell 0', in the order of the vCPUs."""
    return ' and '.join(
        (f'CPU{"s" if len(pins) > 1 else ""} '
         f'{cpu_sequence.text_of(tuple(cpu for _vcpu, cpu in pins))} of '
         if pins else '') + f'cell {host_cell}'
        for host_cell, pins in cells) or 'no cell'


def is_of(migration: migration_cloud.GuestMigration,
          move: plan_model.PlannedMove) -> bool:
    """Whether a migration is what a move asks for."""
    return (migration.kind == _NOVA_KINDS[move.kind]
            and migration.source == move.source
            and migration.target in ('', move.target))


class MoveRun:
    """A move that is carried out, step by step.

    :param known: migrations of the guest that are not of this move
    :param write: takes down an event and what belongs to it, before it is
        asked for
    :param clock: in seconds
    :param timeout_seconds: after which the move is given up
    """

    def __init__(self, cloud: migration_cloud.MigrationCloud,
                 move: plan_model.PlannedMove, position: int, *,
                 write: Callable[..., None], clock: Callable[[], float],
                 timeout_seconds: float,
                 known: Collection[int] | None = None) -> None:
        self.move = move
        self.position = position
        self._cloud = cloud
        self._write = write
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._deadline = clock() + timeout_seconds
        self._known = known
        self._looks = 0
        self._asked = 0
        self._answered = 0
        self._is_accepted = False
        self._is_aborting = False
        self._trouble = ''
        self._deviation = ''
        self._copied = 0

    def step(self) -> MoveResult | MoveProgress:
        """Look, and do what is next.

        :raises errors.CloudError: if it cannot be looked at; the step can be
            repeated
        """
        look = self._cloud.look(self.move.guest)
        if look is None:
            return self._result(MoveStatus.GONE, 'the guest was deleted')
        if look.awaits_confirmation:
            return self._answer(look)
        if not look.is_quiet:
            return self._wait(look)
        if look.status == 'ERROR':
            return self._result(
                MoveStatus.STUCK,
                f'the guest is in ERROR on {look.host or "no host"}: '
                f'{self._why(look)}; if it runs there all the same: openstack '
                f'server set --state active {self.move.guest}; if it does '
                f'not, after that openstack server reboot --hard '
                f'{self.move.guest}')
        if look.host == self.move.target:
            return self._arrived()
        if look.host == self.move.source:
            return self._not_left(look)
        return self._result(
            MoveStatus.CHANGED,
            f'the guest is on {look.host or "no host"}, where nothing of this '
            'plan has brought it')

    def _arrived(self) -> MoveResult | MoveProgress:
        cells = self._cloud.cells(self.move.guest)
        if cells is None:
            return self._result(MoveStatus.GONE, 'the guest was deleted')
        deviation = self._difference(cells)
        return self._result(
            MoveStatus.DEVIATED if deviation else MoveStatus.DONE, deviation,
            cells)

    def _difference(
            self, cells: tuple[migration_cloud.PlacedCell, ...]) -> str:
        planned = fit_cells(self.move.target_fit)
        if cells == planned:
            return ''
        return (f'the guest got {cells_text(cells)} of {self.move.target}, '
                f'not {cells_text(planned)}')

    def _not_left(self, look: migration_cloud.GuestLook) -> (
            MoveResult | MoveProgress):
        new = [migration for migration in look.migrations
               if self._known is not None and migration.id not in self._known]
        if new:
            if new[0].status == 'reverted':
                return self._result(
                    MoveStatus.REVERTED,
                    f'{self._deviation}, so it was taken back'
                    if self._deviation else 'somebody has taken it back')
            if not is_of(new[0], self.move) or new[0].status not in (
                    'cancelled', 'error', 'failed'):
                return self._result(
                    MoveStatus.CHANGED, 'somebody else has moved the guest')
            if self._is_aborting:
                return self._result(
                    MoveStatus.FAILED, 'it was aborted, since it took longer '
                    f'than {self._timeout_seconds:g} s')
            return self._result(
                MoveStatus.FAILED,
                f'migration {new[0].id} ended in {new[0].status}: '
                f'{self._why(look)}')
        if self._is_accepted:
            return self._result(
                MoveStatus.FAILED,
                f'nova did not begin with it: {self._why(look)}')
        if look.status not in MOVABLE[self.move.kind]:
            return self._result(
                MoveStatus.CHANGED, state_text(look, self.move.kind))
        if self._asked >= MOST_ASKED:
            return self._result(
                MoveStatus.FAILED, 'nova did not take the request, '
                f'{self._asked} times: {self._trouble}')
        return self._ask(look)

    def _ask(self, look: migration_cloud.GuestLook) -> (
            MoveResult | MoveProgress):
        move = self.move
        self._known = frozenset(
            migration.id for migration in look.migrations)
        self._asked += 1
        self._write('asked', move=self.position, guest=move.guest,
                    source=move.source, target=move.target,
                    kind=str(move.kind), known=sorted(self._known))
        try:
            if move.kind is plan_model.MigrationKind.LIVE:
                self._cloud.migrate_live(move.guest, move.target)
            else:
                self._cloud.migrate_cold(move.guest, move.target)
        except errors.UnsettledError as error:
            self._trouble = str(error)
        except errors.CloudError as error:
            return self._result(MoveStatus.FAILED, str(error))
        else:
            self._is_accepted = True
        return self._progress('asked')

    def _answer(self, look: migration_cloud.GuestLook) -> (
            MoveResult | MoveProgress):
        """Confirm a cold migration, or revert it."""
        assert look.underway is not None
        guest = self.move.guest
        if not is_of(look.underway, self.move) or (
                look.host != self.move.target):
            return self._result(
                MoveStatus.CHANGED, 'the guest waits for a resize to be '
                'confirmed that is none of this plan')
        if not self._deviation:
            cells = self._cloud.cells(guest)
            if cells is None:
                return self._progress(look.status)
            self._deviation = self._difference(cells)
        verb = 'revert' if self._deviation else 'confirm'
        if self._answered >= MOST_ASKED:
            return self._result(
                MoveStatus.STUCK, f'nova does not {verb} the migration: '
                f'{self._trouble}; openstack server migration {verb} {guest} '
                'does it')
        self._answered += 1
        self._write(f'{verb}ing', move=self.position, guest=guest)
        try:
            if self._deviation:
                self._cloud.revert(guest)
            else:
                self._cloud.confirm(guest)
        except errors.CloudError as error:
            self._trouble = str(error)
        return self._progress(f'{verb}ing')

    def _wait(self, look: migration_cloud.GuestLook) -> (
            MoveResult | MoveProgress):
        underway = look.underway
        if underway and not is_of(underway, self.move):
            return self._result(
                MoveStatus.CHANGED,
                f'somebody else moves the guest from {underway.source} to '
                f'{underway.target or "another host"} (migration '
                f'{underway.id})')
        self._looks += 1
        if self._looks % _LOOKS_AT_HOSTS == 0:
            down = self._down_host()
            if down:
                return self._result(
                    MoveStatus.STUCK,
                    f'nova-compute of {down} is down, with the guest on '
                    f'{look.host or "no host"}; {_stage_text(look)}; when it '
                    'is up, run the command again, which goes on with what '
                    'nova has made of it')
        if self._clock() >= self._deadline:
            if self._is_aborting or not (underway and underway.is_abortable):
                return self._result(MoveStatus.STUCK, self._stuck(look))
            self._is_aborting = True
            self._deadline = self._clock() + ABORT_SECONDS
        if self._is_aborting and underway and underway.is_abortable:
            self._write('aborting', move=self.position, guest=look.uuid,
                        migration=underway.id)
            try:
                self._cloud.abort(look.uuid, underway.id)
            except errors.CloudError as error:
                self._trouble = str(error)
        if self.move.kind is plan_model.MigrationKind.LIVE and underway:
            return self._progress(underway.status, self._bytes())
        return self._progress(look.task_state or look.status)

    def _bytes(self) -> int | None:
        try:
            copied = self._cloud.copied(self.move.guest)
        except errors.CloudError:
            # It is only for people to watch.
            return None
        if copied is None:
            return None
        self._copied = max(self._copied, copied.copied)
        return copied.left

    def _stuck(self, look: migration_cloud.GuestLook) -> str:
        return (f'nova has not ended it after {self._timeout_seconds:g} s: '
                f'{_stage_text(look)}, with the guest on '
                f'{look.host or "no host"}; see what nova-compute of '
                f'{self.move.source} and of {self.move.target} is at, and run '
                'the command again, which goes on from there')

    def _down_host(self) -> str:
        """Which of the two hosts nova does not hear of, '' for none."""
        try:
            services = self._cloud.compute_services()
        except errors.CloudError:
            return ''
        return next((
            name for name in (self.move.source, self.move.target)
            if name not in services or not services[name].is_up), '')

    def _why(self, look: migration_cloud.GuestLook) -> str:
        return (look.fault or self._cloud.failure(look.uuid)
                or 'nova does not say why; see the logs of nova-conductor and '
                'nova-compute')

    def _progress(self, doing: str, left: int | None = None) -> MoveProgress:
        return MoveProgress(position=self.position, move=self.move,
                            doing=doing, copied=self._copied, left=left)

    def _result(
        self, status: MoveStatus, message: str = '',
        cells: tuple[migration_cloud.PlacedCell, ...] = (),
    ) -> MoveResult:
        return MoveResult(position=self.position, move=self.move,
                          status=status, message=message, cells=cells,
                          copied=self._copied)


def _stage_text(look: migration_cloud.GuestLook) -> str:
    underway = look.underway
    return (f'migration {underway.id} is {underway.status}' if underway
            else f'the guest is {look.task_state or look.status}')


def state_text(look: migration_cloud.GuestLook,
               kind: plan_model.MigrationKind) -> str:
    """Why nova would not move a guest as it is."""
    return (f'the guest is {look.status}, and nova moves guests {kind} that '
            f'are {" or ".join(MOVABLE[kind])}')
