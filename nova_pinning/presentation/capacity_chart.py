# SPDX-License-Identifier: Apache-2.0


"""A bar chart of what fits, beside what host totals promise."""

from collections.abc import Sequence

from nova_pinning.capacity import capacity
from nova_pinning.presentation import chart_svg
from nova_pinning.presentation import host_structure

_BAR = 0.38
_INCHES_PER_FLAVOR = 0.55
_WIDTH_INCHES = 8


def svg(sizes: Sequence[capacity.FlavorCapacity], title: str) -> str:
    """The chart as an SVG picture, which reads without colour as well.

    :raises errors.InputError: if matplotlib is not there
    """
    with chart_svg.settings():
        from matplotlib import figure
        from matplotlib import ticker
        made = figure.Figure(
            figsize=(_WIDTH_INCHES,
                     1.4 + _INCHES_PER_FLAVOR * max(1, len(sizes))),
            layout='constrained')
        axes = made.subplots()
        rows = range(len(sizes))
        promised = axes.barh(
            [row - _BAR / 2 for row in rows],
            [size.totals for size in sizes], _BAR, color='white',
            edgecolor='0.35', hatch='////', label='by host totals')
        fitting = axes.barh(
            [row + _BAR / 2 for row in rows], [size.fits for size in sizes],
            _BAR, color='0.15', edgecolor='0.15', label='fits')
        for bars, counts in (
                (promised, [size.totals for size in sizes]),
                (fitting, [size.fits for size in sizes])):
            axes.bar_label(bars, [f'{count:,}' for count in counts], padding=3)
        axes.set_yticks(list(rows), [
            host_structure.printable(size.request.name) for size in sizes])
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.xaxis.set_major_locator(ticker.MaxNLocator(
            integer=True))
        axes.xaxis.set_major_formatter(
            ticker.StrMethodFormatter('{x:,.0f}'))
        axes.set_xlabel('further guests')
        axes.set_title(title, loc='left')
        made.legend(loc='outside lower right', ncols=2, frameon=False)
        return chart_svg.render(made)
