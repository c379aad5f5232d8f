# SPDX-License-Identifier: Apache-2.0
"""The table of workloads in the documentation."""

from collections.abc import Iterator
import textwrap

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.workloads import workload_catalogue

_HEADER = ('Workload', 'Figures', 'Parameters', 'Debian packages')


def table() -> str:
    """reStructuredText, a row for each workload that ships, by class."""
    return '\n'.join(_lines()) + '\n'


def _lines() -> Iterator[str]:
    yield '.. The output of python -m nova_pinning.instance_bench.workloads'
    yield ''
    yield '.. list-table::'
    yield '   :header-rows: 1'
    yield '   :widths: 40 20 20 20'
    yield ''
    yield from _row(_HEADER)
    classes = list(bench_model.WorkloadClass)
    for workload in sorted(
            workload_catalogue.shipped().values(),
            key=lambda workload: classes.index(workload.workload_class)):
        yield from _row((
            f'``{workload.name}`` ({workload.workload_class}). '
            f'{workload.about}',
            ', '.join(f'``{figure.name}`` ({figure.unit})'
                      for figure in workload.figures),
            ', '.join(f'``{name}: {value}``'
                      for name, value in workload.parameters.items()),
            ', '.join(dict.fromkeys(
                [*workload.programs.values(), *workload.packages]))))


def _row(cells: tuple[str, ...]) -> Iterator[str]:
    mark = '   * - '
    for cell in cells:
        lines = textwrap.wrap(cell, 72, break_on_hyphens=False,
                              break_long_words=False)
        yield (mark + (lines[0] if lines else '')).rstrip()
        yield from (f'       {line}' for line in lines[1:])
        mark = '     - '
