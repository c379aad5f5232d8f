# SPDX-License-Identifier: Apache-2.0
"""A small web server for pages that are only read, on Tornado.

Clients are not trusted to send or read anything. There is a limit to
connections, below that of descriptors; where it is reached, the one that has
waited longest makes room for the next. One connection serves one request.
"""

import asyncio
from collections.abc import Callable
from collections.abc import Mapping
import concurrent.futures
import http
import logging
import resource
import threading
import time
from typing import Any
from typing import NamedTuple

from tornado import httpserver
from tornado import httputil
from tornado import iostream
from tornado import netutil

from nova_pinning import errors

LOG = logging.getLogger(__name__)

#: How long a client may take to send a request, and to read the answer.
_REQUEST_SECONDS = 30
_ANSWER_SECONDS = 300
#: Of a request, in bytes.
_MOST_HEADERS = 16 * 1024
_MOST_CONNECTIONS = 512


class WebPage(NamedTuple):
    """What is served under a path.

    :param media_type: 'text/html; charset=utf-8' and such
    :param policy: Content-Security-Policy, besides that nobody may frame it
    :param headers: further ones
    """

    content: bytes
    media_type: str
    policy: str = "default-src 'none'; "
    headers: tuple[tuple[str, str], ...] = ()


#: Makes a page when it is asked for; None while there is none yet. Called in
#: a thread of its own, one at a time.
MakePage = Callable[[], WebPage | None]


class WebServer:
    """Serves pages over HTTP from a thread.

    :param pages: by path
    :raises errors.InputError: if the address cannot be had
    """

    def __init__(self, pages: Mapping[str, MakePage], address: str,
                 port: int) -> None:
        try:
            self._sockets = netutil.bind_sockets(port, address)
        except OSError as error:
            raise errors.InputError(
                f'{address} port {port} cannot be served on: '
                f'{error.strerror or error}',
                errors.Location('[pinning_exporter] listen_port'),
                'choose another, or end what has it') from error
        self.port: int = self._sockets[0].getsockname()[1]
        shown = f'[{address}]' if ':' in address else address
        self.url = f'http://{shown}:{self.port}/'
        self._pages = pages
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(
            target=self._run, name='web', daemon=True)

    def start(self) -> None:
        """To be called once."""
        self._thread.start()

    def stop(self) -> None:
        """Hang up on all clients; a page in the making is not waited for."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = _Server(self._pages)
        server.add_sockets(self._sockets)
        await self._ended.wait()
        server.stop()
        server.hang_up(0)


class _Server(httpserver.HTTPServer):

    def initialize(self, pages: Mapping[str, MakePage]) -> None:
        super().initialize(
            None, no_keep_alive=True, max_header_size=_MOST_HEADERS,
            idle_connection_timeout=_REQUEST_SECONDS)
        self.pages = {path: (make, asyncio.Lock())
                      for path, make in pages.items()}
        # The longest-waiting one first. What else has descriptors gets half.
        self._streams: list[iostream.IOStream] = []
        self._most = min(_MOST_CONNECTIONS, resource.getrlimit(
            resource.RLIMIT_NOFILE)[0] // 2)

    def handle_stream(self, stream: iostream.IOStream, address: Any) -> None:
        self.hang_up(self._most - 1)
        self._streams.append(stream)
        stream.set_nodelay(True)
        super().handle_stream(stream, address)

    def start_request(self, server_conn: object,
                      request_conn: Any) -> httputil.HTTPMessageDelegate:
        return _Exchange(self, request_conn)

    def hang_up(self, most: int) -> None:
        """Leave so many connections, those that have waited least."""
        self._streams = [one for one in self._streams if not one.closed()]
        for stream in self._streams[:max(len(self._streams) - most, 0)]:
            stream.close()

    def renew(self, stream: iostream.IOStream) -> None:
        """Let a client that has asked wait as one that has just come."""
        self._streams.remove(stream)
        self._streams.append(stream)


class _Exchange(httputil.HTTPMessageDelegate):
    """A request and its answer, which waits for no body."""

    def __init__(self, server: _Server, connection: Any) -> None:
        self._server = server
        self._connection = connection

    async def headers_received(self, start_line: Any, headers: Any) -> None:
        if self._is_over():
            return
        self._server.renew(self._connection.stream)
        try:
            status, page = await self._answer(
                start_line.method, start_line.path.partition('?')[0])
            await asyncio.wait_for(self._send(
                status, page, start_line.method != 'HEAD'), _ANSWER_SECONDS)
        except (OSError, asyncio.CancelledError):
            # The client is gone or takes too long, or the server ends. Tornado
            # would log either as a fault.
            self._connection.stream.close()

    def _is_over(self) -> bool:
        return bool(self._connection.stream.closed())

    async def _answer(self, method: str,
                      path: str) -> tuple[http.HTTPStatus, WebPage]:
        if method not in ('GET', 'HEAD'):
            return http.HTTPStatus.METHOD_NOT_ALLOWED, _said(
                'There is nothing to be changed here.', ('Allow', 'GET, HEAD'))
        pages = self._server.pages
        if path not in pages:
            return http.HTTPStatus.NOT_FOUND, _said(
                f'There is no such page. Look at {", ".join(pages)}.')
        make, lock = pages[path]
        try:
            async with lock:
                page = None if self._is_over() else await _in_thread(make)
        except Exception:
            LOG.exception('a page could not be made')
            return http.HTTPStatus.INTERNAL_SERVER_ERROR, _said(
                'This page could not be made; the log says why.')
        if page is None:
            return http.HTTPStatus.SERVICE_UNAVAILABLE, _said(
                'The fleet has not been read yet; the log says why if that '
                'takes long.', ('Retry-After', '10'))
        return http.HTTPStatus.OK, page

    async def _send(self, status: http.HTTPStatus, page: WebPage,
                    has_content: bool) -> None:
        self._connection.write_headers(
            httputil.ResponseStartLine('', status, status.phrase),
            httputil.HTTPHeaders([
                ('Date', httputil.format_timestamp(time.time())),
                ('Content-Type', page.media_type),
                ('Content-Length', str(len(page.content))),
                ('Content-Security-Policy',
                 f"{page.policy}frame-ancestors 'none'"),
                ('X-Content-Type-Options', 'nosniff'),
                ('Referrer-Policy', 'no-referrer'),
                ('Cache-Control', 'no-store'), *page.headers]))
        # Not with the headers, which would make a copy for each client.
        await self._connection.write(page.content if has_content else b'')
        self._connection.finish()


def _said(text: str, *headers: tuple[str, str]) -> WebPage:
    return WebPage(f'{text}\n'.encode(), 'text/plain; charset=utf-8',
                   headers=headers)


async def _in_thread(make: MakePage) -> WebPage | None:
    # One that does not keep the process from ending, as an executor's would.
    made: concurrent.futures.Future[WebPage | None] = (
        concurrent.futures.Future())
    made.set_running_or_notify_cancel()

    def run() -> None:
        try:
            made.set_result(make())
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=run, name='page', daemon=True).start()
    return await asyncio.wrap_future(made)
