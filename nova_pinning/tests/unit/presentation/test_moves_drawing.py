# SPDX-License-Identifier: Apache-2.0

import collections
import dataclasses
import itertools
import re

from oslotest import base

from nova_pinning.fleet import occupied
from nova_pinning.presentation import drawing
from nova_pinning.presentation import moves_drawing
from nova_pinning.tests.unit.presentation import drawings
from nova_pinning.tests.unit.rebalance import plan_samples


def _after(fleet, plan):
    """The hosts when all is done, worked out from the moves alone."""
    guests = {guest.uuid: guest for guest in fleet.guests}
    for move in plan.moves:
        guests[move.guest] = dataclasses.replace(
            guests[move.guest], host=move.target, fit=move.target_fit)
    return occupied.of_fleet(dataclasses.replace(
        fleet, guests=tuple(guests.values())))


def _example(hosts=8, seed=0):
    """A fleet, a plan, and its drawing with an odd title."""
    fleet, plan = plan_samples.example(hosts, seed)
    return fleet, plan, moves_drawing.draw(
        plan, fleet, 'A <plan>', ['worth & cost'])


def _pins(fit):
    return {cpu for cell in (fit.cells if fit else ())
            for _vcpu, cpu in cell.pins}


class TestDraw(base.BaseTestCase):

    def test_before_and_after(self):
        for seed in range(4):
            fleet, plan, drawn = _example(seed=seed)
            touched = {name for move in plan.moves
                       for name in (move.source, move.target)}
            self.assertEqual(
                set(), {host.name for host in drawn.hosts} - touched)
            fleets = occupied.of_fleet(fleet), _after(fleet, plan)
            for host in drawn.hosts:
                self.assertEqual(['before', 'after'],
                                 [state.label for state in host.states])
                for state, hosts in zip(host.states, fleets):
                    self._check_state(host, state.tiles, {
                        cell.id: cell for cell
                        in hosts[host.name].engine.cells})

    def _check_state(self, host, tiles, cells):
        for node in host.nodes:
            cell = cells[node.id]
            own = drawings.of_style({
                cpu: tiles[cpu] for core in node.cores for cpu in core})
            self.assertEqual(
                set(cell.pinned_cpus),
                own.get('taken', set()) | own.get('pinned', set()))
            self.assertEqual(len(cell.free_cpus),
                             drawing.free_count(node, tiles))

    def test_moved_guests(self):
        _fleet, plan, drawn = _example()
        last = {move.guest: move for move in plan.moves}
        guests = moves_drawing.moved_guests(plan)
        self.assertEqual(list(last), [guest.guest for guest in guests])
        hosts = {host.name: host for host in drawn.hosts}
        for guest in guests:
            after = hosts[guest.target].states[1].tiles
            self.assertEqual(_pins(guest.target_fit), {
                cpu for cpu, tile in after.items()
                if tile.style is drawing.TileStyle.PINNED
                and tile.sign == guest.letter})
            self.assertEqual(last[guest.guest].target, guest.target)

    def test_parked(self):
        # From a over b to c: what is drawn is a and c.
        fleet = plan_samples.example()[0]
        guest = next(guest for guest in fleet.guests
                     if guest.fit is not None and guest.vcpus == 2)
        plan = None
        for target, other in itertools.permutations(
                sorted({host.name for host in fleet.hosts} - {guest.host}),
                2):
            try:
                plan = plan_samples.moving(
                    fleet, (guest.uuid, target), (guest.uuid, other))
                break
            except AssertionError:
                continue
        drawn = moves_drawing.draw(plan, fleet)
        self.assertEqual(
            {guest.host, other}, {host.name for host in drawn.hosts})
        moved, = moves_drawing.moved_guests(plan)
        self.assertEqual((guest.host, other), (moved.source, moved.target))

    def test_letters(self):
        names = list(itertools.islice(moves_drawing.symbols(), 1000))
        self.assertEqual(['A', 'B', 'Z', 'a'],
                         [names[at] for at in (0, 1, 25, 26)])
        self.assertEqual(1000, len(set(names)))
        # An x is a guest that stays.
        self.assertNotIn('x', names)


class TestTerminal(base.BaseTestCase):

    def _lines(self, drawn, width=80):
        return drawings.plain(moves_drawing.beside_table(drawn), width)

    def test_counts(self):
        _fleet, plan, drawn = _example()
        rows = [line for line in self._lines(drawn, 200)
                if re.search(' (before|after|as it is) ', line)]
        for row in rows:
            signs, free = re.search(
                r'(?:before|after|as it is) +(\S*) +(\d+) free$', row).groups()
            self.assertEqual(int(free), signs.count('.'))
        signs = collections.Counter(
            sign for row in rows if ' after ' in row
            for sign in row.split()[-3])
        for guest in moves_drawing.moved_guests(plan):
            self.assertEqual(len(_pins(guest.target_fit)),
                             signs[guest.letter], guest)

    def test_width(self):
        _fleet, _plan, drawn = _example()
        wide = self._lines(drawn, 200)
        for width in (40, 60, 80):
            lines = self._lines(drawn, width)
            self.assertTrue(all(len(line) <= width for line in lines))
            # All of it is still there.
            for sign in '.xA':
                self.assertEqual(
                    sum(line.count(sign) for line in wide[:-3]),
                    sum(line.count(sign) for line in lines[:-3]))

    def test_many_guests(self):
        # Letters of two signs have a blank between them.
        _fleet, _plan, drawn = _example()
        drawn = dataclasses.replace(drawn, hosts=tuple(
            dataclasses.replace(host, states=tuple(
                dataclasses.replace(state, tiles={
                    cpu: tile if tile.style is not drawing.TileStyle.PINNED
                    else dataclasses.replace(tile, sign=f'Z{tile.guest}')
                    for cpu, tile in state.tiles.items()})
                for state in host.states)) for host in drawn.hosts))
        lines = self._lines(drawn, 200)
        self.assertTrue(any('Z1 Z1' in line for line in lines))
        self.assertFalse(any('Z1Z1' in line for line in lines))

    def test_most(self):
        fleet, plan, drawn = _example()
        some = moves_drawing.draw(plan, fleet, most=1)
        self.assertEqual(drawn.hosts[:1], some.hosts)
        self.assertEqual({host.name for host in drawn.hosts},
                         moves_drawing.changed_hosts(plan))
