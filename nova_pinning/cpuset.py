# SPDX-License-Identifier: Apache-2.0
"""An immutable set of CPU ids, kept as an int bitmask."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import functools
import operator
import re

#: The largest CPU id taken from text: the kernel's own limit (NR_CPUS) is far
#: below it, and a typing error like ``0-99999999999`` must not eat the memory.
MAX_CPU_ID = 65535

# Numbers are cut off where Python would refuse, or take long, to read them.
_ITEM = re.compile(
    r'(?P<exclude>\^)?\s*(?P<first>\d{1,18})'
    r'(?:\s*-\s*(?P<last>\d{1,18})'
    r'(?:\s*:\s*(?P<used>\d{1,18})(?:/(?P<group>\d{1,18}))?)?)?',
    re.ASCII)

# Python 3.9 has no int.bit_count.
_bit_count: Callable[[int], int] = getattr(
    int, 'bit_count', lambda mask: bin(mask).count('1'))


@functools.total_ordering
class CpuSet:
    """CPU ids, in the manner of frozenset but printed as the kernel does.

    >>> str(CpuSet.parse('0-3,^2,8-15:2'))
    '0-1,3,8,10,12,14'

    :param cpus: the CPU ids, each an int of 0 or more
    :raises ValueError: if an id is negative
    """

    __slots__ = ('mask',)

    mask: int

    def __init__(self, cpus: Iterable[int] = ()) -> None:
        mask = 0
        for cpu in cpus:
            if cpu < 0:
                raise ValueError(f'CPU id {cpu} is negative')
            mask |= 1 << cpu
        object.__setattr__(self, 'mask', mask)

    @classmethod
    def from_mask(cls, mask: int) -> CpuSet:
        """The set whose bit n says whether CPU n is in it.

        :raises ValueError: if mask is negative
        """
        if mask < 0:
            raise ValueError(f'CPU mask {mask} is negative')
        new = cls.__new__(cls)
        object.__setattr__(new, 'mask', mask)
        return new

    @classmethod
    def parse(cls, text: str) -> CpuSet:
        """Read the kernel's list syntax.

        Items are separated by commas: ``N``, ``A-B``, every N-th CPU of a
        range ``A-B:N`` (as taskset has it), the first U of each G CPUs of a
        range ``A-B:U/G`` (as the kernel has it), and each of them with ``^``
        before it to take it out again, wherever in the text it stands (as
        nova has it). See Documentation/admin-guide/kernel-parameters.rst and
        nova.virt.hardware.parse_cpu_spec.

        :raises ValueError: naming the item that cannot be read
        """
        included = excluded = 0
        for raw in text.split(','):
            item = raw.strip()
            if not item:
                continue
            match = _ITEM.fullmatch(item)
            if match is None:
                raise ValueError(
                    f'{item!r} in CPU list {text!r} is not a CPU id, a range '
                    f'such as 0-3 or 0-15:2, or one of these after "^"')
            mask = _item_mask(match, item, text)
            if match['exclude']:
                excluded |= mask
            else:
                included |= mask
        return cls.from_mask(included & ~excluded)

    @classmethod
    def parse_mask(cls, text: str) -> CpuSet:
        """Read the kernel's masks: hexadecimal, a comma to 32 CPUs.

        :raises ValueError: if it is none
        """
        groups = text.split(',')
        if '' in groups:
            raise ValueError(f'{text!r} is not a mask of CPUs')
        # Not every kernel writes all digits of what it has no CPUs for.
        return cls.from_mask(int(''.join(
            group.zfill(8) for group in groups), 16))

    @property
    def kernel_mask(self) -> str:
        """As the kernel's files for masks take it: ``ff,00000001``."""
        digits = f'{self.mask:x}'
        first = len(digits) % 8 or 8
        return ','.join((digits[:first], *(
            digits[start:start + 8]
            for start in range(first, len(digits), 8))))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError('CpuSet is immutable')

    def __delattr__(self, name: str) -> None:
        raise AttributeError('CpuSet is immutable')

    def __reduce__(self) -> tuple[object, ...]:
        return CpuSet.from_mask, (self.mask,)

    def __iter__(self) -> Iterator[int]:
        """The ids, lowest first."""
        mask = self.mask
        while mask:
            lowest = mask & -mask
            yield lowest.bit_length() - 1
            mask ^= lowest

    def __len__(self) -> int:
        return _bit_count(self.mask)

    def __bool__(self) -> bool:
        return self.mask != 0

    def __contains__(self, cpu: object) -> bool:
        return isinstance(cpu, int) and cpu >= 0 and bool(self.mask >> cpu & 1)

    def __or__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self.mask | other.mask)

    def __and__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self.mask & other.mask)

    def __sub__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self.mask & ~other.mask)

    def __xor__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self.mask ^ other.mask)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CpuSet):
            return NotImplemented
        return self.mask == other.mask

    def __lt__(self, other: CpuSet) -> bool:
        """By lowest ids first, so that lists of sets sort as people read."""
        if not isinstance(other, CpuSet):
            return NotImplemented
        return tuple(self) < tuple(other)

    def __hash__(self) -> int:
        return hash(self.mask)

    def issubset(self, other: CpuSet) -> bool:
        return not self.mask & ~other.mask

    def isdisjoint(self, other: CpuSet) -> bool:
        return not self.mask & other.mask

    def __str__(self) -> str:
        """The kernel's list syntax, shortest form: ``0-3,8``."""
        parts = []
        mask = self.mask
        while mask:
            first = (mask & -mask).bit_length() - 1
            length = (~(mask >> first) & ((mask >> first) + 1)).bit_length()
            last = first + length - 2
            parts.append(str(first) if first == last else f'{first}-{last}')
            mask &= -1 << (last + 1)
        return ','.join(parts)

    def __repr__(self) -> str:
        return f'CpuSet.parse({str(self)!r})'


def union(sets: Iterable[CpuSet]) -> CpuSet:
    """All CPUs that are in any of the sets."""
    return CpuSet.from_mask(
        functools.reduce(operator.or_, (cpu_set.mask for cpu_set in sets), 0))


def _item_mask(match: re.Match[str], item: str, text: str) -> int:
    first = int(match['first'])
    last = int(match['last'] or first)
    if last > MAX_CPU_ID:
        raise ValueError(
            f'{item!r} in CPU list {text!r}: CPU ids end at {MAX_CPU_ID}')
    if first > last:
        raise ValueError(
            f'{item!r} in CPU list {text!r}: the range runs backwards')
    if match['used'] is None:
        return ((1 << (last - first + 1)) - 1) << first
    # "A-B:N" takes one CPU of each N, "A-B:U/G" takes U of each G.
    used = int(match['used']) if match['group'] else 1
    group = int(match['group'] or match['used'])
    if not 0 < used <= group:
        raise ValueError(
            f'{item!r} in CPU list {text!r}: of each group of {group} CPUs, '
            f'{used} cannot be taken')
    mask = 0
    for start in range(first, last + 1, group):
        stop = min(start + used, last + 1)
        mask |= ((1 << (stop - start)) - 1) << start
    return mask
