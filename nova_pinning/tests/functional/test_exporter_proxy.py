# SPDX-License-Identifier: Apache-2.0
"""The site for nginx that the guide to the exporter has, under nginx."""

import base64
import datetime
import hashlib
import http.client
import os
import pathlib
import shutil
import socket
import ssl
import subprocess

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography import x509
import fixtures
from oslotest import base

from nova_pinning.exporter import web_server

_SITE = (pathlib.Path(__file__).parents[3]
         / 'etc/nova-pinning/nginx/nova-pinning-exporter.conf')
_AROUND = '''
daemon off;
pid {0}/pid;
error_log stderr notice;
events {{}}
http {{
    access_log off;
    client_body_temp_path {0}/body;
    proxy_temp_path {0}/proxy;
    fastcgi_temp_path {0}/fastcgi;
    uwsgi_temp_path {0}/uwsgi;
    scgi_temp_path {0}/scgi;
    include {0}/site.conf;
}}
'''
_PASSWORD = 'of 256 bits'
_PATIENCE_SECONDS = 60


class NginxTestCase(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        # Debian's /usr/sbin is not in everybody's PATH.
        self.nginx = shutil.which('nginx') or shutil.which(
            'nginx', path='/usr/sbin')
        if self.nginx is None:
            self.skipTest('nginx is not installed; Debian has it in package '
                          'nginx')
        self.dir = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.server = web_server.WebServer(
            {'/metrics': lambda: web_server.WebPage(b'1', 'text/plain')},
            '127.0.0.1', 0)
        self.server.start()
        self.addCleanup(self.server.stop)
        self.make_certificate()
        digest = base64.b64encode(
            hashlib.sha1(_PASSWORD.encode()).digest()).decode()
        (self.dir / 'pinning.users').write_text(
            f'prometheus:{{SHA}}{digest}\n')
        site = _SITE.read_text().replace('/etc/nginx', str(self.dir))
        site = site.replace('listen 9897', f'listen unix:{self.dir}/socket')
        site = site.replace('127.0.0.1:9896', f'127.0.0.1:{self.server.port}')
        # However slow the machine is.
        site = site.replace('rate=5r/s', 'rate=1r/m')
        (self.dir / 'site.conf').write_text(site)
        # Who may read these files; only root can be somebody else.
        user = '' if os.geteuid() else 'user root root;'
        (self.dir / 'nginx.conf').write_text(user + _AROUND.format(self.dir))
        self.start()

    def start(self):
        process = subprocess.Popen(
            [self.nginx, '-c', self.dir / 'nginx.conf', '-e', 'stderr'],
            stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait, _PATIENCE_SECONDS)
        self.addCleanup(process.terminate)
        said = []
        # It listens before it starts those that serve.
        for line in process.stderr:
            said.append(line)
            if 'start worker processes' in line:
                return
        self.fail(''.join(said))

    def make_certificate(self):
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, 'x')])
        start = datetime.datetime(2020, 1, 1)
        certificate = x509.CertificateBuilder(
            name, name, key.public_key(), 1, start,
            start + datetime.timedelta(36500)).sign(key, hashes.SHA256())
        (self.dir / 'pinning.pem').write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM))
        (self.dir / 'pinning.key').write_bytes(key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption()))

    def get(self, *user_and_password):
        """Status and headers."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(self.dir / 'pinning.pem')
        plain = socket.socket(socket.AF_UNIX)
        plain.settimeout(_PATIENCE_SECONDS)
        plain.connect(str(self.dir / 'socket'))
        connection = http.client.HTTPConnection('localhost')
        connection.sock = context.wrap_socket(plain)
        self.addCleanup(connection.close)
        connection.request('GET', '/metrics', headers={
            'Authorization': 'Basic ' + base64.b64encode(
                ':'.join(user_and_password).encode()).decode()})
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers

    def test_site(self):
        status, headers = self.get('prometheus', _PASSWORD)
        self.assertEqual(200, status)
        self.assertEqual('nginx', headers['Server'])
        self.assertIn('frame-ancestors', headers['Content-Security-Policy'])
        for user in ('prometheus', 'nobody'):
            self.assertEqual(401, self.get(user, 'wrong')[0])

    def test_guessing(self):
        """It ends before a password is looked at, even the right one."""
        while (status := self.get('prometheus', 'wrong')[0]) == 401:
            pass
        self.assertEqual(429, status)
