# SPDX-License-Identifier: Apache-2.0
"""How far a benchmark is, for whoever waits at a terminal."""

import sys

import rich.console
import rich.progress


class Bar:
    """A line on the terminal's error output; nothing where there is none.

    It is drawn when something is done, and by no thread of its own.
    """

    def __init__(self, total: int) -> None:
        self._bar = rich.progress.Progress(
            rich.progress.BarColumn(), rich.progress.TaskProgressColumn(),
            rich.progress.TextColumn('{task.description}'),
            console=rich.console.Console(stderr=True), transient=True,
            auto_refresh=False, disable=not sys.stderr.isatty())
        self._task = self._bar.add_task('starting', total=total)
        self._bar.start()

    def show(self, what: str) -> None:
        """Say what is being done."""
        self.step(what, 0)

    def step(self, name: str, count: int) -> None:
        """Note that some work on a case is done."""
        self._bar.update(self._task, advance=count, description=name,
                         refresh=True)

    def close(self) -> None:
        """Wipe the line."""
        self._bar.stop()
