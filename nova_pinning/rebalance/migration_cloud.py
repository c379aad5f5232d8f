# SPDX-License-Identifier: Apache-2.0
"""What moving guests needs of a cloud's compute API.

Reading is repeated, as for an import. What changes something is sent once: how
a request ended whose answer is an error, or never came, can only be told by
looking at the guest.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_pinning import errors
from nova_pinning.flavors import cloud_requests
from nova_pinning.importers import compute_api
from nova_pinning.segregation import segregation_cloud

#: Statuses of migrations that nova will not do anything more about.
_OVER = frozenset({'cancelled', 'completed', 'confirmed', 'done', 'error',
                   'failed', 'reverted'})
#: A cold migration that waits to be confirmed.
FINISHED = 'finished'
#: Statuses of live migrations that can be aborted, since 2.65.
_ABORTABLE = ('queued', 'preparing', 'running')
#: What actions on servers are called that are part of a move.
_ACTIONS = ('live-migration', 'migrate', 'confirmResize', 'revertResize')

#: A host cell's id, and (vCPU, host CPU) pairs by vCPU.
PlacedCell = tuple[int, tuple[tuple[int, int], ...]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GuestMigration:
    """A migration of a guest, of any kind.

    :param kind: live-migration, migration, resize or evacuation
    :param target: '' while that is not decided
    """

    id: int
    server: str
    kind: str
    status: str
    source: str
    target: str

    @property
    def is_over(self) -> bool:
        return self.status in _OVER

    @property
    def is_abortable(self) -> bool:
        return self.kind == 'live-migration' and self.status in _ABORTABLE


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GuestLook:
    """A guest at a moment.

    :param host: '' if it is on none
    :param status: ACTIVE, VERIFY_RESIZE and so on
    :param task_state: what nova is about to do with it, '' for nothing
    :param fault: why it is in ERROR
    :param migrations: all, newest first; read before the rest, so that where
        all of them are over and there is no task, none has begun meanwhile
    """

    uuid: str
    host: str
    status: str
    task_state: str = ''
    fault: str = ''
    migrations: tuple[GuestMigration, ...] = ()

    @property
    def underway(self) -> GuestMigration | None:
        """The newest migration that is not over."""
        return next((migration for migration in self.migrations
                     if not migration.is_over), None)

    @property
    def awaits_confirmation(self) -> bool:
        underway = self.underway
        return (self.status == 'VERIFY_RESIZE' and not self.task_state
                and underway is not None and underway.status == FINISHED)

    @property
    def is_quiet(self) -> bool:
        """Whether nova is done with it, and no move waits for an answer."""
        return (not self.task_state and self.underway is None
                and self.status != 'VERIFY_RESIZE')


@dataclasses.dataclass(frozen=True, slots=True)
class CopiedBytes:
    """How far a live migration is.

    A guest that writes while it moves is copied in part again, so that more
    is copied than there is.
    """

    copied: int
    left: int


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceState:
    """The nova-compute of a host.

    :param disabled_reason: why nova-scheduler does not choose it, '' if it
        may
    :param is_up: whether nova hears of it
    """

    disabled_reason: str
    is_up: bool


class MigrationCloud(compute_api.ComputeCloud):
    """A cloud in which guests are moved.

    All methods raise errors.CloudError or one of its kinds.
    """

    def look(self, server: str) -> GuestLook | None:
        """A guest as it is, None if there is no such guest any more."""
        migrations = self.migrations(server_id=server)
        try:
            shown = cloud_requests.got(self._compute, _path(server))['server']
        except errors.UnsettledError:
            return None
        segregation_cloud.check_shown(shown)
        if shown['status'] in ('DELETED', 'SOFT_DELETED'):
            return None
        return GuestLook(
            uuid=server, host=shown['OS-EXT-SRV-ATTR:host'] or '',
            status=shown['status'],
            task_state=shown.get('OS-EXT-STS:task_state') or '',
            fault=(shown.get('fault') or {}).get('message', ''),
            migrations=migrations)

    def compute_services(self) -> Mapping[str, ServiceState]:
        """All of them, by the name of the host."""
        with cloud_requests.translated():
            return {
                shown.host: ServiceState(
                    '' if shown.status == 'enabled'
                    else shown.disabled_reason or 'nobody says why',
                    shown.state == 'up')
                for shown in self._compute.services(binary='nova-compute')}

    def migrations(self, **query: str) -> tuple[GuestMigration, ...]:
        """Migrations, newest first.

        :param query: server_id, or host, which is either of the two
        """
        with cloud_requests.translated():
            return tuple(
                GuestMigration(
                    id=int(shown.id), server=shown.server_id,
                    kind=shown.migration_type or '', status=shown.status,
                    source=shown.source_compute or '',
                    target=shown.dest_compute or '')
                for shown in self._compute.migrations(**query))

    def cells(self, server: str) -> tuple[PlacedCell, ...] | None:
        """Where each NUMA cell of a guest lies; () if it has none.

        :returns: None if there is no such guest any more
        """
        topology = self.topology(server)
        if topology is None:
            return None
        return tuple(
            (node['host_node'],
             tuple(sorted((int(vcpu), cpu) for vcpu, cpu
                          in node['cpu_pinning'].items())))
            for node in topology['nodes'])

    def copied(self, server: str) -> CopiedBytes | None:
        """How far a guest's live migration is, None if that is not told."""
        found = cloud_requests.got(
            self._compute, f'{_path(server)}/migrations')['migrations']
        for shown in found:
            if shown.get('memory_processed_bytes') is not None:
                return CopiedBytes(*(
                    (shown.get(f'memory_{what}_bytes') or 0)
                    + (shown.get(f'disk_{what}_bytes') or 0)
                    for what in ('processed', 'remaining')))
        return None

    def failure(self, server: str) -> str:
        """What nova says of why the last move of a guest failed, '' if not.

        That is in the guest's actions; only administrators see the events.
        """
        path = f'{_path(server)}/os-instance-actions'
        try:
            action = next((
                action for action in cloud_requests.got(
                    self._compute, path)['instanceActions']
                if action['action'] in _ACTIONS), None)
            if action is None:
                return ''
            request = cloud_requests.quoted(action['request_id'])
            events = cloud_requests.got(
                self._compute, f'{path}/{request}',
            )['instanceAction'].get('events') or ()
        except errors.CloudError:
            return ''
        for event in reversed(sorted(
                events, key=lambda event: event.get('start_time') or '')):
            if event.get('result') == 'Error':
                said = (event.get('traceback') or '').strip().splitlines()
                text = said[-1] if said else event.get('details') or ''
                # nova.exception_Remote.NoValidHost_Remote: No valid host ...
                return text.rpartition('_Remote: ')[2].strip()
        return ''

    # Changes.

    def migrate_live(self, server: str, target: str) -> None:
        """Ask nova to move a guest that runs.

        The scheduler still judges the host: nothing is forced, as it could be
        before 2.68.
        """
        self._act(server, {'os-migrateLive': {
            'host': target, 'block_migration': 'auto'}})

    def migrate_cold(self, server: str, target: str) -> None:
        """Ask nova to switch a guest off, move it, and start it there."""
        self._act(server, {'migrate': {'host': target}})

    def confirm(self, server: str) -> None:
        """Let a guest stay where a cold migration has brought it."""
        self._act(server, {'confirmResize': None})

    def revert(self, server: str) -> None:
        """Take a guest back to where a cold migration got it from."""
        self._act(server, {'revertResize': None})

    def abort(self, server: str, migration: int) -> None:
        """End a live migration; the guest stays where it is."""
        cloud_requests.send_once(self._compute, 'DELETE',
                                 f'{_path(server)}/migrations/{migration}')

    def _act(self, server: str, action: dict[str, Any]) -> None:
        cloud_requests.send_once(self._compute, 'POST',
                                 f'{_path(server)}/action', action)


def _path(server: str) -> str:
    return f'/servers/{cloud_requests.quoted(server)}'
