# SPDX-License-Identifier: Apache-2.0
"""Names and texts of others: which is meant, and how they can be shown."""

from collections.abc import Iterable
import difflib


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
