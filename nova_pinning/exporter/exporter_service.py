# SPDX-License-Identifier: Apache-2.0
"""The exporter: threads that read and count, and the web server."""

from collections.abc import Callable
import threading
import time
from typing import Any
from typing import Generic
from typing import TypeVar

from nova_pinning.document import packed
from nova_pinning.exporter import child_commands
from nova_pinning.exporter import fleet_sources
from nova_pinning.exporter import fleet_watch
from nova_pinning.exporter import periodic
from nova_pinning.exporter import planned_figures
from nova_pinning.exporter import task_metrics
from nova_pinning.exporter import web_server
from nova_pinning.fleet import document
from nova_pinning.fleet import snapshot
from nova_pinning.importers import snapshot_limits

_METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'
#: How long a page is served, whatever changes, and may be in the making: one
#: of thousands of hosts takes minutes.
_PAGE_SECONDS = 120.0
_PAGE_LIMIT_SECONDS = 1800.0
#: How often it is looked whether the fleet has been read.
_PATIENCE_SECONDS = 1.0
SNAPSHOT_PATH = '/fleet.json.zst'

_T = TypeVar('_T')


class _Made(Generic[_T]):
    """What is made of a fleet when it is asked for, and kept until another.

    One thread makes it; others that ask meanwhile wait for that.

    :param keep_seconds: how long it is kept even if there is another fleet
    """

    def __init__(self, make: Callable[[snapshot.Fleet], _T],
                 keep_seconds: float = 0.0,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._keep_seconds = keep_seconds
        self._clock = clock
        self._made_at = 0.0
        self._fleet: snapshot.Fleet | None = None
        self._made: _T | None = None
        self._lock = threading.Lock()

    def of(self, fleet: snapshot.Fleet | None) -> _T | None:
        """None if there is no fleet."""
        with self._lock:
            if fleet is not self._fleet and (
                    self._made is None
                    or self._clock() - self._made_at >= self._keep_seconds):
                self._made = None if fleet is None else self._make(fleet)
                self._fleet = fleet
                self._made_at = self._clock()
            return self._made


class ExporterService:
    """All of it, as the options say.

    :param settings: the group of nova_pinning.conf.exporter
    :param source: what is read
    :raises errors.InputError: if one of them is wrong
    """

    def __init__(self, settings: Any,
                 source: fleet_sources.FleetSource) -> None:
        self._tasks = task_metrics.TaskMetrics()
        self.watch = fleet_watch.FleetWatch(
            source, settings.flavors, settings.max_flavors, self._tasks)
        self._settings = settings
        self._ended = threading.Event()
        self._server: web_server.WebServer | None = None
        self._threads = [
            periodic.PeriodicThread('read', self.watch.refresh,
                                    settings.read_interval_seconds),
            periodic.PeriodicThread('plan', self._plan,
                                    settings.plan_interval_seconds)]
        self._packed = _Made(packed_snapshot)
        self._page = _Made(self._made_page, _PAGE_SECONDS)
        self._commands = child_commands.ChildCommands()
        self._planned = planned_figures.PlannedFigures(
            settings, lambda: self._packed.of(self.watch.fleet), self._tasks,
            self._commands)

    def start(self) -> str:
        """Serve, and begin to read.

        :returns: the URL that is served
        :raises errors.InputError: if the address cannot be had
        """
        self._server = web_server.WebServer(
            self.pages(), str(self._settings.listen_address),
            self._settings.listen_port)
        self._server.start()
        for thread in self._threads:
            thread.start()
        return self._server.url

    def stop(self) -> None:
        """End all of it; what reads is not waited for long."""
        self._ended.set()
        if self._server is not None:
            self._server.stop()
        self._commands.stop()
        for thread in self._threads:
            thread.stop()

    def metrics(self) -> str:
        """All figures, and those of the exporter itself."""
        return (self.watch.text() + self._planned.text()
                + self._tasks.text())

    def _plan(self) -> None:
        # At the start, until the fleet has been read.
        while not self._planned.refresh():
            if self._ended.wait(_PATIENCE_SECONDS):
                return

    def pages(self) -> dict[str, web_server.MakePage]:
        """What is served, by path."""
        pages: dict[str, web_server.MakePage] = {
            '/': self._front_page,
            '/metrics': lambda: web_server.WebPage(
                self.metrics().encode(), _METRICS_TYPE)}
        if self._settings.serve_snapshot:
            pages[SNAPSHOT_PATH] = self._snapshot_page
        return pages

    def _front_page(self) -> web_server.WebPage | None:
        """The fleet as a page, or where the figures are."""
        # It names guests, as the snapshot does.
        if self._settings.serve_snapshot:
            text = self._page.of(self.watch.fleet)
            # The document has a policy of its own.
            return None if text is None else web_server.WebPage(
                text.encode(), 'text/html; charset=utf-8', policy='')
        return web_server.WebPage(
            b'<!DOCTYPE html><html lang="en"><title>nova-pinning exporter'
            b'</title><h1>nova-pinning exporter</h1>'
            b'<p><a href="metrics">Metrics</a></p></html>\n',
            'text/html; charset=utf-8')

    def _made_page(self, fleet: snapshot.Fleet) -> str:
        return self._commands.run(
            packed_snapshot(fleet), 'fleet', 'report', '-', '-o',
            '/dev/stdout', limit_seconds=_PAGE_LIMIT_SECONDS)

    def _snapshot_page(self) -> web_server.WebPage | None:
        content = self._packed.of(self.watch.fleet)
        return None if content is None else web_server.WebPage(
            content, 'application/zstd')


def packed_snapshot(fleet: snapshot.Fleet) -> bytes:
    """A fleet as a file, without what no snapshot can hold."""
    try:
        text = document.dumps(fleet)
    except snapshot_limits.UNSOUND:
        text = document.dumps(
            snapshot_limits.drop_unrepresentable(fleet)[0])
    return packed.pack(text.encode())
