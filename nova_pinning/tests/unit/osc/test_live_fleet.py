# SPDX-License-Identifier: Apache-2.0

import dataclasses
import io
import json
import types
from unittest import mock

import ddt
from keystoneauth1 import session
import requests_mock

from nova_pinning.exporter import exporter_service
from nova_pinning.exporter import web_server
from nova_pinning.fleet import document
from nova_pinning.fleet import generate
from nova_pinning.osc import fleet_import
from nova_pinning.osc import live_fleet
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.osc import test_fleet_import


@ddt.ddt
class LiveFleetTestCase(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        self.fleet = generate.generate_fleet(4, 'two-socket-80', 1)
        self.path = str(self.dir / 'fleet.json')
        document.write(self.path, self.fleet)
        self.page = web_server.WebPage(
            exporter_service.packed_snapshot(self.fleet), 'application/zstd')

    def serve(self, path='/fleet.json.zst'):
        server = web_server.WebServer(
            {path: lambda: self.page}, '127.0.0.1', 0)
        server.start()
        self.addCleanup(server.stop)
        return server.url

    def ask(self, kind, *arguments, cloud=None):
        """Run a command as OpenStackClient would."""
        app = mock.Mock(stdout=io.StringIO())
        app.client_manager.pinning = types.SimpleNamespace(name='north')
        app.client_manager.sdk_connection.session = session.Session()
        command = kind(app, None)
        if cloud is not None:
            # In place of the cached one, which asks a real cloud.
            command.__dict__['fleet_cloud'] = cloud

        def program(argv):
            status = command.run(
                command.get_parser('question').parse_args(list(argv)))
            print(app.stdout.getvalue(), end='')
            return status

        return self.run_command(*arguments, program=program)

    def test_import(self):
        """What nova-pinning is asked about is the fleet that is served."""
        for url in (self.serve(), self.serve().rstrip('/')):
            done = self.ask(fleet_import.ImportFleet, '--exporter', url)
            self.assertEqual((0, ''), (done.status, done.err))
            self.assertEqual(self.fleet, dataclasses.replace(
                document.read(self.write('got.json', done.out)),
                where=self.fleet.where))

    def test_plan(self):
        expected = self.run_command('rebalance', 'plan', self.path, '--for',
                                    '16', '-f', 'json')
        done = self.ask(live_fleet.PlanCloudMoves, '--exporter', self.serve(),
                        '--for', '16', '-f', 'json')
        self.assertEqual((expected.status, expected.out),
                         (done.status, done.out))

    def test_environment(self):
        with mock.patch.dict('os.environ',
                             OS_PINNING_EXPORTER=self.serve()):
            done = self.ask(fleet_import.ImportFleet)
        self.assertEqual(0, done.status)
        self.assertIn('dedicated-16', done.out)

    def test_without_exporter(self):
        """It is read, and what that does not tell is told."""
        done = self.ask(
            fleet_import.ImportFleet, cloud=test_fleet_import.FakeCloud())
        self.assertEqual(0, done.status, done.err)
        self.assertEqual(1, len(json.loads(done.out)['hosts']))
        self.assertIn('no host file', done.err)

    @ddt.data(('/other', 'serve_snapshot'), ('/fleet.json.zst', 'not read'))
    @ddt.unpack
    def test_no_snapshot(self, path, said):
        self.page = None
        done = self.ask(fleet_import.ImportFleet, '--exporter',
                        self.serve(path))
        self.assertEqual((1, ''), (done.status, done.out))
        self.assertIn(said, done.err)

    @requests_mock.Mocker()
    def test_password(self, requests):
        """A proxy in front is told it, and nobody is shown it."""
        requests.get(requests_mock.ANY, status_code=401)
        done = self.ask(fleet_import.ImportFleet, '--exporter',
                        'https://reader:secret@proxy/pinning/')
        self.assertEqual(1, done.status)
        self.assertIn('401', done.err)
        self.assertNotIn('secret', done.err)
        self.assertEqual('Basic cmVhZGVyOnNlY3JldA==',
                         requests.last_request.headers['Authorization'])

    @ddt.data('controller', 'controller:9896', 'ftp://controller/',
              'http://', 'http:controller', 'http://[::1', 'fleet.json.zst')
    def test_no_url(self, text):
        done = self.ask(fleet_import.ImportFleet, '--exporter', text)
        self.assertEqual((2, ''), (done.status, done.out))
        # It may hold a password.
        self.assertEqual('error: --exporter, or OS_PINNING_EXPORTER: is not a '
                         'URL; write it like http://controller:9896/\n',
                         done.err)

    def test_nobody_there(self):
        done = self.ask(fleet_import.ImportFleet, '--exporter',
                        'http://reader:secret@127.0.0.1:1/')
        self.assertEqual(1, done.status)
        self.assertIn('http://127.0.0.1:1/ does not answer', done.err)
        self.assertNotIn('secret', done.err)

    def test_something_else(self):
        self.page = web_server.WebPage(b'<html>', 'text/html')
        done = self.ask(fleet_import.ImportFleet, '--exporter',
                        self.serve())
        self.assertEqual(2, done.status)
        self.assertIn('http://127.0.0.1', done.err)
