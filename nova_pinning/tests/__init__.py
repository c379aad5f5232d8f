# SPDX-License-Identifier: Apache-2.0
import signal
import sys
import unittest

# A shell has what it starts in the background ignore Ctrl-C, and so do all
# that this starts in turn. Tests that interrupt a program count on it to end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _enter_context(test, context):
    entered = context.__enter__()
    test.addCleanup(context.__exit__, None, None, None)
    return entered


if sys.version_info < (3, 11):
    unittest.TestCase.enterContext = _enter_context
