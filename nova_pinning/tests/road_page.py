# SPDX-License-Identifier: Apache-2.0
"""Blocks of pages, for tests that run what a page says.

First of all that is "Make half of a running cloud dedicated". Each block of
that page has a name that says of which step it is: files end in their own
name, such as ``step-5-site.yaml``, all others hold commands.
"""

from collections.abc import Sequence
import dataclasses
import pathlib
import re

PAGE = (pathlib.Path(__file__).parents[2]
        / 'doc' / 'source' / 'half-dedicated.rst')
_BLOCK = re.compile(
    r'^\.\. code-block:: (?P<language>\w+)\n(?:   :name: (?P<name>\S+)\n)?\n'
    r'(?P<text>(?:(?:   .*)?\n)+)', re.MULTILINE)
_PROMPT = re.compile(r'(?:(?:root@(?P<host>[\w-]+))?#|\$) (?P<command>.*)')
_LEFT_OUT = '...'
_FIGURE = re.compile(r'\d[\d,.%-]*')
# What may stand behind a figure or a unit.
_ENDS = ',.:;'
_UNITS = (('KiB', 'MiB', 'GiB', 'TiB'), ('s', 'min', 'h'))


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


def missing(shown: Sequence[str], said: str) -> str:
    """What a command has not printed of what the page shows of it.

    Figures and their units may be others, and so may the space between words.

    :param shown: the lines of the page
    :param said: all that was printed
    :returns: the first words that are not there, '' if there are none
    """
    position = 0
    for text in ' '.join(('', *shown)).split(f' {_LEFT_OUT}'):
        found = re.compile(r'\s+'.join(map(_pattern, text.split()))).search(
            said, position)
        if found is None:
            return text
        position = found.end()
    return ''


def _pattern(word: str) -> str:
    """What matches a word of the page."""
    before, dots, after = word.partition(_LEFT_OUT)
    if dots:
        # Such as a UUID, of which the page has the beginning.
        return r'\S+' + re.escape(after) if after else re.escape(before)
    bare = word.rstrip(_ENDS)
    end = re.escape(word.removeprefix(bare))
    if _FIGURE.fullmatch(bare):
        return r'\d\S*?' + end
    for units in _UNITS:
        if bare in units:
            return f'(?:{"|".join(units)}){end}'
    return re.escape(word)
