# SPDX-License-Identifier: Apache-2.0
"""How many hosts are marked, and what tells the class of the others.

Nova-scheduler sees only hosts that Placement offers, so all of them are read
from nova's databases: after each read of the traits, in a thread of its own,
so that neither requests nor the next read wait where a database hangs.
"""

from __future__ import annotations

import collections
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import time
from typing import Any

from nova import context as nova_context
from nova.db.main import api as main_db
from nova import objects
from oslo_log import log as logging

from nova_pinning import compat
from nova_pinning import conf
from nova_pinning.model import hostclass
from nova_pinning.scheduler import classes
from nova_pinning.scheduler import errorlog

LOG = logging.getLogger(__name__)

#: The least time between two counts.
_PAUSE_SECONDS = 600
#: A compute node's row takes 10 KiB and more.
_PAGE_ROWS = 500


class ToldBy(compat.StrEnum):
    """What HostClassFilter goes by for a host."""

    MARK = 'mark'
    CPU_SETS = 'cpu_sets'
    #: It has CPUs for both classes, and counts as dedicated.
    BOTH_CPU_SETS = 'both_cpu_sets'
    #: Neither marks nor CPUs tell: [pinning] unknown_host_class.
    NOTHING = 'nothing'
    #: It is of neither class.
    BARE_METAL = 'bare_metal'


class HostCensus:
    """Counts all hosts now and then, and says what it found.

    It says so the first time, and when other cells than before cannot be read.

    :ivar counts: None until they were counted; replaced as a whole. Those of a
        cell that cannot be read now are as they were when it could be.
    """

    def __init__(self) -> None:
        self.counts: Mapping[ToldBy, int] | None = None
        self._by_cell: Mapping[str, collections.Counter[ToldBy]] = {}
        self._unread: Sequence[str] | None = None
        self._errors = errorlog.ErrorLog()
        self._counted_at = 0.0

    def note(self, marked: Collection[str]) -> None:
        """Count the hosts, unless they just were. Never raises.

        Not to be called by two threads at once.

        :param marked: UUIDs of providers with the trait of a class
        """
        now = time.monotonic()
        if self._unread == [] and now - self._counted_at < _PAUSE_SECONDS:
            return
        try:
            unread = self._count(marked)
        except Exception as error:
            self._errors.report(
                LOG, 'Cannot count the marked hosts', error=error)
            return
        self._counted_at = now
        if self.counts is None:
            return
        if unread != self._unread:
            _say(self.counts, unread)
        self._unread = unread

    def _count(self, marked: Collection[str]) -> Sequence[str]:
        """Count the hosts of each cell of nova.

        :returns: names of cells that cannot be read
        """
        context = nova_context.get_admin_context()
        named = {host for aggregate in objects.AggregateList.get_all(context)
                 if hostclass.CLASS_KEY in aggregate.metadata
                 for host in aggregate.hosts}
        by_cell: dict[str, collections.Counter[ToldBy]] = {}
        unread = []
        for cell in objects.CellMappingList.get_all(context):
            if cell.is_cell0() or cell.disabled:
                continue
            try:
                with nova_context.target_cell(context, cell) as in_cell:
                    by_cell[cell.uuid] = collections.Counter(
                        _told_by(node, node['uuid'] in marked
                                 or node['host'] in named)
                        for node in _nodes(in_cell))
            except Exception as error:
                unread.append(cell.identity)
                if cell.uuid in self._by_cell:
                    by_cell[cell.uuid] = self._by_cell[cell.uuid]
                self._errors.report(
                    LOG, 'Cannot count the marked hosts of cell %s',
                    cell.identity, error=error)
        if by_cell:
            self._by_cell = by_cell
            self.counts = {
                told_by: sum(counts[told_by] for counts in by_cell.values())
                for told_by in ToldBy}
        return unread


#: The one of this process.
CENSUS = HostCensus()


def _nodes(in_cell: Any) -> Iterator[Mapping[str, Any]]:
    """The rows of compute nodes that may be chosen.

    :param in_cell: nova.context.RequestContext of their cell
    """
    marker = None
    while page := main_db.compute_node_get_all_by_pagination(
            in_cell, limit=_PAGE_ROWS, marker=marker):
        marker = page[-1]['id']
        yield from page


def _told_by(node: Mapping[str, Any], is_marked: bool) -> ToldBy:
    """What tells the class of a compute node, by its row."""
    if hostclass.is_bare_metal(node['hypervisor_type']):
        return ToldBy.BARE_METAL
    if is_marked:
        return ToldBy.MARK
    topology = node['numa_topology'] and objects.NUMATopology.obj_from_db_obj(
        node['numa_topology'])
    if classes.class_from_topology(topology) is None:
        return ToldBy.NOTHING
    return (ToldBy.BOTH_CPU_SETS if classes.has_cpus_for_both(topology)
            else ToldBy.CPU_SETS)


def _say(counts: Mapping[ToldBy, int], unread: Sequence[str]) -> None:
    """One line on all hosts.

    :param unread: cells whose hosts are counted as they were, or not at all
    """
    total = sum(counts.values()) - counts[ToldBy.BARE_METAL]
    unmarked = {
        ToldBy.BOTH_CPU_SETS:
            'hosts have both cpu_dedicated_set and cpu_shared_set and no '
            'mark: they count as dedicated, and shared guests are refused '
            'there',
        ToldBy.NOTHING:
            'hosts have neither CPU set and no mark: [pinning] '
            'unknown_host_class = '
            f'{conf.CONF.pinning.unknown_host_class} applies to them'}
    said = [f'{counts[told_by]} of {total} {what}'
            for told_by, what in unmarked.items() if counts[told_by]]
    if said:
        said.append('mark them with "openstack pinning host set --class" or '
                    'pinning:class of an aggregate')
    if unread:
        said.append('hosts of these cells, which cannot be read, are missing '
                    f'or as they were before: {", ".join(unread)}')
    LOG.log(logging.WARNING if said else logging.INFO, '%s', '; '.join([
        f'{counts[ToldBy.MARK]} of {total} hosts are marked as dedicated or '
        f'shared, besides {counts[ToldBy.BARE_METAL]} bare metal nodes',
        *said]))
