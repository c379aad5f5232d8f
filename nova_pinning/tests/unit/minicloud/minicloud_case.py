# SPDX-License-Identifier: Apache-2.0
"""What the tests of the minicloud have in common."""

import pathlib
import tempfile
from unittest import mock

from oslotest import base

from minicloud import settings


class DirectoryTestCase(base.BaseTestCase):
    """A test with its own directory."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def patch(self, target, name, **options):
        """Replace an attribute while the test runs.

        :returns: the mock
        """
        patch = mock.patch.object(target, name, **options)
        self.addCleanup(patch.stop)
        return patch.start()


class StateTestCase(DirectoryTestCase):
    """A test with a state directory."""

    def setUp(self):
        super().setUp()
        self.state = settings.State(self.directory / 'state')
        self.state.create()
