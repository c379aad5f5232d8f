# SPDX-License-Identifier: Apache-2.0
"""How far a benchmark is, for whoever waits at a terminal."""

import shutil
import sys


class Bar:
    """A line on the terminal's error output; nothing where there is none."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._shown = sys.stderr.isatty()
        self.show('starting')

    def show(self, what: str) -> None:
        """Draw the line."""
        if not self._shown:
            return
        filled = 30 * self._done // self._total
        line = (f'[{"#" * filled:<30}] '
                f'{100 * self._done // self._total:3}% {what}')
        width = shutil.get_terminal_size().columns - 1
        print('\r' + line[:width].ljust(width), end='', file=sys.stderr,
              flush=True)

    def step(self, name: str, count: int) -> None:
        """Note that some work on a case is done."""
        self._done += count
        self.show(name)

    def close(self) -> None:
        """Wipe the line."""
        if self._shown:
            width = shutil.get_terminal_size().columns - 1
            print('\r' + ' ' * width + '\r', end='', file=sys.stderr,
                  flush=True)
