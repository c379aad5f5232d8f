# SPDX-License-Identifier: Apache-2.0
"""Tests against a whole Nova, run in this process.

Real threads have to be chosen before a test module imports nova.
"""

import logging

from demo import threads  # noqa: F401

from nova.api.validation import validators
from nova.db.main import models
from nova import test  # noqa: F401
from sqlalchemy import orm

from nova_pinning.tests.functional import worker_threads
from nova_pinning.tests import process_caches
from nova_pinning.tests import runner

runner.prepare()
worker_threads.install()
process_caches.make_validators_once(validators)

# Whenever nova reads a server it asks for its metadata by two more queries,
# for the sake of servers with much of it. Those of tests have little, and with
# one query for all of it that takes two fifths less, of all that tests do a
# twentieth. And whenever it saves one, it keeps what it was as another row,
# for notifications that nobody gets here.
orm.subqueryload = orm.joinedload
models.NovaBase.__copy__ = dict

# Importing it has oslo.log write to the standard output, the stream of the
# results of the runner. What nova says while no test has a logger of its
# fixtures is for nobody, from warnings on for stderr.
logging.root.handlers.clear()
