# SPDX-License-Identifier: Apache-2.0
"""Host CPUs drawn, for the terminal and as SVG: who uses which.

What the drawings of one guest on one host have in common is in ``plan``.
"""

from nova_pinning.presentation.terminal_drawing import draw_cells
from nova_pinning.presentation.terminal_drawing import DrawnCell
from nova_pinning.presentation.terminal_drawing import FLOATING
from nova_pinning.presentation.terminal_drawing import FREE
from nova_pinning.presentation.terminal_drawing import KEPT
from nova_pinning.presentation.terminal_drawing import Line
from nova_pinning.presentation.terminal_drawing import plain
from nova_pinning.presentation.terminal_drawing import symbols
from nova_pinning.presentation.terminal_drawing import TextSpan
from nova_pinning.presentation.terminal_drawing import TextTile

__all__ = [
    'DrawnCell', 'FLOATING', 'FREE', 'KEPT', 'Line', 'TextSpan', 'TextTile',
    'draw_cells', 'plain', 'symbols',
]
