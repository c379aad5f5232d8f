# SPDX-License-Identifier: Apache-2.0

import dataclasses

from oslotest import base as oslotest

from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning import cpuset
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import document
from nova_pinning.fleet import snapshot
from nova_pinning.importers import snapshot_limits
from nova_pinning import model
from nova_pinning.model import hostclass


def host(number, memory_mib=1024):
    return offered_host.OfferedHost(
        name=f'h{number}', cells=(model.HostCell(
            0, cpuset.CpuSet(), cpuset.CpuSet.parse('0-3'), cpuset.CpuSet(),
            ((0,), (1,), (2,), (3,)), memory_mib),))


def guest(number, vcpus=2, cell=0):
    return resident_guest.ResidentGuest(
        uuid=f'g{number}', host=f'h{number}', vcpus=vcpus, memory_mib=512,
        guest_class=hostclass.HostClass.DEDICATED,
        topology=model.Guest((model.GuestCell((0, 1), (), 512),),
                             model.CpuPolicy.DEDICATED),
        fit=model.Fit((model.CellFit(cell, ((0, 0), (1, 1))),)))


class OddTestCase(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.fleet = snapshot.Fleet(
            hosts=tuple(map(host, range(20))),
            guests=tuple(map(guest, range(20))),
            flavors=(flavor_model.Flavor(name='f', vcpus=1, memory_mib=1),))

    def changed(self, what, number, thing):
        things = list(getattr(self.fleet, what))
        things[number] = thing
        return dataclasses.replace(self.fleet, **{what: tuple(things)})

    def check(self, wanted, fleet, *words):
        found, notes = snapshot_limits.drop_unrepresentable(fleet)
        self.assertEqual(wanted, found)
        document.dumps(found)
        self.assertEqual(len(words), len(notes))
        for word, note in zip(words, notes):
            self.assertIn(word, note)

    def test_sound(self):
        self.check(self.fleet, self.fleet)

    def test_cells(self):
        self.check(
            self.changed('hosts', 7, dataclasses.replace(host(7), cells=())),
            self.changed('hosts', 7, host(7, 10 ** 30)), 'host h7: what nova')

    def test_several_guests(self):
        fleet = self.fleet
        for number in (3, 11, 19):
            fleet = dataclasses.replace(fleet, guests=tuple(
                guest(number, cell=-1) if one.uuid == f'g{number}' else one
                for one in fleet.guests))
        self.check(dataclasses.replace(self.fleet, guests=tuple(
            dataclasses.replace(one, topology=None, fit=None)
            if one.uuid in ('g3', 'g11', 'g19') else one
            for one in self.fleet.guests)), fleet,
            'server g3 on h3: ', 'server g11 on h11: ', 'server g19 on h19: ')

    def test_beyond_repair(self):
        self.check(
            dataclasses.replace(self.fleet, guests=self.fleet.guests[1:]),
            self.changed('guests', 0, guest(0, vcpus=-1)),
            'server g0 on h0 is left out: ')

    def test_flavor(self):
        self.check(
            dataclasses.replace(self.fleet, flavors=()),
            self.changed('flavors', 0, flavor_model.Flavor(
                name='f', vcpus=-1, memory_mib=1)), 'flavor f is left out: ')
