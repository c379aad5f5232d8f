# SPDX-License-Identifier: Apache-2.0
"""Sizes of guests with weights, as people write them: ``8:70,32x2:30``.

Items have commas between them. Each is a number of vCPUs, or vCPUsxCELLS for a
guest whose vCPUs are shared out evenly to so many NUMA cells, or the name of a
flavor; behind a colon stands how many there are of it for each of a weight of
1, which it has without. A flavor that is written out, as key=value, stands
alone, since it may have commas of its own.
"""

from collections.abc import Sequence
import dataclasses
import fractions
import math
import re

from nova_pinning import errors

_ITEM = re.compile(
    r'(?P<what>.+?)(?::(?P<weight>[0-9]{1,9}(?:\.[0-9]{1,6})?))?')
_SIZE = re.compile(r'([0-9]{1,9})(?:x([0-9]{1,9}))?')
# What is meant for numbers, and is no flavor.
_NUMBERS = re.compile('[-+.:x]*[0-9][-+.:x0-9]*|:.*')
_MOST_VCPUS = 100_000
EXAMPLE = '8:70,32x2:30'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SizeShare:
    """A size, and how often there is one.

    :param what: as it is written: '8', '32x2', or a flavor
    :param vcpus: 0 for a flavor
    :param cells: NUMA cells, 0 where nothing is said
    :param has_weight: whether it is written
    """

    what: str
    vcpus: int = 0
    cells: int = 0
    weight: fractions.Fraction = fractions.Fraction(1)
    has_weight: bool = False


def parse(text: str, where: errors.Location,
          takes_flavors: bool = True) -> tuple[SizeShare, ...]:
    """The sizes, in their order.

    :param takes_flavors: whether they can be named
    :raises errors.InputError: for what is none, has no weight, or comes twice
    """
    found: dict[str, SizeShare] = {}
    for item in [text] if '=' in text else text.split(','):
        share = _share(item.strip(), where, takes_flavors)
        if share.what in found:
            raise errors.InputError(f'{share.what} is in it twice', where)
        found[share.what] = share
    return tuple(found.values())


def whole_weights(shares: Sequence[SizeShare]) -> list[int]:
    """The weights as whole numbers, in the same proportions."""
    scale = math.lcm(*(share.weight.denominator for share in shares))
    return [int(share.weight * scale) for share in shares]


def _share(item: str, where: errors.Location,
           takes_flavors: bool) -> SizeShare:
    match = _ITEM.fullmatch(item)
    size = match and _SIZE.fullmatch(match['what'])
    if not match or not size and (
            not takes_flavors or _NUMBERS.fullmatch(match['what'])):
        raise errors.InputError(
            f'{item!r} is not a size', where,
            f'write vCPUs, or vCPUsxCELLS{", or flavors" * takes_flavors}, '
            f'with weights if need be, such as {EXAMPLE}')
    weight = fractions.Fraction(match['weight'] or 1)
    if not weight:
        raise errors.InputError(f'{match["what"]} has no weight', where,
                                'leave it out')
    vcpus, cells = (int(size[1]), int(size[2] or 0)) if size else (0, 0)
    if size and not 0 < vcpus <= _MOST_VCPUS:
        raise errors.InputError(
            f'{match["what"]} is not a number of vCPUs from 1 to '
            f'{_MOST_VCPUS:,}', where)
    if size and size[2] and (not cells or vcpus % cells):
        raise errors.InputError(
            f'{vcpus} vCPUs cannot be shared out to {cells} equal cells',
            where)
    return SizeShare(what=match['what'], vcpus=vcpus, cells=cells,
                     weight=weight, has_weight=match['weight'] is not None)
