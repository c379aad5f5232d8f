# SPDX-License-Identifier: Apache-2.0
"""What all charts have in common; matplotlib draws them."""

from collections.abc import Iterator
import contextlib
import io
import re
from typing import Any

from nova_pinning import extras

# Text stays text, which takes less room, and a picture is the same each time
# it is drawn. Names may have what would be taken for mathematics.
_SETTINGS = {
    'svg.fonttype': 'none', 'svg.hashsalt': 'nova-pinning',
    'text.parse_math': False, 'font.size': 10,
    'axes.spines.top': False, 'axes.spines.right': False}


def check() -> None:
    """Make sure that a chart can be drawn.

    :raises errors.InputError: if matplotlib is not installed
    """
    extras.need('a chart', 'matplotlib')


@contextlib.contextmanager
def settings() -> Iterator[None]:
    """What a chart has to be made and rendered under.

    :raises errors.InputError: if matplotlib is not installed
    """
    check()
    import matplotlib

    with matplotlib.rc_context(_SETTINGS):
        yield


def render(figure: Any) -> str:
    """A matplotlib.figure.Figure as SVG."""
    text = io.StringIO()
    figure.savefig(text, format='svg', metadata={'Date': None})
    # Hundredths of a point are fine enough, and a third of the size. What is
    # written between the tags is for people.
    short = re.sub(
        r'<[^>]+>', lambda tag: re.sub(r'(\d\.\d\d)\d+', r'\1', tag[0]),
        text.getvalue())
    return re.sub(r' +$', '', short, flags=re.MULTILINE)
