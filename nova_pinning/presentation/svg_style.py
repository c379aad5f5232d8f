# SPDX-License-Identifier: Apache-2.0
"""What drawings in SVG look like: their texts, and the tiles of CPUs."""

from xml.sax import saxutils

from nova_pinning.presentation import drawing
from nova_pinning.presentation import svg_boxes

CORE_WIDTH = 13
# Bold letters are wider.
_BOLD = 1.1
_DIM = 'fill:#566072'
_SEMIBOLD = 'font-weight:600'
# Sizes in pixels, and what else there is to texts of a kind.
_TEXTS = {
    'title': (22, 'font-weight:700'),
    'sub': (13, _DIM),
    'remark': (14, ''),
    'name': (15, _SEMIBOLD),
    'head': (12.5, _SEMIBOLD),
    'guest': (12, _SEMIBOLD),
    'note': (11.5, _DIM),
    'state': (11.5, f'{_SEMIBOLD};{_DIM}'),
    'small': (9.5, _DIM),
    'legend': (12.5, ''),
    'big': (14, 'font-weight:700'),
    'letter': (11, 'font-weight:700'),
    'row': (10.5, ''),
    'tag': (10.5, 'font-weight:700'),
    'id': (8.5, 'fill:#3c4656'),
}
# White letters on these have a contrast of 4.5 or more (WCAG 2 AA).
_GUEST_COLOURS = ('#1a5fb4', '#a03c00', '#1b6e3c', '#7a3b96',
                  '#8a5a00', '#00687a', '#a1295b', '#4d5566')
_DARK = (drawing.TileStyle.PINNED, drawing.TileStyle.HOST)
# Where the terminal has to do with ASCII, or with a sign for nothing.
_SIGNS = {drawing.TileStyle.TAKEN: '×', drawing.TileStyle.FREE: ''}

# Class names have a prefix: inside an HTML page they hold for the whole page.
_STYLE = ''.join([
    '.np-t{font-family:system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,'
    'Arial,sans-serif;fill:#1d2430}',
    *(f'.np-{kind}{{font-size:{size}px;{more}}}'
      for kind, (size, more) in _TEXTS.items()),
    *(f'.np-pinned{number}{{fill:{colour};stroke:#fff;stroke-width:0.6}}'
      f'.np-guest{number}{{fill:{colour}}}'
      for number, colour in enumerate(_GUEST_COLOURS)),
    '.np-white{fill:#fff}',
    '.np-ground{fill:#fbfcfe;stroke:#c9d0db}',
    '.np-socket{fill:#eef1f6;stroke:#c3cad6}',
    '.np-node{fill:#fff;stroke:#aab4c4}',
    '.np-l3{fill:none;stroke:#8d98aa;stroke-dasharray:4 3}',
    '.np-core{fill:#e3e8f0;stroke:#bcc5d2}',
    '.np-cores{fill:url(#np-core-lines)}',
    '.np-device{fill:#f6f8fb;stroke:#bcc5d2}',
    '.np-sold{fill:#f1f9f2;stroke:#1b6e3c}',
    '.np-badge{fill:#4d5566}',
    '.np-emulator{fill:#ffe08a;stroke:#8a5a00;stroke-width:1.6}',
    '.np-floating{fill:#bfe0fa;stroke:#1a5fb4;stroke-width:1.6;'
    'stroke-dasharray:4 2}',
    '.np-taken{fill:url(#np-hatch);stroke:#6b7585}',
    '.np-free{fill:#fff;stroke:#8d98aa}',
    '.np-host{fill:#4d5566;stroke:#333b49}',
    '.np-poll{fill:url(#np-stripes);stroke:#8a5a00;stroke-width:1.2}',
    '.np-shared{fill:#cdeaf0;stroke:#2f7f8f}',
    '.np-dedicated{fill:#dff2e1;stroke:#1b6e3c}',
    '.np-any{fill:#fff;stroke:#8d98aa;stroke-dasharray:3 2}',
    '.np-kept{fill:url(#np-dots);stroke:#98a2b3}',
])


def _pattern(name: str, width: float, height: float, content: str,
             is_turned: bool = False) -> str:
    turned = ' patternTransform="rotate(45)"' if is_turned else ''
    return (f'<pattern id="np-{name}" width="{width}" height="{height}" '
            f'patternUnits="userSpaceOnUse"{turned}>{content}</pattern>')


#: What stands in the ``defs`` of a drawing.
DEFINITIONS = f'<style>{_STYLE}</style>' + ''.join((
    _pattern('stripes', 7, 7, '<rect width="7" height="7" fill="#ffe9ab"/>'
             '<rect width="2.5" height="7" fill="#fbd977"/>', True),
    _pattern('hatch', 6, 6, '<rect width="6" height="6" fill="#e4e7ec"/>'
             '<rect width="1.8" height="6" fill="#c3c9d3"/>', True),
    _pattern('dots', 5, 5, '<rect width="5" height="5" fill="#e6e9ee"/>'
             '<circle cx="2.5" cy="2.5" r="0.8" fill="#b6bdc9"/>'),
    _pattern('core-lines', CORE_WIDTH, 8, '<rect width="0.7" height="8" '
             'fill="#1d2430" fill-opacity="0.16"/>')))


def tile_class(tile: drawing.Tile) -> str:
    """The class of a tile's rectangle."""
    return f'np-{tile.style}' + (
        str(tile.guest % len(_GUEST_COLOURS))
        if tile.style is drawing.TileStyle.PINNED else '')


def is_dark(tile: drawing.Tile) -> bool:
    """Whether letters on it are white."""
    return tile.style in _DARK


def sign(tile: drawing.Tile) -> str:
    """The sign in the middle of a tile."""
    return _SIGNS.get(tile.style, tile.sign)


def text(content: str, kind: str, x: float, y: float, anchor: str = '',
         is_white: bool = False, colour: int | None = None) -> str:
    """A line of text with its base line at y.

    :param colour: the number of a guest whose colour it has
    """
    style = f'np-t np-{kind}' + (' np-white' if is_white else '')
    if colour is not None:
        style += f' np-guest{colour % len(_GUEST_COLOURS)}'
    number = svg_boxes.number
    anchored = f' text-anchor="{anchor}"' if anchor else ''
    return (f'<text class="{style}" x="{number(x)}" y="{number(y)}"{anchored}>'
            f'{saxutils.escape(content)}</text>') if content else ''


def paragraph(content: str, kind: str, width: float) -> svg_boxes.SvgBox:
    """A text over as many lines as it takes, no wider than it has to be."""
    size = _size(kind)
    step = round(size * 1.3)
    lines = svg_boxes.wrap(content, width, size)
    return svg_boxes.SvgBox(
        max(svg_boxes.text_width(line, size) for line in lines),
        step * len(lines), ''.join(
            text(line, kind, 0, step * number + size)
            for number, line in enumerate(lines)))


def width(content: str, kind: str) -> float:
    """About how wide a text is."""
    return svg_boxes.text_width(content, _size(kind))


def shorten(content: str, kind: str, width: float) -> str:
    """A text, cut off where it would be wider than that."""
    return svg_boxes.shorten(content, width, _size(kind))


def _size(kind: str) -> float:
    size, more = _TEXTS[kind]
    return size * _BOLD if 'weight' in more else size
