# SPDX-License-Identifier: Apache-2.0
"""What scripts on a host print: files behind their paths, in sections."""

from collections.abc import Iterator

_MARK = '@@ '


def mark(section: str) -> str:
    """The shell command that begins a section."""
    return f"echo '{_MARK}{section}'"


def sections(text: str) -> dict[str, str]:
    """What stands in each section, by its name.

    What comes before the first is not part of any: a login shell may greet.
    """
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(_MARK):
            lines = sections.setdefault(line.removeprefix(_MARK), [])
        else:
            lines.append(line)
    return {name: '\n'.join(lines) for name, lines in sections.items()}


def files(text: str) -> Iterator[tuple[str, str]]:
    """Lines of files with their paths, as ``grep -H`` prints them."""
    for line in text.splitlines():
        path, colon, content = line.partition(':')
        if colon and path.startswith('/'):
            yield path, content
