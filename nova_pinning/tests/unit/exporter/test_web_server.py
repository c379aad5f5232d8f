# SPDX-License-Identifier: Apache-2.0

import contextlib
import http.client
import os
import select
import socket
import threading

import ddt
import fixtures
from tornado import iostream

from nova_pinning import errors
from nova_pinning.exporter import web_server
from nova_pinning.tests.unit import unit_base

#: Long for a machine that is busy; nothing waits for it otherwise.
_PATIENCE_SECONDS = 60
#: What no kernel keeps for a client that does not read.
_LARGE = 32 << 20


def _sent(text):
    return text.replace('\n', '\r\n').encode()


class TestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.page = web_server.WebPage(b'hello', 'text/plain')
        self.serve({'/': lambda: self.page})

    def serve(self, pages, address='127.0.0.1'):
        self.server = web_server.WebServer(pages, address, 0)
        self.server.start()
        self.addCleanup(self.server.stop)

    def get(self, path='/', method='GET'):
        """Status, headers and content."""
        connection = http.client.HTTPConnection(
            '127.0.0.1', self.server.port, timeout=_PATIENCE_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def connect(self, sent=b''):
        """A client that has sent something, and lets it rest there."""
        client = self.enterContext(socket.create_connection(
            ('127.0.0.1', self.server.port), _PATIENCE_SECONDS))
        client.sendall(sent)
        return client

    def limit(self, name, value):
        self.useFixture(fixtures.MonkeyPatch(
            f'nova_pinning.exporter.web_server.{name}', value))


@ddt.ddt
class ServerTestCase(TestCase):

    def test_page(self):
        self.assertEqual(f'http://127.0.0.1:{self.server.port}/',
                         self.server.url)
        status, _headers, content = self.get('/?x=1')
        self.assertEqual((200, b'hello'), (status, content))

    def test_head(self):
        status, headers, content = self.get(method='HEAD')
        self.assertEqual((200, '5', b''),
                         (status, headers['Content-Length'], content))

    @ddt.data(('GET', '/'), ('HEAD', '/'), ('GET', '/none'), ('POST', '/'),
              ('GET', '/later'), ('GET', '/broken'))
    @ddt.unpack
    def test_headers(self, method, path):
        """No browser is to make more of any answer than it is."""
        self.serve({'/': lambda: self.page, '/later': lambda: None,
                    '/broken': lambda: 1 / 0})
        _status, headers, _content = self.get(path, method)
        self.assertEqual("default-src 'none'; frame-ancestors 'none'",
                         headers['Content-Security-Policy'])
        self.assertEqual('nosniff', headers['X-Content-Type-Options'])
        self.assertEqual('no-referrer', headers['Referrer-Policy'])
        self.assertIsNone(headers['Server'])

    @ddt.data('POST', 'PUT', 'DELETE', 'OPTIONS', 'BREW')
    def test_other_methods(self, method):
        status, headers, _content = self.get(method=method)
        self.assertEqual((405, 'GET, HEAD'), (status, headers['Allow']))

    @ddt.data('/nothing', '/../etc/passwd', '/metrics/', '/%2e%2e/x', '*')
    def test_no_such_page(self, path):
        self.assertEqual(404, self.get(path)[0])

    def test_not_yet(self):
        self.page = None
        status, headers, _content = self.get()
        self.assertEqual((503, '10'), (status, headers['Retry-After']))

    def test_fault(self):
        """It is in the log, and nowhere else."""
        def broken():
            raise ValueError('secret')

        self.serve({'/': broken})
        with unit_base.log_records() as logged:
            status, _headers, content = self.get()
        self.assertEqual(500, status)
        self.assertNotIn(b'secret', content)
        self.assertIn('a page could not be made',
                      [one.getMessage() for one in logged])

    def test_port_is_taken(self):
        error = self.assertRaises(
            errors.InputError, web_server.WebServer, {}, '127.0.0.1',
            self.server.port)
        self.assertIn(f'port {self.server.port} cannot be served on',
                      str(error))

    @ddt.data('192.0.2.1', 'none.invalid')
    def test_no_such_address(self, address):
        error = self.assertRaises(
            errors.InputError, web_server.WebServer, {}, address, 0)
        self.assertIn(address, str(error))

    def test_ipv6(self):
        try:
            socket.create_server(('::1', 0), family=socket.AF_INET6).close()
        except OSError as error:
            self.skipTest(str(error))
        self.serve({}, '::1')
        self.assertIn('[::1]', self.server.url)

    def test_slow_page(self):
        """It is made once at a time, and others are served meanwhile."""
        begun, ready = threading.Semaphore(0), threading.Event()
        self.addCleanup(ready.set)

        def slow():
            begun.release()
            ready.wait(_PATIENCE_SECONDS)
            return self.page

        self.serve({'/slow': slow, '/': lambda: self.page})
        slow_clients = [self.connect(_sent('GET /slow HTTP/1.0\n\n'))
                        for _client in range(3)]
        self.assertTrue(begun.acquire(timeout=_PATIENCE_SECONDS))
        self.assertEqual(200, self.get()[0])
        self.assertFalse(begun.acquire(blocking=False))
        ready.set()
        for client in slow_clients:
            self.assertTrue(client.recv(100).startswith(b'HTTP/1.1 200 OK'))

    def test_stop(self):
        """Whoever is connected is hung up on."""
        ready = threading.Event()
        self.addCleanup(ready.set)

        def slow():
            ready.wait(_PATIENCE_SECONDS)

        self.serve({'/': lambda: self.page, '/slow': slow})
        clients = [self.connect(), self.connect(b'GET /'),
                   self.connect(_sent('GET /slow HTTP/1.0\n\n'))]
        self.assertEqual(200, self.get()[0])
        with unit_base.log_records() as logged:
            self.server.stop()
        self.assertEqual([], logged)
        for client in clients:
            self.assertEqual(b'', client.recv(100))


@ddt.ddt
class HostileClientsTestCase(TestCase):
    """More of them than there may be connections."""

    def setUp(self):
        super().setUp()
        self.large = web_server.WebPage(b'x' * _LARGE, 'text/plain')
        # As many descriptors for the server as there would be under a limit
        # of 32, on any machine.
        self.useFixture(fixtures.MonkeyPatch(
            'resource.getrlimit', lambda which: (32, 32)))
        self.serve({'/': lambda: self.page, '/large': lambda: self.large})

    @ddt.data(
        '', 'G', 'GET / HTTP/1.1\nHost: x\n', 'GET /large HTTP/1.1\nHost: x'
        '\n\n', 'POST / HTTP/1.1\nHost: x\nContent-Length: 999\n\nx')
    def test_many(self, text):
        before = len(os.listdir('/proc/self/fd'))
        clients = [self.connect(_sent(text))]
        for _client in range(50):
            clients.append(self.connect())
            with contextlib.suppress(OSError):
                clients[-1].sendall(_sent(text))
            self.assertEqual(b'hello', self.get()[2])
        self.assertLessEqual(len(os.listdir('/proc/self/fd')) - before,
                             len(clients) + 16)

    def test_who_waits_longest_goes(self):
        """Who has asked waits for another thing."""
        asked, first = self.connect(), self.connect()
        asked.sendall(_sent('GET /large HTTP/1.0\n\n'))
        content = asked.recv(1)
        for _client in range(14):
            self.connect()
        self.get()
        self.assertEqual(b'', first.recv(1))
        while got := asked.recv(1 << 20):
            content += got
        self.assertEqual(_LARGE, len(content.partition(b'\r\n\r\n')[2]))

    def test_a_request_takes_too_long(self):
        """However often something of it comes."""
        self.limit('_REQUEST_SECONDS', 0.01)
        self.serve({'/': lambda: self.page})
        client = self.connect(b'GET / HTTP/1.1')
        with contextlib.suppress(ConnectionError):
            while not select.select([client], [], [], 0.001)[0]:
                client.send(b'x')
            self.assertEqual(b'', client.recv(1))

    def test_an_answer_takes_too_long(self):
        self.limit('_ANSWER_SECONDS', 1e-9)
        closed = threading.Event()
        close = iostream.IOStream.close

        def close_and_tell(stream, *args, **kwargs):
            close(stream, *args, **kwargs)
            closed.set()

        self.useFixture(fixtures.MonkeyPatch(
            'tornado.iostream.IOStream.close', close_and_tell))
        client = self.connect(_sent('GET /large HTTP/1.0\n\n'))
        # Who reads meanwhile may be fast enough to get all of it.
        self.assertTrue(closed.wait(_PATIENCE_SECONDS))
        total = 0
        with contextlib.suppress(ConnectionError):
            while got := client.recv(1 << 20):
                total += len(got)
        self.assertLess(total, _LARGE)

    @ddt.data(b'\r\n\r\n', b'\x16\x03\x01\x02\x00\x01' * 99 + b'\r\n\r\n',
              b'GET\r\n\r\n', b'GET / HTTP/1.0\r\nX\r\n\r\n',
              b'GET / HTTP/1.1\r\nX: ' + b'x' * (1 << 20))
    def test_no_request(self, sent):
        """It is hung up on, and nothing is logged."""
        with unit_base.log_records() as logged:
            client = socket.create_connection(
                ('127.0.0.1', self.server.port), _PATIENCE_SECONDS)
            with client, contextlib.suppress(ConnectionError):
                client.sendall(sent)
                self.assertIn(client.recv(1000)[9:12], (b'400', b''))
        self.assertEqual(200, self.get()[0])
        self.assertEqual([], [one for one in logged if one.levelno > 20])
