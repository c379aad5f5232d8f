# SPDX-License-Identifier: Apache-2.0


"""Shadow mode: our filters and weighers beside nova's, and nova decides.

The same servers are made twice, in a cloud with nova's NUMATopologyFilter
alone and in one that has ours too, with ``[pinning] mode = observe``. They
must end up in the same places, the wrong ones included, and the log of the
second has to tell where ours would have decided otherwise.
"""

import dataclasses

from oslotest import base

from demo import cloud
from demo import hosts
from nova_pinning.scheduler import metrics
from nova_pinning.scheduler import metrics_recorder
from nova_pinning.tests.functional import operated_cloud
from nova_pinning.tests.functional import test_nova_numa_fit

GIB = 1024  # in MiB

_NOVA = {'filters': cloud.NOVA_FILTERS,
         'weigher_paths': ('nova.scheduler.weights.all_weighers',)}
# Ours come first: they are to see what nova's filter refuses, too.
_BESIDE = {'filters': (*cloud.PINNING_FILTERS, *cloud.NOVA_FILTERS)}


@dataclasses.dataclass
class _Servers:
    """What became of the servers, by name."""

    nova: cloud.Cloud
    places: dict = dataclasses.field(default_factory=dict)
    ids: dict = dataclasses.field(default_factory=dict)

    def note(self, *servers):
        for server in servers:
            topology = server.host and self.nova.guest_topology(server)
            cells = topology.cells if topology else ()
            self.places[server.name] = (server.status, server.host, [
                (cell.id, cell.cpu_pinning, cell.pagesize) for cell in cells])
            self.ids[server.name] = server.id

    def note_many(self, *servers):
        """Servers of one request, whose claims are made in any order."""
        self.note(*servers)
        names = [server.name for server in servers]
        self.places.update(zip(names, sorted(
            map(self.places.__getitem__, names), key=str)))

    def note_hosts(self, *names):
        """Where others may go is part of it."""
        for name in names:
            self.places[name] = [
                (cell.pinned_cpus, cell.memory_usage)
                for cell in self.nova.host_topology(name).cells]


class _Recorder(metrics_recorder.MetricsRecorder):

    def __init__(self):
        self.found = []

    def differed(self, filter_name, who_refuses, reason, hosts):
        self.found.append((filter_name, who_refuses, str(reason), hosts))


class TestObserve(base.BaseTestCase):

    def _too_large(self, nova):
        """A guest that fits nowhere, and others that do."""
        servers = _Servers(nova)
        nova.start_host('small',
                        test_nova_numa_fit.TestCellTooLarge.host(None, 8))
        # Nova's weighers prefer hosts with more memory.
        nova.start_host('smaller', hosts.HostShape(
            cores_per_cell=6, threads=1, memory_mib=16 * GIB,
            dedicated='0-3', shared='4,5'))
        dedicated = nova.create_flavor('one', 1, GIB,
                                       test_nova_numa_fit.DEDICATED)
        shared = nova.create_flavor('shared', 1, GIB)
        servers.note(
            nova.boot('too-large', nova.create_flavor(
                'too-large', 3, 18 * GIB,
                {**test_nova_numa_fit.DEDICATED,
                 **test_nova_numa_fit.TestCellTooLarge.SPECS})),
            nova.boot('first', dedicated), nova.boot('second', dedicated),
            nova.boot('shared', shared))
        servers.note_many(*nova.boot_many('many', dedicated, 3))
        servers.note_hosts('small', 'smaller')
        return servers

    def _two_at_once(self, nova):
        """Two guests in a request, of which nova finds place for one only."""
        servers = _Servers(nova)
        # Pages of one size on the one host, and of another on the other.
        for name, memory_gib, pages in (('1g', 16, {1024 * 1024: 2}),
                                        ('2m', 15, {2048: 1024})):
            nova.start_host(name, hosts.HostShape(
                cores_per_cell=4, threads=1, memory_mib=memory_gib * GIB,
                dedicated='0-3', huge_pages=pages))
        servers.note_many(*nova.boot_many('both', nova.create_flavor(
            'large', 2, 2 * GIB,
            {**test_nova_numa_fit.DEDICATED, 'hw:mem_page_size': 'large'}), 2))
        servers.note_hosts('1g', '2m')
        return servers

    def _compare(self, story):
        """Tell the story twice.

        :returns: the servers in the second cloud, what its log says, and what
            was counted
        """
        with operated_cloud.Cloud(**_NOVA) as nova:
            alone = story(nova)
        recorder = _Recorder()
        with operated_cloud.Cloud(**_BESIDE) as nova:
            nova.stage.flags(mode='observe', group='pinning')
            metrics.use(recorder)
            self.addCleanup(metrics.use, None)
            beside = story(nova)
            said = nova.nova_log
            self.assertEqual((), nova.explanations)
        self.assertEqual(alone.places, beside.places)
        return beside, said, recorder.found

    def test_where_nova_accepts_too_much(self):
        servers, said, found = self._compare(self._too_large)
        self.assertEqual(
            ('ACTIVE', 'small', [1, 2, 0]),
            (*servers.places['too-large'][:2],
             [cell[0] for cell in servers.places['too-large'][2]]))
        self.assertIn(
            f'Observing instance {servers.ids["too-large"]}, 1 hosts: nova '
            'passes what PinnedTopologyFilter would refuse: 1 host: too '
            'little memory in any one cell (small: for guest cell 2: cell 0 '
            'has 8192 MiB of memory, 16384 MiB needed', said)
        self.assertIn(
            ('PinnedTopologyFilter', 'ours', 'memory', 1), found)
        # A host with cpu_dedicated_set is dedicated, floating CPUs or not.
        self.assertIn(
            f'Observing instance {servers.ids["shared"]}: HostClassFilter '
            'would refuse 1 of 1 hosts. 1 host: the host is of another class '
            'than the guest (smaller: a dedicated host, a shared guest)', said)
        self.assertIn(
            ('HostClassFilter', 'ours', 'host-class', 1), found)
        for name in ('first', 'second', 'many-1', 'many-2', 'many-3'):
            self.assertNotIn(
                f'Observing instance {servers.ids[name]}', said, name)

    def test_where_nova_refuses_too_much(self):
        servers, said, found = self._compare(self._two_at_once)
        self.assertEqual(
            {'ERROR'}, {servers.places[f'both-{number}'][0]
                        for number in (1, 2)})
        self.assertIn(
            'PinnedTopologyFilter would pass what nova refuses: 1 host: '
            "nova's own filter refuses the host (2m)", said)
        self.assertEqual(
            [('PinnedTopologyFilter', 'nova', 'nova-refuses', 1)], found)
