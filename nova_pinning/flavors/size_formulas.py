# SPDX-License-Identifier: Apache-2.0
"""Figures of a flavor that follow its size: throttles, priority, counts."""

from collections.abc import Iterator
import fractions
import functools
import re
from typing import Any

from nova_pinning.flavors import formula
from nova_pinning.flavors import shape

_Fraction = fractions.Fraction

# What nova has for each throttle, and how many bytes its unit is; 0 for
# numbers. libvirt hands vif rates to tc, whose kilobytes per second are of
# 1000 bytes, while its kilobytes of a burst are of 1024.
_THROTTLES = {
    'disk_iops': ('quota:disk_total_iops_sec', 0),
    'disk_read_iops': ('quota:disk_read_iops_sec', 0),
    'disk_write_iops': ('quota:disk_write_iops_sec', 0),
    'disk_bandwidth': ('quota:disk_total_bytes_sec', 1),
    'disk_read_bandwidth': ('quota:disk_read_bytes_sec', 1),
    'disk_write_bandwidth': ('quota:disk_write_bytes_sec', 1),
    'network_in': ('quota:vif_inbound_average', 1000),
    'network_in_peak': ('quota:vif_inbound_peak', 1000),
    'network_in_burst': ('quota:vif_inbound_burst', 1024),
    'network_out': ('quota:vif_outbound_average', 1000),
    'network_out_peak': ('quota:vif_outbound_peak', 1000),
    'network_out_burst': ('quota:vif_outbound_burst', 1024),
}

# libvirt keeps them in 64 bits.
_MAX = 2 ** 63 - 1

_UNIT = 'a plain number belongs here, not an amount with a unit'

_parse = functools.lru_cache(formula.parse)


def throttles(
    size: shape.CatalogueEntry,
) -> Iterator[tuple[str, str, shape.Placed[Any]]]:
    """The extra specs of a size's throttles: key, value, what says so.

    :raises errors.InputError: if a formula has no usable result
    """
    throttles: dict[str, formula.FormulaValue] = {}
    for name, throttle in size.throttles.items():
        value = _throttle(size, name, throttles, ())
        key, unit = _THROTTLES[name]
        yield key, str(_whole(size, value.number / (unit or 1), throttle)), \
            throttle


def number(size: shape.CatalogueEntry, text: shape.Figure) -> int:
    """The result of a formula that is not a throttle, a whole number.

    :raises errors.InputError: if it has no usable result
    """
    value = _evaluate(size, text, _size_lookup(size))
    if value.bytes:
        raise size.error(_UNIT, text)
    return _whole(size, value.number, text)


def filled(size: shape.CatalogueEntry, text: str,
           of: shape.Placed[Any]) -> str:
    """A text with the results of the formulas in its curly brackets.

    ``{{`` and ``}}`` are brackets.

    :param of: what the text stands for
    :raises errors.InputError: if a formula has no usable result, or a bracket
        is alone
    """
    def part(match: re.Match[str]) -> str:
        if match['twice']:
            return match['twice'][0]
        if match['formula'] is None:
            raise size.error(
                f'the bracket {match[0]} in {text[:80]!r} is alone', of,
                'a formula stands in two of them, and a bracket is written '
                'twice')
        return str(number(size, shape.Placed(
            match['formula'], of.where, of.key)))

    return _BRACKETS.sub(part, text)


_BRACKETS = re.compile(
    r'(?P<twice>\{\{|\}\})|\{(?P<formula>[^{}]*)\}|[{}]')


def _size_lookup(size: shape.CatalogueEntry,
                 others: tuple[str, ...] = ()) -> formula.Lookup:
    known = {'vcpus': _Fraction(size.vcpus.value),
             'memory_gib': _Fraction(size.memory_mib.value, 1024)}

    def lookup(name: str) -> formula.FormulaValue:
        if name not in known:
            raise formula.FormulaError(
                f'{name} is not known; choose from '
                + ', '.join((*known, *others)))
        return formula.FormulaValue(known[name])

    return lookup


def _throttle(size: shape.CatalogueEntry, name: str,
              values: dict[str, formula.FormulaValue],
              within: tuple[str, ...]) -> formula.FormulaValue:
    """The value of a throttle, by way of those that its formula names.

    :param values: those that are known by now; is added to
    :param within: those whose formulas led here
    """
    if name in values:
        return values[name]
    text = size.throttles[name]
    if name in within:
        cycle = ' -> '.join((*within[within.index(name):], name))
        raise size.error(f'the formulas go in a circle: {cycle}', text)
    of_size = _size_lookup(size, tuple(size.throttles))

    def lookup(other: str) -> formula.FormulaValue:
        if other in size.throttles:
            return _throttle(size, other, values, (*within, name))
        return of_size(other)

    value = _evaluate(size, text, lookup)
    is_amount = _THROTTLES[name][1] != 0
    if is_amount and value.bytes != 1:
        raise size.error('the result has no unit', text,
                         "write it like '50MiB*vcpus' or '200Mbit*vcpus'")
    if not is_amount and value.bytes:
        raise size.error(_UNIT, text)
    values[name] = value
    return value


def _evaluate(size: shape.CatalogueEntry, text: shape.Figure,
              lookup: formula.Lookup) -> formula.FormulaValue:
    try:
        return _parse(text.value).evaluate(lookup)
    except formula.FormulaError as error:
        raise size.error(f'the formula {str(text.value)[:80]!r} fails: '
                         f'{error}', text) from None


def _whole(size: shape.CatalogueEntry, value: _Fraction,
           of: shape.Figure) -> int:
    """Rounded down, so that no limit is passed."""
    if value < 0:
        shown = float(max(value, _Fraction(-_MAX)))
        raise size.error(f'the result is negative, {shown:g}', of)
    if value > _MAX:
        raise size.error('the result is too large', of)
    return int(value)
