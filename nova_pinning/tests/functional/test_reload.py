# SPDX-License-Identifier: Apache-2.0
"""Options that change while nova-scheduler runs, with real signals."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

from oslotest import base
from testtools import content

from nova_pinning.tests.functional import thread_kinds

_PROGRAM = pathlib.Path(__file__).with_name('judging.py')
#: As judging.py has it, which cannot be imported here.
_VARIABLE = 'NOVA_PINNING_JUDGING_SOCKET'
#: Seconds after which a process that says nothing has failed.
_PATIENCE = 120

_CONFIGURATION = """\
[DEFAULT]
log_file = {directory}/log
transport_url = fake:/
state_path = {directory}
[oslo_concurrency]
lock_path = {directory}
[scheduler]
workers = 1
[pinning]
traits_refresh_seconds = 0
fragmentation_mix = vcpus:8,memory_mib:1
{options}
"""

#: Which hosts are left for each request by default, best first.
_DEFAULT = {
    'full': [], 'broken': [], 'nova wrong': [],
    'nova slow': ['host0', 'host1'],
    'devices': ['host0'], 'class unknown': [],
    'order': ['tight', 'wide'], 'neighbours': ['shared', 'spread'],
}
#: What each option makes of them.
_CHANGES = {
    'mode = observe': {
        'full': ['host0'], 'broken': ['host0'], 'nova wrong': ['host0'],
        'class unknown': ['host0'],
    },
    'on_error = pass': {'broken': ['host0']},
    'check_nova_claim = false': {'nova wrong': ['host0']},
    'nova_claim_max_seconds = 0': {'nova slow': ['host0']},
    'request_budget_seconds = 0.000000001': {'devices': []},
    'unknown_host_class = allow': {'class unknown': ['host0']},
    'fragmentation_weight_multiplier = -9': {
        'order': ['wide', 'tight'], 'neighbours': ['spread', 'shared']},
    'cache_locality_weight_multiplier = 9': {'order': ['wide', 'tight']},
    'cache_locality_weight_multiplier = 9\nprefer_exclusive_l3 = true': {
        'order': ['wide', 'tight'], 'neighbours': ['spread', 'shared']},
}


class _Process:
    """nova-scheduler, of which :mod:`judging` tells.

    :param directory: pathlib.Path of its nova.conf and its log
    """

    def __init__(self, directory, is_patched):
        self._directory = directory
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(_PATIENCE)
        self._said = self._socket.makefile('r')
        self.write('')
        environment = {
            **os.environ, _VARIABLE: str(theirs.fileno()),
            'OS_NOVA_DISABLE_EVENTLET_PATCHING': str(int(not is_patched)),
            'PYTHONPATH': os.pathsep.join(filter(None, sys.path)),
        }
        with theirs, open(directory / 'output', 'wb') as output:
            # Nova signals all processes of its group.
            self._process = subprocess.Popen(
                [sys.executable, str(_PROGRAM), '--config-file',
                 str(directory / 'nova.conf')],
                env=environment, pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True)

    def write(self, options):
        """Change nova.conf."""
        text = _CONFIGURATION.format(
            directory=self._directory, options=options)
        (self._directory / 'nova.conf').write_text(text)

    def read(self):
        """What it says next: the pid of who does, and what."""
        line = self._said.readline()
        if not line:
            raise AssertionError(
                f'it has ended with status {self._process.wait()}')
        return json.loads(line)

    def hosts(self):
        """Which hosts are left for each request, best first."""
        self._socket.sendall(b'?')
        _pid, found = self.read()
        return {name: [host for host, _weight in weighed]
                for name, weighed in found.items()}

    def reload(self, options):
        """Change nova.conf and send SIGHUP.

        :returns: what it says when it is done
        """
        self.write(options)
        os.kill(self._process.pid, signal.SIGHUP)
        return self.read()

    def terminate(self):
        """Ask it to end.

        :returns: its status
        """
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(_PATIENCE)

    def kill(self):
        """Have nothing left of it."""
        self._said.close()
        self._socket.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class _TestReload:
    """Cases for both kinds of threads."""

    is_patched: bool
    #: What the process says when it has read its files again.
    word: str

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.create_tempfiles([('any', '')])[0]).parent
        self.addCleanup(self._tell)
        self.process = _Process(self.directory, self.is_patched)
        self.addCleanup(self.process.kill)
        self.pid, said = self.process.read()
        self.assertEqual('started', said)
        self.assertEqual(_DEFAULT, self.process.hosts())

    def _tell(self):
        """Keep for the reader what the process has said."""
        for name in ('log', 'output'):
            path = self.directory / name
            if path.exists():
                self.addDetail(name, content.text_content(path.read_text()))

    def _log(self):
        return (self.directory / 'log').read_text()

    def _reload(self, options):
        pid, said = self.process.reload(options)
        self.assertEqual(self.word, said)
        # Native threads: its own process, forked from the first.
        self.assertEqual(self.is_patched, pid == self.pid)

    def test_options(self):
        """One process for all of it: to start one takes seconds."""
        self.check_wrong_values()
        self.check_each_option()
        self.assertEqual(0, self.process.terminate())

    def check_each_option(self):
        for line, changes in _CHANGES.items():
            self._reload(line)
            self.assertEqual(_DEFAULT | changes, self.process.hosts(), line)
        self._reload('')
        self.assertEqual(_DEFAULT, self.process.hosts())

    def check_wrong_values(self):
        """What was right last applies, with all other options."""
        self._reload('unknown_host_class = allow')
        right = _DEFAULT | {'class unknown': ['host0']}
        self.assertEqual(right, self.process.hosts())
        if not (self.is_patched or thread_kinds.ARE_OPTIONS_MUTATED):
            # The process that forks the others knows what it began with.
            right = _DEFAULT
        for line in (
                'mode = look', 'request_budget_seconds = nan',
                'fragmentation_weight_multiplier = much',
                'on_error = Refuse!', 'prefer_exclusive_l3 = perhaps'):
            before = len(self._log())
            self._reload(f'check_nova_claim = false\n{line}')
            self.assertEqual(right, self.process.hosts(), line)
            said = self._log()[before:]
            self.assertIn('those that were right last still apply', said)
            self.assertIn(line.partition(' ')[0], said)
        self._reload('')
        self.assertEqual(_DEFAULT, self.process.hosts())


@thread_kinds.needs_native
class TestNativeThreads(_TestReload, base.BaseTestCase):
    """As nova-scheduler runs by default."""

    is_patched = False
    word = 'started'


class TestEventlet(_TestReload, base.BaseTestCase):
    """As it runs if it is told so."""

    is_patched = True
    word = 'reset'
