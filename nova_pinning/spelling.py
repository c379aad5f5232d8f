# SPDX-License-Identifier: Apache-2.0
"""Names and texts of others: which is meant, and how they can be shown."""

from collections.abc import Iterable
import difflib
import os
import re


def nearest(word: str, known: Iterable[str], most: int = 3,
            least_alike: float = 0.6) -> list[str]:
    """Those of the known words that are like one, the most alike first.

    Case does not count, nor whether parts are joined by '-' or '_'.

    :param most: how many at most
    :param least_alike: between 0 and 1, as difflib has it
    """
    names = {_folded(name): name for name in known}
    return [names[near] for near in difflib.get_close_matches(
        _folded(word), names, most, least_alike)]


def did_you_mean(word: str, known: Iterable[str], most: int = 3) -> str:
    """Advice where a word is not one of those known; '' if none is like it."""
    near = nearest(word, known, most)
    return f'did you mean {" or ".join(near)}?' if near else ''


def is_slip(word: str, name: str) -> bool:
    """Whether a word can have been meant as a name, part by part.

    Each part, between '_', '-', ':' and '.', is like that of the name, or one
    part is missing or too much, or what is between them. ``hw:cpu_model`` is
    no slip of ``hw:usb_model``, much as they are alike.
    """
    parts, others = (re.split('[_:.]', _folded(text)) for text in (word, name))
    if _is_alike(''.join(parts), ''.join(others), 0.9):
        return True
    changes = [(kind, parts[first:last], others[start:end]) for
               kind, first, last, start, end in difflib.SequenceMatcher(
                   None, parts, others, False).get_opcodes()
               if kind != 'equal']
    moved = sum(len(left) + len(right) for kind, left, right in changes
                if kind != 'replace')
    return moved <= 1 and all(
        len(left) == len(right) and all(map(_is_alike, left, right))
        for kind, left, right in changes if kind == 'replace')


def is_edit(word: str, name: str) -> bool:
    """Whether one letter is missing, too much, another or has changed places.

    So it is if they are the same.
    """
    start = len(os.path.commonprefix((word, name)))
    left, right = word[start:], name[start:]
    return (left[1:] in (right, right[1:]) or left == right[1:] or
            left[1::-1] + left[2:] == right)


def _is_alike(part: str, other: str, least: float = 0.6) -> bool:
    return difflib.SequenceMatcher(None, part, other).ratio() >= least


def printable(text: str, kept: str = '') -> str:
    """A text that does nothing to a terminal and may stand in XML.

    :param kept: characters that may stay though they are not printable
    """
    if text.isprintable():
        return text
    return ''.join(letter if letter.isprintable() or letter in kept else '?'
                   for letter in text)


def _folded(word: str) -> str:
    return word.casefold().replace('-', '_')
