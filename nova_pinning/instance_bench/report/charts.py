# SPDX-License-Identifier: Apache-2.0
"""Charts of a run as pieces of SVG, to stand in a page.

Colours are the page's own variables, so that a chart goes with light and dark
alike; series also differ by marker and line style, and are named where they
are.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import html
import itertools
import math
import re
import textwrap
from typing import Any

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.report import answer
from nova_pinning.instance_bench.report import run_claims
from nova_pinning.instance_bench.report import run_tables
from nova_pinning.instance_bench.report import words
from nova_pinning.instance_bench import statistics
from nova_pinning.presentation import chart_svg

# Stand-ins for colours: what matplotlib draws with, and what the page calls
# it.
_INK = '#010101'
_FAINT = '#010102'
_SERIES = tuple(f'#0201{number:02x}' for number in range(8))
_VARIABLES = {_INK: '--ink', _FAINT: '--faint', **{
    colour: f'--series-{number}' for number, colour in enumerate(_SERIES)}}
_MARKERS = 'osD^vPX*'
_LINES = ('-', '--', '-.', ':', (0, (5, 1)), (0, (3, 1, 1, 1)),
          (0, (1, 1)), (0, (8, 2)))
_WIDTH = 8.2
_NARROW = 4.6
_ROW = 0.38
_SMALL = 1.15
_LABEL = 34
_MOST_BARS = 16
# CPUs that have a line each, and of what has not the columns and shades.
_MOST_LINES = 16
_MOST_COLUMNS = 60
_SHADES = 4
_SETTINGS = {
    'text.color': _INK, 'axes.labelcolor': _INK, 'axes.edgecolor': _INK,
    'xtick.color': _INK, 'ytick.color': _INK, 'grid.color': _FAINT,
    'grid.linewidth': 0.7, 'axes.grid.axis': 'x', 'legend.frameon': False,
    'savefig.transparent': True, 'lines.linewidth': 1.6}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture.

    :param svg: an element to stand in HTML
    """

    title: str
    svg: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Style:
    colour: str
    marker: str
    line: Any


def draw(summary: statistics.RunSummary, prefix: str) -> tuple[Chart, ...]:
    """All charts of a run.

    :param prefix: of all names in them, unique in the page
    :raises nova_pinning.errors.InputError: if matplotlib is not installed
    """
    with chart_svg.settings():
        import matplotlib

        with matplotlib.rc_context(_SETTINGS):
            return tuple(
                dataclasses.replace(chart, svg=_inline(
                    chart.svg, f'{prefix}-{number}-', chart.title))
                for number, chart in enumerate(_drawn(summary)))


def _drawn(summary: statistics.RunSummary) -> list[Chart]:
    kind = summary.experiment.table
    styles = _styles(map(run_tables.series, summary.rows))
    cpus = summary.host_cpus
    charts = []
    for group in run_tables.main_groups(summary):
        rows = [row for row in group if row.overhead is not None]
        if kind == 'overhead' and len({
                row.tenant.size.vcpus for row in rows}) > 1:
            charts.append(_lines(
                summary, rows, styles, (
                    lambda row: row.tenant.size.vcpus / (cpus or 1)),
                'CHR: CPUs of the instance / CPUs of the host'
                if cpus else 'vCPUs', run_tables.overhead_title(rows[0])))
        elif kind == 'ladder' and len({
                run_claims.tenant_threads(row.tenant) for row in rows}) > 1:
            charts.append(_lines(
                summary, rows, styles,
                lambda row: run_claims.tenant_threads(row.tenant), 'threads',
                run_tables.title(rows)))
        else:
            charts.append(_strip(group, styles))
    if kind == 'levels':
        charts.extend(_utilisations(summary))
    return charts


def picture(found: answer.ExperimentAnswer, prefix: str) -> str:
    """The answer's as SVG to stand in HTML, '' if there is nothing to draw."""
    import matplotlib

    bars = [bar for bar in found.bars if bar.ratio.value > 0]
    if not bars:
        return ''
    note = ''
    if len(bars) > _MOST_BARS:
        note = f' ({_MOST_BARS} of {len(bars)}, those furthest from 1)'
        least = sorted(map(_distance, bars))[-_MOST_BARS]
        bars = [bar for bar in bars if _distance(bar) >= least]
    with chart_svg.settings(), matplotlib.rc_context(_SETTINGS):
        svg = _ratios(bars, found.axis + note)
    return _inline(svg, f'{prefix}-answer-', found.sentence)


def _distance(bar: answer.Bar) -> float:
    return abs(math.log(bar.ratio.value))


def _ratios(bars: Sequence[answer.Bar], axis: str) -> str:
    """A line for each ratio and its interval, about 1."""
    from matplotlib import ticker

    figure = _figure(len(bars), narrow=True)
    axes = figure.add_subplot()
    axes.axvline(1, color=_INK, linewidth=1)
    styles = _styles(bar.kind for bar in bars)
    for index, bar in enumerate(bars):
        style = styles[bar.kind]
        if bar.ratio.is_known and not bar.ratio.is_vague:
            axes.plot([bar.ratio.low, bar.ratio.high], [index, index], '-',
                      color=style.colour, linewidth=2.4)
        axes.plot([bar.ratio.value], [index], style.marker,
                  color=style.colour, markeredgecolor=_INK, markersize=7)
    axes.set_xscale('log')
    _rows(axes, [
        f'{textwrap.fill(bar.label, _LABEL - 6)}\n{words.ratio(bar.ratio)}'
        for bar in bars])
    ends = [end for bar in bars for end in (
        bar.ratio.value, bar.ratio.low, bar.ratio.high)
        if end > 0 and not bar.ratio.is_vague]
    low, high = min([1.0, *ends]) / 1.05, max([1.0, *ends]) * 1.05
    axes.set_xlim(low, high)
    if high / low < 20:
        axes.xaxis.set_major_locator(ticker.MaxNLocator(5))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.set_xlabel(textwrap.fill(axis, _LABEL))
    if len(styles) > 1:
        _legend(figure, styles, 2)
    return chart_svg.render(figure)


def _styles(names: Iterable[str]) -> dict[str, _Style]:
    """Of each name its own, as far as there are any."""
    return {name: _Style(_SERIES[index % len(_SERIES)],
                         _MARKERS[index % len(_MARKERS)],
                         _LINES[index % len(_LINES)])
            for index, name in enumerate(dict.fromkeys(names))}


def _figure(rows: int, height: float | None = None,
            narrow: bool = False) -> Any:
    """A figure for so many rows, or of a height in inches.

    :param narrow: for rows of two lines, to be read on a telephone
    """
    import matplotlib.figure

    return matplotlib.figure.Figure(
        figsize=(_NARROW if narrow else _WIDTH,
                 height or 1.2 + _ROW * rows * (1 + narrow / 4)),
        layout='constrained')


def _wrapped(label: Sequence[str]) -> str:
    return textwrap.fill(', '.join(filter(None, label)), _LABEL)


def _dots(axes: Any, height: float, estimate: statistics.FigureEstimate,
          style: _Style) -> None:
    """All values, outliers crossed out, and their mean with its interval."""
    outliers = set(estimate.outliers)
    for is_outlier in (False, True):
        chosen = [(value, height + _jitter(number))
                  for number, value in enumerate(estimate.values)
                  if (value in outliers) is is_outlier]
        if chosen:
            axes.plot(*zip(*chosen), 'x' if is_outlier else 'o',
                      color=style.colour, markersize=6 if is_outlier else 4.5,
                      alpha=1 if is_outlier else 0.75,
                      markeredgewidth=1.2 if is_outlier else 0,
                      linestyle='none')
    interval = estimate.interval
    if interval.is_known:
        axes.plot([interval.low, interval.high], [height, height], '-',
                  color=_INK, linewidth=2.2, solid_capstyle='butt')
    axes.plot([estimate.mean], [height], style.marker, color=style.colour,
              markeredgecolor=_INK, markersize=7)


def _jitter(number: int) -> float:
    """Where a value is beside its row: spread evenly, the same each time."""
    return ((number * 0.618) % 1 - 0.5) * 0.5


def _strip(group: run_tables.Group, styles: dict[str, _Style]) -> Chart:
    """A row for each case."""
    figure = _figure(len(group))
    axes = figure.add_subplot()
    labels = [_wrapped(label) for label in run_tables.labels(group)]
    for index, row in enumerate(group):
        _dots(axes, index, row.estimate, styles[run_tables.series(row)])
        axes.annotate(
            words.number(row.estimate.mean), (1.01, index),
            xycoords=('axes fraction', 'data'), va='center')
    _rows(axes, labels)
    what = group[0].figure
    axes.set_xlabel(f'{what.name}, {what.unit} ({what.better} is better)')
    shown = {name: styles[name] for name in map(run_tables.series, group)}
    if len(shown) > 1:
        _legend(figure, shown)
    return Chart(title=run_tables.title(group), svg=chart_svg.render(figure))


def _utilisations(summary: statistics.RunSummary) -> Iterator[Chart]:
    """How busy CPUs were over time, by what they are for: one a workload.

    Of each case the last measurement: a thin line for each CPU and a thick one
    for the mean of those that are for the same; of many CPUs a row each, the
    darker the busier.
    """
    conditions = summary.conditions
    layout = {name: cpus for name, cpus in conditions.layout.items()
              if cpus and name != 'host'} if conditions else {}
    last = {measurement.key: measurement
            for measurement in summary.results.measurements
            if len(measurement.utilisation) > 1}
    by_workload: dict[str, list[bench_model.Case]] = {}
    for case in summary.experiment.cases:
        if case.key in last:
            by_workload.setdefault(case.tenants[0].workload, []).append(case)
    for workload, cases in by_workload.items() if layout else ():
        rows = sum(map(len, layout.values()))
        figure = _figure(0, 0.7 + len(cases) * (
            _SMALL if rows <= _MOST_LINES else max(_SMALL, 0.03 * rows)))
        for index, (case, axes) in enumerate(zip(
                cases, figure.subplots(len(cases), sharex=True,
                                       squeeze=False)[:, 0])):
            _busy(axes, last[case.key].utilisation, layout)
            axes.set_title(summary.name(case), loc='left', fontsize='small')
            if not index and rows <= _MOST_LINES:
                axes.legend(fontsize='small')
        axes.set_xlabel('seconds' if rows <= _MOST_LINES else
                        'seconds; the darker, the busier')
        yield Chart(
            title=f'{workload}: how busy CPUs were, %',
            svg=chart_svg.render(figure))


def _busy(axes: Any, samples: Sequence[bench_model.UtilisationSample],
          layout: Mapping[str, cpuset.CpuSet]) -> None:
    if sum(map(len, layout.values())) > _MOST_LINES:
        _shades(axes, samples, layout)
        return
    seconds = [sample.seconds for sample in samples]
    for number, (name, cpus) in enumerate(layout.items()):
        of_cpus = [[100 * sample.busy.get(str(cpu), 0.0) for sample in samples]
                   for cpu in cpus]
        colour = _SERIES[number % len(_SERIES)]
        axes.plot(seconds, [sum(part) / len(part) for part in zip(*of_cpus)],
                  _LINES[number % len(_LINES)], color=colour,
                  label=f'{name} CPUs {cpus}')
        for heights in of_cpus if len(cpus) > 1 else ():
            axes.plot(seconds, heights, '-', color=colour, linewidth=0.6,
                      alpha=0.7)
    axes.set_ylim(0, 105)
    axes.set_yticks([0, 50, 100])


def _shades(axes: Any, samples: Sequence[bench_model.UtilisationSample],
            layout: Mapping[str, cpuset.CpuSet]) -> None:
    """A row for each CPU, in as many shades of what it is for.

    All boxes of a shade are one path, which takes least room in the page.
    """
    from matplotlib import patches
    from matplotlib import path

    step = -(-len(samples) // _MOST_COLUMNS)
    columns = [samples[first:first + step]
               for first in range(0, len(samples), step)]
    ends = [column[-1].seconds for column in columns]
    row, ticks = 0, []
    for number, (name, cpus) in enumerate(layout.items()):
        ticks.append((row + len(cpus) / 2, f'{name}\nCPUs {cpus}'))
        boxes: dict[int, list[path.Path]] = {}
        for cpu in cpus:
            shades = [round(_SHADES * sum(
                sample.busy.get(str(cpu), 0.0) for sample in column)
                / len(column)) for column in columns]
            start = 0.0
            for shade, group in itertools.groupby(
                    zip(shades, ends), lambda pair: pair[0]):
                end = list(group)[-1][1]
                boxes.setdefault(shade, []).append(path.Path(
                    [(start, row), (end, row), (end, row + 1),
                     (start, row + 1), (start, row)], closed=True))
                start = end
            row += 1
        for shade, paths in boxes.items():
            if shade:
                axes.add_patch(patches.PathPatch(
                    path.Path.make_compound_path(*paths), linewidth=0,
                    facecolor=_SERIES[number % len(_SERIES)],
                    alpha=shade / _SHADES))
    axes.set_xlim(0, ends[-1])
    axes.set_ylim(row, 0)
    axes.set_yticks([place for place, _name in ticks],
                    [name for _place, name in ticks])


def _rows(axes: Any, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(axis='y', length=0)
    axes.spines['left'].set_visible(False)
    axes.grid(True)
    axes.set_axisbelow(True)
    if axes.get_xscale() == 'linear':
        axes.locator_params(axis='x', nbins=7)
    axes.xaxis.set_major_formatter(lambda value, _position: f'{value:,.10g}')


def _legend(figure: Any, series: Mapping[str, _Style],
            columns: int = 4) -> None:
    from matplotlib import lines

    figure.legend(handles=[
        lines.Line2D([], [], color=style.colour, marker=style.marker,
                     markeredgecolor=_INK, linestyle='none', label=name)
        for name, style in series.items()], loc='outside lower center',
        ncols=min(len(series), columns))


def _lines(summary: statistics.RunSummary,
           rows: Sequence[statistics.FigureRow], styles: dict[str, _Style],
           position: Callable[[statistics.FigureRow],
                              float], what: str, title: str) -> Chart:
    """Ratios to the baseline over a figure of the cases."""
    from matplotlib import ticker

    figure = _figure(0, 4.2)
    axes = figure.add_subplot()
    axes.axhline(1, color=_INK, linewidth=1)
    bases = {(row.case.name, row.figure.name): row.estimate.mean
             for row in summary.rows}
    ends: list[tuple[float, str, str]] = []
    positions = sorted({position(row) for row in rows})
    names = list(dict.fromkeys(map(run_tables.series, rows)))
    for number, name in enumerate(names):
        style = styles[name]
        # Beside each other, lest intervals hide each other.
        shift = 1 + 0.03 * (number - (len(names) - 1) / 2)
        own = sorted((row for row in rows if run_tables.series(row) == name),
                     key=position)
        for row in own:
            base = bases[row.baseline, row.figure.name]
            _ratio_dots(axes, position(row) * shift, row, base, style)
        heights = [row.overhead.value for row in own if row.overhead]
        axes.plot([position(row) * shift for row in own], heights,
                  linestyle=style.line, marker=style.marker,
                  color=style.colour, markeredgecolor=_INK, markersize=7)
        if heights:
            ends.append((heights[-1], name, style.colour))
    axes.set_xscale('log')
    axes.set_xticks(positions, [
        words.number(tick, 2) if tick < 1 else f'{tick:g}'
        for tick in positions])
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_locator(ticker.MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.grid(True, axis='both')
    axes.set_axisbelow(True)
    axes.set_xlabel(what)
    axes.set_ylabel('against the baseline (above 1: worse)')
    _end_labels(axes, ends)
    return Chart(title=title, svg=chart_svg.render(figure))


def _ratio_dots(axes: Any, height: float, row: statistics.FigureRow,
                base: float, style: _Style) -> None:
    is_higher = row.figure.better is bench_model.Better.HIGHER
    values = [base / value if is_higher else value / base
              for value in row.estimate.values if value and base]
    axes.plot([height * (1 + 0.03 * _jitter(number))
               for number in range(len(values))], values, 'o',
              color=style.colour, markersize=4.5, alpha=0.75,
              markeredgewidth=0, linestyle='none')
    if row.overhead is not None and row.overhead.is_known:
        axes.plot([height, height], [row.overhead.low, row.overhead.high], '-',
                  color=style.colour, linewidth=2.4)


def _end_labels(axes: Any, ends: Sequence[tuple[float, str, str]]) -> None:
    """Each series' name where its line ends, moved apart where they meet."""
    low, high = axes.get_ylim()
    least = (high - low) / 16
    floor = -math.inf
    for height, name, colour in sorted(ends):
        at = max(height, floor + least)
        floor = at
        axes.annotate(name, (1.01, at), xycoords=('axes fraction', 'data'),
                      va='center', color=colour, fontweight='bold')


def _inline(svg: str, prefix: str, title: str) -> str:
    """What matplotlib wrote, to stand in a page beside others of its kind."""
    svg = svg[svg.index('<svg'):]
    svg = re.sub(r'<metadata>.*?</metadata>', '', svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = svg.replace('url(#', f'url(#{prefix}')
    svg = svg.replace('href="#', f'href="#{prefix}')
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f'var({variable})')
    size = re.search(r'viewBox="[^"]*"', svg)
    name = html.escape(title, quote=True)
    return re.sub(
        r'<svg[^>]*>',
        lambda _match: f'<svg {size.group() if size else ""} role="img" '
        f'aria-label="{name}" xmlns:xlink="http://www.w3.org/1999/xlink">',
        svg, count=1).strip()
