# SPDX-License-Identifier: Apache-2.0
"""The parts of the control plane, as far as no service has to run."""

import configparser
import dataclasses
import http.server
import json
import threading
from unittest import mock
import urllib.error
import urllib.request

from nova.scheduler import filters as nova_filters
from oslo_utils.imageutils import format_inspector
from oslotest import base as oslo_base

from minicloud import api
from minicloud import cloud
from minicloud import errors
from minicloud import files
from minicloud import guest
from minicloud import hugepages
from minicloud import messaging
from minicloud import neutron
from minicloud import nova
from minicloud import prepare
from minicloud import settings
from minicloud import web
from nova_pinning.scheduler import filters as our_filters
from nova_pinning.tests.unit.minicloud import minicloud_case


class Base(minicloud_case.StateTestCase):

    def setUp(self):
        super().setUp()
        self.settings = settings.Settings(
            hosts=(settings.HostSettings('pinning-1', '1', '0'),))

    def serve(self, handler):
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        return server.server_address[1]


class TestFiles(Base):

    def test_write_is_whole(self):
        path = self.state.root / 'file'
        files.write(path, 'one')
        with mock.patch.object(files.os, 'replace', side_effect=OSError):
            self.assertRaises(OSError, files.write, path, 'two')
        self.assertEqual('one', path.read_text())
        self.assertEqual(['file'], [
            entry.name for entry in self.state.root.glob('file*')])

    def test_ini(self):
        text = files.ini({'DEFAULT': {'a': 1, 'b': [2, 3], 'c': None}})
        self.assertEqual('[DEFAULT]\na = 1\nb = 2\nb = 3\n', text)


class TestGuest(oslo_base.BaseTestCase):

    def test_glance_and_nova_take_it_for_a_disk(self):
        # The same look that they have at it.
        image = guest.image()
        inspector = format_inspector.InspectWrapper(iter([image]))
        for _ in inspector:
            pass
        inspector.close()
        self.assertEqual('gpt', str(inspector.format))
        inspector.format.safety_check()

    def test_code_ends_before_text(self):
        sector = guest.boot_sector()
        self.assertEqual(guest.SECTOR_BYTES, len(sector))
        # mov si takes the addresses of the texts, with the sector loaded at
        # 0x7c00.
        greeting, end = [
            int.from_bytes(guest.CODE[at + 1:at + 3], 'little') - 0x7c00
            for at, code in enumerate(guest.CODE) if code == 0xbe]
        self.assertEqual(len(guest.CODE), greeting)
        self.assertEqual(f'{guest.GREETING}\r\n'.encode(),
                         sector[greeting:sector.index(b'\0', greeting)])
        self.assertEqual(b'\r\n\0', sector[end:end + 3])
        self.assertLess(end, guest.PARTITIONS_AT)


class TestNeutron(Base):

    def test_over_http(self):
        port = self.serve(neutron.Handler)

        def get(path, **options):
            request = urllib.request.Request(
                f'http://127.0.0.1:{port}{path}', **options)
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)

        for name in ('networks', 'ports', 'floatingips', 'security-groups'):
            self.assertEqual(
                {name.replace('-', '_'): []},
                get(f'/v2.0/{name}?device_id=1'))
        self.assertEqual({'extensions': []}, get('/v2.0/extensions'))
        for path, options, status in (
                ('/v2.0/ports', {'method': 'POST', 'data': b'{}'}, 403),
                ('/v2.0/ports/1', {'method': 'DELETE'}, 403),
                ('/v2.0/ports/1', {}, 404), ('/v3/ports', {}, 404)):
            error = self.assertRaises(
                urllib.error.HTTPError, get, path, **options)
            self.assertEqual(status, error.code)
            error.close()


class TestApi(Base):

    def test_errors_tell_the_address(self):
        with mock.patch.object(api, 'PATHS', {'keystone': '/v3'}):
            error = self.assertRaises(
                errors.NotReady, api.Api(
                    self.state, settings.Settings(hosts=(), base_port=1)
                ).get, 'keystone', '/users')
        self.assertIn('http://127.0.0.1:1/v3/auth/tokens', str(error))

    def test_conversation(self):
        seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers['Content-Length'])
                seen.append((self.path, self.rfile.read(length)))
                self.send_response(201)
                self.send_header('X-Subject-Token', 'token')
                self.end_headers()

            def do_GET(self):
                seen.append((self.path, self.headers['X-Auth-Token'],
                             self.headers['OpenStack-API-Version']))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'{"servers": []}')

            def log_message(self, *arguments):
                pass

        port = self.serve(Handler)
        made = api.Api(self.state, settings.Settings(hosts=()))
        with mock.patch.object(settings.Settings, 'port',
                               return_value=port):
            self.assertEqual({'servers': []}, made.get('nova', '/servers'))
            made.get('nova', '/servers')
        self.assertEqual(
            ['/v3/auth/tokens'] + ['/v2.1/servers'] * 2,
            [request[0] for request in seen])
        self.assertEqual(('token', 'compute 2.98'), seen[1][1:])
        self.assertIn(self.state.secret.encode(), seen[0][1])


class TestConfig(Base):

    def read(self, part):
        """Return what a part's files say, as oslo.config would take it."""
        found = configparser.ConfigParser(
            strict=False, interpolation=None, default_section='none')
        for path, text in part.config().items():
            if path.suffix == '.conf':
                found.read_string(text)
        return found

    def test_everything_is_on_loopback(self):
        for kind in cloud.CONTROLLER:
            part = kind(self.state, self.settings)
            texts = [*getattr(part, 'config', dict)().values()]
            if hasattr(part, 'command'):
                texts += part.command()
                texts += part.environment().values()
            self.assertNotIn('0.0.0.0', ' '.join(texts), part.name)

    def test_no_password_on_a_command_line(self):
        # Anybody can see these with ps.
        whole = cloud.Cloud(self.state, self.settings)
        for part in whole.parts.values():
            # Those that run in a host ask for it first.
            if hasattr(part, 'command') and not hasattr(part, 'host'):
                self.assertNotIn(self.state.secret, ' '.join(part.command()))
        seen = []

        def run(command, **options):
            seen.append((command, options['env']))
            return mock.Mock(returncode=0)

        with mock.patch.object(prepare.subprocess, 'run', side_effect=run):
            prepare._sync(self.state, self.settings)
        for command, environment in seen:
            self.assertNotIn(self.state.secret, ' '.join(command))
        self.assertEqual(
            [self.state.secret] * len(seen),
            [environment['OS_BOOTSTRAP_PASSWORD'] for _, environment in seen])

    def test_filters(self):
        conf = nova.config(self.state, self.settings)
        text = conf[nova.directory(self.state) / 'nova.conf']
        self.assertEqual(2, text.count('\navailable_filters = '))
        there = {one.__name__ for one in (
            *nova_filters.all_filters(), *our_filters.all_filters())}
        self.assertLessEqual(set(nova.FILTERS), there)

    def test_placement_gives_nothing_twice(self):
        text, = web.Placement(self.state, self.settings).config().values()
        self.assertIn('[placement]\nallocation_conflict_retry_count = 1\n',
                      text)

    def test_threads(self):
        for release, expected in (('2026.1', '4'), ('2025.2', '1')):
            command = nova.NovaApi(self.state, dataclasses.replace(
                self.settings, release=release)).command()
            self.assertEqual(expected,
                             command[command.index('--threads') + 1])

    def test_options_of_ones_own(self):
        path = self.state.root / 'my.conf'
        path.write_text('[DEFAULT]\ndebug = False\n')
        made = settings.Settings(hosts=(), nova_conf=str(path))
        self.assertIn(path.read_text(),
                      nova.config(self.state, made).values())

    def test_key_of_prepared_databases(self):
        keys = {prepare.key(self.state, made) for made in (
            self.settings,
            settings.Settings(hosts=(), base_port=2000),
            settings.Settings(hosts=(), release='2025.1'))}
        self.assertEqual(3, len(keys))
        # How many hosts there are does not matter.
        self.assertIn(prepare.key(self.state, settings.Settings(hosts=())),
                      keys)


class TestMessaging(Base):

    def test_not_there(self):
        error = self.assertRaises(errors.NotReady, messaging.connect, 1)
        # In the words of the kernel, or of older releases of amqp.
        self.assertRegex(
            str(error), '127.0.0.1:1: (Connection refused|ECONNREFUSED)')


class TestHugePages(Base):

    def setUp(self):
        super().setUp()
        self.pool = self.state.root / 'nr_hugepages'
        self.pool.write_text('3\n')
        self.part = hugepages.HugePages(
            self.state, settings.Settings(hosts=(), huge_pages=5))
        self.part.pool = self.pool

    def test_up_and_down(self):
        self.part.up()
        self.part.up()
        self.assertEqual('8', self.pool.read_text())
        self.part.down()
        self.part.down()
        self.assertEqual('3', self.pool.read_text())

    def test_the_machine_was_booted_since(self):
        boot_id = self.state.root / 'boot_id'
        boot_id.write_text('one\n')
        self.part.boot_id = boot_id
        self.part.up()
        boot_id.write_text('two\n')
        # Those that the machine reserves by itself.
        self.pool.write_text('3\n')
        self.part.down()
        self.assertEqual('3\n', self.pool.read_text())
        boot_id.write_text('one\n')
        self.part.up()
        boot_id.write_text('two\n')
        self.pool.write_text('3\n')
        self.part.up()
        self.assertEqual('8', self.pool.read_text())

    def test_others_changed_it_since(self):
        self.part.up()
        self.pool.write_text('2')
        self.part.down()
        self.assertEqual('0', self.pool.read_text())

    def test_too_few(self):
        class Kernel:
            value = 3

            def read_text(self):
                return str(self.value)

            def write_text(self, text):
                self.value = min(int(text), 4)

        self.part.pool = kernel = Kernel()
        error = self.assertRaises(errors.MiniCloudError, self.part.up)
        self.assertIn('of 5 huge pages only 1 could be reserved', str(error))
        self.assertEqual(3, kernel.value)
        self.part.down()
        self.assertEqual(3, kernel.value)
