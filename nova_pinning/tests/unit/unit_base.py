# SPDX-License-Identifier: Apache-2.0
"""What the unit tests have in common."""

import contextlib
import logging

import fixtures
import hypothesis
from oslo_config import fixture as config_fixture
from oslotest import base

from nova_pinning import conf
from nova_pinning.scheduler import metrics
from nova_pinning.scheduler import mix
from nova_pinning.scheduler import traits_reader
from nova_pinning.tests import forms


def settings(max_examples, in_ci=None):
    """Settings for hypothesis.

    Examples take microseconds, but the first one may load nova, so there is
    no deadline. In CI the examples are the same each time, and an eighth as
    many; elsewhere they are new ones.

    :param in_ci: how many in CI instead, where another test has more as well
    """
    if forms.SHORT:
        max_examples = in_ci or max(1, max_examples // 8)
    return hypothesis.settings(
        max_examples=max_examples,
        deadline=None, derandomize=forms.SHORT,
        suppress_health_check=list(hypothesis.HealthCheck))


class TestCase(base.BaseTestCase):
    """A test that may set options, and whose log is shown if it fails."""

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.options = self.useFixture(config_fixture.Config(conf.CONF))
        # What is remembered of requests is one thing for the whole process.
        mix.forget()
        self.addCleanup(mix.forget)
        # Nothing is asked of a Placement that is not there.
        self.set_option('traits_refresh_seconds', 0)
        self.addCleanup(traits_reader.use, None)
        self.addCleanup(metrics.use, None)

    def set_option(self, name, value):
        self.options.config(group='pinning', **{name: value})


@contextlib.contextmanager
def log_records(name='nova_pinning', level=logging.DEBUG):
    """Collect what is logged under a name at a level or above.

    :returns: a list of logging.LogRecord, filled within the with statement
    """
    records = []
    handler = logging.Handler(level)
    handler.emit = records.append
    logger = logging.getLogger(name)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield records
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
