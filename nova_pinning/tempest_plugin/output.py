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

"""What scripts on a host print: files behind their paths, in sections."""

from collections.abc import Iterator

_MARK = '@@ '


def mark(section: str) -> str:
    """The shell command that begins a section."""
    return f"echo '{_MARK}{section}'"


def sections(text: str) -> dict[str, str]:
    """What stands in each section, by its name.

    What comes before the first is no part of any: a login shell may greet.
    """
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(_MARK):
            lines = found.setdefault(line.removeprefix(_MARK), [])
        else:
            lines.append(line)
    return {name: '\n'.join(lines) for name, lines in found.items()}


def files(text: str) -> Iterator[tuple[str, str]]:
    """Lines of files with their paths, as ``grep -H`` prints them."""
    for line in text.splitlines():
        path, colon, content = line.partition(':')
        if colon and path.startswith('/'):
            yield path, content
