# SPDX-License-Identifier: Apache-2.0

import collections
import dataclasses
import pathlib
from unittest import mock

import ddt
import fixtures
import hypothesis
from hypothesis import strategies as st

from nova_pinning.document import line_log
from nova_pinning import errors
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import results_file
from nova_pinning.instance_bench import run
from nova_pinning.instance_bench import schedule
from nova_pinning.instance_bench import session
from nova_pinning.model import hostclass
from nova_pinning.tests.unit.instance_bench import bench_fakes
from nova_pinning.tests.unit import unit_base

case = bench_fakes.case
tenant = bench_fakes.container
trial = bench_fakes.trial
NEIGHBOURS = tenant('neighbours', role=bench_model.Role.NEIGHBOUR, count=2)


class Watcher:

    def __init__(self):
        self.told = []

    def begin(self, unit, seconds_left):
        self.told.append(('begin', unit.case.name))

    def step(self, text):
        self.told.append(('step', text))

    def measured(self, measurement):
        self.told.append(('measured', measurement.repetition))

    def failed(self, failure):
        self.told.append(('failed', failure.message))


def _interrupt(*_unused):
    raise KeyboardInterrupt


class TestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path) / 'results.jsonl'
        self.platforms = {}

    def run_it(self, prepared, world=None, make=None):
        """Run what is left; returns the summary."""
        world = world or bench_fakes.World()
        self.prepared = prepared
        self.platforms = {}
        self.watcher = Watcher()

        def make_fake(name):
            return self.platforms.setdefault(
                name, bench_fakes.Platform(world, name))

        with results_file.ResultsWriter(self.path,
                                        prepared.planned) as writer:
            return run.ExperimentRunner(
                make=make or make_fake,
                conditions=lambda: bench_fakes.CONDITIONS,
                edges=world.edges, watcher=self.watcher,
                deadline_seconds=60,
            ).run(prepared, schedule.units(writer.before, lambda case: True),
                  writer)

    def results(self):
        return results_file.resumed(self.path, self.prepared.planned)

    def measure(self, world, *tenants, **changes):
        """The measurement of an experiment that is one repetition."""
        summary = self.run_it(trial(case('one', *tenants), repetitions=1,
                                    **changes), world)
        self.assertEqual(run.RunTotals(measured=1, failed=0), summary)
        found, = self.results().measurements
        return found

    def failure_of(self, world, *tenants, **changes):
        """What is said of an experiment that fails in its one case."""
        summary = self.run_it(trial(case('one', *tenants), **changes), world)
        self.assertEqual(run.RunTotals(measured=0, failed=1), summary)
        self.assertEqual(set(), world.alive)
        failure, = self.results().failures
        return failure.message

    def done(self):
        """How often there is a measurement of what."""
        return collections.Counter(
            (measurement.round, measurement.factors['scenario'],
             measurement.repetition)
            for measurement in self.results().measurements)


@ddt.ddt
class TestRun(TestCase):

    def test_all_is_measured_once(self):
        prepared = trial(case('one'), case('two', tenant(), NEIGHBOURS),
                         case('three', skipped='too small'), rounds=3)
        world = bench_fakes.World()
        summary = self.run_it(prepared, world)
        self.assertEqual(run.RunTotals(measured=12, failed=0), summary)
        self.assertEqual(
            {(number, name, repetition): 1 for number in (1, 2, 3)
             for name in ('one', 'two') for repetition in (1, 2)},
            self.done())
        self.assertEqual(set(), world.alive)

    def test_a_measurement(self):
        world = bench_fakes.World()
        world.offsets['enterprise-0'] = 3600
        found = self.measure(world)
        reading, = found.readings
        self.assertEqual(bench_model.Reading(
            tenant='enterprise', instance='enterprise-0',
            command='spin --threads=1 --seconds=10',
            figures={'turns': 12.5, 'seconds': 10.0},
            started=reading.started, ended=reading.started + 10, runs=1,
            counters={'run_delay_seconds': 1.0, 'cpu_seconds': 0.0}), reading)
        # By the controller's clock.
        self.assertLess(abs(reading.started - found.started), 1)
        self.assertEqual(bench_model.Measurement(
            factors={'scenario': 'one'}, round=1, repetition=1,
            started=found.started, load=0.5, readings=(reading,),
            affinities=(bench_model.Affinity(
                thread='enterprise-0: process 1 (spin)',
                asked=bench_fakes.cpus('4'), seen=bench_fakes.cpus('4')),),
            counters={'steal_seconds': 0.25},
            utilisation=found.utilisation), found)
        self.assertEqual({'0': 0.5, '1': 0.0}, found.utilisation[0].busy)

    @ddt.data(
        # Half of a CPU is the instance's, and three tenths are somebody's.
        ('spin', {4: (0.8, 0)}, {'enterprise-0': 0.5}, 0.3),
        ('spin', {4: (0.5, 0)}, {'enterprise-0': 0.5}, 0),
        # Less than it had: a clock is coarse.
        ('spin', {4: (0.5, 0)}, {'enterprise-0': 0.51}, 0),
        # Interrupts are others', but where it has traffic of its own.
        ('spin', {4: (0.8, 0.2)}, {'enterprise-0': 0.5}, 0.3),
        ('traffic', {4: (0.8, 0.2)}, {'enterprise-0': 0.5}, 0.1))
    @ddt.unpack
    def test_what_others_took_of_its_cpu(self, workload, loads, used, part):
        world = bench_fakes.World()
        world.loads, world.used = loads, used
        reading, = self.measure(world, tenant(workload=workload)).readings
        self.assertAlmostEqual(
            part, reading.counters['foreign_seconds'] / 10, 2)

    def test_neighbours_are_no_others(self):
        world = bench_fakes.World()
        world.loads = dict.fromkeys((2, 3), (1, 0))
        world.used = {'enterprise-0': 0.5, 'neighbours-0': 0.8,
                      'neighbours-1': 0.5}
        reading, = self.measure(world, *(dataclasses.replace(
            one, provisioning=bench_model.Provisioning.VANILLA,
            guest_class=hostclass.HostClass.SHARED)
            for one in (tenant(), NEIGHBOURS))).readings
        # Of 2 CPUs 0.2 are left.
        self.assertAlmostEqual(
            0.1, reading.counters['foreign_seconds'] / 10, 2)

    @ddt.data(
        # A guest's CPU time is not all in its vCPUs.
        [bench_fakes.tenant()],
        [tenant(), bench_fakes.tenant('other')],
        # The controller has no CPU of its own.
        [tenant()])
    def test_where_it_cannot_be_told(self, tenants):
        if tenants == [tenant()]:
            self.useFixture(fixtures.MonkeyPatch(
                'nova_pinning.instance_bench.cpu_layout.spare',
                lambda *_unused: bench_fakes.cpus('')))
        world = bench_fakes.World()
        world.loads = dict.fromkeys(range(8), (1, 0))
        for reading in self.measure(world, *tenants).readings:
            self.assertNotIn('foreign_seconds', reading.counters)

    def test_clocks_are_checked(self):
        world = bench_fakes.World()
        world.gains = {'enterprise-0': 0.02}
        self.run_it(trial(case('one'), repetitions=1), world)
        found, = self.results().clocks
        self.assertEqual(({'scenario': 'one'}, 1, 'enterprise-0'),
                         (found.factors, found.round, found.instance))
        self.assertAlmostEqual(1.02, found.rate, 3)
        # Over a warm-up and a repetition of ten seconds.
        self.assertGreater(found.last.before - found.first.before, 20)
        self.assertLess(found.uncertainty, 0.001)

    def test_a_clock_that_jumped_before(self):
        """A repetition goes by the handshakes around it."""
        world = bench_fakes.World()
        run_all = session.CaseSession._run_all

        def jump(measured, *arguments):
            world.offsets['enterprise-0'] = 3600 if world.commands else 0
            return run_all(measured, *arguments)

        with mock.patch.object(session.CaseSession, '_run_all', jump):
            found = self.measure(world)
        reading, = found.readings
        self.assertLess(abs(reading.started - found.started), 1)
        self.assertEqual((), found.flags)

    def test_times_of_instances_are_by_one_clock(self):
        """Of those whose clocks go wrong too."""
        world = bench_fakes.World()
        world.gains = {'enterprise-0': 0.2, 'enterprise-1': -0.1}
        found = self.measure(world, tenant(count=3), is_race=True)
        for reading in found.readings:
            self.assertAlmostEqual(10, reading.figures['seconds'], 2)
            self.assertAlmostEqual(10, reading.ended - reading.started, 2)
            self.assertLess(abs(reading.started - found.started), 1)
        self.assertEqual(2, len(found.flags), found.flags)
        self.assertIn('enterprise-0: its clock gained 2.', found.flags[0])
        self.assertIn('enterprise-1: its clock gained -1.', found.flags[1])

    def test_a_clock_that_was_set_back(self):
        world = bench_fakes.World()
        world.gains = {'enterprise-0': -1.5}
        with mock.patch.object(
                bench_fakes.Job, 'told', lambda job, run: '\x1e5\n\x1e6\n'):
            self.assertIn('enterprise-0: its clock was set back',
                          self.failure_of(world, workloads={
                              'spin': dataclasses.replace(
                                  bench_fakes.WORKLOAD, figures=())}))

    @ddt.data((False, 5), (True, 1))
    @ddt.unpack
    def test_instances_that_are_measured_together(self, is_race, runs):
        """They go on for as long, but in a race."""
        world = bench_fakes.World()
        world.takes = 4
        found = self.measure(world, tenant(count=2), window_seconds=20.0,
                             is_race=is_race)
        self.assertEqual([runs] * 2, [
            reading.runs for reading in found.readings])

    def test_a_window_that_is_too_short(self):
        def told(job, run):
            late = 5 if job.instance.name.endswith('1') else 0
            return tell(job, (run[0] + late, run[1] + late))

        tell = bench_fakes.Job.told
        with mock.patch.object(bench_fakes.Job, 'told', told):
            self.assertIn(
                'no run of its command lies within the 5.0 s',
                self.failure_of(bench_fakes.World(), tenant(count=2),
                                window_seconds=1.0))

    def test_conditions_once_a_session(self):
        prepared = trial(case('one'), case('two'), repetitions=1)
        self.run_it(prepared)
        self.run_it(dataclasses.replace(prepared))
        found = self.results().conditions
        self.assertEqual(
            [{'python': '3', 'platform': 'cn'}],
            [dict(one.versions) for one in found])

    @ddt.data(False, True)
    def test_a_platform_that_was_updated_between_sessions(self, is_late):
        """:param is_late: that it is known only when something runs"""
        def make(version):
            platform = bench_fakes.Platform(bench_fakes.World(), 'cn')
            platform.versions = lambda: (
                {'runc': version} if platform.instances or not is_late else {})
            return platform

        prepared = trial(case('one'), case('two'), repetitions=1)
        first = make('1.8')
        with fixtures.MonkeyPatch(f'{__name__}.Watcher.measured', _interrupt):
            self.assertRaises(KeyboardInterrupt, self.run_it, prepared,
                              first.world, lambda name: first)
        before = self.path.read_bytes()
        second = make('1.9')
        error = self.assertRaises(
            line_log.LogWriteError, self.run_it, prepared, second.world,
            lambda name: second)
        self.assertIn('runc: 1.8, now 1.9', str(error))
        self.assertEqual(is_late, bool(second.instances))
        self.assertEqual(before, self.path.read_bytes())
        self.assertEqual(set(), second.world.alive)

    def test_tcg_is_emulated(self):
        world = bench_fakes.World()
        platform = bench_fakes.Platform(world,
                                        bench_model.PlatformName.CONTAINER)
        platform.versions = lambda: (
            {'accelerator': 'tcg'} if platform.instances else {})
        self.run_it(trial(case('one')), world, lambda name: platform)
        self.assertEqual([True], [
            condition.emulated for condition in self.results().conditions])
        self.assertEqual([bench_fakes.CONDITIONS.boot_id], [
            condition.boot_id for condition in self.results().conditions])

    def test_order_of_one_case(self):
        world = bench_fakes.World()
        self.run_it(trial(case('one', tenant(count=2), NEIGHBOURS),
                          repetitions=1, settle_seconds=7.0), world)
        self.assertEqual(
            ['starting 4 instances on cn', 'preparing',
             'starting the load of neighbours', 'warm-up 1', 'repetition 1'],
            list(dict.fromkeys(text for kind, text in self.watcher.told
                               if kind == 'step')))
        prepared = [name for name, text in world.commands
                    if text.startswith('mkdir')]
        self.assertEqual(['enterprise-0', 'enterprise-1', 'neighbours-0',
                          'neighbours-1'], sorted(prepared))
        loops = [number for number, (_name, text) in
                 enumerate(world.commands) if text.startswith('while (')]
        measured = [number for number, (_name, text) in
                    enumerate(world.commands) if '\nspin ' in f'\n{text}'
                    and number not in loops]
        # A warm-up and a repetition of both, all after the neighbours.
        self.assertEqual((2, 4), (len(loops), len(measured)))
        self.assertLess(max(loops), min(measured))
        self.assertIn(7.0, world.slept)

    def test_measured_instances_start_together(self):
        world = bench_fakes.World()
        self.run_it(trial(case('one', tenant(count=3)), warm_ups=0,
                          repetitions=1), world)
        started = [step for step in world.steps
                   if step.startswith('start') or step == 'poll']
        first = started.index('start enterprise-0', 3)
        self.assertEqual(['start enterprise-0', 'start enterprise-1',
                          'start enterprise-2'], started[first:first + 3])

    def test_places(self):
        self.run_it(trial(case(
            'one', tenant(count=2), tenant(
                'shared', guest_class=hostclass.HostClass.SHARED,
                provisioning=bench_model.Provisioning.VANILLA),
            tenant('cloud', platform=bench_model.PlatformName.NOVA))))
        here, = self.platforms[bench_model.PlatformName.CONTAINER].checked
        self.assertEqual(
            [('enterprise-0', '4'), ('enterprise-1', '5'),
             ('shared-0', '2-3')],
            [(one.name, str(one.instance_cpus.cpus)) for one in here])
        there, = self.platforms[bench_model.PlatformName.NOVA].checked
        self.assertEqual([None], [one.instance_cpus for one in there])
        # Of the cloud's hosts nobody knows it.
        self.assertEqual([''], [
            condition.boot_id for condition in self.results().conditions])

    def test_peers(self):
        world = bench_fakes.World()
        peers = []
        start = world.peer

        def watched(command, cpus):
            peers.append((command, str(cpus)))
            return start(command, cpus)

        world.peer = watched
        found = self.measure(world, tenant(workload='peered', count=2))
        self.assertEqual([('serve 127.0.0.1', '0-1')], peers)
        self.assertIn('check peer', world.steps)
        self.assertEqual((), found.flags)

    def test_peers_where_no_cpu_is_left(self):
        everywhere = tenant(
            workload='peered', provisioning=bench_model.Provisioning.VANILLA)
        with mock.patch.object(
                bench_fakes, 'LAYOUT', bench_fakes.LAYOUT.undivided()):
            found = self.measure(bench_fakes.World(), everywhere)
            self.assertIn('the peer on the host may have run on CPUs 0-7, '
                          'which are those of instances', found.flags)
            # Without one there is nothing to tell.
            self.path.unlink()
            found = self.measure(
                bench_fakes.World(), dataclasses.replace(
                    everywhere, workload='spin'))
        self.assertEqual((), found.flags)

    def test_checks_come_first_and_all_are_told(self):
        def check(requests):
            raise errors.InputError(
                f'{requests[0].workload.name} needs what is not installed')

        world = bench_fakes.World()
        platform = bench_fakes.Platform(world, 'cn')
        platform.check = check
        error = self.assertRaises(
            errors.InputErrors, self.run_it,
            trial(case('one'), case('two'),
                  case('three', tenant(workload='peered'))),
            world, lambda name: platform)
        self.assertEqual({'spin needs what is not installed',
                          'peered needs what is not installed'},
                         set(map(str, error.errors)))
        self.assertNotIn('launch', world.steps)
        self.assertEqual(set(), world.alive)
        self.assertFalse(self.path.exists())

    def test_platforms_that_cannot_be_opened(self):
        def make(name):
            raise errors.InputError(f'no {name} here')

        error = self.assertRaises(
            errors.InputErrors, self.run_it, trial(
                case('one'),
                case('two', tenant(platform=bench_model.PlatformName.GUEST))),
            None, make)
        self.assertEqual('no cn here\nno vm here', str(error))

    @ddt.data('__enter__', 'check')
    def test_a_cloud_that_cannot_be_reached(self, where):
        world = bench_fakes.World()
        platform = bench_fakes.Platform(world, 'cn')

        def fail(*_unused):
            raise errors.CloudError('it does not answer')

        with mock.patch.object(bench_fakes.Platform, where, fail):
            error = self.assertRaises(
                errors.InputError, self.run_it, trial(case('one')),
                world, lambda name: platform)
        self.assertEqual('platform cn: it does not answer', str(error))
        self.assertEqual(set(), world.alive)

    def test_a_failed_case_is_one_case(self):
        prepared = trial(case('one'), case('two', tenant(
            parameters={'duration': 99})), case('three'))
        world = bench_fakes.World()
        world.outcome = {}
        poll = bench_fakes.Job.poll

        def fail(job):
            found = poll(job)
            if found and '--seconds=99' in job.command:
                return dataclasses.replace(found, status=2, stderr='out of\nX')
            return found

        with mock.patch.object(bench_fakes.Job, 'poll', fail):
            summary = self.run_it(prepared, world)
        self.assertEqual(run.RunTotals(measured=4, failed=1), summary)
        failure, = self.results().failures
        self.assertEqual(({'scenario': 'two'}, 1),
                         (failure.factors, failure.round))
        self.assertIn("'spin --threads=1 --seconds=99' ended with status 2: "
                      'out of X', failure.message)
        self.assertIn(('failed', failure.message), self.watcher.told)
        # It is tried again.
        self.assertEqual(run.RunTotals(measured=2, failed=0),
                         self.run_it(prepared))
        self.assertEqual({1}, set(self.done().values()))
        self.assertEqual(6, len(self.done()))

    @ddt.data(
        ({'stdout': 'nothing'}, 'there is no turns in what it printed'),
        ({'status': -9}, 'ended with status -9: turns: 12.5'),
        ({'status': 1, 'stdout': ''}, 'it said nothing'))
    @ddt.unpack
    def test_commands_that_fail(self, outcome, said):
        world = bench_fakes.World()
        world.printed = outcome.pop('stdout', world.printed)
        world.outcome = outcome
        self.assertIn(said, self.failure_of(world, workloads={
            'spin': dataclasses.replace(bench_fakes.WORKLOAD, prepare=())}))

    def test_a_command_that_does_not_end(self):
        world = bench_fakes.World()
        with mock.patch.object(bench_fakes.Job, 'poll', return_value=None):
            self.assertIn('has not ended after 60 s; give it less to do',
                          self.failure_of(world))
        self.assertLess(world.time, 1000 + 62)

    def test_a_neighbour_that_ends(self):
        world = bench_fakes.World()
        world.dies = 'neighbours-1'
        self.assertIn('the load of neighbour neighbours-1 has ended, status '
                      '1: no such thing',
                      self.failure_of(world, tenant(), NEIGHBOURS))

    def test_a_neighbour_that_ends_later(self):
        """What was measured while it ended is not kept."""
        world = bench_fakes.World()
        watcher = Watcher.measured

        def die(watched, measurement):
            world.dies = 'neighbours-0'
            watcher(watched, measurement)

        with fixtures.MonkeyPatch(f'{__name__}.Watcher.measured', die):
            self.run_it(trial(case('one', tenant(), NEIGHBOURS),
                              repetitions=3), world)
        self.assertEqual([1], [measurement.repetition for measurement
                               in self.results().measurements])

    @ddt.data(
        ('4-6', 'enterprise-0: process 1 (spin) might run on CPUs 4-6 and '
         'not on 4 only'),
        ('', 'enterprise-0: where it ran could not be seen'))
    @ddt.unpack
    def test_what_makes_it_doubtful(self, seen, said):
        world = bench_fakes.World()
        world.seen = bench_fakes.cpus(seen)
        found = self.measure(world)
        self.assertEqual((said,), found.flags)
        self.assertEqual(bool(seen), bool(found.affinities))

    def test_an_affinity_that_was_not_in_force_once(self):
        world = bench_fakes.World()
        looks = []

        def seen(instance):
            looks.append(world.time)
            return [bench_model.Affinity(
                thread='vCPU 0', asked=bench_fakes.cpus('4'),
                seen=bench_fakes.cpus('5' if len(looks) == 2 else '4'))]

        with mock.patch.object(bench_fakes.Instance, 'affinities', seen):
            found = self.measure(world, warm_ups=0)
        self.assertEqual('4-5', str(found.affinities[0].seen))
        self.assertEqual(1, len(found.flags))
        self.assertGreater(len(looks), 3)

    def test_looks_are_not_taken_on_the_cpus_of_instances(self):
        """Nor does what runs in them inherit where they are taken."""
        world = bench_fakes.World()
        self.measure(world, tenant(), NEIGHBOURS)
        self.assertEqual({'0-1'}, set(map(str, world.bound)))
        inside = False
        for step in world.steps:
            inside = {'bind': True, 'unbind': False}.get(step, inside)
            if step.startswith(('start', 'launch', 'peer')):
                self.assertFalse(inside)
            if step == 'affinities':
                self.assertTrue(inside)
        self.assertFalse(inside)

    def test_looks_are_taken_anywhere_where_no_cpu_is_left(self):
        world = bench_fakes.World()
        with mock.patch.object(
                bench_fakes, 'LAYOUT', bench_fakes.LAYOUT.undivided()):
            self.measure(world, tenant(
                provisioning=bench_model.Provisioning.VANILLA))
        self.assertEqual([], world.bound)

    def test_looks_that_are_dear_are_rare(self):
        world = bench_fakes.World()
        begun = world.time
        world.takes, world.look_takes = 50, 0.25
        self.measure(world, warm_ups=0)
        self.assertLess(world.steps.count('poll') * world.look_takes,
                        (world.time - begun) / 4)

    def test_looking_costs_little(self):
        """Neither polls nor looks at affinities grow with the time."""
        world = bench_fakes.World()
        self.measure(world, warm_ups=0)
        self.assertLess(world.steps.count('affinities'), 10)
        self.assertLess(world.steps.count('poll'), 400)

    def test_an_instance_that_does_not_close(self):
        world = bench_fakes.World()
        with mock.patch.object(
                bench_fakes.Instance, 'close',
                side_effect=bench_errors.InstanceError('stuck')):
            summary = self.run_it(trial(case('one'), case('two')), world)
        # All was measured, and both are told.
        self.assertEqual(run.RunTotals(measured=4, failed=2), summary)
        self.assertIn('stuck; see what',
                      self.results().failures[0].message)
        self.assertEqual(set(), world.alive)

    def test_nothing_left_to_do(self):
        prepared = trial(case('one'))
        self.run_it(prepared)
        before = self.path.read_bytes()
        self.assertEqual(run.RunTotals(measured=0, failed=0),
                         self.run_it(prepared))
        self.assertEqual({}, self.platforms)
        self.assertEqual(before, self.path.read_bytes())

    def test_the_disk_is_full(self):
        """The run ends there and then."""
        world = bench_fakes.World()

        def fail(*_unused):
            raise OSError(28, 'No space left on device')

        def measured(watched, measurement):
            fixture.setUp()

        fixture = fixtures.MonkeyPatch('os.write', fail)
        self.addCleanup(fixture.cleanUp)
        with fixtures.MonkeyPatch(f'{__name__}.Watcher.measured', measured):
            self.assertRaises(line_log.LogWriteError, self.run_it, trial(
                case('one'), case('two')), world)
        self.assertEqual(set(), world.alive)
        self.assertEqual(1, sum(self.done().values()))

    def test_bugs_are_not_failures(self):
        world = bench_fakes.World(ZeroDivisionError(), 8)
        self.assertRaises(ZeroDivisionError, self.run_it, trial(case('one')),
                          world)
        self.assertEqual(set(), world.alive)

    @ddt.data(bench_errors.InstanceError('gone'), OSError('gone'),
              errors.CloudError('gone'),
              errors.InputError('gone'))
    def test_what_platforms_raise(self, fault):
        with mock.patch.object(bench_fakes.Platform, 'launch',
                               side_effect=fault):
            self.assertEqual('gone', self.failure_of(bench_fakes.World()))


class TestInterrupts(TestCase):

    PREPARED = trial(case('one', tenant(), NEIGHBOURS),
                     case('two', tenant(workload='peered')), rounds=2)

    def setUp(self):
        super().setUp()
        # It takes longer than all else.
        self.useFixture(fixtures.MonkeyPatch('os.fsync', lambda file: None))

    def _world(self, *fault):
        # What takes longer has more steps, and no others.
        world = bench_fakes.World(*fault)
        world.takes = 0.3
        return world

    def _steps(self):
        world = self._world()
        self.run_it(self.PREPARED, world)
        self.path.unlink()
        return len(world.steps)

    @unit_base.settings(100)
    @hypothesis.given(st.data())
    def test_at_any_step(self, data):
        """Nothing is left running, and each result is kept exactly once."""
        if not hasattr(self, 'steps'):
            self.steps = self._steps()
        self.path.unlink(missing_ok=True)
        fault = data.draw(st.sampled_from((
            KeyboardInterrupt(), bench_errors.InstanceError('gone'))))
        for at in data.draw(st.lists(st.integers(0, self.steps),
                                     min_size=1, max_size=3)):
            world = self._world(fault, at)
            try:
                self.run_it(self.PREPARED, world)
            except (KeyboardInterrupt, errors.InputError,
                    bench_errors.InstanceError):
                pass
            self.assertEqual(set(), world.alive)
            self.assertEqual({1}, set(self.done().values()) | {1})
        self.run_it(self.PREPARED, self._world())
        self.assertEqual({1}, set(self.done().values()))
        self.assertEqual(8, len(self.done()))
