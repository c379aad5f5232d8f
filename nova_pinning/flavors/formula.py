# SPDX-License-Identifier: Apache-2.0
"""Formulas of a catalogue: ``500*vcpus, max 20000``.

Sums, products, brackets and the names of other values, then clauses that
bound the result. Numbers may have a unit (``50MiB``, ``200Mbit/s``); amounts
and plain numbers do not mix, as metres and litres do not. Arithmetic is exact.
"""

from collections.abc import Callable
from collections.abc import Iterator
import dataclasses
import fractions
import re

from nova_pinning.document import quantities

MAX_LENGTH = 500
_MAX_DEPTH = 32

_TOKEN = re.compile(
    r'\s*(?:(?P<number>\d+(?:\.\d+)?)\s*'
    r'(?:(?P<unit>[A-Za-z]+)(?P<per_second>\s*/\s*s\b)?)?'
    r'|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>[-+*/(),])|(?P<odd>\S))',
    re.ASCII)
_MAX_DIGITS = 20
# Far above any result of use; names that multiply each other grow without
# end otherwise.
_MAX_BITS = 2048


class FormulaError(ValueError):
    """A formula that cannot be read or has no result; says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class FormulaValue:
    """A number, or an amount.

    :param bytes: power of bytes in it: 0 for numbers, 1 for amounts (or
        amounts per second)
    """

    number: fractions.Fraction
    bytes: int = 0


#: Gives the value of a name, or raises FormulaError if there is none.
Lookup = Callable[[str], FormulaValue]


@dataclasses.dataclass(frozen=True, slots=True)
class _FormulaPart:
    """A node of the tree: a value, a name, or an operation on others."""

    kind: str
    position: int
    value: FormulaValue | None = None
    name: str = ''
    of: tuple['_FormulaPart', ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Formula:
    """A formula that has been read."""

    text: str
    _tree: _FormulaPart = dataclasses.field(repr=False)

    def evaluate(self, lookup: Lookup) -> FormulaValue:
        """The result.

        :raises FormulaError: if there is none
        """
        return _evaluate(self._tree, lookup)


@dataclasses.dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int
    unit: str = ''


def parse(text: str | int | float) -> Formula:
    """Read a formula.

    :raises FormulaError: saying at which character it goes wrong
    """
    text = str(text)
    if len(text) > MAX_LENGTH:
        raise FormulaError(
            f'a formula has at most {MAX_LENGTH} characters')
    return Formula(text, _Parser(text).formula())


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        if kind in ('unit', 'per_second'):
            kind = 'number'
        position = match.start(kind) + 1
        if kind == 'odd':
            raise FormulaError(
                f'{match[kind]!r} at character {position} has no place in a '
                'formula')
        yield _Token(kind, match[kind], position, match['unit'] or '')
    yield _Token('end', 'the end', len(text) + 1)


class _Parser:
    """One token of look-ahead is all it takes."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._token = next(self._tokens)
        self._depth = 0

    def formula(self) -> _FormulaPart:
        tree = self._sum()
        while self._token.text == ',':
            self._advance()
            bound = self._token
            if bound.text not in ('max', 'min'):
                self._fail('"max" or "min"')
            self._advance()
            # "max 20000" says that it is at most that.
            tree = _FormulaPart(f'at {bound.text}', bound.position,
                                of=(tree, self._sum()))
        if self._token.kind != 'end':
            self._fail('an operator such as *, or ", max 20000"')
        return tree

    def _advance(self) -> None:
        self._token = next(self._tokens)

    def _fail(self, expected: str) -> None:
        token = self._token
        text = token.text if token.kind == 'end' else repr(token.text)
        raise FormulaError(f'{text} at character {token.position}, where '
                           f'{expected} belongs')

    def _sum(self) -> _FormulaPart:
        return self._chain('+-', self._product)

    def _product(self) -> _FormulaPart:
        return self._chain('*/', self._factor)

    def _chain(self, signs: str, part: Callable[[],
                                                _FormulaPart]) -> _FormulaPart:
        tree = part()
        while self._token.kind == 'sign' and self._token.text in signs:
            sign = self._token
            self._advance()
            tree = _FormulaPart(sign.text, sign.position, of=(tree, part()))
        return tree

    def _factor(self) -> _FormulaPart:
        token = self._token
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise FormulaError(f'brackets and signs are nested more than '
                               f'{_MAX_DEPTH} deep')
        if token.text == '-':
            self._advance()
            part = _FormulaPart('negative',
                                token.position,
                                of=(self._factor(), ))
        elif token.text == '(':
            self._advance()
            part = self._sum()
            if self._token.text != ')':
                self._fail('")"')
            self._advance()
        elif token.kind == 'number':
            self._advance()
            part = _FormulaPart('value', token.position, _number(token))
        elif token.kind == 'name' and token.text not in ('max', 'min'):
            self._advance()
            part = _FormulaPart('name', token.position, name=token.text)
        else:
            self._fail('a number or a name')
        self._depth -= 1
        return part


def _number(token: _Token) -> FormulaValue:
    if len(token.text) > _MAX_DIGITS:
        raise FormulaError(
            f'the number at character {token.position} is too long')
    number = fractions.Fraction(token.text)
    if not token.unit:
        return FormulaValue(number)
    factor = quantities.unit_bytes(token.unit)
    if factor is None:
        raise FormulaError(
            f'{token.unit!r} after the number at character {token.position} '
            'is not a unit, such as MiB or Mbit')
    return FormulaValue(number * factor, 1)


def _evaluate(part: _FormulaPart, lookup: Lookup) -> FormulaValue:
    # A chain such as 1+1+1 leans to the left, and may be longer than Python
    # lets functions call each other.
    chain = []
    while len(part.of) == 2:
        chain.append(part)
        part = part.of[0]
    value = _operand(part, lookup)
    for operation in reversed(chain):
        value = _combine(operation, value, _evaluate(operation.of[1], lookup))
        if max(value.number.numerator.bit_length(),
               value.number.denominator.bit_length()) > _MAX_BITS:
            raise FormulaError(
                f'the result at character {operation.position} is too long')
    return value


def _operand(part: _FormulaPart, lookup: Lookup) -> FormulaValue:
    if part.value is not None:
        return part.value
    if part.kind == 'name':
        return lookup(part.name)
    value = _evaluate(part.of[0], lookup)
    return FormulaValue(-value.number, value.bytes)


def _combine(part: _FormulaPart, left: FormulaValue,
             right: FormulaValue) -> FormulaValue:
    if part.kind == '*':
        return FormulaValue(left.number * right.number,
                            left.bytes + right.bytes)
    if part.kind == '/':
        if not right.number:
            raise FormulaError(
                f'a division by zero at character {part.position}')
        return FormulaValue(left.number / right.number,
                            left.bytes - right.bytes)
    if left.bytes != right.bytes:
        raise FormulaError(
            f'{part.kind.removeprefix("at ")!r} at character {part.position} '
            'has a number on one side and an amount with a unit on the other')
    return FormulaValue(_COMBINED[part.kind](left.number, right.number),
                        left.bytes)


_Number = fractions.Fraction
_COMBINED: dict[str, Callable[[_Number, _Number], _Number]] = {
    '+': lambda left, right: left + right,
    '-': lambda left, right: left - right,
    'at max': min,
    'at min': max,
}
