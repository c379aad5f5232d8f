# SPDX-License-Identifier: Apache-2.0
"""Two runs on one cloud, in any order of their requests."""

import threading


class TakeTurns:
    """Runs a function twice at once, one request of one of them at a time.

    A turn lasts until the next request of the same run.

    :param turns: whose turn it is, as long as both go on; then the first
        goes on alone, and then the second
    """

    def __init__(self, cloud, turns):
        self.failures = []
        self._turns = list(turns)
        self._is_running = [True, True]
        self._taken = False
        self._changed = threading.Condition()
        self._mine = threading.local()
        cloud.hook = self._wait

    def run(self, function):
        threads = [threading.Thread(target=self._run, args=(me, function))
                   for me in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def me(self):
        """Which of the two runs asks, 0 or 1."""
        return self._mine.me

    def _run(self, me, function):
        self._mine.me = me
        self._mine.has_turn = False
        try:
            function()
        except BaseException as error:
            self.failures.append(error)
        with self._changed:
            self._is_running[me] = False
            self._end_turn()

    def _end_turn(self):
        if self._mine.has_turn:
            self._mine.has_turn = self._taken = False
            del self._turns[:1]
        self._changed.notify_all()

    def _is_mine(self):
        if self._taken:
            return False
        if not all(self._is_running):
            return True
        return self._mine.me == (self._turns[0] if self._turns else 0)

    def _wait(self, number):
        with self._changed:
            self._end_turn()
            self._changed.wait_for(self._is_mine)
            self._mine.has_turn = self._taken = True
