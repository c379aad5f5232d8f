# SPDX-License-Identifier: Apache-2.0
"""The exporter: threads that read and count, and the web server."""

from typing import Any

from nova_pinning.document import packed
from nova_pinning.exporter import fleet_sources
from nova_pinning.exporter import fleet_watch
from nova_pinning.exporter import periodic
from nova_pinning.exporter import task_metrics
from nova_pinning.exporter import web_server
from nova_pinning.fleet import document
from nova_pinning.fleet import snapshot
from nova_pinning.importers import snapshot_limits

_METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'
SNAPSHOT_PATH = '/fleet.json.zst'


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
            source, fleet_watch.FlavorChoice(
                tuple(settings.flavors), settings.max_flavors), self._tasks)
        self._settings = settings
        self._server: web_server.WebServer | None = None
        self._threads = [periodic.PeriodicThread(
            'read', self.watch.refresh, settings.read_interval_seconds)]
        self._packed: tuple[snapshot.Fleet | None, bytes] = None, b''

    def start(self) -> str:
        """Serve, and begin to read.

        :returns: the URL that is served
        :raises errors.InputError: if the address cannot be had, or a file
            for TLS or users cannot be read
        """
        settings = self._settings
        users = None
        if settings.basic_auth_file:
            users = web_server.Users(settings.basic_auth_file)
        self._server = web_server.WebServer(
            web_server.WebApp(self.pages(), users),
            str(settings.listen_address), settings.listen_port,
            web_server.tls_context(
                settings.tls_certificate, settings.tls_key,
                settings.tls_client_ca))
        self._server.start()
        for thread in self._threads:
            thread.start()
        return self._server.url

    def stop(self) -> None:
        """End all of it; what reads is not waited for long."""
        if self._server is not None:
            self._server.stop()
        for thread in self._threads:
            thread.stop()

    def metrics(self) -> str:
        """All figures, and those of the exporter itself."""
        return self.watch.text() + self._tasks.text()

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
        """The fleet as a page; until there is one, where the figures are."""
        return web_server.WebPage(
            b'<!DOCTYPE html><html lang="en"><title>nova-pinning exporter'
            b'</title><h1>nova-pinning exporter</h1>'
            b'<p><a href="metrics">Metrics</a></p></html>\n',
            'text/html; charset=utf-8')

    def _snapshot_page(self) -> web_server.WebPage | None:
        fleet, content = self._packed
        if self.watch.fleet is None:
            return None
        if fleet is not self.watch.fleet:
            fleet = self.watch.fleet
            try:
                text = document.dumps(fleet)
            except snapshot_limits.UNSOUND:
                text = document.dumps(
                    snapshot_limits.drop_unrepresentable(fleet)[0])
            content = packed.pack(text.encode())
            self._packed = fleet, content
        return web_server.WebPage(content, 'application/zstd')
