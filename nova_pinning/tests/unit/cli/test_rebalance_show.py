# SPDX-License-Identifier: Apache-2.0


"""nova-pinning rebalance show."""

import csv
import dataclasses
import io
import json
from xml.etree import ElementTree

from nova_pinning.fleet import document
from nova_pinning.rebalance import plan_document
from nova_pinning.rebalance import plan_model
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.rebalance import plan_samples


class TestShowPlan(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        self.fleet, self.plan = plan_samples.example(6, gains=(
            plan_model.SlotGain(size='16', before=2, after=5, bound=5),))
        self.path = str(self.dir / 'plan.json')
        plan_document.write_plan(self.plan, self.path)
        self.snapshot = str(self.dir / 'fleet.json')
        document.write(self.snapshot, self.fleet)

    def _show(self, *argv):
        return self.run_command('rebalance', 'show', *argv)

    def test_alone(self):
        done = self._show(self.path)
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertIn('6 moves make room for 3 more guests', done.out)
        self.assertNotIn('Before and after', done.out)

    def test_with_fleet(self):
        done = self._show(self.path, self.snapshot)
        self.assertIn('Before and after', done.out)
        self.assertIn('The fleet is in the state that the plan is made for',
                      ' '.join(done.out.split()))
        svg = self._show(self.path, self.snapshot, '-f', 'svg').out
        self.assertIn('<title>6 moves make room', svg)
        ElementTree.fromstring(svg)

    def test_drawing(self):
        every = self._show(self.path, self.snapshot, '-f', 'drawing').out
        hosts = {name for move in self.plan.moves
                 for name in (move.source, move.target)}
        drawn = set(every.split('Before and after')[1].splitlines())
        self.assertEqual(hosts, hosts & drawn)

    def test_json_is_the_document(self):
        done = self._show(self.path, '-f', 'json')
        self.assertEqual(self.plan, plan_document.loads(done.out))

    def test_rows(self):
        done = self._show(self.path, '-f', 'csv')
        rows = list(csv.DictReader(io.StringIO(done.out)))
        self.assertEqual([move.guest for move in self.plan.moves],
                         [row['guest'] for row in rows])
        self.assertEqual([move.target for move in self.plan.moves],
                         [row['target'] for row in rows])

    def test_other_state(self):
        document.write(self.snapshot, dataclasses.replace(
            self.fleet, guests=self.fleet.guests[1:]))
        done = self._show(self.path, self.snapshot, '-f', 'drawing')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(f'{self.path}: is for another state', done.err)
        self.assertIn('rebalance show', done.err)
        self.assertIn('The fleet has changed',
                      self._show(self.path, self.snapshot).out)

    def test_no_plan(self):
        done = self._show(self.snapshot)
        self.assertEqual(2, done.status)
        self.assertIn('is not a plan of moves', done.err)
        done = self._show(self.path, '-f', 'svg')
        self.assertEqual(2, done.status)
        self.assertIn('--format svg: needs FLEET', done.err)
        done = self._show(self.path, self.path)
        self.assertEqual(2, done.status)

    def test_broken_plan(self):
        value = json.loads(plan_document.dumps(self.plan))
        value['moves'][2]['target'] = value['moves'][2]['source']
        done = self._show(self.write('plan.json', json.dumps(value)))
        self.assertEqual(2, done.status)
        self.assertIn('moves[2].target', done.err)
