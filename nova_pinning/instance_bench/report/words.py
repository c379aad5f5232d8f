# SPDX-License-Identifier: Apache-2.0
"""Figures as people read them."""

import math

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import intervals

#: Where there is no figure.
NONE = '–'
#: In place of an interval that says next to nothing.
TOO_FEW = 'too few runs'
# Digits that say something of what has a spread of a percent or so.
_DIGITS = 4
# Digits of what is larger say nothing: the end of an interval that is all but
# without end.
_HUGE = 1e12


def number(value: float, digits: int = _DIGITS) -> str:
    """In so many digits that say something: '12,345', '1.234', '0.0123'."""
    if not math.isfinite(value):
        return NONE
    if not value:
        return '0'
    if abs(value) >= _HUGE:
        return f'{value:.0e}'
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f'{value:,.{min(max(decimals, 0), 9)}f}'


def percent(value: float) -> str:
    """Of a part of one: '1.2%'."""
    if not math.isfinite(value):
        return NONE
    value *= 100
    return (number(value) if abs(value) >= _HUGE else f'{value:,.1f}') + '%'


def interval(interval: intervals.Interval) -> str:
    """'1.200 to 1.260'."""
    if not interval.is_known:
        return NONE
    return TOO_FEW if interval.is_vague else (
        f'{number(interval.low)} to {number(interval.high)}')


def ratio(interval: intervals.Interval | None) -> str:
    """'1.23 (1.20 to 1.26)'; only the figure if there is no interval."""
    if interval is None or math.isnan(interval.value):
        return NONE
    if not interval.is_known:
        return f'{interval.value:.2f}'
    if interval.is_vague:
        return TOO_FEW
    return (f'{interval.value:.2f} ({_short(interval.low)} to '
            f'{_short(interval.high)})')


def percents(interval: intervals.Interval) -> str:
    """'1.2% (0.9% to 1.8%)'."""
    if not interval.is_known:
        return percent(interval.value)
    if interval.is_vague:
        return f'{percent(interval.value)} ({TOO_FEW})'
    return (f'{percent(interval.value)} ({percent(interval.low)} to '
            f'{percent(interval.high)})')


def count(number: int, singular: str, many: str = '') -> str:
    """'1 case', '2 cases'."""
    return f'{number:,} {singular if number == 1 else many or singular + "s"}'


def platform(name: bench_model.PlatformName,
             conditions: bench_model.Conditions | None) -> str:
    """What a platform is on a host: 'vm (KVM)', 'bm (process)'."""
    versions = conditions.versions if conditions else {}
    guest = 'QEMU' if conditions is None else (
        'TCG' if conditions.emulated or versions.get('accelerator') == 'tcg'
        else 'KVM')
    runtime = 'runc' if 'runc' in versions else 'namespaces'
    return f'{name} (' + {
        bench_model.PlatformName.BARE_METAL: 'process',
        bench_model.PlatformName.CONTAINER: runtime,
        bench_model.PlatformName.CONTAINER_IN_GUEST:
            f'{runtime} in {guest}'}.get(name, guest) + ')'


def change(ratio: intervals.Interval) -> str:
    """What a ratio above 1 is: 'gains 4.0% (1.0% to 7.0%)'."""
    if not ratio.is_known or ratio.is_vague:
        return f'cannot be told to have an effect ({TOO_FEW})'
    ends = (ratio.low - 1, ratio.high - 1)
    if not ratio.excludes(1):
        return (f'makes no difference that shows ({ends[0]:+.1%} to '
                f'{ends[1]:+.1%})')
    low, high = sorted(map(abs, ends))
    return (f'{"gains" if ratio.value > 1 else "loses"} '
            f'{percent(abs(ratio.value - 1))} ({percent(low)} to '
            f'{percent(high)})')


def _short(value: float) -> str:
    return f'{value:.2f}' if abs(value) < 100 else number(value, 3)
