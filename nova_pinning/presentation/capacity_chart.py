# SPDX-License-Identifier: Apache-2.0


"""A bar chart of what fits, as shares of what host totals promise.

Counts would squeeze the large flavors, of which few fit, beside small ones.
"""

from collections.abc import Sequence

from nova_pinning.capacity import capacity
from nova_pinning.presentation import chart_svg
from nova_pinning import spelling

_BAR = 0.6
_INCHES_PER_FLAVOR = 0.38
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
                     1.5 + _INCHES_PER_FLAVOR * max(1, len(sizes))),
            layout='constrained')
        axes = made.subplots()
        rows = range(len(sizes))
        axes.barh(
            rows, [100 if size.totals else 0 for size in sizes], _BAR,
            color='white', edgecolor='0.35', hatch='////',
            label='promised by host totals')
        axes.barh(
            rows, [100 * size.fits / size.totals if size.totals else 0
                   for size in sizes], _BAR, color='0.15', edgecolor='0.15',
            label='fits')
        for row, size in enumerate(sizes):
            axes.annotate(
                f'{size.fits:,} of {size.totals:,}', (1, row), (6, 0),
                xycoords=('axes fraction', 'data'),
                textcoords='offset points', va='center')
        axes.set_yticks(list(rows), [
            spelling.printable(size.request.name) for size in sizes])
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.xaxis.set_major_formatter(ticker.PercentFormatter())
        axes.set_xlabel('share of what host totals promise that fits')
        made.suptitle(title, x=0.01, ha='left', size='large')
        axes.legend(loc='lower left', bbox_to_anchor=(0, 1), ncols=2,
                    frameon=False, borderaxespad=0.2)
        return chart_svg.render(made)
