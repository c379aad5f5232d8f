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

"""What changes in a flavor, printed."""

import rich.console
import rich.text

from nova_pinning.flavors import difference


def show(console: rich.console.Console, head: str, style: str,
         found: tuple[difference.Difference, ...]) -> None:
    """Print a flavor's name with what goes and comes, a line each.

    :param style: rich's, of the head
    """
    console.print(rich.text.Text(head, style), soft_wrap=True)
    for sign, text in difference.lines(found):
        console.print(
            rich.text.Text(f'  {sign} {text}',
                           'green' if sign == '+' else 'red'),
            soft_wrap=True)
