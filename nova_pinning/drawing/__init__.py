#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Host CPUs drawn, for the terminal and as SVG: who uses which.

What the drawings of one guest on one host have in common is in ``plan``.
"""

from nova_pinning.drawing.plan import Placement
from nova_pinning.drawing.terminal import Cell
from nova_pinning.drawing.terminal import draw_cells
from nova_pinning.drawing.terminal import FLOATING
from nova_pinning.drawing.terminal import FREE
from nova_pinning.drawing.terminal import KEPT
from nova_pinning.drawing.terminal import Line
from nova_pinning.drawing.terminal import plain
from nova_pinning.drawing.terminal import Span
from nova_pinning.drawing.terminal import symbols
from nova_pinning.drawing.terminal import Tile

__all__ = [
    'Cell', 'FLOATING', 'FREE', 'KEPT', 'Line', 'Placement', 'Span', 'Tile',
    'draw_cells', 'plain', 'symbols',
]
