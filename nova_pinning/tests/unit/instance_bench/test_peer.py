# SPDX-License-Identifier: Apache-2.0

import os
import pathlib

import fixtures

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import peer
from nova_pinning.tests.unit.instance_bench import bench_fakes
from nova_pinning.tests.unit import unit_base


class TestPeer(unit_base.TestCase):
    """With real processes."""

    def setUp(self):
        super().setUp()
        self.dir = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def test_is_ended(self):
        fifo = self.dir / 'fifo'
        # Opening it waits for the peer; it ends when the last writer does.
        self.useFixture(fixtures.EnvironmentVariable('FIFO', str(fifo)))
        os.mkfifo(fifo)
        with peer.running('exec 4>"$FIFO"; sleep 1000 & sleep 1000',
                          bench_fakes.cpus('0')) as check:
            file = fifo.open()
            check()
        with file:
            self.assertEqual('', file.read())

    def test_ends_early(self):
        with peer.running('echo the port is taken; exit 3',
                          bench_fakes.cpus('0')) as check:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            error = self.assertRaises(bench_errors.WorkloadError, check)
        self.assertIn('status 3: the port is taken; its command is echo',
                      str(error))
