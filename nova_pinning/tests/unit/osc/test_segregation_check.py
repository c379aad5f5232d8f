# SPDX-License-Identifier: Apache-2.0
"""openstack pinning segregation check, without a cloud."""

import argparse
import contextlib
import errno
import io
import json
import pathlib
import types
from unittest import mock

import ddt
import fixtures
from oslotest import base as oslotest

from nova_pinning.cli import common_options
from nova_pinning import errors
from nova_pinning.osc import segregation_check
from nova_pinning.placement import placement_traits
from nova_pinning.segregation.audit import audit_run
from nova_pinning.segregation.audit import audited
from nova_pinning.tests.unit.segregation import audit_cloud


@ddt.ddt
class TestCheckSegregation(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        app = mock.Mock()
        app.client_manager.pinning = types.SimpleNamespace(name='north')
        self.command = segregation_check.CheckSegregation(app, None)
        self.cloud = audit_cloud.FakeCloud([
            audit_cloud.host('d', placement_traits.DEDICATED),
            audit_cloud.host('n')])
        # In place of the cached one, which asks a real cloud.
        self.command.__dict__['host_cloud'] = self.cloud
        self.directory = pathlib.Path(self.useFixture(
            fixtures.TempDir()).path)

    def run_command(self, *arguments):
        """Run it.

        :returns: (exit status, output, error output)
        """
        output, error = io.StringIO(), io.StringIO()
        with (contextlib.redirect_stdout(output),
              contextlib.redirect_stderr(error)):
            parser = self.command.get_parser('check')
            status = self.command.run(parser.parse_args(list(arguments)))
        return status, output.getvalue(), error.getvalue()

    def test_table(self):
        status, output, error = self.run_command()
        self.assertEqual((1, ''), (status, error))
        self.assertIn('S302 warning', output)
        self.assertIn('\n      openstack pinning host set --class shared n\n',
                      output)

    @ddt.data(('error', 0), ('warning', 1), ('note', 1))
    @ddt.unpack
    def test_fail_on(self, severity, expected):
        status, _output, _error = self.run_command('--fail-on', severity)
        self.assertEqual(expected, status)

    def test_figures_are_of_the_whole_cloud(self):
        status, _output, error = self.run_command(
            'd', '--format', 'prometheus')
        self.assertEqual(2, status)
        self.assertIn('of the whole', error)
        self.assertEqual([], self.cloud.calls)

    @ddt.data((errno.ENOSPC, 2), (errno.EIO, 2))
    @ddt.unpack
    def test_no_room_for_the_output(self, number, expected):
        self.cloud.hook = mock.Mock(side_effect=OSError(number, 'Oh'))
        status, _output, error = self.run_command()
        self.assertEqual((expected, 'error: the output cannot be written: '
                          'Oh\n'), (status, error))

    def test_other_errors_of_the_system(self):
        self.cloud.hook = mock.Mock(side_effect=PermissionError(
            errno.EACCES, 'No'))
        self.assertRaises(PermissionError, self.run_command)

    def test_a_cloud_that_fails_prints_nothing(self):
        self.cloud.hook = mock.Mock(side_effect=errors.CloudError('down'))
        self.assertEqual((1, '', 'error: cloud north: down\n'),
                         self.run_command())

    def test_hosts(self):
        _status, output, _error = self.run_command('--format', 'json', 'd')
        self.assertEqual([], json.loads(output)['findings'])
        status, _output, error = self.run_command('nobody')
        self.assertEqual(2, status)
        self.assertIn('nobody', error)

    def test_files(self):
        path = self.directory / 'x.yaml'
        path.write_text(
            'version: 1\nname: x\n'
            'nodes: [{id: 0, cpus: 0-3, memory: 4GiB}]\n')
        _status, _output, error = self.run_command(
            '--host-files', str(self.directory))
        self.assertIn('host x, which the cloud does not have', error)
        path.write_text('version: 1')
        status, _output, _error = self.run_command(
            '--host-files', str(self.directory))
        self.assertEqual(2, status)
        # What is handed in is looked at before the cloud.
        self.cloud.calls.clear()
        self.run_command('--host-files', str(self.directory / 'none'))
        self.assertEqual([], self.cloud.calls)

    @ddt.data('--jobs=8', '--emulator-cpus=-1',
              '--fail-on=never', '--format=xml')
    def test_bad_options(self, option):
        self.assertRaises(SystemExit, self.run_command, option)

    def test_options_of_nova_scheduler(self):
        path = self.directory / 'nova.conf'
        path.write_text('[filter_scheduler]\nenabled_filters = A\n')
        for arguments, expected in (
                ((), audited.SchedulerOptions()),
                (('--config-file', str(path)),
                 audited.SchedulerOptions(False, ('A',)))):
            with mock.patch.object(audit_run, 'run_audit',
                                   side_effect=errors.CloudError) as audit:
                self.run_command(*arguments)
            self.assertEqual(expected, audit.call_args.args[1].scheduler)
        # What is handed in is looked at before the cloud.
        status, _output, error = self.run_command('--config-file', '/none')
        self.assertEqual(2, status)
        self.assertIn('/none', error)
        self.assertEqual([], self.cloud.calls)

    def test_number(self):
        number = common_options.number(2, 4)
        self.assertEqual([2, 4], [number('2'), number('4')])
        for text in ('1', '5'):
            self.assertRaises(argparse.ArgumentTypeError, number, text)
