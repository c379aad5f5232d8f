# SPDX-License-Identifier: Apache-2.0
"""Commands of ``openstack``, run against a cloud that is served over HTTP."""

import contextlib
import functools
import io
import logging
import os
import subprocess
import sys
import time
import types
from unittest import mock

from cliff import commandmanager
import fixtures
from openstackclient import shell
from osc_lib import clientmanager
import stevedore

from nova_pinning.tests.functional import apiserver
from nova_pinning.tests.functional import functional_base

# Each command looks through two thousand of all services' for itself.
commandmanager.stevedore = types.SimpleNamespace(
    ExtensionManager=functools.cache(stevedore.ExtensionManager))


class CommandTestCase(functional_base.TestCase):
    """A test of commands.

    ``self.api`` is the server of nova's API and Placement.
    """

    #: What all commands begin with.
    COMMAND = ('pinning',)

    def setUp(self):
        super().setUp()
        # keystoneauth1 waits before it sends a request again.
        self.useFixture(fixtures.MockPatch(
            'keystoneauth1.session.time',
            mock.Mock(wraps=time, sleep=lambda seconds: None)))
        self.api = self.useFixture(apiserver.ApiServer(self.nova))

    def environment(self):
        """The environment in which ``openstack`` finds the cloud.

        How wide tables are is not for the terminal of the tests to say.
        """
        return {key: value for key, value in os.environ.items()
                if not key.startswith('OS_') and key != 'COLUMNS'
                } | {'PYTHONWARNINGS': 'ignore'}

    def arguments(self):
        """Options that all commands are given."""
        return []

    def command(self, *arguments):
        """The command line of its own process."""
        return [sys.executable, '-m', 'openstackclient.shell',
                *self.arguments(), *self.COMMAND, *arguments]

    def run_command(self, *arguments, status=0):
        """Run a command as its own process, which takes seconds.

        :returns: (output, error output)
        """
        done = subprocess.run(
            self.command(*arguments), env=self.environment(),
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=120)
        self.assertEqual(status, done.returncode,
                         f'{done.stdout}\n{done.stderr}')
        return done.stdout, done.stderr

    def call_command(self, *arguments, status=0):
        """Run a command in this process.

        :returns: (output, error output)
        """
        return self.call_openstack(*self.COMMAND, *arguments, status=status)

    def call_openstack(self, *arguments, status=0):
        """Run any command of ``openstack`` in this process.

        :returns: (output, error output)
        """
        output, error = io.StringIO(), io.StringIO()
        # A process has one command to run, so clients are kept in the class.
        for client in vars(clientmanager.ClientManager).values():
            if isinstance(client, clientmanager.ClientCache):
                client._handle = None
        with (mock.patch.dict(os.environ, self.environment(), clear=True),
              # A command adds one of its own each time.
              mock.patch.object(logging.root, 'handlers',
                                logging.root.handlers[:]),
              mock.patch.object(sys, 'stdin', io.StringIO()),
              contextlib.redirect_stdout(output),
              contextlib.redirect_stderr(error)):
            returned = shell.main([*self.arguments(), *arguments])
        self.assertEqual(status, returned,
                         f'{output.getvalue()}\n{error.getvalue()}')
        return output.getvalue(), error.getvalue()
