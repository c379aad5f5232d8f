# SPDX-License-Identifier: Apache-2.0
"""Command lines that stand in texts, and the parsers of our commands."""

import argparse
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import importlib.metadata
import re
import shlex

#: The groups of entry points of our commands, with the programs they are of.
GROUPS = {'nova_pinning.cli': 'nova-pinning',
          'openstack.pinning.v1': 'openstack'}
_ENDS = ('|', '>', ';', '&&')


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The name of each command, and its parser."""
    for group, program in GROUPS.items():
        for entry in importlib.metadata.entry_points(group=group):
            if not entry.value.startswith('nova_pinning.'):
                # cliff's own.
                continue
            name = f'{program} {entry.name.replace("_", " ")}'
            yield name, entry.load()(None, None).get_parser(name)


def name_of(words: Sequence[str], names: Iterable[str]) -> str | None:
    """Which of the commands a line calls, None if none."""
    return max((name for name in names
                if list(words[:len(name.split())]) == name.split()),
               key=len, default=None)


def joined(text: str) -> list[str]:
    """The lines of a text, those that go on in the next one put together."""
    return re.sub(r'\s*\\\n\s*', ' ', text).splitlines()


def commands(line: str) -> Iterator[list[str]]:
    """The words of each command of ours in a line for a shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars='|>;&')
    lexer.whitespace_split = True
    words: list[str] = []
    for word in (*lexer, ';'):
        if word not in _ENDS:
            words.append(word)
            continue
        if words[:1] == ['sudo']:
            del words[0]
        if words[1:2] == ['--os-cloud']:
            del words[1:3]
        if words[:1] == ['nova-pinning'] or (
                words[:2] == ['openstack', 'pinning']):
            yield words
        # What output goes to is no command.
        words = ['>'] if word == '>' else []
