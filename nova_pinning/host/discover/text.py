# SPDX-License-Identifier: Apache-2.0
"""Text from a machine's files, made fit for a file that people read."""

from nova_pinning import spelling


def clean(text: str, most: int = 255) -> str:
    """Text on one line, without what could not be printed.

    :param most: characters; what is longer is cut off
    """
    shown = spelling.printable(text)
    return shown if len(shown) <= most else f'{shown[:most - 3]}...'
