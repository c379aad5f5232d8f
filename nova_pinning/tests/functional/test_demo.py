# SPDX-License-Identifier: Apache-2.0
"""The demo, from the command line to the files it writes."""

import contextlib
import io
import os
import pathlib
import re
import signal
import subprocess
import sys
from unittest import mock

import fixtures
from oslotest import base

from demo import __main__
from demo import cloud
from demo import hosts
from demo import report
from demo import story


class TestDemo(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.out = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def test_story(self):
        printed, errors = io.StringIO(), io.StringIO()
        with (contextlib.redirect_stdout(printed),
              contextlib.redirect_stderr(errors),
              mock.patch.object(report, 'show', wraps=report.show) as show):
            status = __main__.main(['--out', str(self.out)])

        self.assertEqual('', errors.getvalue())
        found, _console = show.call_args.args
        self.assertEqual(
            [], [promise for promise, held in found.checks.items()
                 if not held])
        self.assertEqual((5, 0), (len(found.checks), status))
        self.assertIn('The CPUs of compute-dedicated', printed.getvalue())
        self.check_guests(found.guests)
        self.check_refused(found.refused)
        self.check_files(found.guests)

    def check_guests(self, guests):
        cores = {frozenset(core) for cell in hosts.enterprise_host().cells
                 for core in cell.cores}
        dedicated = [guest for guest in guests if guest.kind == 'dedicated']
        self.assertEqual(9, len(dedicated))
        used = []
        for guest in dedicated:
            self.assertEqual('compute-dedicated', guest.host)
            pins = [int(str(guest.placed.vcpu_pins[vcpu]))
                    for vcpu in range(8)]
            used += pins
            for pair in zip(pins[::2], pins[1::2]):
                self.assertIn(frozenset(pair), cores)
        self.assertEqual(72, len(set(used)))
        self.assertTrue({0, 1, 40, 41}.isdisjoint(used))

        shared = [guest for guest in guests if guest.kind == 'shared']
        self.assertEqual(15, len(shared))
        for guest in shared:
            self.assertEqual('compute-shared', guest.host)
            self.assertEqual({}, guest.placed.vcpu_pins)
            self.assertEqual('0-79', str(guest.placed.floats_over))

    def check_refused(self, refused):
        self.assertEqual(['enterprise-10', 'big-memory'],
                         [one.name for one in refused])
        tenth, big = [one.reasons for one in refused]
        self.assertEqual([['the filters', 'the engine'], ['the filters']],
                         [[*tenth], [*big]])
        self.assertIn('cell 0 has 4 free dedicated CPUs, 8 needed',
                      tenth['the engine'])
        self.assertIn('PinnedTopologyFilter refused 1 host: too little memory',
                      big['the filters'])
        self.assertIn('327680 MiB of memory, 409600 MiB needed',
                      big['the filters'])

    def check_files(self, guests):
        self.assertEqual(
            {f'{guest.name}.xml': guest.xml for guest in guests},
            {path.name: path.read_text() for path in self.out.iterdir()})

    def test_begins_at_once_and_can_be_interrupted(self):
        with subprocess.Popen(
                [sys.executable, '-m', 'demo', '--out',
                 str(self.out)],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                env=os.environ | {'COLUMNS': '80'}) as process:
            # Before it loads nova, which takes longest.
            line = process.stdout.readline()
            self.assertIn('nova', line.lower())
            self.assertNotIn('Loading', line)
            while not line.startswith('Booting'):
                line = process.stdout.readline()
                self.assertNotEqual('', line, 'it ended early')
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()

        self.assertEqual(130, process.returncode, rest)
        self.assertIn('Interrupted', rest)
        # Eventlet has locks of oslo.log outlive what they need (up to 2025.2).
        said, *_ignored = re.split(
            r'Exception ignored in: <function \w*PipeMutex\.__del__', rest)
        self.assertNotIn('Traceback', said)
        self.assertEqual([], list(self.out.iterdir()))

    def test_an_interrupt_while_the_last_guest_boots(self):
        """It is told of after each step, the last one too."""
        nova = mock.Mock()
        nova.boot.return_value = cloud.Server(
            'id', 'guest', 'ACTIVE', 'host', None)
        told = []
        with (mock.patch.object(story.Story, '_hosts', return_value=()),
              mock.patch.object(story, 'checks', return_value={})):
            story.Story(nova, told.append).play()
        self.assertEqual('', told[-1])
        self.assertEqual(nova.boot.call_count + 1, told.count(''))

    def run_into_an_error(self):
        """Run the demo into an error.

        :returns: what it has to say about it, and nova's log
        """
        printed, errors = io.StringIO(), io.StringIO()
        with (contextlib.redirect_stdout(printed),
              contextlib.redirect_stderr(errors)):
            status = __main__.main(['--out', str(self.out)])
        self.assertEqual(1, status)
        self.assertIn('Loading nova', printed.getvalue())
        self.assertNotIn('Traceback', printed.getvalue() + errors.getvalue())
        log = self.out / 'nova.log'
        self.assertIn(f'is in {log}\n', errors.getvalue())
        return errors.getvalue(), log.read_text()

    def test_story_breaks_off(self):
        self.useFixture(fixtures.MockPatch(
            'demo.story.Story.play',
            side_effect=RuntimeError('the [script] is lost')))
        errors, log = self.run_into_an_error()
        self.assertIn('the [script] is lost', errors)
        self.assertIn('Traceback', log)
        self.assertIn('nova.service', log)

    def test_nova_does_not_start(self):
        self.useFixture(fixtures.MockPatch(
            'demo.cloud.Cloud.setUp',
            side_effect=FileNotFoundError('no api-paste.ini')))
        errors, log = self.run_into_an_error()
        self.assertIn('no api-paste.ini', errors)
        self.assertIn('Traceback', log)
