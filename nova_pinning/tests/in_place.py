# SPDX-License-Identifier: Apache-2.0
"""Puts our filters where nova and its tests look for NUMATopologyFilter."""

from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any
import unittest

from nova.conf import paths
from nova.scheduler.filters import numa_topology_filter
from sqlalchemy import pool

from nova_pinning.scheduler import filters
from nova_pinning.tests.unit.scheduler import scheduler_fakes

#: The name by which nova's tests enable its filter.
NAME = 'NUMATopologyFilter'

#: What may stand there, by the word that NOVA_PINNING_FILTERS has for it.
NOVA, OURS, CLASSES = 'nova', 'ours', 'classes'
CHOICES = (NOVA, OURS, CLASSES)

_PASTE = 'etc/nova/api-paste.ini'


class _InPlace(filters.PinnedTopologyFilter):
    """Ours, with the one method that nova's tests watch.

    They replace host_passes() by a mock that calls what was there, and look at
    what it was called with. Ours does not go by that method.
    """

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        return True

    def filter_all(
        self, filter_obj_list: Iterable[Any], spec_obj: Any,
    ) -> Iterator[Any]:
        return super().filter_all(
            self._watched(filter_obj_list, spec_obj), spec_obj)

    def _watched(self, host_states: Iterable[Any],
                 spec_obj: Any) -> Iterator[Any]:
        for host_state in host_states:
            self.host_passes(host_state, spec_obj)
            yield host_state


def install(choice: str) -> None:
    """Have nova's harness load these filters, for the rest of the process.

    :param choice: one of CHOICES
    """
    _find_paste()
    # Nova's databases are files there, and oslo.db would open one anew, with
    # all its tables, for every transaction.
    pool.NullPool = pool.QueuePool
    if choice == NOVA:
        return
    # nova.scheduler.filters.all_filters() takes what it finds in its modules.
    numa_topology_filter.NUMATopologyFilter = type(NAME, (_InPlace,), {})
    if choice == CLASSES:
        numa_topology_filter.HostClassFilter = filters.HostClassFilter
        # The Placement of nova's tests is within reach of nova's own client
        # only, and no host has a trait of ours there.
        scheduler_fakes.serve({})


def enable(tests: Iterable[Any], choice: str) -> None:
    """Have classes of tests enable the filters that were installed.

    Ours judge the hosts of each test, also where nova's own is not enabled.

    :param tests: a unittest.TestSuite, or tests
    """
    if choice == NOVA:
        return
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            enable(test, choice)
        elif hasattr(test, 'ADDITIONAL_FILTERS'):
            type(test).ADDITIONAL_FILTERS = names(
                test.ADDITIONAL_FILTERS, choice)


def names(enabled: Iterable[str], choice: str) -> list[str]:
    """What a class of tests is to enable in place of what it does."""
    found = [name for name in enabled if name != 'HostClassFilter']
    if NAME not in found:
        found.append(NAME)
    if choice == CLASSES:
        found.insert(found.index(NAME), 'HostClassFilter')
    return found


def _find_paste() -> None:
    """Nova's tests look for a file where a checkout of nova has it."""
    # It brings the whole of nova.
    from demo import stage
    state_path_def = paths.state_path_def

    def found(*parts: str) -> str:
        if parts == (_PASTE,):
            return stage.api_paste()
        return str(state_path_def(*parts))

    paths.state_path_def = found
