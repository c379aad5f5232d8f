# SPDX-License-Identifier: Apache-2.0
"""The figures of a workload, read from what its command printed."""

from collections.abc import Mapping
import math
import re

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model

_SHOWN_LINES = 5


def read(workload: bench_model.Workload, stdout: str,
         seconds: float) -> Mapping[str, float]:
    """All figures of a workload, by name.

    :param seconds: what the command took
    :raises bench_errors.WorkloadError: if one is missing, or no finite number
    """
    return {figure.name: _read(workload, figure, stdout, seconds)
            for figure in workload.figures}


def compiled(pattern: str) -> re.Pattern[str]:
    """A figure's pattern: ``^`` and ``$`` are about lines.

    :raises ValueError: if it is none, or has not exactly one group
    """
    try:
        expression = re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise ValueError(f'is not a regular expression: {error}') from None
    if expression.groups != 1:
        raise ValueError(
            f'has {expression.groups} groups, and needs one, for the number')
    return expression


def _read(workload: bench_model.Workload, figure: bench_model.WorkloadFigure,
          stdout: str, seconds: float) -> float:
    if figure.pattern is None:
        return seconds * figure.scale
    text = None
    for match in compiled(figure.pattern).finditer(stdout):
        text = match[1]
    if text is None:
        raise bench_errors.WorkloadError(
            f'{workload.name}: there is no {figure.name} in what it printed, '
            f'which ends with: {_end(stdout)}',
            f'the pattern is {figure.pattern}')
    try:
        # Some programs write 12,345.
        number = float(text.replace(',', '')) * figure.scale
    except (TypeError, ValueError, AttributeError):
        number = math.nan
    if not math.isfinite(number):
        raise bench_errors.WorkloadError(
            f'{workload.name}: {figure.name} is {text!r}, which is not a '
            f'number',
            f'the pattern is {figure.pattern}')
    return number


def _end(stdout: str) -> str:
    lines = stdout.rstrip().splitlines()[-_SHOWN_LINES:]
    return ' | '.join(line.strip() for line in lines) or '(nothing)'
