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

"""What the unit tests have in common."""

import contextlib
import os

import fixtures
import hypothesis
from oslo_config import fixture as config_fixture
from oslotest import base

from nova_pinning import conf
from nova_pinning.tests.oracle import compare


def settings(max_examples):
    """Settings for hypothesis.

    Examples take microseconds, but the first one may load nova, so there is
    no deadline. In CI the examples are the same each time; elsewhere they are
    new ones.
    """
    return hypothesis.settings(
        max_examples=max_examples, deadline=None,
        derandomize=bool(os.environ.get('CI')),
        suppress_health_check=list(hypothesis.HealthCheck))


class TestCase(base.BaseTestCase):
    """A test with options of its own and a look at the project's log."""

    def setUp(self):
        super().setUp()
        self.config = self.useFixture(config_fixture.Config(conf.CONF)).config
        # Nova's fit logs each pair of cells that it looks at.
        self.enterContext(compare.silence())

    @contextlib.contextmanager
    def records(self):
        """Collect what the project logs, whatever nova may log beside it.

        :returns: a list of records, complete after the with statement
        """
        found = []
        with _Logged(found):
            yield found


class _Logged(fixtures.FakeLogger):
    """Keeps log records, which FakeLogger turns into text."""

    def __init__(self, found):
        super().__init__('nova_pinning')
        self._found = found

    def _setUp(self):
        super()._setUp()
        import logging
        handler = logging.Handler()
        handler.emit = self._found.append
        logger = logging.getLogger('nova_pinning')
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)
