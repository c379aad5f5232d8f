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

"""What the tests of the minicloud have in common."""

import pathlib
import tempfile
from unittest import mock

from oslotest import base

from minicloud import settings


class DirectoryTestCase(base.BaseTestCase):
    """A test with a directory of its own."""

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
