# SPDX-License-Identifier: Apache-2.0
"""Blocks of pages, for tests that run what a page says.

First of all that is "Make half of a running cloud dedicated". Each block of
that page has a name that says of which step it is: files end in their own
name, such as ``step-5-site.yaml``, all others hold commands.
"""

import dataclasses
import pathlib
import re

PAGE = (pathlib.Path(__file__).parents[2]
        / 'doc' / 'source' / 'half-dedicated.rst')
_BLOCK = re.compile(
    r'^\.\. code-block:: (?P<language>\w+)\n(?:   :name: (?P<name>\S+)\n)?\n'
    r'(?P<text>(?:(?:   .*)?\n)+)', re.MULTILINE)
_PROMPT = re.compile(r'(?:(?:root@(?P<host>[\w-]+))?#|\$) (?P<command>.*)')


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """A block of the page.

    :param name: '' for one that has none
    :param language: what it is coloured as
    """

    name: str
    language: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class PageCommand:
    """A command of the page.

    :param host: where root runs it; '' if its prompt does not say
    :param command: for a shell, on one line
    :param output: the lines that the page shows of it
    """

    host: str
    command: str
    output: tuple[str, ...]


def blocks(page: pathlib.Path = PAGE) -> list[Block]:
    """All blocks of a page, in order."""
    return [
        Block(found['name'] or '', found['language'],
              re.sub('^   ', '', found['text'], flags=re.MULTILINE).rstrip()
              + '\n')
        for found in _BLOCK.finditer(page.read_text())]


def commands(block: Block) -> list[PageCommand]:
    """The commands of a block, in order."""
    found: list[PageCommand] = []
    for line in re.sub(r' *\\\n *', ' ', block.text).splitlines():
        prompt = _PROMPT.fullmatch(line)
        if prompt:
            found.append(PageCommand(prompt['host'] or '', prompt['command'],
                                     ()))
        elif found:
            found[-1] = dataclasses.replace(
                found[-1], output=(*found[-1].output, line))
        else:
            raise ValueError(f'{block.name}: {line!r} is output of nothing')
    return found
