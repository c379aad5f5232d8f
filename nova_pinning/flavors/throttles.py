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
"""Figures of a flavor that follow its size: throttles, priority, counts."""

from collections.abc import Callable
from collections.abc import Iterator
import fractions
import functools

from nova_pinning.document import source
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

_parse = functools.lru_cache(formula.parse)


def throttles(
    one: shape.Shape,
) -> Iterator[tuple[str, str, source.Path]]:
    """The extra specs of a shape's throttles: key, value, where it is from.

    :raises errors.InputError: if a formula has no usable result
    """
    found: dict[str, formula.Value] = {}
    for name, _text, path in one.group('throttles'):
        value = _throttle(one, name, found, ())
        key, unit = _THROTTLES[name]
        yield key, str(_whole(one, value.number / (unit or 1), path)), path


def number(one: shape.Shape, text: str | int | float,
           path: source.Path) -> int:
    """The result of a formula that is no throttle, a whole number.

    :raises errors.InputError: if it has no usable result
    """
    value = _evaluate(one, text, path, _size_lookup(one))
    if value.bytes:
        raise one.error('a plain number belongs here, not an amount with a '
                        'unit', path)
    return _whole(one, value.number, path)


def _size_lookup(one: shape.Shape,
                 others: tuple[str, ...] = ()) -> formula.Lookup:
    known = {'vcpus': _Fraction(one.vcpus),
             'memory_gib': _Fraction(one.memory_mib, 1024)}

    def lookup(name: str) -> formula.Value:
        if name not in known:
            raise formula.FormulaError(
                f'{name} is not known; known are '
                + ', '.join((*known, *others)))
        return formula.Value(known[name])

    return lookup


def _throttle(one: shape.Shape, name: str, found: dict[str, formula.Value],
              within: tuple[str, ...]) -> formula.Value:
    """The value of a throttle, by way of those that its formula names.

    :param found: those that are known by now; is added to
    :param within: those whose formulas led here
    """
    if name in found:
        return found[name]
    text, path = one.groups['throttles'][name]
    if name in within:
        cycle = ' -> '.join((*within[within.index(name):], name))
        raise one.error(f'the formulas go in a circle: {cycle}', path)
    others = tuple(one.groups['throttles'])
    of_size = _size_lookup(one, others)

    def lookup(other: str) -> formula.Value:
        if other in others:
            return _throttle(one, other, found, (*within, name))
        return of_size(other)

    value = _evaluate(one, text, path, lookup)
    is_amount = _THROTTLES[name][1] != 0
    if is_amount and value.bytes != 1:
        raise one.error('the result has no unit', path,
                        "write it like '50MiB*vcpus' or '200Mbit*vcpus'")
    if not is_amount and value.bytes:
        raise one.error('a plain number belongs here, not an amount with a '
                        'unit', path)
    found[name] = value
    return value


def _evaluate(one: shape.Shape, text: str | int | float, path: source.Path,
              lookup: Callable[[str], formula.Value]) -> formula.Value:
    try:
        return _parse(text).evaluate(lookup)
    except formula.FormulaError as error:
        raise one.error(f'the formula {str(text)[:80]!r} fails: {error}',
                        path) from None


def _whole(one: shape.Shape, value: _Fraction, path: source.Path) -> int:
    """Rounded down, so that no limit is passed."""
    if value < 0:
        shown = float(max(value, _Fraction(-_MAX)))
        raise one.error(f'the result is negative, {shown:g}', path)
    if value > _MAX:
        raise one.error('the result is too large', path)
    return int(value)
