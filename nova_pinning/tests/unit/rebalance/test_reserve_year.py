# SPDX-License-Identifier: Apache-2.0
"""Guests come and go, hosts are lost at any moment, and all guests come up.

NOVA_PINNING_FAILURES says how many hosts are lost, a year of failures in a
fleet that nobody would want: 10,000 take an hour.
"""

import dataclasses
import os
import random

import ddt
import testtools

from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import failover
from nova_pinning.rebalance import failover_model
from nova_pinning.rebalance import standing_reserve
from nova_pinning.tests import forms
from nova_pinning.tests.unit.simulation import simulation_scenes

FAILURES = int(os.environ.get('NOVA_PINNING_FAILURES',
                              12 if forms.SHORT else 60))
RACKS = tuple(offered_host.Aggregate(name=name, metadata={'rack': name})
              for name in ('r1', 'r2', 'r3'))
KINDS = [request for request in simulation_scenes.KINDS.values()
         if request.topology is not None and request.topology.is_pinned
         and not request.devices]


def drawn_hosts(draws):
    """A few of each of two kinds, spread over racks."""
    made = []
    for kind in range(2):
        values = {'cells': draws.choice((1, 2, 4)),
                  'cores': draws.choice((4, 6)),
                  'threads': draws.choice((1, 2)),
                  'big_pages': draws.choice((0, 4))}
        for number in range(draws.randint(3, 5)):
            made.append(dataclasses.replace(
                simulation_scenes.host(f'k{kind}-{number}', **values),
                aggregates=(draws.choice(RACKS).name,)))
    return made


class Cloud:
    """Hosts and guests, as an operator keeps a reserve of them.

    :param losses: what is lost at once
    """

    def __init__(self, hosts, losses):
        self.wish = standing_reserve.ReserveFile(reserves={
            'spare': standing_reserve.ReserveWish(losses=losses)})
        self.fleet = snapshot.Fleet(hosts=tuple(hosts), aggregates=(
            *RACKS, offered_host.Aggregate(name='spare', metadata={
                'pinning:reserve': 'evacuations'})))
        self.count = 0
        self.apply()

    def apply(self):
        """Keep what is to be kept; returns what is missing."""
        made, = standing_reserve.plan(self.fleet, self.wish)
        self.fleet = dataclasses.replace(self.fleet, hosts=tuple(
            dataclasses.replace(host, aggregates=tuple(sorted(
                {*host.aggregates} - {'spare'} | (
                    {'spare'} if host.name in made.hosts else set()))))
            for host in self.fleet.hosts))
        return made.missing

    def arrive(self, request, draws):
        """A guest on any host that takes it, if there is one."""
        admission = judge.AdmissionJudge(occupied.rules_of(self.fleet))
        guests = occupied.guests_by_host(self.fleet)
        for host in draws.sample(self.fleet.hosts, len(self.fleet.hosts)):
            occupancy = host_occupancy.of_host(host, guests[host.name])
            found = admission.answer(request, occupancy)
            if isinstance(found, outcome.Admitted):
                self.count += 1
                self.fleet = dataclasses.replace(self.fleet, guests=(
                    *self.fleet.guests, judge.resident(
                        request, occupancy, found.use, f'g{self.count}')))
                return

    def leave(self, draws):
        guests = list(self.fleet.guests)
        if guests:
            guests.pop(draws.randrange(len(guests)))
            self.fleet = dataclasses.replace(self.fleet, guests=tuple(guests))

    def lose(self, name, by):
        """The verdict; guests that come up are where they are then."""
        loss, = failover.check_failover(
            self.fleet, by, only=[name], settings=failover.FailoverSettings(
                has_reserve=False, seconds=600.0)).losses
        places = {one.guest: one for one in loss.evacuations}
        self.fleet = dataclasses.replace(self.fleet, guests=tuple(
            dataclasses.replace(
                guest, host=places[guest.uuid].target,
                fit=places[guest.uuid].fit)
            if guest.uuid in places else guest
            for guest in self.fleet.guests))
        return loss


@ddt.ddt
class TestYear(testtools.TestCase):

    @ddt.data('host', 'rack')
    def test_all_guests_come_up(self, losses):
        lost = seed = moved = 0
        while lost < FAILURES:
            seed += 1
            found = self.lose_some(losses, seed, min(6, FAILURES - lost))
            lost += len(found)
            moved += sum(len(loss.evacuations) for loss in found)
        self.assertGreater(moved, FAILURES // 2)

    def test_order_that_has_to_be_looked_for(self):
        """The guests of a host fit on one like it, not the largest first."""
        self.assertTrue(self.lose_some('rack', 288, 6))

    def lose_some(self, losses, seed, most):
        """So many losses at random moments, as long as a reserve is there."""
        draws = random.Random(f'{losses}-{seed}')
        cloud = Cloud(drawn_hosts(draws), losses)
        kinds = draws.sample(KINDS, 4)
        found = []
        for _failure in range(most):
            for _event in range(draws.randint(5, 60)):
                if draws.random() < 0.75:
                    cloud.arrive(draws.choice(kinds), draws)
                else:
                    cloud.leave(draws)
            if cloud.apply():
                # Not enough hosts are empty for what is promised.
                break
            groups, _rest = failover.groups_of(cloud.fleet, losses)
            loss = cloud.lose(draws.choice(sorted(groups)), losses)
            self.assertIs(failover_model.SurvivalVerdict.YES, loss.verdict,
                          f'seed {seed}: {loss.name}, {loss.down}')
            found.append(loss)
        return found
