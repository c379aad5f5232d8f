# SPDX-License-Identifier: Apache-2.0
"""Where the exporter reads a fleet from, again and again."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import gc
import os
import time
from typing import Any
from typing import Protocol

from nova_pinning import errors
from nova_pinning.fleet import document
from nova_pinning.fleet import provider_trees
from nova_pinning.fleet import snapshot
from nova_pinning.host import host_loader
from nova_pinning.host import host_model
from nova_pinning.importers import compute_api
from nova_pinning.importers import compute_run


class FleetSource(Protocol):
    """Something that a fleet is read from."""

    def read(self) -> snapshot.Fleet:
        """The fleet as it is now.

        Hosts and guests that have not changed should be the same objects as
        the last time; what they are compared with is then found at once.

        :raises errors.InputError: if it cannot be read
        :raises errors.CloudError: if the cloud cannot be worked with
        """


class SnapshotFile:
    """A snapshot that something else writes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._state: tuple[int, ...] = ()
        self._fleet: snapshot.Fleet | None = None

    def read(self) -> snapshot.Fleet:
        state = self._look()
        if self._fleet is None or state != self._state:
            self._fleet = document.read(self._path)
            self._state = state
        return self._fleet

    def _look(self) -> tuple[int, ...]:
        try:
            status = os.stat(self._path)
        except OSError as error:
            raise errors.InputError(
                f'it cannot be read: {error.strerror}',
                errors.Location(self._path)) from error
        return status.st_mtime_ns, status.st_size, status.st_ino


class CloudApi:
    """A compute API and Placement, all of which is read each time.

    A connection is kept until a reading fails, so that Keystone is asked for
    a token only when one has run out.

    :param connect: makes an openstack.connection.Connection
    """

    def __init__(self, name: str, connect: Callable[[], Any],
                 descriptions: Mapping[str, host_model.HostDescription],
                 ) -> None:
        self._name = name
        self._connect = connect
        self._descriptions = descriptions
        self._connection: Any = None
        self._cloud: compute_api.ComputeCloud | None = None

    def read(self) -> snapshot.Fleet:
        try:
            if self._cloud is None:
                self._connection = self._connect()
                self._cloud = compute_api.ComputeCloud(
                    self._connection, self._name)
            fleet, _notes = compute_run.read(
                self._cloud, self._descriptions)
        except Exception:
            self.close()
            raise
        return fleet

    def close(self) -> None:
        """Close the connection until the next reading."""
        self._cloud = None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class DatabaseSource:
    """Nova's databases, of which only what has changed is read.

    :param conf_files: nova.conf and what it reads besides
    :param settings: the group of nova_pinning.conf.exporter
    """

    def __init__(
        self, conf_files: Sequence[str], settings: Any,
        descriptions: Mapping[str, host_model.HostDescription],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # Only here, for it takes seconds.
        from nova_pinning.bridge.importer import fleet_import
        from nova_pinning.bridge.importer import nova_database
        self._conf = nova_database.load_conf([
            word for path in conf_files for word in ('--config-file', path)])
        self._clock = clock
        self._full_interval_seconds = settings.full_read_interval_seconds
        self._reader = fleet_import.FleetReader(
            skips_down_cells=settings.skip_down_cells,
            descriptions=descriptions,
            read_trees=self._read_trees if settings.placement else None)
        self._full_at: float | None = None
        self._open = contextlib.ExitStack()
        self._database: Any = None

    def read(self) -> snapshot.Fleet:
        from nova_pinning.bridge.importer import nova_database
        now = self._clock()
        if (self._full_at is None
                or now - self._full_at >= self._full_interval_seconds):
            # Cells come and go, and change their databases.
            self.close()
        try:
            if self._database is None:
                self._database = self._open.enter_context(
                    nova_database.opened(self._conf))
                self._reader.forget()
                self._full_at = now
            return self._reader.read(self._database)
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        """Close the databases until the next reading, which is a full one."""
        self._database = None
        self._full_at = None
        self._open.close()
        # What is left of the databases are cycles, and FleetWatch has frozen
        # them: let the next collection find them.
        gc.unfreeze()

    def _read_trees(
        self, hosts: Sequence[str],
    ) -> Mapping[str, provider_trees.HostTree]:
        from nova_pinning.bridge.importer import nova_placement
        return provider_trees.read(nova_placement.connect(self._conf), hosts)


def configured(settings: Any) -> FleetSource:
    """What the options say.

    :param settings: the group of nova_pinning.conf.exporter
    :raises errors.InputError: if they name nothing to read from, or what
        cannot be loaded
    """
    descriptions = host_loader.by_name(settings.host_files or None)
    chosen = [name for name in ('nova_conf', 'cloud', 'snapshot')
              if settings[name]]
    if len(chosen) != 1:
        raise errors.InputError(
            'nothing says where hosts and guests are read from'
            if not chosen else f'{" and ".join(chosen)} are set, of which '
            'only one can be', errors.Location('[pinning_exporter]'),
            'set nova_conf, cloud or snapshot')
    if settings.snapshot:
        return SnapshotFile(settings.snapshot)
    if settings.nova_conf:
        return DatabaseSource(settings.nova_conf, settings, descriptions)

    def connect() -> Any:
        import openstack
        try:
            return openstack.connect(cloud=settings.cloud)
        except openstack.exceptions.SDKException as error:
            raise errors.CloudError(str(error)) from error

    return CloudApi(settings.cloud, connect, descriptions)
