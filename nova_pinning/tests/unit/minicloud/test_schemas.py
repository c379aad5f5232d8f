# SPDX-License-Identifier: Apache-2.0
"""Databases that are migrated."""

from minicloud import errors
from minicloud import prepare
from minicloud import settings
from nova_pinning.tests.unit.minicloud import minicloud_case


class TestSchemas(minicloud_case.StateTestCase):

    def setUp(self):
        super().setUp()
        self.state.base.mkdir(parents=True)
        self.mark = self.state.base / prepare.RELEASE
        self.run = self.patch(prepare.subprocess, 'run')
        self.run.return_value.returncode = 0
        self.part = prepare.Schemas(
            self.state, settings.Settings(hosts=(), release='2026.1'))

    def ran(self):
        """Return what was run: the programs, and what they were to do."""
        return {' '.join([command[4].rpartition('/')[2], *[
            word for word in command[5:] if not word.startswith(('-', '/'))]])
            for command, in (call.args for call in self.run.mock_calls)}

    def test_no_databases(self):
        self.assertIsNone(prepare.release(self.state))

    def test_nothing_to_do(self):
        self.mark.write_text('2026.1')
        self.part.up()
        self.run.assert_not_called()

    def test_migrated(self):
        self.mark.write_text('2025.1')
        self.part.up()
        self.assertEqual(
            {'keystone-manage db_sync', 'placement-manage db sync',
             'placement-manage db online_data_migrations',
             'glance-manage db_sync', 'nova-manage api_db sync',
             'nova-manage db sync',
             'nova-manage db online_data_migrations'}, self.ran())
        for call in self.run.mock_calls:
            program = call.args[0][4]
            self.assertTrue(
                program.startswith(str(self.state.venv('2026.1'))), program)
        self.assertEqual('2026.1', prepare.release(self.state))

    def test_their_files_are_of_the_release(self):
        self.mark.write_text('2025.1')
        self.part.up()
        text = (self.state.etc / 'glance' / 'glance-api.conf').read_text()
        self.assertIn(str(self.state.venv('2026.1')), text)

    def test_failed(self):
        self.mark.write_text('2025.1')
        self.run.return_value.returncode = 1
        self.assertRaises(errors.MiniCloudError, self.part.up)
        self.assertEqual('2025.1', prepare.release(self.state))
