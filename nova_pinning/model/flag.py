# SPDX-License-Identifier: Apache-2.0
"""Words for yes and no, as nova takes them in metadata and extra specs.

nova leaves them to oslo_utils.strutils.bool_from_string, which takes longer to
load than a command takes to answer.
"""

from __future__ import annotations

_WORDS = dict.fromkeys(('1', 't', 'true', 'on', 'y', 'yes'), True) | (
    dict.fromkeys(('0', 'f', 'false', 'off', 'n', 'no'), False))


def parse(text: str) -> bool | None:
    """What a text says, in upper or lower case; None if it is neither."""
    return _WORDS.get(text.strip().lower())
