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

"""Figures as people read them."""

import math

from nova_pinning.bench import intervals

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
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return f'{value:,.{min(max(places, 0), 9)}f}'


def percent(value: float) -> str:
    """Of a part of one: '1.2%'."""
    if not math.isfinite(value):
        return NONE
    value *= 100
    return (number(value) if abs(value) >= _HUGE else f'{value:,.1f}') + '%'


def between(low: float, high: float, digits: int = _DIGITS) -> str:
    if math.isnan(low) or math.isnan(high):
        return NONE
    return f'{number(low, digits)} to {number(high, digits)}'


def interval(one: intervals.Interval, digits: int = _DIGITS) -> str:
    """'1.200 to 1.260'."""
    return TOO_FEW if one.is_vague else between(one.low, one.high, digits)


def ratio(one: intervals.Interval | None) -> str:
    """'1.23 (1.20 to 1.26)'; only the figure if there is no interval."""
    if one is None or math.isnan(one.value):
        return NONE
    if not one.is_known:
        return f'{one.value:.2f}'
    if one.is_vague and not one.excludes(1):
        return f'{one.value:.2f} ({TOO_FEW})'
    return f'{one.value:.2f} ({_short(one.low)} to {_short(one.high)})'


def percents(one: intervals.Interval) -> str:
    """'1.2% (0.9% to 1.8%)'."""
    if not one.is_known:
        return percent(one.value)
    if one.is_vague:
        return f'{percent(one.value)} ({TOO_FEW})'
    return (f'{percent(one.value)} ({percent(one.low)} to '
            f'{percent(one.high)})')


def count(number: int, one: str, many: str = '') -> str:
    """'1 case', '2 cases'."""
    return f'{number:,} {one if number == 1 else many or one + "s"}'


def _short(value: float) -> str:
    return f'{value:.2f}' if abs(value) < 100 else number(value, 3)
