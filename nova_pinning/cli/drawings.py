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

"""Drawings on a console."""

from collections.abc import Callable
from collections.abc import Iterable

import rich.console
import rich.text

from nova_pinning import drawing


def show(console: rich.console.Console, lines: Iterable[drawing.Line],
         style: Callable[[str], str]) -> None:
    """Print a drawing.

    :param style: what rich shows a mark as
    """
    for line in lines:
        console.print(rich.text.Text.assemble(*(
            (span.text, style(span.mark)) for span in line)), soft_wrap=True)
