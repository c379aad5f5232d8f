# SPDX-License-Identifier: Apache-2.0
"""Texts on a console.

Lines have no blanks at their ends, and break after blanks only, or after the
commas of a list of CPUs that is longer than a line.
"""

from collections.abc import Iterable
import textwrap

import rich.console
import rich.text

from nova_pinning import spelling

# Longer lines are hard to read.
_MAX_TEXT_WIDTH = 100
# Texts that are narrower stand below their labels.
_MIN_PAIR_WIDTH = 16
_GAP = '  '


class _Wrapper(textwrap.TextWrapper):

    def _handle_long_word(self, chunks: list[str], line: list[str],
                          length: int, width: int) -> None:
        end = chunks[-1].rfind(',', 0, width - length) + 1
        if end:
            line.append(chunks[-1][:end])
            chunks[-1] = chunks[-1][end:]
        elif not line:
            super()._handle_long_word(chunks, line, length, width)


def wrap(text: str, width: int, indent: str = '',
         further: str = '') -> list[str]:
    """Break lines after blanks, and CPU lists that are longer at commas.

    :param indent: what the first line begins with
    :param further: what all others do
    """
    return _Wrapper(
        max(width, 1), initial_indent=indent, subsequent_indent=further,
        break_on_hyphens=False).wrap(text) or [indent.rstrip()]


def title(text: str, console: rich.console.Console) -> None:
    """Print what is above all else."""
    line(rich.text.Text(text, 'bold'), console)


def heading(text: str, console: rich.console.Console) -> None:
    """Print what is above a text or table, after an empty line."""
    console.print()
    title(text, console)


def say(text: str, console: rich.console.Console, indent: str = '') -> None:
    """Print a text; its further lines are indented."""
    for piece in wrap(
            ' '.join(text.split()), min(console.width, _MAX_TEXT_WIDTH),
            indent, f'{indent}{_GAP}'):
        line(rich.text.Text(piece), console)


def pairs(items: Iterable[tuple[str, str]],
          console: rich.console.Console) -> None:
    """Print labels and texts next to each other."""
    items = tuple(items)
    size = max((len(label) for label, _text in items), default=0)
    width = min(console.width, _MAX_TEXT_WIDTH)
    indent = ' ' * (size + 2 * len(_GAP))
    for label, text in items:
        if width - len(indent) < _MIN_PAIR_WIDTH:
            say(f'{label}: {text}', console, _GAP)
            continue
        first, *more = wrap(text, width, indent, indent)
        line(rich.text.Text.assemble(
            _GAP, (label.ljust(size), 'dim'), first[size + len(_GAP):],
        ), console)
        for piece in more:
            line(rich.text.Text(piece), console)


def line(text: rich.text.Text, console: rich.console.Console) -> None:
    """Print a line, without what would do something to a terminal."""
    # Names are those of files that others wrote.
    text.plain = spelling.printable(text.plain).rstrip()
    console.print(text, soft_wrap=True)
