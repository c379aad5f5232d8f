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

"""Text from a machine's files, made fit for a file that people read."""


def clean(text: str, most: int = 255) -> str:
    """Text on one line, without what could not be printed.

    :param most: characters; what is longer is cut off
    """
    shown = ''.join(letter if letter.isprintable() else '?'
                    for letter in text)
    return shown if len(shown) <= most else f'{shown[:most - 3]}...'
