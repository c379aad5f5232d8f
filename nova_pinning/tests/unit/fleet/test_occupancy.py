# SPDX-License-Identifier: Apache-2.0

from oslotest import base as oslotest

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning import cpuset
from nova_pinning import fit
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.fleet import fleet_samples


def _host(name):
    return offered_host.OfferedHost(name=name, cells=(
        builders.host_cell(0, range(4)), builders.host_cell(1, range(4, 8))),
        cpu_allocation_ratio=4.0, ram_allocation_ratio=1.5)


def _guest(uuid, host, **values):
    return resident_guest.ResidentGuest(**{
        'uuid': uuid, 'host': host, 'vcpus': 2, 'memory_mib': 512,
        'guest_class': hostclass.HostClass.DEDICATED} | values)


class TestOccupancy(oslotest.BaseTestCase):

    def test_engine_hosts(self):
        topology = builders.guest((2, 512))
        host = _host('a')
        placed = _guest('1', 'a', topology=topology, fit=fit.fit_guest(
            host_occupancy.engine_host(host), topology))
        fleet = snapshot.Fleet(
            hosts=(_host('b'), host),
            guests=(placed, _guest('2', 'a'), _guest('3', 'elsewhere')))
        hosts = fleet_samples.engine_hosts(fleet)
        self.assertEqual(['b', 'a'], list(hosts))
        self.assertEqual((4.0, 1.5), hosts['a'][1:3])
        self.assertEqual(_host('b').cells, hosts['b'].cells)
        self.assertEqual(cpuset.CpuSet([0, 1]),
                         hosts['a'].cells[0].pinned_cpus)
        self.assertEqual(512, hosts['a'].cells[0].memory_used_mib)

    def test_guests_by_host(self):
        one, other = _guest('1', 'a'), _guest('2', 'a')
        self.assertEqual(
            {'a': [one, other], 'b': []},
            occupied.guests_by_host(snapshot.Fleet(
                hosts=(_host('a'), _host('b')),
                guests=(one, _guest('3', 'elsewhere'), other))))
