# SPDX-License-Identifier: Apache-2.0
"""The state of the fleet that a strategy plans for."""

from collections.abc import Callable
from collections.abc import Collection
import dataclasses
import datetime
from typing import Any

from nova_pinning.cli import fleet_import_nova
from nova_pinning import errors
from nova_pinning.fleet import document
from nova_pinning.fleet import snapshot
from nova_pinning.host import host_loader
from nova_pinning.importers import compute_api
from nova_pinning.importers import compute_run
from nova_pinning.importers import snapshot_limits
from nova_pinning.watcher import nova_process


def read_fleet(
    settings: Any, connect: Callable[[], Any],
    tell: Callable[[str], None],
    now: datetime.datetime | None = None,
) -> snapshot.Fleet:
    """Read hosts and guests, from where the options say.

    :param settings: the group of watcher_options
    :param connect: makes an openstack.connection.Connection, where it is
        needed
    :param tell: is told what is odd, a sentence each
    :param now: UTC
    :raises errors.InputError: if a file or a database cannot be read
    :raises errors.CloudError: if the cloud cannot be worked with
    """
    if settings.snapshot:
        return _kept(settings, now or datetime.datetime.now(datetime.UTC))
    host_files = settings.host_files or None
    if settings.nova_conf:
        with nova_process.NovaProcess() as nova:
            fleet, notes = nova.call(
                fleet_import_nova.read,
                [word for path in settings.nova_conf
                 for word in ('--config-file', path)], host_files)
    else:
        fleet, notes = compute_run.read(
            compute_api.ComputeCloud(connect(), 'of Watcher'),
            host_loader.by_name(host_files), now=now)
    fleet, left_out = snapshot_limits.representable(fleet)
    for note in (*notes, *left_out):
        tell(note)
    return fleet


def in_scope(fleet: snapshot.Fleet, hosts: Collection[str],
             guests: Collection[str]) -> snapshot.Fleet:
    """The part of a fleet that an audit is about.

    Other hosts are left out, with what is on them, so that nothing is moved to
    them either. Other guests stay where they are.

    :param hosts: by name
    :param guests: by UUID
    """
    return dataclasses.replace(
        fleet,
        hosts=tuple(host for host in fleet.hosts if host.name in hosts),
        guests=tuple(
            guest if guest.uuid in guests
            else dataclasses.replace(guest, is_movable=False)
            for guest in fleet.guests if guest.host in hosts))


def _kept(settings: Any, now: datetime.datetime) -> snapshot.Fleet:
    fleet = document.read(settings.snapshot)
    where = errors.Location(settings.snapshot, key='taken_at')
    if not fleet.taken_at:
        raise errors.InputError(
            'the snapshot does not say when it was taken', where,
            'take one with nova-pinning fleet import nova')
    taken_at = datetime.datetime.fromisoformat(fleet.taken_at)
    age = (now - taken_at).total_seconds()
    if age > settings.snapshot_max_age_seconds:
        raise errors.InputError(
            f'the snapshot is {age:.0f} seconds old, and may be '
            f'{settings.snapshot_max_age_seconds}', where,
            'take another, or raise [pinning_watcher] '
            'snapshot_max_age_seconds')
    return fleet
