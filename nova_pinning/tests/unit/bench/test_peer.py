#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

import os
import pathlib

import fixtures

from nova_pinning.bench import errors
from nova_pinning.bench import peer
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.bench import fakes


class TestPeer(base.TestCase):
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
                          fakes.cpus('0')) as server:
            file = fifo.open()
            server.check()
        with file:
            self.assertEqual('', file.read())

    def test_ends_early(self):
        with peer.running('echo the port is taken; exit 3',
                          fakes.cpus('0')) as server:
            server._process.wait()
            error = self.assertRaises(errors.WorkloadError, server.check)
        self.assertIn('status 3: the port is taken; its command is echo',
                      str(error))
