# SPDX-License-Identifier: Apache-2.0
"""Drawings of hosts, looked at in tests."""

from nova_pinning.presentation import terminal_drawing


def plain(drawn, width=80):
    """The lines on a terminal, without their colours."""
    return [line.plain for line in terminal_drawing.lines(drawn, width)]


def text(drawn, width=80):
    """The same as one text."""
    return '\n'.join(plain(drawn, width)) + '\n'


def tiles(drawn):
    """The tiles of the first state of a drawing's only host."""
    host, = drawn.hosts
    return host.states[0].tiles


def of_style(tiles):
    """The CPUs of each style, as sets."""
    found = {}
    for cpu, tile in tiles.items():
        found.setdefault(str(tile.style), set()).add(cpu)
    return found
