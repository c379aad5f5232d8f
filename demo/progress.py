# SPDX-License-Identifier: Apache-2.0
"""Says what is going on while it goes on."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib

from rich import console as rich_console
from rich import progress

#: Says what is going on: a sentence, and how many steps it should take. What
#: it gives back is entered for that time, and its value called after each
#: step.
Announce = Callable[
    [str, int], contextlib.AbstractContextManager[Callable[[], None]]]


class Bars:
    """A bar for each part, for somebody who watches a terminal."""

    def __init__(self, console: rich_console.Console) -> None:
        self._progress = progress.Progress(
            progress.TextColumn('{task.description}'),
            progress.BarColumn(bar_width=20),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            console=console)

    def __enter__(self) -> 'Bars':
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    @contextlib.contextmanager
    def announce(
        self, sentence: str, steps: int,
    ) -> Iterator[Callable[[], None]]:
        """Show a new bar until the part is over.

        :param steps: how many steps it should take; it may take others
        """
        task = self._progress.add_task(sentence, total=steps)
        yield lambda: self._progress.advance(task)
        self._progress.stop_task(task)


class Lines:
    """A line for each part, for a file or a pipe."""

    def __init__(self, console: rich_console.Console) -> None:
        self._console = console

    def __enter__(self) -> 'Lines':
        return self

    def __exit__(self, *error: object) -> None:
        pass

    @contextlib.contextmanager
    def announce(
        self, sentence: str, steps: int,
    ) -> Iterator[Callable[[], None]]:
        self._console.print(f'{sentence} ...')
        yield lambda: None
