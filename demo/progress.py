# SPDX-License-Identifier: Apache-2.0
"""Says what is going on while it goes on."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib

from rich import console as rich_console
from rich import progress

#: Says what is going on: a sentence, and how many steps it should take; it may
#: take others. What it gives back is entered for that time, and its value
#: called after each step.
Announce = Callable[
    [str, int], contextlib.AbstractContextManager[Callable[[], None]]]


@contextlib.contextmanager
def announcing(console: rich_console.Console,
               check: Callable[[], None]) -> Iterator[Announce]:
    """A bar for each part; in a file or a pipe, a line.

    :param check: called after each step
    """
    shown = progress.Progress(
        progress.TextColumn('{task.description}'),
        progress.BarColumn(bar_width=20), progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(), console=console,
        disable=not console.is_terminal)

    @contextlib.contextmanager
    def announce(sentence: str, steps: int) -> Iterator[Callable[[], None]]:
        if not console.is_terminal:
            console.print(f'{sentence} ...')
        task = shown.add_task(sentence, total=steps)

        def advance() -> None:
            shown.advance(task)
            check()

        yield advance
        shown.stop_task(task)

    with shown:
        yield announce
