# SPDX-License-Identifier: Apache-2.0
"""Tests against a whole Nova, run in this process.

Real threads have to be chosen before a test module imports nova.
"""

import logging

from demo import threads  # noqa: F401

from nova_pinning.tests.functional import worker_threads
from nova_pinning.tests import runner

runner.prepare()
worker_threads.install()

# Nova's harness has oslo.log write to the standard output, which is the
# stream of the runner's results. These speak while no test has a logger of
# nova's fixtures: at the import, and when the threads of a cloud end.
for _name in ('nova.thread_pool_factory', 'oslo_service.periodic_task'):
    logging.getLogger(_name).setLevel(logging.WARNING)
