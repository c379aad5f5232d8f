# SPDX-License-Identifier: Apache-2.0
"""What changes in a flavor, printed."""

import rich.console
import rich.text

from nova_pinning.flavors import difference


def show(console: rich.console.Console, head: str, style: str,
         differences: tuple[difference.Difference, ...]) -> None:
    """Print a flavor's name with what goes and comes, a line each.

    :param style: rich's, of the head
    """
    console.print(rich.text.Text(head, style), soft_wrap=True)
    for sign, text in difference.lines(differences):
        console.print(
            rich.text.Text(f'  {sign} {text}',
                           'green' if sign == '+' else 'red'),
            soft_wrap=True)
