# SPDX-License-Identifier: Apache-2.0
"""What changes in a flavor, printed."""

from collections.abc import Iterable

import rich.console
import rich.text

from nova_pinning.flavors import difference


def show(console: rich.console.Console, head: str, style: str,
         differences: tuple[difference.Difference, ...]) -> None:
    """Print a flavor's name with what goes and comes, a line each.

    :param style: rich's, of the head
    """
    console.print(rich.text.Text(head, style), soft_wrap=True)
    show_steps(difference.lines(differences), console)


def show_steps(steps: Iterable[tuple[str, str]],
               console: rich.console.Console) -> None:
    """Print what goes ('-') and comes ('+'), a line each."""
    for sign, text in steps:
        console.print(
            rich.text.Text(f'  {sign} {text}',
                           'green' if sign == '+' else 'red'),
            soft_wrap=True)
