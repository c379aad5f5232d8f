# SPDX-License-Identifier: Apache-2.0
"""Catalogues of version 1 in the words of version 2.

Version 1 had formulas, for which version 2 has ``per_vcpu``, ``min`` and
``max``: each is worked out for the size at hand. ``none`` was what ``null``
is now, but for a topology, which pinned guests with ``require`` had unless
it said ``none``.
"""

import ast
from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import fractions
import operator
import re
from typing import Any

from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning.flavors import shape

_Fraction = fractions.Fraction
_Placed = shape.Placed[Any]
#: Gives the value of a name that a formula has, or raises KeyError.
_Lookup = Callable[[str], _Fraction]

_PERIOD_US = 100_000
_MAX_LENGTH = 500
# Far above any result of use; names that multiply each other grow without
# end otherwise.
_MAX_BITS = 2048
_AMOUNT = re.compile(
    r'(\d+(?:\.\d+)?)\s*([A-Za-z]+)(?:\s*/\s*s\b)?', re.ASCII)
_BRACKETS = re.compile(r'(\{\{|\}\})|\{([^{}]*)\}|[{}]')
_OPERATORS: Mapping[type[ast.operator], Callable[
    [_Fraction, _Fraction], _Fraction]] = {
        ast.Add: operator.add, ast.Sub: operator.sub,
        ast.Mult: operator.mul, ast.Div: operator.truediv}
_BOUNDS: Mapping[str, Callable[[_Fraction, _Fraction], _Fraction]] = {
    'max': min, 'min': max}

# Keys for which "none" is a value, or text.
_NEVER_UNSET = ('cpu_topology', 'name', 'description', 'flavor_name')
#: Besides throttles and extra specs.
_WITH_FORMULAS = {'cpu_priority', 'l3_ways', 'memory_bandwidth', 'pci_devices',
                  'resources', 'dedicated_vcpus'}
#: Words that said what is so without them.
_NOTHING = (('emulator_threads', 'on-vcpus'), ('realtime', False),
            ('memory_encryption', False), ('cpu_topology', 'none'))


def unset(settings: shape.Group) -> dict[str, _Placed]:
    """What a family or a size says, with null for "none"."""
    said = {}
    for key, setting in settings.items():
        value = setting.value
        if value == 'none' and key not in _NEVER_UNSET:
            value = None
        elif isinstance(value, dict) and key != 'extra_specs':
            value = unset(value)
        said[key] = dataclasses.replace(setting, value=value)
    return said


def current(fields: Mapping[str, Any], memory_mib: int) -> dict[str, Any]:
    """The settings of a size, merged with its family's, in today's words.

    :raises errors.InputError: if a formula has no result
    """
    said = dict(fields)
    threads, policy = said.get('thread_policy'), said.get('class')
    if threads and threads.value == 'require' and policy and (
            policy.value == 'dedicated'):
        said.setdefault('cpu_topology', dataclasses.replace(
            threads, value='match-host'))
    for key, value in _NOTHING:
        if key in said and said[key].value == value:
            del said[key]
    known = {'vcpus': _Fraction(said['vcpus'].value),
             'memory_gib': _Fraction(memory_mib, 1024)}

    def worked_out(of: _Placed) -> _Placed:
        return dataclasses.replace(of, value=_formula(of, known.__getitem__))

    def all_of(of: _Placed) -> _Placed:
        if not isinstance(of.value, Mapping):
            return worked_out(of)
        return dataclasses.replace(of, value={
            name: below if name == 'affinity' else all_of(below)
            for name, below in of.value.items()})

    for key in said.keys() & _WITH_FORMULAS:
        # Dedicated vCPUs can be a mask as well.
        if key != 'dedicated_vcpus' or isinstance(said[key].value, Mapping):
            said[key] = all_of(said[key])
    if 'throttles' in said:
        throttles = said['throttles']
        said['throttles'] = dataclasses.replace(
            throttles, value=_throttles(throttles.value, known))
    if 'extra_specs' in said:
        said['extra_specs'] = dataclasses.replace(said['extra_specs'], value={
            name: dataclasses.replace(of, value=_filled(of, worked_out))
            for name, of in said['extra_specs'].value.items()})
    cap = said.get('cpu_cap')
    if cap and 'quota_us' in cap.value:
        if 'percent' in cap.value:
            raise errors.InputError(
                'percent and quota_us say the same thing twice', cap.where,
                'leave one of them out')
        quota, period = (cap.value[key].value if key in cap.value else usual
                         for key, usual in (('quota_us', 0),
                                            ('period_us', _PERIOD_US)))
        said['cpu_cap'] = dataclasses.replace(cap, value={
            **cap.value, 'percent': dataclasses.replace(
                cap, value=_Fraction(quota * 100, period))})
    return said


def _throttles(throttles: shape.Group,
               known: Mapping[str, _Fraction]) -> dict[str, _Placed]:
    """Throttles, which may name each other."""
    done: dict[str, _Placed] = {}

    def worked_out(name: str, within: tuple[str, ...]) -> _Placed:
        of = throttles[name]
        within += (name,)
        if name in within[:-1]:
            raise errors.InputError(
                f'the formulas go in a circle: {" -> ".join(within)}',
                of.where)
        named: set[str] = set()

        def lookup(other: str) -> _Fraction:
            named.add(other)
            found: _Fraction = known[other] if other in known else (
                done.get(other) or worked_out(other, within)).value
            return found

        is_amount = 'iops' not in name
        value = _formula(of, lookup, is_amount)
        if is_amount and named.isdisjoint(throttles) and (
                not _AMOUNT.search(str(of.value))):
            raise errors.InputError('the result has no unit', of.where,
                                    "write it like '50MiB*vcpus'")
        done[name] = dataclasses.replace(of, value=value)
        return done[name]

    return {name: worked_out(name, ()) for name in throttles}


def _filled(of: _Placed, worked_out: Callable[[_Placed], _Placed]) -> Any:
    """An extra spec with the results of the formulas in its brackets."""
    def part(match: re.Match[str]) -> str:
        if match[1]:
            return match[1][0]
        if match[2] is None:
            raise errors.InputError(
                f'the bracket {match[0]} in {of.value[:80]!r} is alone',
                of.where)
        result = worked_out(dataclasses.replace(of, value=match[2])).value
        return str(int(result))

    return (_BRACKETS.sub(part, of.value) if isinstance(of.value, str)
            else of.value)


def _formula(of: _Placed, lookup: _Lookup,
             is_amount: bool = False) -> _Fraction:
    """The result of a formula such as ``500*vcpus, max 20000``."""
    text = str(of.value)
    if not is_amount and _AMOUNT.search(text):
        raise errors.InputError(
            'a plain number belongs here, not an amount with a unit',
            of.where, 'write the number, size by size if they differ')
    try:
        if len(text) > _MAX_LENGTH:
            raise ValueError(f'it has more than {_MAX_LENGTH} characters')
        first, *bounds = text.split(',')
        result = _evaluated(first, lookup)
        for bound in bounds:
            word, _blank, rest = bound.strip().partition(' ')
            result = _BOUNDS[word](result, _evaluated(rest, lookup))
    except errors.InputError:
        raise
    except (SyntaxError, ValueError, KeyError, ArithmeticError,
            RecursionError) as error:
        raise errors.InputError(
            f'the formula {text[:80]!r} of version 1 fails: {error}'
            + ' is not known' * isinstance(error, KeyError),
            of.where, 'write a number, or "version: 2" and {per_vcpu: 500, '
            'max: 20000}') from None
    return result


def _evaluated(text: str, lookup: _Lookup) -> _Fraction:
    def in_bytes(match: re.Match[str]) -> str:
        factor = quantities.unit_bytes(match[2])
        if factor is None:
            raise ValueError(f'{match[2]!r} is not a unit')
        return f'({match[1]}*{factor})'

    def value(node: ast.expr) -> _Fraction:
        if isinstance(node, ast.Name):
            return lookup(node.id)
        if isinstance(node, ast.Constant):
            return _Fraction(str(node.value))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        if not isinstance(node, ast.BinOp) or type(node.op) not in _OPERATORS:
            raise ValueError('only + - * / and brackets are known')
        result = _OPERATORS[type(node.op)](value(node.left),
                                           value(node.right))
        if max(result.numerator.bit_length(),
               result.denominator.bit_length()) > _MAX_BITS:
            raise ValueError('a result is too long')
        return result

    return value(ast.parse(_AMOUNT.sub(in_bytes, text).strip(),
                           mode='eval').body)
