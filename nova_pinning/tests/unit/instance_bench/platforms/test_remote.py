# SPDX-License-Identifier: Apache-2.0

import subprocess

import fixtures

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench.platforms import remote
from nova_pinning.tests.unit import unit_base


class TestScript(unit_base.TestCase):
    """The script in a real shell; the guest is this machine."""

    def _run(self, command):
        work = self.useFixture(fixtures.TempDir()).path
        done = subprocess.run(
            remote.script(command, work).start, capture_output=True,
            text=True, timeout=60)
        return remote.outcome('guest-0', done.stdout, done.stderr)

    def test_output_is_the_commands_own(self):
        for printed in ('', 'one', 'one\n', '\none\n\n', '1 2 3\n4 5\n'):
            outcome = self._run(f"printf '{printed}'")
            self.assertEqual((0, printed), (outcome.status, outcome.stdout))

    def test_signal(self):
        self.assertEqual(-9, self._run('kill -KILL $$').status)

    def test_what_is_around_is_not_the_commands(self):
        outcome = self._run('sleep 0.3')
        self.assertGreaterEqual(outcome.inside_seconds, 0.28)
        self.assertLess(outcome.tolerance_seconds, 60)
        self.assertGreater(outcome.tolerance_seconds, 0)

    def test_around(self):
        outcome = remote.outcome(
            'guest-0', '0 12.5 20.0\nout\n10.0 21.25\n', '', 9.0, 1.0)
        self.assertEqual((9.0, 7.5, 'out'), (
            outcome.outside_seconds, outcome.inside_seconds, outcome.stdout))
        # /proc/uptime has hundredths of a second.
        self.assertAlmostEqual(4.75, outcome.tolerance_seconds, delta=0.05)

    def test_cut_off(self):
        for printed in ('', '0 1.0 2.0\n', '0 1.0 2.0\nout\n',
                        '1.0 2.0\nout\n1.0 2.0\n'):
            self.assertRaises(bench_errors.InstanceError, remote.outcome,
                              'guest-0', printed, 'no')
