# SPDX-License-Identifier: Apache-2.0
"""Words that what is said of hosts is made of."""

from collections.abc import Collection

from nova_pinning import cpuset


def cpus(what: cpuset.CpuSet) -> str:
    """'CPU 3', 'CPUs 3-7', 'no CPU'."""
    if not what:
        return 'no CPU'
    return f'CPUs {what}' if len(what) > 1 else f'CPU {what}'


def count(number: int, noun: str) -> str:
    """'1 thread', '2 threads', '2,000 processes'."""
    ending = '' if number == 1 else 'es' if noun.endswith('s') else 's'
    return f'{number:,} {noun}{ending}'


def listed(names: Collection[str], most: int | None = None) -> str:
    """'a', 'a and b', 'a, b and c', 'a, b and 7 more'.

    :param most: names that are told, None for all
    """
    *first, last = tuple(names)[:most]
    if most is not None and len(names) > most:
        first, last = [*first, last], f'{len(names) - most:,} more'
    return f'{", ".join(first)} and {last}' if first else last


def duration(seconds: float) -> str:
    """About three digits: '3.02 s', '187 ms', '12.9 µs'."""
    unit, size = next((pair for pair in (('s', 1.0), ('ms', 1e-3))
                       if seconds >= pair[1]), ('µs', 1e-6))
    number = seconds / size
    return f'{number:.3g} {unit}' if number < 99.95 else (
        f'{number:,.0f} {unit}')


def span(seconds: float) -> str:
    """About how long: '45 s', '12 min', '3 h 20 min'."""
    if seconds < 90:
        return f'{seconds:.0f} s'
    minutes = round(seconds / 60)
    if minutes < 90:
        return f'{minutes} min'
    hours, minutes = divmod(minutes, 60)
    return f'{hours:,} h' + (f' {minutes} min' if minutes else '')
