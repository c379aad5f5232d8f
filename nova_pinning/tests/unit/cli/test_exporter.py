# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import shutil
import subprocess
import sys
import urllib.request

import ddt
import fixtures

from nova_pinning.cli import exporter
from nova_pinning.fleet import document
from nova_pinning.fleet import generate
from nova_pinning.tests import runner
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.exporter import test_fleet_tally

_PATIENT = '''
import sys
from nova_pinning.cli import shell
from nova_pinning.exporter import periodic
periodic._STOP_SECONDS = 3600
sys.exit(shell.main(sys.argv[1:]))
'''


@ddt.ddt
class ExporterTestCase(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        runner.freeze(self)
        self.fleet = str(self.dir / 'fleet.json')
        document.write(self.fleet, generate.generate_fleet(
            4, 'two-socket-80', 1, shared=0.25))

    def once(self, fleet):
        self.useFixture(fixtures.EnvironmentVariable(
            'OS_PINNING_EXPORTER__SNAPSHOT', str(fleet)))
        return self.run_command('exporter', '--once', '--config-file',
                                self.write('none.conf', ''))

    def test_once(self):
        done = self.once(self.fleet)
        self.assertEqual((0, ''), (done.status, done.err))
        found = test_fleet_tally.series(done.out)
        self.assertEqual(3, found['nova_pinning_cloud_hosts', (
            ('class', 'dedicated'), ('state', 'enabled'))])

    def test_once_without_figures(self):
        done = self.once(self.dir / 'none')
        self.assertEqual(1, done.status)
        self.assertIn('nova_pinning_exporter_errors_total{task="read"} 1.0',
                      done.out)

    def test_promtool(self):
        """Names and units are as Prometheus has them."""
        promtool = shutil.which('promtool')
        if promtool is None:
            self.skipTest('promtool is not installed; Debian has it in '
                          'package prometheus')
        done = self.once(self.fleet)
        checked = subprocess.run(
            [promtool, 'check', 'metrics'], input=done.out, text=True,
            capture_output=True)
        self.assertEqual((0, '', ''), (
            checked.returncode, checked.stdout, checked.stderr))

    @ddt.data(
        ('', 'nothing says where'),
        ('snapshot = x\nnova_conf = y', 'only one can be'),
        ('snapshot = x\nread_interval_seconds = 0', 'read_interval_seconds'),
        ('snapshot = x\nlisten_port = 70000', 'listen_port'),
        ('snapshot = x\nhost_files = /none', '/none'))
    @ddt.unpack
    def test_bad_options(self, text, said):
        path = self.write('x.conf', f'[pinning_exporter]\n{text}\n')
        done = self.run_command('exporter', '--config-file', path)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(said, done.err)

    def test_a_directory_of_files(self):
        self.write('a.conf', '[pinning_exporter]\ncloud = north\n')
        done = self.run_command('exporter', '--print-unit', '--config-file',
                                str(self.dir))
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertIn(f'--config-file {self.dir}', done.out)

    def test_defaults(self):
        """Nobody but this machine is served unless somebody says so."""
        settings = exporter.load_settings(
            ['--config-file', self.write('none.conf', '')])
        self.assertEqual('127.0.0.1',
                         str(settings.pinning_exporter.listen_address))

    def test_serves_until_it_is_ended(self):
        path = self.write('x.conf', (
            f'[pinning_exporter]\nsnapshot = {self.fleet}\n'
            'listen_port = 0\nread_interval_seconds = 1\n'))
        # No thread is waited for in vain: that would take for ever here.
        process = subprocess.Popen(
            [sys.executable, '-c', _PATIENT, 'exporter', '--config-file',
             path], stderr=subprocess.PIPE, text=True,
            env={**os.environ, 'PYTHONWARNINGS': 'ignore'},
            cwd=pathlib.Path(__file__).parents[4])
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        words = process.stderr.readline().split()
        self.assertEqual('serving', words[0])
        with urllib.request.urlopen(words[1], timeout=60) as answer:
            self.assertIn(b'nova_pinning_exporter_errors_total',
                          answer.read())
        process.terminate()
        self.assertEqual(0, process.wait(60))
