# SPDX-License-Identifier: Apache-2.0
"""Signals that are handled for a while."""

import os
import signal
import threading

import testtools

from nova_pinning import signals


class TestHandled(testtools.TestCase):

    def setUp(self):
        super().setUp()
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
            signal.signal(number, signal.SIG_DFL)
        self.seen = []

    def _note(self, number, _frame):
        self.seen.append(number)

    def test_handles_and_puts_back(self):
        with signals.handled((signal.SIGUSR1, signal.SIGUSR2), self._note):
            os.kill(os.getpid(), signal.SIGUSR1)
            os.kill(os.getpid(), signal.SIGUSR2)
        self.assertEqual([signal.SIGUSR1, signal.SIGUSR2], self.seen)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            self.assertIs(signal.SIG_DFL, signal.getsignal(number))

    def test_puts_back_after_an_error(self):
        def fail():
            with signals.handled([signal.SIGUSR1], self._note):
                raise KeyError()
        self.assertRaises(KeyError, fail)
        self.assertIs(signal.SIG_DFL, signal.getsignal(signal.SIGUSR1))

    def test_ignored_ones_stay_so(self):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        with signals.handled([signal.SIGUSR1], self._note):
            os.kill(os.getpid(), signal.SIGUSR1)
        self.assertEqual([], self.seen)
        self.assertIs(signal.SIG_IGN, signal.getsignal(signal.SIGUSR1))

    def test_in_another_thread(self):
        def run():
            with signals.handled([signal.SIGUSR1], self._note):
                self.seen.append(signal.getsignal(signal.SIGUSR1))
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        self.assertEqual([signal.SIG_DFL], self.seen)
