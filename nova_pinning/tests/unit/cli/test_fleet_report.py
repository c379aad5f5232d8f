# SPDX-License-Identifier: Apache-2.0

import dataclasses
import json
import re

from nova_pinning.fleet import document
from nova_pinning.rebalance import fleet_digest
from nova_pinning.rebalance import plan_document
from nova_pinning.rebalance import plan_model
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.presentation.fleet_page import page_cases


class TestReportFleet(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        self.fleet = page_cases.fleet(4)
        self.page = self.dir / 'page.html'

    def _run(self, *argv, fleet=None):
        path = str(self.dir / 'fleet.json')
        document.write(path, fleet or self.fleet)
        return self.run_command('fleet', 'report', path, *argv)

    def _document(self):
        found = re.search(
            r'<script type="application/json" id="document">(.*?)</script>',
            self.page.read_text(), re.S)
        return json.loads(found[1])

    def test_page(self):
        done = self._run('-o', str(self.page))
        self.assertEqual((0, ''), (done.status, done.out))
        found = self._document()
        # What is printed are the first lines of the page.
        self.assertEqual(
            [f'{figure}: {text}' if figure else text for _level, figure, text
             in found['sales']['all']['lines']], done.err.splitlines())
        self.assertEqual(sorted(flavor.name for flavor in self.fleet.flavors),
                         sorted(one['name'] for one in found['flavors']))
        self.assertIsNone(found['plan'])

    def test_flavors(self):
        done = self._run(
            '-o', str(self.page), '--flavor',
            'name=mine vcpus=8 ram=16GiB hw:cpu_policy=dedicated')
        self.assertEqual(0, done.status, done.err)
        self.assertEqual(
            ['mine'], [flavor['name'] for flavor
                       in self._document()['flavors']])

    def test_no_flavors(self):
        fleet = dataclasses.replace(self.fleet, flavors=())
        done = self._run('-o', str(self.page), fleet=fleet)
        self.assertEqual(0, done.status, done.err)
        self.assertEqual([], self._document()['flavors'])

    def test_plan(self):
        guest = self.fleet.guests[0]
        target = next(host.name for host in self.fleet.hosts
                      if host.name != guest.host)
        plan = plan_model.RebalancePlan(
            goal=plan_model.PlanGoal.DEFRAGMENT, moves=(
                plan_model.PlannedMove(
                    guest=guest.uuid, source=guest.host, target=target,
                    kind=plan_model.MigrationKind.LIVE, vcpus=guest.vcpus,
                    memory_mib=guest.memory_mib, source_fit=guest.fit,
                    target_fit=guest.fit),),
            fleet=plan_model.FleetState(
                digest=fleet_digest.of_fleet(self.fleet)))
        path = str(self.dir / 'plan.json')
        plan_document.write_plan(plan, path)
        done = self._run('-o', str(self.page), '--move-plan', path)
        self.assertEqual(0, done.status, done.err)
        move, = self._document()['plan']['moves']
        self.assertEqual((guest.uuid, target), (move['guest'], move['target']))
        done = self._run(
            '-o', str(self.page), '--move-plan', path,
            fleet=dataclasses.replace(self.fleet, guests=()))
        self.assertEqual(2, done.status)
        self.assertIn('is for another state of the fleet', done.err)

    def test_earlier(self):
        earlier = str(self.dir / 'earlier.json')
        document.write(earlier, dataclasses.replace(
            self.fleet, guests=(), taken_at='2026-11-01T00:00:00Z'))
        now = dataclasses.replace(
            self.fleet, taken_at='2026-11-02T00:00:00Z')
        done = self._run('-o', str(self.page), '--earlier', earlier, fleet=now)
        self.assertEqual(0, done.status, done.err)
        first, last = self._document()['history']
        self.assertEqual(0, first['pinned_cpus'])
        self.assertLess(0, last['pinned_cpus'])

    def test_to_the_standard_output(self):
        done = self._run('-o', '-')
        self.assertEqual(0, done.status, done.err)
        self.assertTrue(done.out.startswith('<!DOCTYPE html'), done.out[:99])

    def test_bad_input(self):
        untimed = str(self.dir / 'untimed.json')
        document.write(untimed, self.fleet)
        for argv, values, message in (
                (('-o', str(self.dir / 'no' / 'page.html')), {},
                 'there is no directory'),
                (('-o', str(self.page)),
                 {'fleet': dataclasses.replace(
                     self.fleet, hosts=(), guests=())}, 'has no hosts'),
                (('-o', str(self.page), '--earlier', untimed), {},
                 'does not say when it was taken'),
                (('-o', str(self.page), '--flavor', 'none'), {}, 'none')):
            with self.subTest(argv):
                done = self._run(*argv, **values)
                self.assertEqual(2, done.status)
                self.assertIn(message, done.err)
                self.assertFalse(self.page.exists())
