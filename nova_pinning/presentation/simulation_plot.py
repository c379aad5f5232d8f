# SPDX-License-Identifier: Apache-2.0
"""CPUs sold over time, drawn with matplotlib."""

from collections.abc import Sequence
import io
import re

from nova_pinning import extras
from nova_pinning.presentation import simulation_report
from nova_pinning.simulation import simulation_run

# Text stays text, which takes less room, and a picture is the same each time
# it is drawn. Names may have what would be taken for mathematics.
_SETTINGS = {
    'svg.fonttype': 'none', 'svg.hashsalt': 'nova-pinning',
    'text.parse_math': False, 'font.size': 10,
    'axes.spines.top': False, 'axes.spines.right': False}
# Lines differ in colour, in dashes and in marks, so that any one will do.
_COLOURS = ('#0072b2', '#d55e00', '#009e73', '#000000', '#cc79a7', '#e69f00',
            '#56b4e9', '#7f7f7f')
_DASHES = ('-', '--', '-.', ':', (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)),
           (0, (7, 3)))
_MARKS = 'osD^vPX*'
_MARKS_A_LINE = 9


def check() -> None:
    """Make sure that a chart can be drawn.

    :raises errors.InputError: if matplotlib is not installed
    """
    extras.need('a chart', 'matplotlib')


def svg(results: Sequence[simulation_run.Result], names: Sequence[str]) -> str:
    """Two pictures, one above the other: CPUs sold, and CPUs stranded.

    :raises errors.InputError: if matplotlib is not installed
    """
    check()
    import matplotlib
    from matplotlib import figure as matplotlib_figure
    from matplotlib import ticker

    with matplotlib.rc_context(_SETTINGS):
        figure = matplotlib_figure.Figure(
            figsize=(9, 7), layout='constrained')
        sold, stranded = figure.subplots(
            2, sharex=True, height_ratios=(3, 2))
        for number, name in enumerate(names):
            points = list(simulation_report.curve(results, name))
            if not points:
                continue
            style = {
                'color': _COLOURS[number % len(_COLOURS)],
                'linestyle': _DASHES[number % len(_DASHES)],
                'marker': _MARKS[number % len(_MARKS)], 'markersize': 5,
                # Marks of different lines next to each other, not on top.
                'markevery': (
                    number * max(1, len(points) // 40),
                    max(1, len(points) // _MARKS_A_LINE)),
                'linewidth': 1.6, 'label': name}
            arrivals = [point.arrivals for point in points]
            for axes, estimates in (
                    (sold, [point.sold for point in points]),
                    (stranded, [point.stranded for point in points])):
                means = [100 * estimate.mean for estimate in estimates]
                errors_of = [
                    100 * (estimate.error or 0) for estimate in estimates]
                axes.plot(arrivals, means, **style)
                axes.fill_between(
                    arrivals,
                    [mean - error for mean, error in zip(means, errors_of)],
                    [mean + error for mean, error in zip(means, errors_of)],
                    color=style['color'], alpha=0.18, linewidth=0)
        seeds = len({result.seed for result in results})
        sold.set_ylabel('Dedicated CPUs sold (%)')
        stranded.set_ylabel('Stranded (%)')
        stranded.set_xlabel('Arrivals')
        stranded.xaxis.set_major_formatter(
            ticker.FuncFormatter(lambda value, _position: f'{value:,.0f}'))
        for axes in (sold, stranded):
            axes.grid(axis='y', linewidth=0.4, alpha=0.6)
            axes.set_ylim(0, min(100, axes.get_ylim()[1]))
        if sold.get_lines():
            sold.legend()
        figure.suptitle('Dedicated CPUs that each configuration of the '
                        'scheduler sells, and strands', x=0.01, ha='left')
        sold.set_title(
            'One seed' if seeds == 1 else
            f'Means over {seeds} seeds, with 95% confidence intervals',
            fontsize=10, loc='left')
        text = io.StringIO()
        figure.savefig(text, format='svg', metadata={'Date': None})
    # Hundredths of a point are fine enough, and a third of the size. What is
    # written between the tags is for people.
    short = re.sub(
        r'<[^>]+>', lambda tag: re.sub(r'(\d\.\d\d)\d+', r'\1', tag[0]),
        text.getvalue())
    return re.sub(r' +$', '', short, flags=re.MULTILINE)
