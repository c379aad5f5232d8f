# SPDX-License-Identifier: Apache-2.0
"""Drawings on a console."""

from collections.abc import Callable
from collections.abc import Iterable

import rich.console
import rich.text

from nova_pinning import presentation


def show(console: rich.console.Console, lines: Iterable[presentation.Line],
         style: Callable[[str], str]) -> None:
    """Print a drawing.

    :param style: what rich shows a mark as
    """
    for line in lines:
        console.print(rich.text.Text.assemble(*(
            (span.text, style(span.mark)) for span in line)), soft_wrap=True)
