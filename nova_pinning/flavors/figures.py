# SPDX-License-Identifier: Apache-2.0
"""Figures of a catalogue that may follow a flavor's size.

A figure is a number or an amount, or ``{per_vcpu: 500, min: 1000, max:
20000}``: so much for each vCPU, within bounds.
"""

from collections.abc import Callable
from collections.abc import Mapping
import fractions
from typing import Any

from nova_pinning.document import quantities
from nova_pinning.flavors import shape

_Fraction = fractions.Fraction
# libvirt keeps them in 64 bits.
_MAX = 2 ** 63 - 1
#: Bytes in the units that nova has for amounts. libvirt hands rates of
#: interfaces to tc, whose kilobytes per second are of 1000 bytes, while its
#: kilobytes of a burst are of 1024.
UNITS = {'B': 1, 'KiB': 1024, '8kbit': 1000}


def number(size: shape.CatalogueEntry, of: shape.Placed[Any]) -> int:
    """A figure without a unit, rounded down, so that no limit is passed.

    :raises errors.InputError: if nova cannot have it
    """
    return _whole(size, _result(
        size, of, lambda placed: _Fraction(str(placed.value))), of)


def amount(size: shape.CatalogueEntry, of: shape.Placed[Any],
           unit: str) -> int:
    """An amount in nova's unit, of which it has to be a whole number.

    :param unit: one of UNITS
    :raises errors.InputError: if nova cannot have it
    """
    result = _result(size, of, lambda placed: quantities.amount_bytes(
        placed.value, placed.where, has_bits=True)) / UNITS[unit]
    if result.denominator != 1:
        raise size.error(
            f'it is {float(result):g} times {unit}, and nova takes whole '
            'numbers of that', of, f'write a multiple of {unit}')
    return _whole(size, result, of)


def _result(size: shape.CatalogueEntry, of: shape.Placed[Any],
            read: Callable[[shape.Placed[Any]], _Fraction]) -> _Fraction:
    if not isinstance(of.value, Mapping):
        return read(of)
    parts = {key: read(part) for key, part in of.value.items()}
    result = parts['per_vcpu'] * size.vcpus.value
    if 'max' in parts:
        if parts.get('min', 0) > parts['max']:
            raise size.error('min is more than max', of)
        result = min(result, parts['max'])
    return max(result, parts.get('min', result))


def _whole(size: shape.CatalogueEntry, value: _Fraction,
           of: shape.Placed[Any]) -> int:
    if value < 0:
        shown = float(max(value, _Fraction(-_MAX)))
        raise size.error(f'the result is negative, {shown:g}', of)
    if value > _MAX:
        raise size.error('the result is too large', of)
    return int(value)
