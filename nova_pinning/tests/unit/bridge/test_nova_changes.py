# SPDX-License-Identifier: Apache-2.0
"""The changes to nova that are proposed, on copies of nova's modules.

Each is shown twice by the same code: with nova's module as it is, which goes
wrong, and with the changed copy. The page has the figures from here.
"""

import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

import dataclasses
import importlib.util
import itertools
import os
import pathlib
import random
import statistics
import subprocess

import fixtures
import nova
from nova import objects
from nova.pci import stats
from nova.scheduler import host_manager
from nova.virt import hardware
from nova.virt.libvirt import driver
from oslotest import base

from benchmarks import requests
from benchmarks.speed import hosts
from nova_pinning import cpuset
from nova_pinning.host import host_model
from nova_pinning.host import hostfile
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit.host import test_engine
from nova_pinning.tests.unit.upgrade import nova_samples as samples

ROOT = pathlib.Path(nova.__file__).parent.parent
CHANGES = (pathlib.Path(__file__).parents[4] / 'doc' / 'source' / 'admin' /
           'nova-changes')
PROVIDERS = ('a' * 8 + '-0000-4000-8000-000000000000',
             'b' * 8 + '-0000-4000-8000-000000000000')
GIB_PAGE_KIB = 1024 * 1024


class TestCase(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        objects.register_all()
        self.useFixture(fixtures.FakeLogger(level='CRITICAL'))

    def changed(self, name, module):
        """A copy of one of nova's modules, with a change applied.

        :param name: of the change's file
        """
        top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        source = pathlib.Path(module.__file__)
        copy = top / source.relative_to(ROOT)
        copy.parent.mkdir(parents=True)
        copy.write_bytes(source.read_bytes())
        # Not in a repository that a hook or a directory above is of.
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith('GIT_')}
        done = subprocess.run(
            ['git', 'apply', str(CHANGES / f'{name}.patch')], cwd=top,
            env={**environment, 'GIT_CEILING_DIRECTORIES': str(top.parent)},
            capture_output=True, text=True)
        self.assertEqual('', done.stderr)
        spec = importlib.util.spec_from_file_location(
            f'changed_{copy.stem}', copy)
        made = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = made
        self.addCleanup(sys.modules.pop, spec.name)
        spec.loader.exec_module(made)
        return made


class TestCoresInOrder(TestCase):
    """Guests on an EPYC with one node for a socket and 8 L3 caches in it."""

    def _caches_used(self, module):
        """By how many caches guests have that come and go, and the fewest."""
        cores = hostfile.split_cores(cpuset.CpuSet(range(128)), 2, 'split')
        caches = [{cpu for core in cores[first:first + 8] for cpu in core}
                  for first in range(0, 64, 8)]
        description = host_samples.host(nodes=(host_model.NumaNode(
            id=0, socket=0, cores=cores, memory_mib=1 << 20),),
            nova=host_samples.settings('0-127'))

        class Driver(test_engine.NovaDriver):
            topology = module.LibvirtDriver._get_host_numa_topology

        with test_engine.nova_options(description):
            host = Driver(host_samples.capabilities(description),
                          description.cpus, {}).topology()
        rng = random.Random(0)
        there, used = [], []
        while len(used) < 200:
            size = rng.choice((4, 8, 16))
            guest = samples.fit(host, samples.guest_of(
                samples.guest_cell(0, pinned=set(range(size)))))
            if guest is None or host.cells[0].avail_pcpus < 32:
                gone = there.pop(rng.randrange(len(there)))
                host = hardware.numa_usage_from_instance_numa(
                    host, gone, free=True)
                continue
            there.append(guest)
            host = hardware.numa_usage_from_instance_numa(host, guest)
            pins = set(guest.cells[0].cpu_pinning.values())
            used.append(sum(not cache.isdisjoint(pins)
                            for cache in caches))
        return used

    def test_l3_caches(self):
        # One cache would do for each of these guests.
        for module, mean, fewest in (
                (driver, 3.69, 9),
                (self.changed('cores-in-order', driver), 1.70, 103)):
            used = self._caches_used(module)
            self.assertEqual(200, len(used))
            self.assertEqual((mean, fewest), (
                round(statistics.fmean(used), 2), used.count(1)))


class TestTopologiesParsedOnce(TestCase):

    def _state(self, module, record):
        state = module.HostState('host', 'node', 'cell')
        state.update(hosts.compute_node(hosts.row(record)), {}, [], {})
        return state

    @staticmethod
    def _use(topology):
        return [(cell.pinned_cpus, cell.cpu_usage, cell.memory_usage,
                 [pool.used for pool in cell.mempages])
                for cell in topology.cells]

    def test_parsed_once(self):
        record = hosts.fill(hosts.TWO_SOCKETS, 0.5, 'test')
        other = hosts.fill(hosts.TWO_SOCKETS, 0.3, 'test')
        changed = self.changed('topologies-parsed-once', host_manager)
        for module, is_kept in ((host_manager, False), (changed, True)):
            first, again = (
                self._state(module, record).numa_topology for _ in range(2))
            self.assertIs(is_kept, first is again)
            # What was read for another state of the host does not come back.
            for now in (other, record):
                self.assertEqual(
                    self._use(hosts.host_state(now).numa_topology),
                    self._use(self._state(module, now).numa_topology))
        nothing = dataclasses.replace(record, numa_topology=None)
        self.assertIsNone(self._state(changed, nothing).numa_topology)

    def test_requests_do_not_see_each_other(self):
        record = hosts.fill(hosts.TWO_SOCKETS, 0.5, 'test')
        changed = self.changed('topologies-parsed-once', host_manager)
        request = requests.Request(
            8, 8192, {'hw:cpu_policy': 'dedicated', 'hw:numa_nodes': '2'})
        chosen = self._state(changed, record)
        before = chosen.numa_topology
        chosen.consume_from_request(request.spec())
        self.assertEqual(
            before.cells[0].avail_pcpus - 4,
            chosen.numa_topology.cells[0].avail_pcpus)
        self.assertIs(before, self._state(changed, record).numa_topology)
        self.assertEqual(self._use(hosts.host_state(record).numa_topology),
                         self._use(before))


class TestDevicesOfEachProvider(TestCase):

    def _supported(self, module, counts, providers):
        """Whether a guest gets its devices, by providers with so many."""
        host = samples.host_of(samples.host_cell(0), samples.host_cell(1))
        found = module.PciDeviceStats(host, dev_filter=object())
        found.pools = [
            {**samples.NIC, 'numa_node': cell, 'dev_type': 'type-PCI',
             'count': count, 'devices': [object()] * count,
             'remote_managed': 'false', 'rp_uuid': provider}
            for cell, (provider, count) in enumerate(zip(PROVIDERS, counts))]
        request, = samples.devices(len(providers))
        request.spec[0]['rp_uuids'] = ','.join(providers)
        cell = samples.guest_cell(0)
        return bool(found._filter_pools(
            found.pools, request, [cell],
            found._get_rp_uuids_for_request(None, request)))

    def test_one_device_of_each(self):
        one, other = PROVIDERS
        changed = self.changed('devices-of-each-provider', stats)
        for counts, wanted, right in (
                # One is near the guest's cell and the other is not.
                ((2, 2), (one, other), False),
                ((2, 2), (one, one), True),
                ((1, 2), (one, one), False),
                ((2, 2), (one,), True)):
            self.assertIs(right, self._supported(changed, counts, wanted))
        self.assertTrue(self._supported(stats, (2, 2), (one, other)))


class TestFitOnCopies(TestCase):

    def _case(self, rng):
        """A host, and a guest whose cells differ."""
        cells = rng.randint(2, 4)
        host = samples.host_of(*(
            samples.host_cell(
                number, dedicated=set(range(16 * number, 16 * number + 16)),
                pinned=set(range(16 * number, 16 * number + rng.randint(
                    0, 16))),
                pages=(samples.page(4, 1 << 18), samples.page(
                    GIB_PAGE_KIB, rng.choice((0, 4)))))
            for number in range(cells)))
        size = rng.choice((None, hardware.MEMPAGES_ANY,
                           hardware.MEMPAGES_LARGE))
        guest, first = [], 0
        for number in range(rng.randint(2, cells)):
            count = rng.randint(1, 8)
            guest.append(samples.guest_cell(
                number, pinned=set(range(first, first + count)),
                memory_mib=rng.choice((512, 1024, 2048)), size=size))
            first += count
        return host, samples.guest_of(*guest)

    @staticmethod
    def _fits_somewhere(host, guest):
        """Whether there is room, each pair of cells looked at by itself."""
        def fits(host_cell, guest_cell):
            try:
                return hardware._numa_fit_instance_cell(
                    host_cell, guest_cell.obj_clone()) is not None
            except nova.exception.MemoryPageSizeNotSupported:
                return False

        return any(
            all(map(fits, chosen, guest.cells))
            for chosen in itertools.permutations(
                host.cells, len(guest.cells)))

    @staticmethod
    def _is_right(host, guest, answer):
        """Whether each cell got CPUs and pages that its host cell has."""
        by_id = {cell.id: cell for cell in host.cells}
        if len({cell.id for cell in answer.cells}) < len(answer.cells):
            return False
        for asked, cell in zip(guest.cells, answer.cells):
            host_cell = by_id[cell.id]
            pins = cell.cpu_pinning or {}
            pages = {pool.size_kb: pool for pool in host_cell.mempages}
            if (pins.keys() != asked.pcpuset
                    or not host_cell.free_pcpus.issuperset(pins.values())
                    or cell.pagesize and pages[cell.pagesize].free_kb
                    < asked.memory * 1024):
                return False
        return True

    def _wrong(self, module, count):
        """How many first and second attempts of so many go wrong."""
        rng = random.Random(0)
        wrong = [0, 0]
        for _ in range(count):
            host, guest = self._case(rng)
            other, _guest = self._case(rng)
            if len(other) < len(guest):
                other = host
            for attempt, where in enumerate((other, host)):
                asked = guest.obj_clone()
                answer = module.numa_fit_instance_to_host(
                    where, guest, provider_mapping=None)
                wrong[attempt] += (
                    self._fits_somewhere(where, asked) if answer is None
                    else not self._is_right(where, asked, answer))
                if answer is not None:
                    # As an aborted claim leaves it.
                    guest = answer
                    guest.clear_host_pinning()
        return tuple(wrong)

    def test_uneven_guests(self):
        # 6 and 29 with nova 34.
        self.assertGreater(min(self._wrong(hardware, 200)), 0)
        self.assertEqual((0, 0), self._wrong(
            self.changed('fit-on-copies', hardware), 200))
