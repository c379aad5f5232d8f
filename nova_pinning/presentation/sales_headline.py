# SPDX-License-Identifier: Apache-2.0
"""What of a fleet has sold out, and what does next, in a few lines."""

from collections.abc import Iterator
from collections.abc import Sequence
import math
from typing import NamedTuple

from nova_pinning.capacity import outlook
from nova_pinning.host import words
from nova_pinning.presentation import capacity_report

# Names that a line has room for.
_NAMES = 3


class HeadlineLine(NamedTuple):
    """A line of what matters most.

    :param level: 'error', 'warning', 'unknown', 'yes' or 'note'
    :param figure: what is to be seen first, '' for nothing
    """

    level: str
    figure: str
    text: str

    def __str__(self) -> str:
        return f'{self.figure}: {self.text}' if self.figure else self.text


def lines(outlooks: Sequence[outlook.FlavorOutlook],
          since: str = '') -> Iterator[HeadlineLine]:
    """What has sold out, what does next, and what nobody knows.

    :param outlooks: the most valuable first
    :param since: when the history begins, ISO 8601
    """
    status = outlook.SaleStatus
    offered = [one for one in outlooks
               if one.status is not status.NOT_OFFERED]
    if not offered:
        yield HeadlineLine('unknown', '', 'No flavors are known.'
                           if not outlooks else
                           'None of the flavors is for these hosts.')
        return
    sold_out = [one for one in offered if one.status is status.SOLD_OUT]
    undecided = [one for one in offered if one.status is status.UNDECIDED]
    left = [one for one in offered if one.size.certain]
    if sold_out:
        yield HeadlineLine('error', 'Sold out', _named(sold_out))
    elif not undecided:
        yield HeadlineLine('yes', 'Nothing has sold out',
                           f'{words.count(len(left), "flavor")} on sale')
    if undecided:
        yield HeadlineLine(
            'unknown', 'Not known', 'whether one more fits of '
            + _named(undecided))
    if left:
        yield _next(min(left, key=lambda one: (
            one.days_left is None, one.days_left or 0, one.size.fits)), since)
    # CPUs that are nobody else's are what dashboards add up.
    pinned = [one for one in offered
              if (guest := one.size.request.topology) and guest.is_pinned]
    worst = max(pinned or offered, key=_overstated)
    if _overstated(worst) > 0:
        yield _promised(worst)


def _next(one: outlook.FlavorOutlook, since: str) -> HeadlineLine:
    """The flavor that runs out next."""
    size = one.size
    text = f'{size.request.name}, which runs out next'
    if one.days_left is not None:
        text += f', in about {days(one.days_left)} at the pace since ' + since
    elif one.guests:
        text += f'; {one.guests:,} are sold'
    return HeadlineLine(
        'warning' if one.status is outlook.SaleStatus.LOW else 'yes',
        f'{"At most " * size.is_bound}{size.fits:,} left', text)


def days(number: float) -> str:
    """'1 day', '12 days'; a day that has begun counts."""
    return words.count(math.ceil(number), 'day')


def _overstated(one: outlook.FlavorOutlook) -> int:
    """By how many vCPUs host totals say too much."""
    return (one.size.totals - one.size.fits) * one.size.request.vcpus


def _promised(one: outlook.FlavorOutlook) -> HeadlineLine:
    """What the totals of hosts make of a flavor."""
    size = one.size
    because = [capacity_report.CAUSES[cause] for cause in size.missing][:1]
    return HeadlineLine(
        'note', '', f'Host totals promise {size.totals:,} of '
        f'{size.request.name} where {size.fits:,} '
        f'{"fits" if size.fits == 1 else "fit"}: '
        f'{"mostly " * (len(size.missing) > 1)}{"".join(because)}.')


def _named(found: Sequence[outlook.FlavorOutlook]) -> str:
    """'large (88 vCPUs), medium and 4 more'."""
    return words.listed([
        f'{one.size.request.name} ({one.size.request.vcpus:,} vCPUs)'
        for one in found], _NAMES)
