#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.


"""A bar chart of what fits, beside what host totals promise."""

from collections.abc import Sequence

from nova_pinning.drawing import charts
from nova_pinning.drawing import topology
from nova_pinning.fleet.capacity import capacity

_BAR = 0.38
_INCHES_PER_FLAVOR = 0.55
_WIDTH_INCHES = 8


def svg(sizes: Sequence[capacity.Size], title: str) -> str:
    """The chart as an SVG picture, which reads without colour as well.

    :raises errors.InputError: if matplotlib is not there
    """
    with charts.settings():
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
            axes.bar_label(bars, [f'{one:,}' for one in counts], padding=3)
        axes.set_yticks(list(rows), [
            topology.printable(size.wanted.name) for size in sizes])
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.xaxis.set_major_locator(ticker.MaxNLocator(
            integer=True))
        axes.xaxis.set_major_formatter(
            ticker.StrMethodFormatter('{x:,.0f}'))
        axes.set_xlabel('further guests')
        axes.set_title(title, loc='left')
        made.legend(loc='outside lower right', ncols=2, frameon=False)
        return charts.render(made)
