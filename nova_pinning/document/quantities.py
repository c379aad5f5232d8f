# SPDX-License-Identifier: Apache-2.0
"""Amounts with units, as people write them: ``8GiB``, ``16 gb``, ``512M``.

Bytes count in 1024s, whether it says ``G``, ``GB`` or ``GiB``: that is how
nova, libvirt and the kernel count memory and disk. Bits count in 1000s, as
networks do. Case does not matter.

A number without a unit is taken in the unit that nova itself has there: MiB
of memory, KiB of a page, GiB of disk.
"""

import fractions
import re

from nova_pinning import errors

_PREFIXES = {'': 0, 'k': 1, 'm': 2, 'g': 3, 't': 4, 'p': 5}
_AMOUNT = re.compile(r'(\d{1,18}(?:\.\d{1,18})?)\s*([A-Za-z]*)', re.ASCII)
_UNIT = re.compile(r'([kmgtp]?)(?:(i?b?)|bytes?|(bits?))')
_EXAMPLE = 'write it like 8GiB or 512MiB'


def unit_bytes(unit: str) -> fractions.Fraction | None:
    """How many bytes a unit is: ``GiB``, ``mb``, ``K``, ``Mbit``.

    :returns: None if it is not a unit
    """
    match = _UNIT.fullmatch(unit.lower())
    if match is None or not unit or unit.lower() in ('i', 'ib'):
        return None
    power = _PREFIXES[match[1]]
    if match[3]:
        return fractions.Fraction(1000 ** power, 8)
    return fractions.Fraction(1024 ** power)


def amount_bytes(value: str | int, where: errors.Location,
                 plain_unit: str = '', *,
                 has_bits: bool = False) -> fractions.Fraction:
    """An amount in bytes.

    :param value: a number with a unit, or a number of plain_units
    :param has_bits: whether it may be one of bits, as networks have it, and
        a second be said
    :raises errors.InputError: if it is neither
    """
    text = str(value).strip()
    match = _AMOUNT.fullmatch(
        text.removesuffix('/s') if has_bits else text)
    if match is None:
        raise errors.InputError(f'{value!r} is not an amount', where, _EXAMPLE)
    factor = unit_bytes(match[2] or plain_unit)
    if factor is None or not has_bits and 'bit' in match[2].lower():
        raise errors.InputError(
            f'{value!r} has a unit that is not known, {match[2]!r}', where,
            _EXAMPLE)
    return fractions.Fraction(match[1]) * factor


def memory_mib(value: str | int, where: errors.Location) -> int:
    """An amount of memory in MiB; numbers without a unit are MiB.

    :raises errors.InputError: if it is not an amount, or no whole MiB
    """
    return _whole(value, where, 'MiB')


def page_size_kib(value: str | int, where: errors.Location) -> int:
    """The size of a page in KiB; numbers without a unit are KiB.

    :raises errors.InputError: if it is not an amount, or no whole KiB
    """
    return _whole(value, where, 'KiB')


def disk_gib(value: str | int, where: errors.Location) -> int:
    """The size of a disk in GiB; numbers without a unit are GiB.

    :raises errors.InputError: if it is not an amount, or no whole GiB
    """
    return _whole(value, where, 'GiB')


def _whole(value: str | int, where: errors.Location, unit: str) -> int:
    factor = unit_bytes(unit)
    assert factor
    amount = amount_bytes(value, where, unit) / factor
    if amount.denominator != 1:
        raise errors.InputError(
            f'{value!r} is not a whole number of {unit}', where)
    return int(amount)


def text(mib: int) -> str:
    """An amount of memory as a file has it: ``8GiB``, ``1500MiB``.

    :param mib: in MiB
    """
    return f'{mib}MiB' if mib % 1024 or not mib else f'{mib // 1024}GiB'


def page_size_text(kib: int) -> str:
    """A page size as a file has it: ``64KiB``, ``2MiB``, ``1GiB``."""
    return f'{kib}KiB' if kib % 1024 else text(kib // 1024)


def shown_memory(mib: int) -> str:
    """An amount of memory for people: '384 GiB', '1536 MiB'."""
    return f'{mib} MiB' if mib % 1024 else f'{mib // 1024} GiB'


def shown_alike(*amounts_mib: int) -> tuple[str, ...]:
    """Amounts of memory to compare, all in one unit."""
    unit_mib, unit = (1, 'MiB') if any(
        mib % 1024 for mib in amounts_mib) else (1024, 'GiB')
    return tuple(f'{mib // unit_mib} {unit}' for mib in amounts_mib)


def shown_page_size(kib: int) -> str:
    """A page size for people: '64 KiB', '2 MiB', '1 GiB'."""
    if kib % 1024 or not kib:
        return f'{kib} KiB'
    return shown_memory(kib // 1024)
