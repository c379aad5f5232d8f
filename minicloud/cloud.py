#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""A cloud as a whole: its parts, and the order in which they come up."""

from concurrent import futures
import contextlib
import fcntl
import graphlib
import os
import shutil
import time
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
from minicloud import service
from minicloud import settings as _settings
from minicloud import web

CONTROLLER = (
    prepare.Databases, database.MariaDB, messaging.Epmd, messaging.RabbitMQ,
    web.Keystone, web.Placement, web.Glance, web.NeutronStandIn,
    nova.NovaApi, nova.NovaConductor, nova.NovaScheduler, guest.Image)


class Progress(typing.Protocol):
    """What is told how far ``up`` has come."""

    def started(self, part: service.Part) -> None:
        """A part is being brought up."""

    def ready(self, part: service.Part, seconds: float) -> None:
        """A part is ready, after so many seconds."""


class Cloud:
    """All parts of a cloud.

    :ivar parts: dict of service.Part by name
    """

    def __init__(self, state: _settings.State,
                 settings: _settings.Settings) -> None:
        self.state = state
        self.settings = settings
        parts: list[service.Part] = [
            part(state, settings) for part in CONTROLLER
            if not (settings.sqlite and part is database.MariaDB)]
        if settings.huge_pages:
            parts.append(hugepages.HugePages(state, settings))
        for host in settings.hosts:
            parts += hosts.parts(state, settings, host)
        self.parts = {part.name: part for part in parts}

    def up(self, progress: Progress) -> None:
        """Bring all parts up, each as soon as what it needs is there.

        :raises: MiniCloudError, of the first part that failed
        """
        with futures.ThreadPoolExecutor(len(self.parts)) as pool:
            try:
                self._up(pool, progress)
            except BaseException:
                # The pool waits for those that are on their way.
                for part in self.parts.values():
                    part.given_up.set()
                raise

    def _up(self, pool: futures.Executor, progress: Progress) -> None:
        graph = self._graph()
        graph.prepare()
        waiting: dict[futures.Future[float], service.Part] = {}
        while graph.is_active():
            for name in graph.get_ready():
                part = self.parts[name]
                progress.started(part)
                waiting[pool.submit(_timed, part.up)] = part
            done, _ = futures.wait(
                waiting, return_when=futures.FIRST_COMPLETED)
            for one in done:
                part = waiting.pop(one)
                progress.ready(part, one.result())
                graph.done(part.name)

    def down(self) -> None:
        """Take everything down that is or may be there."""
        for part in reversed(self._in_order()):
            part.down()
        # What an earlier version of the cloud may have left.
        for record in self.state.run.glob('*.json'):
            process.stop(record)

    def _in_order(self) -> list[service.Part]:
        return [self.parts[name] for name in self._graph().static_order()]

    def _graph(self) -> graphlib.TopologicalSorter[str]:
        return graphlib.TopologicalSorter({
            part.name: [name for name in part.requires if name in self.parts]
            for part in self.parts.values()})


def _timed(function: typing.Callable[[], None]) -> float:
    before = time.monotonic()
    function()
    return time.monotonic() - before


def remove(state: _settings.State) -> None:
    """Take a cloud down and remove its files, but for its logs."""
    settings = state.load()
    if settings is not None:
        Cloud(state, settings).down()
    shutil.rmtree(state.cloud, ignore_errors=True)


@contextlib.contextmanager
def lock(state: _settings.State) -> typing.Iterator[None]:
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
