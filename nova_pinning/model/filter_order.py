# SPDX-License-Identifier: Apache-2.0
"""In which order nova-scheduler has to run its filters."""

from collections.abc import Sequence

LAST_FILTER = 'PinnedTopologyFilter'
#: Nova's own, in whose place that stands.
REPLACED_FILTER = 'NUMATopologyFilter'


def what_is_wrong(names: Sequence[str]) -> str:
    """What is wrong with the order of filters, '' if nothing is.

    PinnedTopologyFilter holds hosts back until it knows that there is no
    other, and cannot know what filters after it will say of the others.

    :param names: [filter_scheduler] enabled_filters
    :returns: a sentence that ends with the line to be written there
    """
    if LAST_FILTER not in names:
        return ''
    later = [name for name in names[names.index(LAST_FILTER) + 1:]
             if name != LAST_FILTER]
    if not later:
        return ''
    others = [name for name in names
              if name not in (LAST_FILTER, REPLACED_FILTER)]
    return (f'enabled_filters has {", ".join(later)} after {LAST_FILTER}, '
            'which has to be the last: write enabled_filters = '
            f'{", ".join([*others, LAST_FILTER])}')
