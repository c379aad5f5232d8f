# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import json
import types
from unittest import mock

import fixtures
from oslotest import base as oslotest

from nova_pinning.importers import compute_api
from nova_pinning.osc import upgrade_check
from nova_pinning.tests.unit.osc import test_fleet_import


class _PinnedCloud(test_fleet_import.FakeCloud):
    """The same with a server that is pinned."""

    def listed_servers(self):
        server, = super().listed_servers()
        shown = dict(server.shown)
        shown['flavor'] = {**shown['flavor'], 'extra_specs': {
            'hw:cpu_policy': 'dedicated'}}
        shown['OS-SRV-USG:launched_at'] = '2026-03-04T05:06:07.000000'
        return (compute_api.ListedServer(server.id, shown),)

    def topology(self, server):
        return {'pagesize_kb': None, 'nodes': [
            {'host_node': 0, 'cpu_pinning': {'0': 2}, 'vcpu_set': [0],
             'memory_mb': 1024}]}


class UpgradeCheckTestCase(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        app = mock.Mock()
        app.client_manager.pinning = types.SimpleNamespace(name='north')
        self.command = upgrade_check.CheckCloudUpgrade(app, None)
        self.command.__dict__['fleet_cloud'] = _PinnedCloud()

    def run_command(self, *arguments):
        parser = self.command.get_parser('check')
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = self.command.run(parser.parse_args(list(arguments)))
        return status, out.getvalue(), err.getvalue()

    def test_check(self):
        status, out, _err = self.run_command(
            '--from', '2025.1', '--to', '2026.1', '--format', 'json')
        self.assertEqual(1, status)
        found = json.loads(out)
        self.assertEqual('cloud north', found['source'])
        finding, = (finding for finding in found['findings']
                    if finding['code'] == 'U101')
        self.assertEqual(('id-s', '2026-03-04T05:06:07Z'),
                         (finding['id'], finding['launched_at']))

    def test_api_does_not_tell_versions(self):
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            ended = self.assertRaises(
                SystemExit, self.command.get_parser('check').parse_args,
                ['--to', '2026.1'])
        self.assertEqual(2, ended.code)
        self.assertIn('required: --from', err.getvalue())

    def test_bad_release(self):
        """Told before the cloud is read."""
        del self.command.__dict__['fleet_cloud']
        for told in (('x', '2026.1'), ('2025.1', 'x')):
            status, _out, err = self.run_command(
                '--from', told[0], '--to', told[1])
            self.assertEqual(2, status)
            self.assertIn("'x' is not a release", err)
