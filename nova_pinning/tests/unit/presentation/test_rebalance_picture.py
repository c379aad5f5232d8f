# SPDX-License-Identifier: Apache-2.0


import collections
import dataclasses
import itertools
import re
from xml.etree import ElementTree

from oslotest import base

from nova_pinning.fleet import host_occupancy
from nova_pinning import presentation
from nova_pinning.presentation import cpu_use
from nova_pinning.presentation import rebalance_drawing
from nova_pinning.presentation import rebalance_picture
from nova_pinning.presentation import rebalance_svg
from nova_pinning.tests.unit.rebalance import plan_samples


def _after(fleet, plan):
    """The hosts when all is done, worked out from the moves alone."""
    guests = {guest.uuid: guest for guest in fleet.guests}
    for move in plan.moves:
        guests[move.guest] = dataclasses.replace(
            guests[move.guest], host=move.target, fit=move.target_fit)
    return host_occupancy.of_fleet(dataclasses.replace(
        fleet, guests=tuple(guests.values())))


def _of_kind(uses, *kinds):
    return {cpu for cpu, use in uses.items() if use.kind in kinds}


class TestPicture(base.BaseTestCase):

    def test_before_and_after(self):
        for seed in range(4):
            fleet, plan = plan_samples.example(8, seed)
            picture = rebalance_picture.picture_of(plan, fleet)
            touched = {name for move in plan.moves
                       for name in (move.source, move.target)}
            self.assertEqual(
                set(), {host.name for host in picture.hosts} - touched)
            states = host_occupancy.of_fleet(fleet), _after(fleet, plan)
            for host in picture.hosts:
                for cell in host.cells:
                    for uses, state in zip((cell.before, cell.after), states):
                        engine, = [
                            other for other in state[host.name].engine.cells
                            if other.id == cell.id]
                        self.assertEqual(
                            set(engine.pinned_cpus), _of_kind(
                                uses, cpu_use.CpuUseKind.TAKEN,
                                cpu_use.CpuUseKind.PINNED))
                        self.assertEqual(
                            len(engine.free_cpus),
                            rebalance_picture.free_count(uses))

    def test_moved_guests(self):
        fleet, plan = plan_samples.example(8)
        picture = rebalance_picture.picture_of(plan, fleet)
        last = {move.guest: move for move in plan.moves}
        self.assertEqual(list(last), [
            guest.guest for guest in picture.guests])
        for guest in picture.guests:
            pins = {cpu for cell in (guest.target_fit.cells
                                     if guest.target_fit else ())
                    for _vcpu, cpu in cell.pins}
            drawn = {cpu for host in picture.hosts for cell in host.cells
                     for cpu, use in cell.after.items()
                     if use.moved == guest and host.name == guest.target}
            self.assertEqual(pins, drawn)
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
        picture = rebalance_picture.picture_of(plan, fleet)
        self.assertEqual(
            {guest.host, other}, {host.name for host in picture.hosts})
        moved, = picture.guests
        self.assertEqual((guest.host, other), (moved.source, moved.target))


class TestDrawing(base.BaseTestCase):

    def _lines(self, picture, width=80, most=None):
        return [presentation.plain(line) for line in rebalance_drawing.draw(
            picture, width, most)]

    def test_counts(self):
        fleet, plan = plan_samples.example(8)
        picture = rebalance_picture.picture_of(plan, fleet)
        rows = [line for line in self._lines(picture, 200)
                if re.search(' (before|after|as it is) ', line)]
        for row in rows:
            drawn, free = re.search(
                r'(?:before|after|as it is) +(\S*) +(\d+) free$', row).groups()
            self.assertEqual(int(free), drawn.count('.'))
        signs = collections.Counter(
            sign for row in rows if ' after ' in row
            for sign in row.split()[-3])
        for guest in picture.guests:
            pinned = [cpu for cell in (guest.target_fit.cells
                                       if guest.target_fit else ())
                      for cpu in cell.pins]
            self.assertEqual(len(pinned), signs[guest.letter], guest)

    def test_width(self):
        fleet, plan = plan_samples.example(8)
        picture = rebalance_picture.picture_of(plan, fleet)
        wide = self._lines(picture, 200)
        for width in (40, 60, 80):
            lines = self._lines(picture, width)
            self.assertTrue(all(len(line) <= width for line in lines))
            # All of it is still there.
            for sign in '.xA':
                self.assertEqual(
                    sum(line.count(sign) for line in wide[:-3]),
                    sum(line.count(sign) for line in lines[:-3]))

    def test_many_guests(self):
        # Letters of two signs have a blank between them.
        fleet, plan = plan_samples.example(8)
        picture = rebalance_picture.picture_of(plan, fleet)
        named = {guest: dataclasses.replace(guest, letter=f'Z{guest.number}')
                 for guest in picture.guests}
        picture = dataclasses.replace(
            picture, guests=tuple(named.values()), hosts=tuple(
                dataclasses.replace(host, cells=tuple(
                    dataclasses.replace(cell, **{
                        state: {cpu: use._replace(
                            moved=use.moved and named[use.moved])
                            for cpu, use in getattr(cell, state).items()}
                        for state in ('before', 'after')})
                    for cell in host.cells)) for host in picture.hosts))
        lines = self._lines(picture, 200)
        self.assertTrue(any('Z1 Z1' in line for line in lines))
        self.assertFalse(any('Z1Z1' in line for line in lines))

    def test_most(self):
        fleet, plan = plan_samples.example(8)
        picture = rebalance_picture.picture_of(plan, fleet)
        first, second = picture.hosts[:2]
        lines = self._lines(picture, most=1)
        self.assertIn(first.name, lines)
        self.assertNotIn(second.name, lines)

    def test_marks(self):
        fleet, plan = plan_samples.example(3)
        marks = {span.mark for line in rebalance_drawing.draw(
            rebalance_picture.picture_of(plan, fleet)) for span in line}
        for mark in marks - {''}:
            self.assertTrue(rebalance_drawing.style(mark), mark)


class TestSvg(base.BaseTestCase):

    def _texts(self, svg):
        return [element.text for element in ElementTree.fromstring(svg).iter()
                if element.tag.endswith(('}text', '}title'))]

    def test_all_there(self):
        fleet, plan = plan_samples.example(8)
        picture = rebalance_picture.picture_of(plan, fleet)
        svg = rebalance_svg.render(picture, 'A <plan>', ['worth & cost'])
        texts = self._texts(svg)
        self.assertIn('A <plan>', texts)
        self.assertIn('worth & cost', texts)
        for host in picture.hosts:
            self.assertIn(host.name, texts)
        for guest in picture.guests:
            self.assertIn(guest.letter, texts)
            self.assertTrue(any(
                text.startswith(f'{guest.title}, ') for text in texts))
        free = collections.Counter(
            text for text in texts if re.fullmatch(r'\d+ free', text))
        self.assertEqual(
            collections.Counter(
                f'{rebalance_picture.free_count(uses)} free'
                for host in picture.hosts for cell in host.cells
                for uses in (cell.before, cell.after)), free)
        # Nothing is fetched from elsewhere.
        self.assertEqual(
            [], re.findall('(?:href|src|@import)', svg))

    def test_nothing(self):
        svg = rebalance_svg.render(rebalance_picture.MovePicture(
            guests=(), hosts=()), 'No moves')
        self.assertIn('No moves', self._texts(svg))
