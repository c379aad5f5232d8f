# SPDX-License-Identifier: Apache-2.0

import json
import pathlib
import subprocess

import ddt
import fixtures
from oslo_config import cfg

from nova_pinning.conf import exporter
from nova_pinning.exporter import child_commands
from nova_pinning.exporter import exporter_service
from nova_pinning.exporter import planned_figures
from nova_pinning.exporter import task_metrics
from nova_pinning.fleet import document
from nova_pinning.fleet import generate
from nova_pinning.tests import runner
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.exporter import test_fleet_tally
from nova_pinning.tests.unit import unit_base


def settings_of(test, **values):
    """Options, for one test only: what is set counts for all ConfigOpts."""
    conf = cfg.ConfigOpts()
    exporter.register_opts(conf)
    conf([])
    for name, value in values.items():
        conf.set_override(name, value, 'pinning_exporter')
        test.addCleanup(conf.clear_override, name, 'pinning_exporter')
    return conf.pinning_exporter


def at_usual_priority(test):
    """Let commands have their share of a CPU beside busy processes."""
    test.useFixture(fixtures.MockPatchObject(child_commands, '_NICE', 0))


@ddt.ddt
class PlannedTestCase(cli_case.TestCase):
    """What is served is what the commands say."""

    def setUp(self):
        super().setUp()
        runner.freeze(self)
        at_usual_priority(self)
        self.fleet = generate.generate_fleet(3, 'two-socket-80', 1)
        self.content = exporter_service.packed_snapshot(self.fleet)
        self.path = str(self.dir / 'fleet.json.zst')
        pathlib.Path(self.path).write_bytes(self.content)
        self.tasks = task_metrics.TaskMetrics(lambda: 7.0)
        self.commands = child_commands.ChildCommands()

    def planned(self, **values):
        return planned_figures.PlannedFigures(
            settings_of(self, **values), lambda: self.content, self.tasks,
            self.commands)

    def said(self, *arguments):
        return json.loads(self.run_command(
            *arguments, '--format', 'json').out)

    def test_snapshot(self):
        self.assertEqual(self.fleet, document.read(self.path))

    def test_nothing_asked_for(self):
        planned = self.planned()
        self.assertEqual('', planned.text())

    def check_mix(self, text):
        found = test_fleet_tally.series(text)
        said = self.said('capacity', self.path, '--mix')
        self.assertEqual(
            sum(mix['fits'] for mix in said['mixes']),
            sum(value for (name, _labels), value in found.items()
                if name == 'nova_pinning_mix_guests'))
        self.assertEqual(
            len(self.fleet.flavors),
            sum(name == 'nova_pinning_mix_guests' for name, _labels in found))

    def test_defragment(self):
        planned = self.planned(defragment=['16'], defragment_moves=3)
        planned.refresh()
        found = test_fleet_tally.series(planned.text())
        said = self.said('rebalance', 'plan', self.path, '--for', '16',
                         '--moves', '3')
        gain, = said['gains']
        size = (('size', '16'),)
        prefix = 'nova_pinning_defragmentation_'
        self.assertEqual(
            {(prefix + 'guests_before', size): gain['before'],
             (prefix + 'guests_after', size): gain['after'],
             (prefix + 'moves', size): len(said['moves'])}, found)

    def test_failover(self):
        planned = self.planned(failover=True)
        planned.refresh()
        found = test_fleet_tally.series(planned.text())
        said = self.said('rebalance', 'failover', self.path)
        for verdict in ('yes', 'no', 'unknown'):
            self.assertEqual(
                sum(loss['verdict'] == verdict for loss in said['losses']),
                found['nova_pinning_failover_losses', (
                    ('survived', verdict),)])
        self.assertEqual(
            said['reserve']['count'] if said['reserve'] else 0,
            found['nova_pinning_failover_missing_hosts', ()])

    def test_fails(self):
        """The rest is worked out, and the last figures stay."""
        planned = self.planned(defragment=['no such size'], mix=True)
        planned.refresh()
        self.check_mix(planned.text())
        found = test_fleet_tally.series(self.tasks.text())
        self.assertEqual(1, found['nova_pinning_exporter_errors_total', (
            ('task', 'defragment'),)])
        self.assertEqual(
            0, found['nova_pinning_exporter_last_success_timestamp_seconds', (
                ('task', 'defragment'),)])
        text = planned.text()
        self.content = b'damaged'
        planned.refresh()
        self.assertEqual(text, planned.text())

    def test_takes_too_long(self):
        planned = self.planned(mix=True, plan_max_seconds=1.0)
        self.useFixture(fixtures.MonkeyPatch('sys.executable', self.sleeper()))
        with unit_base.log_records() as logged:
            planned.refresh()
        self.assertIn('task="mix"} 1.0', self.tasks.text())
        self.assertIn('plan_max_seconds', logged[0].getMessage())

    def sleeper(self):
        path = self.dir / 'program'
        path.write_text('#!/bin/sh\nexec sleep 600\n')
        path.chmod(0o755)
        return str(path)

    def test_stopped(self):
        """What is under way is ended without a word, and nothing else begun.
        """
        planned = self.planned(mix=True, failover=True)
        self.useFixture(fixtures.MonkeyPatch('sys.executable', self.sleeper()))
        communicate = subprocess.Popen.communicate
        started = []

        def stopping(process, *arguments, **options):
            started.append(process)
            self.commands.stop()
            return communicate(process, *arguments, **options)

        self.useFixture(fixtures.MonkeyPatch(
            'subprocess.Popen.communicate', stopping))
        with unit_base.log_records() as logged:
            for _time in range(2):
                self.assertRaises(SystemExit, planned.refresh)
        self.assertEqual([], logged)
        self.assertEqual([-9], list({one.wait() for one in started}))
        self.assertEqual(1, len(set(started)))

    def test_no_fleet_yet(self):
        self.content = None
        self.assertFalse(self.planned(mix=True).refresh())
