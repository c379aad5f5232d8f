# SPDX-License-Identifier: Apache-2.0
"""Functional tests of nova's own, from where nova is installed.

Real threads have to be chosen before a test module imports nova.
"""

import logging

from demo import threads  # noqa: F401

# Nova's harness has oslo.log write to the standard output, which is the
# stream of the runner's results.
for _name in ('nova.thread_pool_factory', 'oslo_service.periodic_task'):
    logging.getLogger(_name).setLevel(logging.WARNING)
