# SPDX-License-Identifier: Apache-2.0

import base64
import datetime
import http.client
import ipaddress
import pathlib
import socket
import ssl

import bcrypt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography import x509
import ddt
import fixtures

from nova_pinning import errors
from nova_pinning.exporter import web_server
from nova_pinning.tests.unit import unit_base

_HASH = bcrypt.hashpw(b'right', bcrypt.gensalt(4)).decode()


def basic(text):
    return {'Authorization':
            f'Basic {base64.b64encode(text.encode()).decode()}'}


class TestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.dir = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.page = web_server.WebPage(b'hello', 'text/plain')

    def write(self, name, text):
        path = self.dir / name
        path.write_text(text)
        return str(path)

    def serve(self, users=None, tls=None):
        def broken():
            raise ZeroDivisionError('secret')

        server = web_server.WebServer(web_server.WebApp({
            '/': lambda: self.page, '/broken': broken}, users),
            '127.0.0.1', 0, tls)
        server.start()
        self.addCleanup(server.stop)
        self.port = server._server.server_port
        return server

    def get(self, path='/', method='GET', headers=None, tls=None):
        """Status, headers and content."""
        connection = http.client.HTTPConnection(
            '127.0.0.1', self.port, timeout=30)
        if tls is not None:
            connection = http.client.HTTPSConnection(
                '127.0.0.1', self.port, timeout=30, context=tls)
        try:
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()


@ddt.ddt
class ServerTestCase(TestCase):

    def test_page(self):
        server = self.serve()
        self.assertEqual(f'http://127.0.0.1:{self.port}/', server.url)
        status, headers, content = self.get()
        self.assertEqual((200, b'hello'), (status, content))
        self.assertEqual("default-src 'none'",
                         headers['Content-Security-Policy'])
        self.assertEqual('nosniff', headers['X-Content-Type-Options'])

    def test_head(self):
        self.serve()
        status, headers, content = self.get(method='HEAD')
        self.assertEqual((200, '5', b''),
                         (status, headers['Content-Length'], content))

    @ddt.data('POST', 'PUT', 'DELETE', 'OPTIONS')
    def test_other_methods(self, method):
        self.serve()
        self.assertEqual(405, self.get(method=method)[0])

    @ddt.data('/nothing', '/../etc/passwd', '/metrics/', '/%2e%2e/x')
    def test_no_such_page(self, path):
        self.serve()
        self.assertEqual(404, self.get(path)[0])

    def test_not_yet(self):
        self.page = None
        self.serve()
        status, headers, _content = self.get()
        self.assertEqual((503, '10'), (status, headers['Retry-After']))

    def test_fault(self):
        """It is in the log, and nowhere else."""
        self.serve()
        with unit_base.log_records() as logged:
            status, _headers, content = self.get('/broken')
        self.assertEqual(500, status)
        self.assertNotIn(b'secret', content)
        self.assertIn('a page could not be made',
                      [one.getMessage() for one in logged])

    def test_silent_client(self):
        """Others are served meanwhile."""
        self.serve()
        with socket.create_connection(('127.0.0.1', self.port)):
            self.assertEqual(200, self.get()[0])

    def test_port_is_taken(self):
        self.serve()
        error = self.assertRaises(
            errors.InputError, web_server.WebServer,
            web_server.WebApp({}), '127.0.0.1', self.port)
        self.assertIn(f'port {self.port} cannot be served on', str(error))

    def test_ipv6(self):
        try:
            server = web_server.WebServer(
                web_server.WebApp({'/': lambda: self.page}), '::1', 0)
        except errors.InputError as error:
            self.skipTest(str(error))
        server.start()
        self.addCleanup(server.stop)
        self.assertIn('[::1]', server.url)


@ddt.ddt
class UsersTestCase(TestCase):

    def users(self, text=f'reader:{_HASH}\n# nobody else\n\n'):
        return web_server.Users(self.write('users', text))

    def test_admitted(self):
        self.serve(self.users())
        for _time in range(2):
            self.assertEqual(200, self.get(headers=basic('reader:right'))[0])

    @ddt.data(
        {}, basic('reader:wrong'), basic('other:right'), basic('reader'),
        basic(''), {'Authorization': 'Basic %%%'},
        {'Authorization': 'Basic /w=='}, {'Authorization': 'Bearer x'},
        basic(f'reader:{_HASH}'))
    def test_refused(self, headers):
        self.serve(self.users())
        for path in ('/', '/broken', '/nothing'):
            status, answer, _content = self.get(path, headers=headers)
            self.assertEqual(401, status)
            self.assertIn('Basic', answer['WWW-Authenticate'])

    def test_changed_file(self):
        users = self.users()
        header = basic('reader:right')['Authorization']
        self.assertTrue(users.admit(header))
        other = bcrypt.hashpw(b'other', bcrypt.gensalt(4)).decode()
        self.write('users', f'reader:{other}\nlonger:{_HASH}\n')
        self.assertFalse(users.admit(header))
        self.assertTrue(users.admit(basic('longer:right')['Authorization']))
        # What is damaged later locks nobody out.
        self.write('users', 'reader:plain')
        self.assertTrue(users.admit(basic('longer:right')['Authorization']))

    @ddt.data('reader:right', 'reader', ':' + _HASH, 'a:{SHA}xxx')
    def test_bad_file(self, text):
        error = self.assertRaises(errors.InputError, self.users, text)
        self.assertIn('users', str(error))
        self.assertNotIn('right', str(error))

    def test_no_file(self):
        self.assertRaises(errors.InputError, web_server.Users,
                          str(self.dir / 'none'))


class TlsTestCase(TestCase):

    def setUp(self):
        super().setUp()
        self.certificate, self.key = self.make_certificate('server')

    def make_certificate(self, name):
        """One that is its own authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(
            x509.NameOID.COMMON_NAME, name)])
        start = datetime.datetime(2020, 1, 1)
        certificate = x509.CertificateBuilder().subject_name(
            subject).issuer_name(subject).public_key(
            key.public_key()).serial_number(1).not_valid_before(
            start).not_valid_after(
            start + datetime.timedelta(days=36500)).add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(
                ipaddress.ip_address('127.0.0.1'))]), False).sign(
            key, hashes.SHA256())
        return (
            self.write(f'{name}.pem', certificate.public_bytes(
                serialization.Encoding.PEM).decode()),
            self.write(f'{name}.key', key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption()).decode()))

    def client(self, *own):
        context = ssl.create_default_context(cafile=self.certificate)
        if own:
            context.load_cert_chain(*own)
        return context

    def test_https(self):
        server = self.serve(tls=web_server.tls_context(
            self.certificate, self.key, None))
        self.assertTrue(server.url.startswith('https://'))
        self.assertEqual(200, self.get(tls=self.client())[0])

    def test_silent_and_odd_clients(self):
        self.serve(tls=web_server.tls_context(
            self.certificate, self.key, None))
        with (socket.create_connection(('127.0.0.1', self.port)),
              socket.create_connection(('127.0.0.1', self.port)) as odd):
            odd.sendall(b'GET / HTTP/1.0\r\n\r\n')
            self.assertEqual(200, self.get(tls=self.client())[0])

    def test_client_certificates(self):
        own = self.make_certificate('client')
        self.serve(tls=web_server.tls_context(
            self.certificate, self.key, own[0]))
        self.assertEqual(200, self.get(tls=self.client(*own))[0])
        self.assertRaises(OSError, self.get, tls=self.client())

    def test_wrong_options(self):
        for options in ((self.certificate, None, None),
                        (None, self.key, None), (None, None, 'ca'),
                        (self.key, self.certificate, None),
                        (self.certificate, self.key, 'none')):
            self.assertRaises(errors.InputError, web_server.tls_context,
                              *options)
        self.assertIsNone(web_server.tls_context(None, None, None))
