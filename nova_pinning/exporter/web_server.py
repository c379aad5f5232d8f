# SPDX-License-Identifier: Apache-2.0
"""A small web server: pages that are only read, TLS, users with passwords."""

import base64
import binascii
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import hashlib
import logging
import os
import secrets
import socket
import socketserver
import ssl
import threading
from typing import Any
from typing import NamedTuple
from wsgiref import simple_server

from nova_pinning import errors
from nova_pinning import extras

LOG = logging.getLogger(__name__)

#: A client that says nothing for so long is hung up on.
_SILENCE_SECONDS = 30
#: Clients that have connected and wait to be served.
_WAITING = 64
#: Passwords that were found right; checking one takes a tenth of a second.
_MOST_REMEMBERED = 100


class WebPage(NamedTuple):
    """What is served under a path.

    :param media_type: 'text/html; charset=utf-8' and such
    :param headers: further ones, such as Content-Security-Policy
    """

    content: bytes
    media_type: str
    headers: tuple[tuple[str, str], ...] = (
        ('Content-Security-Policy', "default-src 'none'"),)


#: Makes a page when it is asked for; None while there is none yet.
MakePage = Callable[[], WebPage | None]


class Users:
    """Who may read, from a file as htpasswd writes it.

    :raises errors.InputError: if it cannot be read, or has no bcrypt hashes
    """

    def __init__(self, path: str) -> None:
        extras.need('basic_auth_file', 'bcrypt')
        self._path = path
        self._state: tuple[int, ...] = ()
        self._hashes: dict[str, bytes] = {}
        self._remembered: set[bytes] = set()
        self._salt = secrets.token_bytes(16)
        self._lock = threading.Lock()
        self._reread()

    def admit(self, header: str) -> bool:
        """Whether an Authorization header is that of one of them."""
        import bcrypt
        scheme, _space, encoded = header.partition(' ')
        if scheme.lower() != 'basic':
            return False
        try:
            user, _colon, password = base64.b64decode(
                encoded, validate=True).decode().partition(':')
        except (binascii.Error, UnicodeDecodeError):
            return False
        with self._lock:
            try:
                self._reread()
            except errors.InputError as error:
                LOG.error('%s; users are those of before', error)
            right = self._hashes.get(user)
            if right is None:
                return False
            digest = hashlib.sha256(
                self._salt + right + encoded.encode()).digest()
            if digest in self._remembered:
                return True
            if not bcrypt.checkpw(password.encode()[:72], right):
                return False
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered.add(digest)
            return True

    def _reread(self) -> None:
        try:
            status = os.stat(self._path)
            state = status.st_mtime_ns, status.st_size, status.st_ino
            if state == self._state:
                return
            with open(self._path, encoding='utf-8') as lines:
                hashes = dict(self._user(number, line.strip())
                              for number, line in enumerate(lines, 1)
                              if line.strip() and line[0] != '#')
        except (OSError, UnicodeDecodeError) as error:
            raise errors.InputError(
                f'it cannot be read: {error}',
                errors.Location(self._path)) from error
        self._state, self._hashes = state, hashes
        self._remembered.clear()

    def _user(self, number: int, line: str) -> tuple[str, bytes]:
        user, _colon, text = line.partition(':')
        if not user or not text.startswith(('$2a$', '$2b$', '$2y$')):
            raise errors.InputError(
                'there is no user with a bcrypt hash',
                errors.Location(self._path, number),
                'write the file with htpasswd -B')
        return user, text.encode()


class WebApp:
    """Answers requests, as WSGI has it.

    :param pages: by path
    :param users: None if anybody may read
    """

    def __init__(self, pages: Mapping[str, MakePage],
                 users: Users | None = None) -> None:
        self._pages = pages
        self._users = users

    def __call__(self, environ: Mapping[str, Any],
                 start_response: Callable[..., Any]) -> Iterable[bytes]:
        status, page = self._answer(environ)
        headers = [('Content-Type', page.media_type),
                   ('Content-Length', str(len(page.content))),
                   ('X-Content-Type-Options', 'nosniff'),
                   ('Referrer-Policy', 'no-referrer'),
                   ('Cache-Control', 'no-store'), *page.headers]
        start_response(status, headers)
        return [] if environ['REQUEST_METHOD'] == 'HEAD' else [page.content]

    def _answer(self, environ: Mapping[str, Any]) -> tuple[str, WebPage]:
        if self._users is not None and not self._users.admit(
                environ.get('HTTP_AUTHORIZATION', '')):
            return '401 Unauthorized', _said(
                'A user and a password are needed.', (
                    'WWW-Authenticate', 'Basic realm="nova-pinning"'))
        if environ['REQUEST_METHOD'] not in ('GET', 'HEAD'):
            return '405 Method Not Allowed', _said(
                'There is nothing to be changed here.', ('Allow', 'GET, HEAD'))
        make = self._pages.get(environ.get('PATH_INFO') or '/')
        if make is None:
            return '404 Not Found', _said(
                f'There is no such page. Look at {", ".join(self._pages)}.')
        try:
            page = make()
        except Exception:
            LOG.exception('a page could not be made')
            return '500 Internal Server Error', _said(
                'This page could not be made; the log says why.')
        if page is None:
            return '503 Service Unavailable', _said(
                'The fleet has not been read yet; the log says why if that '
                'takes long.', ('Retry-After', '10'))
        return '200 OK', page


def _said(text: str, *headers: tuple[str, str]) -> WebPage:
    return WebPage(f'{text}\n'.encode(), 'text/plain; charset=utf-8',
                   (*WebPage._field_defaults['headers'], *headers))


class _Handler(simple_server.WSGIRequestHandler):
    # The handshake of TLS is part of what a client has to be done with.
    timeout = _SILENCE_SECONDS

    def log_message(self, format: str, *args: Any) -> None:
        LOG.debug(format, *args)

    def address_string(self) -> str:
        # The name of a client would have to be asked for.
        return str(self.client_address[0])


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True
    request_queue_size = _WAITING

    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext | None,
                 ) -> None:
        self.address_family = socket.getaddrinfo(
            *address, type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE)[0][0]
        super().__init__(address, _Handler)
        if tls is not None:
            # Not while it accepts: others would wait for a silent client.
            self.socket = tls.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False)

    def server_bind(self) -> None:
        # Without what WSGIServer adds: it asks for the name of the address.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = (
            str(self.server_address[0]), int(self.server_address[1]))
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Such as a client that hung up, or speaks no TLS.
        LOG.debug('a request failed', exc_info=True)


class WebServer:
    """Serves an application from a thread.

    :param tls: from :func:`tls_context`, None for HTTP
    :raises errors.InputError: if the address cannot be had
    """

    def __init__(self, app: WebApp, address: str, port: int,
                 tls: ssl.SSLContext | None = None) -> None:
        try:
            self._server = _Server((address, port), tls)
        except OSError as error:
            raise errors.InputError(
                f'{address} port {port} cannot be served on: '
                f'{error.strerror or error}',
                errors.Location('[pinning_exporter] listen_port'),
                'choose another, or end what has it') from error
        self._server.set_app(app)
        shown = f'[{address}]' if ':' in address else address
        self.url = (f'http{"s" if tls else ""}://{shown}:'
                    f'{self._server.server_port}/')
        self._thread = threading.Thread(
            target=self._server.serve_forever, name='web', daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


def tls_context(certificate: str | None, key: str | None,
                client_ca: str | None) -> ssl.SSLContext | None:
    """What the options of these names say, None for no TLS.

    :raises errors.InputError: for files that cannot be read or do not match
    """
    group = errors.Location('[pinning_exporter]')
    if not certificate or not key:
        if certificate or key or client_ca:
            raise errors.InputError(
                'tls_certificate and tls_key need each other, and '
                'tls_client_ca needs both', group)
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
        if client_ca:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:
        raise errors.InputError(
            f'tls_certificate, tls_key or tls_client_ca cannot be used: '
            f'{error}', group) from error
    return context
