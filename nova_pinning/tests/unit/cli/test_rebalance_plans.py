# SPDX-License-Identifier: Apache-2.0


"""nova-pinning rebalance plan, and whether one still holds."""

import dataclasses
import json
import pathlib
import subprocess
import sys
from unittest import mock
from xml.etree import ElementTree

import ddt
import fixtures
from packaging import version
import scipy

from nova_pinning.admission import outcome
from nova_pinning.fleet import document
from nova_pinning.rebalance import plan_document
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request
from nova_pinning.rebalance import replay
from nova_pinning.tests.unit.cli import cli_case

_DOC = pathlib.Path(__file__).parents[4] / 'doc' / 'source' / 'admin'
_EXAMPLE = str(_DOC / 'rebalance-fleet.json')
_HELD = outcome.Doubt(outcome.DoubtKind.HELD, 'more may be held')


_NOVA_CONF = """
[DEFAULT]
default_availability_zone = z
[scheduler]
enable_isolated_aggregate_filtering = true
[libvirt]
live_migration_permit_post_copy = true
live_migration_permit_auto_converge = true
"""


class _PlanCase(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        if not _DOC.is_dir():
            self.skipTest('not run from a checkout')
        self.plan = str(self.dir / 'plan.json')

    def _run(self, *argv):
        return self.run_command('rebalance', *argv)

    def _planned(self, *argv, status=0):
        """The plan of a command that succeeds."""
        done = self._run(*argv, '-o', self.plan)
        self.assertEqual((status, ''), (done.status, done.err))
        return plan_document.read_plan(self.plan)


@ddt.ddt
class TestDefragment(_PlanCase):

    def _defragment(self, *argv, **values):
        return self._planned('plan', _EXAMPLE, *argv, **values)

    def _fits(self, fleet, flavor='pinned.16'):
        """How many more guests of a flavor fit, as capacity counts them."""
        path = str(self.dir / 'counted.json')
        document.write(path, fleet)
        done = self.run_command('capacity', path, '-f', 'json', '--flavor',
                                flavor)
        return json.loads(done.out)['flavors'][0]['fits']

    def test_gain_is_what_capacity_counts(self):
        plan = self._defragment('--for', 'pinned.16', '--moves', '3')
        fleet = document.read(_EXAMPLE)
        gain, = plan.gains
        self.assertEqual(
            (gain.before, gain.after),
            (self._fits(fleet),
             self._fits(replay.fleet_after(fleet, plan.moves))))
        self.assertGreater(gain.after, gain.before)
        self.assertEqual(3, len(plan.moves))
        self.assertTrue(plan.is_optimal)

    def test_share(self):
        # 10% of 21 guests, rounded up.
        found = []
        from nova_pinning.rebalance import defragment
        with mock.patch.object(
                defragment, 'plan_defragmentation',
                side_effect=lambda fleet, sizes, limits, **values:
                found.append(limits) or plan_model.RebalancePlan(
                    goal=plan_model.PlanGoal.DEFRAGMENT, moves=())):
            for text in ('10%', '0.1%', '100%', '7'):
                self._defragment('--for', '16', '--moves', text)
            self._defragment('--for', '16', '--fixed', 'db-1', '--memory',
                             '2TiB')
        self.assertEqual([3, 1, 21, 7, None],
                         [limits.moves for limits in found])
        db, = [guest.uuid for guest in document.read(_EXAMPLE).guests
               if guest.name == 'db-1']
        self.assertEqual(({db}, 2 << 20),
                         (found[-1].fixed, found[-1].memory_mib))

    def test_fixed_and_excluded(self):
        free = self._defragment('--for', '16')
        first = free.moves[0]
        fixed = self._defragment('--for', '16', '--fixed', first.name,
                                 '--exclude', 'cmp-6')
        self.assertNotIn(first.guest, {move.guest for move in fixed.moves})
        self.assertNotIn('cmp-6', {
            name for move in fixed.moves
            for name in (move.source, move.target)})
        # It is for the whole fleet all the same.
        self.assertEqual(free.fleet, fixed.fleet)
        done = self._run('show', self.plan, _EXAMPLE)
        self.assertEqual((0, ''), (done.status, done.err))

    def test_until(self):
        plan = self._defragment('--for', '16', '--until', '2')
        self.assertEqual((2, 2), (plan.gains[0].after, plan.until))
        plan = self._defragment('--for', '16', '--until', '9', status=1)
        self.assertLess(plan.gains[0].after, 9)
        # So too where a limit is what it fails on: the closest is planned.
        plan = self._defragment('--for', '16', '--until', '4', '--moves',
                                '1', status=1)
        self.assertEqual((1, 1), (len(plan.moves), plan.gains[0].after))
        done = self._run('show', self.plan)
        self.assertIn('room for 4 cannot be made within the limit of 1 move',
                      ' '.join(done.out.split()))

    def test_two_sizes(self):
        plan = self._defragment('--for', '16:3,pinned.8', '--moves', '2')
        self.assertEqual(['16', 'pinned.8'],
                         [gain.size for gain in plan.gains])

    def test_page(self):
        argv = 'plan', _EXAMPLE, '--for', '16', '--moves', '3'
        done = self._run(*argv)
        self.assertEqual((0, ''), (done.status, done.err))
        for text in ('3 moves make room for 2 more guests of 16 vCPUs',
                     'It is proved', 'Moves', 'Before and after'):
            self.assertIn(text, done.out)
        ElementTree.fromstring(self._run(*argv, '-f', 'svg').out)

    def test_json(self):
        done = self._run('plan', _EXAMPLE, '--for', '16', '-f', 'json')
        plan = plan_document.loads(done.out)
        self.assertEqual(plan_model.PlanGoal.DEFRAGMENT, plan.goal)
        again = self._defragment('--for', '16')
        self.assertEqual(plan, again)

    def test_to_the_standard_output(self):
        done = self._run('plan', _EXAMPLE, '--for', '16', '-o', '-')
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertEqual(self._defragment('--for', '16'),
                         plan_document.loads(done.out))

    def test_wishes(self):
        """The plan has all that was asked for, and tells it again."""
        argv = ('--for', '16:2,8', '--moves', '12.5%', '--memory', '2TiB',
                '--fixed', 'db-1', '--exclude', 'cmp-6', '--tag', 'a',
                '--tag', 'b c', '--min-age', '90m', '--max-age', '4000d',
                '--live-only', '--release', '2026.1', '--assume', 'any-zone',
                '--assume', 'restarted', '--assume', 'traits',
                '--bandwidth', '10Gbit', '--local-disks',
                '--image-property', 'a=b', '--config-file', self.write(
                    'nova.conf', _NOVA_CONF))
        plan = self._defragment(*argv)
        self.assertEqual(plan_request.PlanRequest(
            goal=plan.request.goal, share_percent=12.5,
            memory_mib=2 * 1024 ** 2, fixed=('db-1',), excluded=('cmp-6',),
            rules=plan_request.RuleSettings(
                allows_cold=False, moves_devices=False, release='2026.1',
                is_restarted=True, fixed_tags=frozenset(('a', 'b c')),
                assumes=frozenset({outcome.DoubtKind.TRAITS}),
                least_age_days=90 / 1440, most_age_days=4000,
                crosses_zones=True, isolates=True),
            cost=plan_request.CostSettings(
                bandwidth_mib=10e9 / 8 / 2 ** 20, shared_storage=False,
                post_copy=True, auto_converge=True)), plan.request)
        self.assertEqual([('16', 2), ('8', 1)], [
            (size.name, size.weight) for size in plan.request.goal.sizes])
        self.assertEqual(plan, self._planned(
            'plan', _EXAMPLE, '--request', self.plan))

    def test_without_nova(self):
        """To load it takes as long as a plan, and most need none of it."""
        done = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c',
             'import sys; from nova_pinning.cli import shell; '
             'status = shell.main(); '
             'sys.exit(status or ("nova" in sys.modules) * 9)',
             'rebalance', 'plan', _EXAMPLE, '--for', '16'],
            capture_output=True, text=True)
        self.assertEqual((0, ''), (done.returncode, done.stderr))

    @ddt.data(
        (('--moves', '0'), '--moves'),
        (('--moves', '0%'), '--moves'),
        (('--moves', '101%'), '--moves'),
        (('--moves', 'some'), '--moves'),
        (('--until', '0'), '--until'),
        (('--memory', '0'), '--memory: allows no move'),
        (('--memory', 'much'), "--memory: 'much' is not an amount"),
        (('--fixed', 'nobody'), "--fixed: the fleet has no guest called "
                                "'nobody'"),
        (('--exclude', 'cmp-7'), "--exclude: the fleet has no host called "
                                 "'cmp-7'"),
        (tuple(word for number in range(1, 7)
               for word in ('--exclude', f'cmp-{number}')),
         'all hosts are excluded'),
        (('--min-age', '7d', '--max-age', '1d'), '--max-age: leaves no '
                                                 'guest'),
        (('--min-age', 'old'), "--min-age: 'old' is not a duration"),
        (('--bandwidth', '0Gbit'), "--bandwidth: '0Gbit' is not a rate"),
        (('--bandwidth', '3 parsecs'), '--bandwidth'),
        (('--maintenance-window', '0h'), '--maintenance-window'),
        (('--seconds', '0'), '--seconds'),
        (('--parallel', '0'), '--parallel'),
        (('--release', '1999.1'), '--release'),
        (('--output', '/nowhere/plan.json'), '/nowhere/plan.json'),
        (('--fleet-after', 'one', '--output', 'one'),
         'one: is to be written twice'),
        (('--fleet-after', 'one', '--output', 'one'), 'twice'))
    @ddt.unpack
    def test_bad_input(self, argv, text):
        done = self._run('plan', _EXAMPLE, '--for', '16', *argv)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(text, done.err)

    @ddt.data(
        ('0', '0 is not a number of vCPUs'),
        ('16:0', '16 has no weight'),
        ('16,16', '16 is in it twice'),
        ('16,,8', 'is not a size'),
        ('pinned.3', "no flavor called 'pinned.3'"),
        ('999999', '999999 is not a number of vCPUs'),
        ('32x2', '32x2 has several NUMA cells'))
    @ddt.unpack
    def test_bad_sizes(self, sizes, text):
        done = self._run('plan', _EXAMPLE, '--for', sizes)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('--for: ', done.err)
        self.assertIn(text, done.err)

    def test_no_hosts(self):
        path = str(self.dir / 'empty.json')
        document.write(path, dataclasses.replace(
            document.read(_EXAMPLE), hosts=(), guests=()))
        done = self._run('plan', path, '--for', '16')
        self.assertEqual(2, done.status)
        self.assertIn('has no hosts', done.err)


class TestDrain(_PlanCase):

    def test_empties(self):
        plan = self._planned('plan', _EXAMPLE, '--drain', 'cmp-2')
        fleet = replay.fleet_after(document.read(_EXAMPLE), plan.moves)
        self.assertNotIn('cmp-2', {guest.host for guest in fleet.guests})
        self.assertEqual(('cmp-2',), plan.drained)

    def test_batches(self):
        # One host after the other, each as the one before has left it.
        before, emptied = _EXAMPLE, 0
        for number, name in enumerate(('cmp-2', 'cmp-5', 'cmp-2')):
            after = str(self.dir / f'after-{number}.json')
            done = self._run('plan', before, '--drain', name,
                             '--fleet-after', after)
            self.assertEqual((0, ''), (done.status, done.err))
            fleet = document.read(after)
            self.assertNotIn(name, {guest.host for guest in fleet.guests})
            self.assertEqual(21, len(fleet.guests))
            emptied += 'empty' in done.out or 'empties' in done.out
            before = after
        self.assertEqual(3, emptied)

    def test_impossible(self):
        done = self._run('plan', _EXAMPLE, '--drain', 'cmp-2', '--fixed',
                         'db-2', '-o', self.plan)
        self.assertEqual((1, ''), (done.status, done.err))
        self.assertIn('cmp-2 cannot be drained', done.out)
        self.assertRegex(done.out, r'db-2 +cmp-2 +\S')
        plan = plan_document.read_plan(self.plan)
        self.assertEqual((), plan.moves)
        self.assertEqual(['db-2'], [guest.name for guest in plan.stuck])

    def _imported(self):
        """A fleet whose guests float."""
        path = str(self.dir / 'fleet.json')
        done = self.run_command('fleet', 'generate', '--hosts', '3',
                                '--shared', '100%', '--filled', '10%',
                                '--output', path)
        self.assertEqual(0, done.status, done.err)
        return cli_case.imported(document.read(path))

    def _emptied(self, fleet):
        """Empty the first host; what the plan, and its check, come to."""
        path = str(self.dir / 'fleet.json')
        document.write(path, fleet)
        return [self._run('plan', path, '--drain', fleet.hosts[0].name,
                          '-o', self.plan),
                self._run('show', self.plan, path)]

    def test_cells_are_not_known(self):
        """To guests that float they do not matter."""
        for done in self._emptied(self._imported()):
            self.assertEqual(0, done.status, done.out)
            self.assertNotIn('Not certain', done.out)
        self.assertTrue(plan_document.read_plan(self.plan).moves)

    def test_more_may_be_on_it(self):
        """The host is then not empty, though all guests have left."""
        first, *others = (fleet := self._imported()).hosts
        held = [dataclasses.replace(host, gaps=(cli_case.CELLS, _HELD))
                for host in fleet.hosts]
        for hosts, status in (((first, *held[1:]), 0),
                              ((held[0], *others), 1)):
            for done in self._emptied(
                    dataclasses.replace(fleet, hosts=hosts)):
                self.assertEqual(status, done.status, done.out)
                self.assertEqual(
                    status, 'beside guests' in ' '.join(done.out.split()))

    def test_bad_input(self):
        done = self._run('plan', _EXAMPLE, '--drain', 'cmp-7')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn("--drain: the fleet has no host called 'cmp-7'",
                      done.err)
        done = self._run('plan', _EXAMPLE, '--drain', 'cmp-1', '--exclude',
                         'cmp-1')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('--exclude: cmp-1 is to be emptied', done.err)
        done = self._run('plan', _EXAMPLE)
        self.assertEqual(2, done.status)


class TestVerify(_PlanCase):

    def setUp(self):
        super().setUp()
        self.made = self._planned('plan', _EXAMPLE, '--for', '16')
        self.fleet = document.read(_EXAMPLE)
        self.path = str(self.dir / 'fleet.json')

    def _verify(self, *argv, fleet=None):
        document.write(self.path, fleet or self.fleet)
        return self._run('show', self.plan, self.path, *argv)

    def test_holds(self):
        for argv in ((), ('--nova-claim',)):
            done = self._verify(*argv)
            self.assertEqual((0, ''), (done.status, done.err))
            self.assertIn('The plan holds', done.out)

    def test_newer(self):
        # What has happened since is of no consequence, or it is.
        newer = dataclasses.replace(self.fleet, guests=tuple(
            guest for guest in self.fleet.guests
            if guest.uuid != self.made.moves[0].guest))
        done = self._verify(fleet=newer)
        self.assertEqual(1, done.status)
        self.assertIn('does not hold any more', done.out)
        self.assertIn('the guest is gone', done.out)
        found = json.loads(self._verify('-f', 'json', fleet=newer).out)
        self.assertEqual((False, False),
                         (found['holds'], found['is_same_state']))
        self.assertEqual('gone', found['moves'][0]['outcome'])

    def test_begun(self):
        for count in range(len(self.made.moves) + 1):
            begun = replay.fleet_after(self.fleet, self.made.moves[:count])
            done = self._verify(fleet=begun)
            self.assertEqual((0, ''), (done.status, done.err), count)
            if count:
                self.assertIn(f'{count} are made already'
                              if count > 1 else '1 is made already', done.out)

    def test_room(self):
        """What there is room for now, and after the moves."""
        gain, = self.made.gains
        done = self._verify()
        self.assertIn(f'16 vCPUs: {gain.before} fit now, {gain.after} after.',
                      done.out)
        after = replay.fleet_after(self.fleet, self.made.moves)
        found = json.loads(self._verify('-f', 'json', fleet=after).out)
        self.assertEqual(
            [{'size': '16', 'before': gain.after, 'after': gain.after}],
            found['gains'])

    def test_room_that_is_too_little(self):
        """The moves can be made, and that is no longer enough."""
        self.made = self._planned('plan', _EXAMPLE, '--for', '16',
                                  '--until', '2')
        gain, = self.made.gains
        self.assertEqual((0, 2), (gain.before, gain.after))
        # What was asked for is more than it comes to.
        plan = dataclasses.replace(self.made, until=3, gains=(
            dataclasses.replace(gain, after=3),))
        plan_document.write_plan(plan, self.plan)
        done = self._verify()
        self.assertEqual(1, done.status)
        self.assertIn('2 after the moves that can be made; planned were 3',
                      ' '.join(done.out.split()))
        self.assertIn(f'nova-pinning rebalance plan {self.path} --request '
                      f'{self.plan}', ' '.join(done.out.split()))
        done = self._run('plan', self.path, '--request', self.plan)
        self.assertEqual((0, ''), (done.status, done.err))

    def test_by_the_wishes_of_the_plan(self):
        """A guest has got a tag with which none was to be moved."""
        self.made = self._planned('plan', _EXAMPLE, '--for', '16',
                                  '--tag', 'keep')
        newer = dataclasses.replace(self.fleet, guests=tuple(
            dataclasses.replace(guest, tags=('keep',))
            if guest.uuid == self.made.moves[0].guest else guest
            for guest in self.fleet.guests))
        done = self._verify(fleet=newer)
        self.assertEqual(1, done.status)
        self.assertIn('has the tag keep', ' '.join(done.out.split()))
        again = self._planned('plan', self.path, '--request', self.plan)
        self.assertNotIn(self.made.moves[0].guest,
                         {move.guest for move in again.moves})

    def test_wishes_without_moves(self):
        """A plan that has none yet may leave its sizes to --for."""
        self.made = self._planned('plan', _EXAMPLE, '--for', '16')
        wishes = dataclasses.replace(
            self.made.request, goal=dataclasses.replace(
                self.made.request.goal, sizes=()))
        plan_document.write_plan(dataclasses.replace(
            self.made, moves=(), gains=(), request=wishes), self.plan)
        done = self._run('plan', _EXAMPLE, '--request', self.plan)
        self.assertEqual(2, done.status)
        self.assertIn('does not say which guests', done.err)
        again = self._planned('plan', _EXAMPLE, '--request', self.plan,
                              '--for', '16')
        self.assertEqual(self.made.moves, again.moves)

    def test_flavor_that_is_gone(self):
        self.made = self._planned('plan', _EXAMPLE, '--for',
                                  'pinned.16')
        done = self._verify(fleet=dataclasses.replace(
            self.fleet, flavors=()))
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertIn('pinned.16: ', done.out)

    def test_without_request(self):
        """Verified, but not by what it was asked for with."""
        made = plan_document.plan_to_json(self.made)
        pathlib.Path(self.plan).write_text(json.dumps(
            {**made, 'request': None}))
        done = self._verify()
        self.assertEqual(0, done.status)
        self.assertIn('The plan holds', done.out)
        self.assertIn('warning: the plan does not say what it was asked for',
                      done.err)
        done = self._run('plan', self.path, '--request', self.plan)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('make a new one with nova-pinning rebalance plan',
                      done.err)

    def test_other_fleet(self):
        other = dataclasses.replace(self.fleet, hosts=tuple(
            dataclasses.replace(host, name=f'other-{host.name}')
            for host in self.fleet.hosts), guests=())
        done = self._verify(fleet=other)
        self.assertEqual(
            (1, 'The plan is for another fleet\n'
             '  None of its hosts is in this one.\n', ''),
            (done.status, done.out, done.err))
        self.made = self._planned('plan', _EXAMPLE, '--drain', 'cmp-2')
        done = self._verify(fleet=other)
        self.assertEqual(1, done.status)
        self.assertIn('is for another fleet', done.out)


#: Whether the solver is like the one that made what the documentation shows.
_HAS_SOLVER_OF_DOC = version.Version(scipy.__version__).release >= (1, 17)
#: Where several plans are as good as each other, each solver takes its own;
#: what they come to stands in the first three lines.
_OF_SOLVER = ('rebalance-drain.inc',)


class TestDocumentation(_PlanCase):

    def test_what_it_shows(self):
        # doc/source/admin/rebalance.rst has the commands. If their output is
        # as it is to be, take over what they write.
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', '92'))
        for name, argv in (
                ('rebalance-defragment.inc', (
                    'plan', _EXAMPLE, '--for', '16', '--moves', '3',
                    '-o', self.plan)),
                ('rebalance-drain.inc', (
                    'plan', _EXAMPLE, '--drain', 'cmp-2')),
                ('rebalance-stuck.inc', (
                    'plan', _EXAMPLE, '--drain', 'cmp-1', '--drain', 'cmp-2',
                    '--drain', 'cmp-3')),
                ('rebalance-failover.inc', ('failover', _EXAMPLE)),
                ('rebalance-verify.inc', (
                    'show', self.plan,
                    str(_DOC / 'rebalance-later.json')))):
            done = self._run(*argv)
            self.assertEqual('', done.err)
            shown = (_DOC / name).read_text().splitlines()
            said = done.out.replace(f'{_DOC}/', '').replace(
                f'{self.dir}/', '').splitlines()
            if name in _OF_SOLVER and not _HAS_SOLVER_OF_DOC:
                shown, said = shown[:3], said[:3]
            self.assertEqual(shown, said, name)
        self.assertEqual(
            (_DOC / 'rebalance.svg').read_text(),
            self._run('show', self.plan, _EXAMPLE, '-f', 'svg').out)
