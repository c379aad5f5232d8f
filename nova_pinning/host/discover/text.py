# SPDX-License-Identifier: Apache-2.0
"""Text from a machine's files, made fit for a file that people read."""


def clean(text: str, most: int = 255) -> str:
    """Text on one line, without what could not be printed.

    :param most: characters; what is longer is cut off
    """
    shown = ''.join(letter if letter.isprintable() else '?'
                    for letter in text)
    return shown if len(shown) <= most else f'{shown[:most - 3]}...'
