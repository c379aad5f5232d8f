# SPDX-License-Identifier: Apache-2.0
"""The filters of nova-scheduler whose names tell what it does with a fleet."""

from collections.abc import Sequence

from nova_pinning.admission import scheduler_rules
from nova_pinning import errors
from nova_pinning.model import filter_order
from nova_pinning import spelling

TOPOLOGY_FILTERS = (filter_order.LAST_FILTER, filter_order.REPLACED_FILTER)

#: How much alike a misspelt name and the right one are at least. Nova's other
#: filters are below 0.8; two letters too few of HostClassFilter are above.
_LEAST_ALIKE = 0.9


def check(names: Sequence[str], where: errors.Location) -> None:
    """See that none of these filters is misspelt.

    A name that nobody knows is no mistake: there are filters of others. But
    one that only looks like one of these would count as another, and what
    that filter does would be left out without a word.

    :raises errors.InputError: for the first that is
    """
    for name in names:
        module, _dot, of_class = name.rpartition('.')
        right = next(iter(spelling.nearest(
            of_class, (scheduler_rules.CLASS_FILTER, *TOPOLOGY_FILTERS), 1,
            _LEAST_ALIKE)), of_class)
        if module:
            raise errors.InputError(
                f'{name}: nova knows filters by the names of their classes, '
                'without their modules', where, f'write {right}')
        if name != right:
            raise errors.InputError(
                f'{name} looks like {right}, but nova knows filters by their '
                'exact names', where, f'write {right}')
