# SPDX-License-Identifier: Apache-2.0
"""A cloud as a whole: its parts, and the order in which they come up."""

from concurrent import futures
import contextlib
import fcntl
import graphlib
import os
import shutil
import typing

from minicloud import database
from minicloud import errors
from minicloud import guest
from minicloud import hosts
from minicloud import hugepages
from minicloud import messaging
from minicloud import nova
from minicloud import prepare
from minicloud import process
from minicloud import progress
from minicloud import service
from minicloud import settings
from minicloud import web

CONTROLLER = (
    prepare.Databases, database.MariaDB, prepare.Schemas,
    messaging.Epmd, messaging.RabbitMQ,
    web.Keystone, web.Placement, web.Glance, web.NeutronStandIn,
    nova.NovaApi, nova.NovaConductor, nova.NovaScheduler, guest.Image)


class Cloud:
    """All parts of a cloud.

    :ivar parts: dict of service.Part by name
    """

    def __init__(self, state: settings.State,
                 settings: settings.Settings) -> None:
        self.state = state
        self.settings = settings
        parts: list[service.Part] = [
            part(state, settings) for part in CONTROLLER]
        if settings.huge_pages:
            parts.append(hugepages.HugePages(state, settings))
        for host in settings.hosts:
            parts += hosts.parts(state, settings, host)
        self.parts = {part.name: part for part in parts}

    def up(self, shown: progress.Progress) -> None:
        """Bring all parts up, each as soon as what it needs is there.

        :raises: MiniCloudError, of the first part that failed
        """
        with futures.ThreadPoolExecutor(len(self.parts)) as pool:
            try:
                self._walk(pool, self._requires(), _up, shown)
            except BaseException:
                # The pool waits for those that are on their way.
                for part in self.parts.values():
                    part.given_up.set()
                raise

    def stop_writers(self, shown: progress.Progress) -> None:
        """Take down what writes to databases, for these to be migrated.

        Compute hosts write through nova-conductor, and wait for the next.
        """
        for part in self.parts.values():
            if set(part.requires) & set(web.DATABASE):
                shown.started(part)
                part.down()
                shown.ended(part)

    def down(self, shown: progress.Progress) -> None:
        """Take everything down that is or may be there.

        :raises: MiniCloudError if something could not be, after all else was
        """
        failed: list[str] = []

        def down(part: service.Part) -> None:
            try:
                part.down()
            except (OSError, errors.MiniCloudError) as e:
                failed.append(f'{part.name}: {e}')

        backwards: dict[str, list[str]] = {name: [] for name in self.parts}
        for name, required in self._requires().items():
            for other in required:
                backwards[other].append(name)
        with futures.ThreadPoolExecutor(len(self.parts)) as pool:
            self._walk(pool, backwards, down, shown)
        # What an earlier version of the cloud may have left.
        for record in self.state.run.glob('*.json'):
            process.stop(record)
        if failed:
            raise errors.MiniCloudError(
                'not everything could be taken down: ' + '; '.join(failed),
                'Fix that and run it again')

    def _requires(self) -> dict[str, list[str]]:
        """Return the parts that each part requires, of those there are."""
        return {part.name: [name for name in part.requires
                            if name in self.parts]
                for part in self.parts.values()}

    def _walk(self, pool: futures.Executor, graph: dict[str, list[str]],
              work: typing.Callable[[service.Part], None],
              shown: progress.Progress) -> None:
        """Do something with each part, as soon as it may be done.

        :param graph: names of the parts that come before each part
        """
        order = graphlib.TopologicalSorter(graph)
        order.prepare()
        running: dict[futures.Future[None], service.Part] = {}
        while order.is_active():
            for name in order.get_ready():
                part = self.parts[name]
                shown.started(part)
                running[pool.submit(work, part)] = part
            done, _ = futures.wait(
                running, return_when=futures.FIRST_COMPLETED)
            for future in done:
                part = running.pop(future)
                future.result()
                shown.ended(part)
                order.done(part.name)


def _up(part: service.Part) -> None:
    part.up()


def remove(state: settings.State, shown: progress.Progress) -> None:
    """Take a cloud down and remove its files, but for its logs."""
    settings = state.load()
    if settings is not None:
        Cloud(state, settings).down(shown)
    with shown.doing('removing its files'):
        shutil.rmtree(state.cloud, ignore_errors=True)


@contextlib.contextmanager
def lock(state: settings.State) -> typing.Iterator[None]:
    """Keep others from changing the cloud at the same time.

    :raises: MiniCloudError if somebody does already
    """
    descriptor = os.open(state.root / 'lock', os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.MiniCloudError(
                f'another minicloud is at work on {state.root}',
                'Wait for it to end') from None
        yield
    finally:
        os.close(descriptor)
