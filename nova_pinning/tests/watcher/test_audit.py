# SPDX-License-Identifier: Apache-2.0
"""What Watcher makes of our plans, with its own handlers and database."""

import ast
import datetime
import importlib.metadata
import json
import pathlib
import sys
import tempfile
import threading
import tomllib
from unittest import mock
import uuid

from oslo_config import cfg
from packaging import requirements
from watcher.applier.actions import migration
from watcher.applier.workflow_engine import default as workflow_engine
from watcher.common import utils as watcher_utils
from watcher.decision_engine.audit import continuous
from watcher.decision_engine.audit import oneshot
from watcher.decision_engine.loading import default as loading
from watcher.decision_engine.strategy.strategies import base as base_strategy
from watcher.decision_engine import sync
from watcher import notifications
from watcher import objects
from watcher.tests.unit.db import base
from watcher.tests.unit.objects import utils as object_utils

from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning import errors
from nova_pinning import extras
from nova_pinning.fleet import document
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request
from nova_pinning.rebalance import planning
from nova_pinning.rebalance import slot_size
from nova_pinning.watcher import strategies

ROOT = pathlib.Path(__file__).parents[3]
GUESTS = {name: str(uuid.UUID(int=number))
          for number, name in enumerate('wxyz')}
PLACES = {'w': 'a', 'x': 'a', 'y': 'b', 'z': 'c'}
MAKE_PLAN = planning.make_plan
GAIN = plan_model.SlotGain(size='16', before=2, after=13, bound=14)


def move(guest, source, target, **values):
    return plan_model.PlannedMove(**{
        'guest': GUESTS[guest], 'source': source, 'target': target,
        'kind': plan_model.MigrationKind.LIVE, 'vcpus': 1, 'memory_mib': 64,
        'target_fit': model.Fit((model.CellFit(0, ((0, 5), (1, 4))),)),
        **values})


class AuditTestCase(base.DbTestCase):
    """An audit of a fleet of three hosts with four guests.

    :ivar plan: that the planner makes, an error that it raises, or a function
        of the fleet that gives one of these
    :ivar request: that it was given last
    """

    def setUp(self):
        super().setUp()
        for name in ('audit', 'action_plan', 'action'):
            patch = mock.patch.object(notifications, name, autospec=True)
            patch.start()
            self.addCleanup(patch.stop)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = pathlib.Path(directory.name) / 'fleet.json'
        document.write(path, snapshot.Fleet(
            hosts=tuple(offered_host.OfferedHost(name=name, cells=())
                        for name in 'abc'),
            guests=tuple(resident_guest.ResidentGuest(
                uuid=GUESTS[name], name=name, host=host, vcpus=2,
                memory_mib=64, guest_class=hostclass.HostClass.SHARED)
                for name, host in PLACES.items()),
            taken_at=f'{datetime.datetime.now(datetime.UTC):%FT%TZ}'))
        sync.Syncer().sync()
        loading.DefaultStrategyLoader().load('pinning_drain')
        cfg.CONF.set_override('snapshot', str(path), 'pinning_watcher')
        self.addCleanup(cfg.CONF.clear_override, 'snapshot',
                        'pinning_watcher')
        patch = mock.patch.object(planning, 'make_plan', self.make_plan)
        patch.start()
        self.addCleanup(patch.stop)
        # The handlers are one for the whole process.
        self.addCleanup(oneshot.OneShotAuditHandler._instances.clear)

    def make_plan(self, request, fleet, ask_nova):
        self.request = request
        made = self.plan
        if callable(made):
            made = made(fleet)
        if isinstance(made, Exception):
            raise made
        return made

    def planned(self, *moves, **values):
        return plan_model.RebalancePlan(**{
            'goal': plan_model.PlanGoal.DEFRAGMENT, 'moves': moves,
            'fleet': plan_model.FleetState(digest=f'sha256:{0:064x}'),
            **values})

    def make_audit(self, name='pinning_defragmentation', **values):
        strategy = objects.Strategy.get_by_name(self.context, name)
        values.setdefault('parameters', {'sizes': 16})
        watcher_utils.StrictDefaultValidatingDraft4Validator(
            strategy.parameters_spec).validate(values['parameters'])
        return object_utils.create_test_audit(
            self.context, uuid=str(uuid.uuid4()), goal_id=strategy.goal_id,
            strategy_id=strategy.id, scope=values.pop('scope', []),
            interval=None, **values)

    def plans(self, audit):
        return objects.ActionPlan.list(
            self.context, filters={'audit_uuid': audit.uuid})

    def audited(self, *arguments, **values):
        """The audit's state and its only plan, None if there is none."""
        audit = self.make_audit(*arguments, **values)
        oneshot.OneShotAuditHandler().execute(audit, self.context)
        plan, = self.plans(audit) or [None]
        return objects.Audit.get_by_uuid(
            self.context, audit.uuid).state, plan

    def actions(self, plan):
        return sorted(objects.Action.list(
            self.context, filters={'action_plan_id': plan.id}),
            key=lambda action: action.id)

    def figures(self, plan):
        return {figure.name: figure.value for figure in
                objects.EfficacyIndicator.list(
                    self.context, filters={'action_plan_id': plan.id})}


class TestDefragmentation(AuditTestCase):

    def test_plan(self):
        self.plan = self.planned(
            move('w', 'a', 'b', name='w'), move('x', 'a', 'c'),
            move('z', 'c', 'a', after=(0, 1),
                 kind=plan_model.MigrationKind.COLD),
            gains=(GAIN,), is_optimal=True)
        state, plan = self.audited(parameters={
            'sizes': '16', 'moves': '3%', 'tags': ['db', 'mq']})
        self.assertEqual(('SUCCEEDED', 'RECOMMENDED'), (state, plan.state))
        self.assertEqual(plan_request.PlanRequest(
            goal=plan_request.MakeRoom(sizes=(slot_size.dedicated_slot(16),)),
            share_percent=3.0,
            rules=plan_request.RuleSettings(
                allows_cold=False, moves_devices=False,
                fixed_tags=frozenset({'db', 'mq'}))), self.request)
        actions = self.actions(plan)
        self.assertEqual(['migrate'] * 3,
                         [action.action_type for action in actions])
        self.assertEqual(
            [{'resource_id': GUESTS['w'], 'migration_type': 'live',
              'source_node': 'a', 'destination_node': 'b',
              'resource_name': 'w'},
             {'resource_id': GUESTS['x'], 'migration_type': 'live',
              'source_node': 'a', 'destination_node': 'c'},
             {'resource_id': GUESTS['z'], 'migration_type': 'cold',
              'source_node': 'c', 'destination_node': 'a'}],
            [action.input_parameters for action in actions])
        first, second, third = actions
        self.assertEqual([[], [], [first.uuid, second.uuid]],
                         [action.parents for action in actions])
        self.assertEqual(
            {'compute_nodes_count': 3, 'released_compute_nodes_count': 0,
             'instance_migrations_count': 3, 'slots_before:16': 2,
             'slots_after:16': 13, 'slots_bound:16': 14, 'moves': 3,
             'parking_moves': 0, 'cold_moves': 1, 'memory_to_copy': 192,
             'proved': 1}, self.figures(plan))
        self.assertEqual(
            {'released_nodes_ratio': 0, 'slots_gained:16': 11},
            {one['name']: one['value'] for one in plan.global_efficacy})

    def test_actions_are_what_the_applier_takes(self):
        self.plan = self.planned(move('w', 'a', 'b', name='w'))
        _state, plan = self.audited()
        action, = self.actions(plan)
        made = migration.Migrate(mock.Mock())
        made.input_parameters = action.input_parameters
        self.assertTrue(made.validate_parameters())

    def test_nothing_to_be_moved(self):
        self.plan = self.planned()
        state, plan = self.audited()
        self.assertEqual(('SUCCEEDED', 'SUCCEEDED', []),
                         (state, plan.state, self.actions(plan)))

    def test_sizes_that_are_flavors(self):
        """Nova tells what they are, in a process of its own."""
        self.plan = self.planned()
        self.audited(parameters={
            'sizes': 'name=f vcpus=2 ram=1GiB hw:cpu_policy=dedicated'})
        size, = self.request.goal.sizes
        self.assertEqual(('f', 2, 1024), (
            size.name, size.request.vcpus, size.request.memory_mib))
        self.assertNotIn('nova', sys.modules)

    def test_planner_fails(self):
        self.plan = errors.InputError('no such flavor')
        self.assertEqual(('FAILED', None), self.audited())

    def test_whole_planner(self):
        with mock.patch.object(planning, 'make_plan', MAKE_PLAN):
            state, plan = self.audited()
        self.assertEqual(('SUCCEEDED', 'SUCCEEDED'), (state, plan.state))
        self.assertEqual(0, self.figures(plan)['slots_after:16'])

    def test_audit_that_names_no_strategy(self):
        """Watcher takes any of the goal; without parameters ours fails."""
        self.plan = self.planned(move('w', 'a', 'b'))
        audit = self.make_audit()
        audit.parameters = {}
        oneshot.OneShotAuditHandler().execute(audit, self.context)
        self.assertEqual([], self.plans(audit))

    def test_scope(self):
        """Hosts that the audit is not about are left out."""
        seen = []

        def made(fleet):
            seen.append(fleet)
            return self.planned()

        self.plan = made
        scoped = mock.Mock(**{
            'get_all_compute_nodes.return_value': {
                name: mock.Mock(hostname=name) for name in 'ab'},
            'get_all_instances.return_value': {GUESTS['w']: 1,
                                               GUESTS['y']: 1}})
        with mock.patch.object(base_strategy.BaseStrategy, 'compute_model',
                               scoped):
            state, _plan = self.audited(scope=[{'compute': []}])
        self.assertEqual('SUCCEEDED', state)
        fleet, = seen
        self.assertEqual(['a', 'b'], [host.name for host in fleet.hosts])
        self.assertEqual(
            {'w': True, 'x': False, 'y': True},
            {guest.name: guest.is_movable for guest in fleet.guests})

    def test_continuous(self):
        """A plan that nobody has started gives way to the next."""
        audit = self.make_audit(
            audit_type=objects.audit.AuditType.CONTINUOUS.value)
        handler = continuous.ContinuousAuditHandler()
        for target in 'bc':
            self.plan = self.planned(move('w', 'a', target))
            handler.execute(audit, self.context)
        self.assertEqual(
            {('CANCELLED', 'b'), ('RECOMMENDED', 'c')},
            {(plan.state,
              self.actions(plan)[0].input_parameters['destination_node'])
             for plan in self.plans(audit)})


class TestDrain(AuditTestCase):

    def audited(self, **parameters):
        return super().audited('pinning_drain', parameters={
            'hosts': ['a'], **parameters})

    def drained(self, *moves, **values):
        return self.planned(*moves, goal=plan_model.PlanGoal.DRAIN,
                            drained=('a',), **values)

    def test_services_are_disabled_first(self):
        self.plan = self.drained(
            move('y', 'b', 'c'), move('w', 'a', 'b', after=(0,)),
            move('x', 'a', 'b'))
        state, plan = self.audited()
        self.assertEqual('SUCCEEDED', state)
        self.assertEqual(plan_request.DrainHosts(hosts=('a',)),
                         self.request.goal)
        service, *moves = self.actions(plan)
        self.assertEqual('change_nova_service_state', service.action_type)
        self.assertEqual(
            {'resource_id': 'a', 'resource_name': 'a', 'state': 'disabled',
             'disabled_reason': 'watcher_maintaining'},
            service.input_parameters)
        # Two at a time, of which the last waits for the second.
        self.assertEqual(
            [[service.uuid], [service.uuid, moves[0].uuid],
             [service.uuid, moves[0].uuid]],
            [action.parents for action in moves])
        self.assertEqual(3, self.figures(plan)['moves'])
        self.assertEqual(
            {'hosts_drained': 1},
            {one['name']: one['value'] for one in plan.global_efficacy})

    def test_services_are_left_alone(self):
        self.plan = self.drained(move('w', 'a', 'b'), move('x', 'a', 'b'))
        _state, plan = self.audited(disable=False)
        self.assertEqual(['migrate'] * 2, [
            action.action_type for action in self.actions(plan)])

    def test_guests_that_cannot_leave(self):
        self.plan = self.drained(stuck=(plan_model.StuckGuest(
            guest=GUESTS['w'], host='a', reason='has a device'),))
        self.assertEqual(('FAILED', None), self.audited())

    def test_host_that_is_not_there(self):
        self.plan = self.drained()
        self.assertEqual(('FAILED', None), self.audited(hosts=['gone']))

    def test_guests_that_are_left(self):
        self.plan = self.drained(move('w', 'a', 'b'),
                                 stopped='the time is up')
        self.assertEqual(('FAILED', None), self.audited())


class TestApplier(AuditTestCase):

    def test_order(self):
        """Watcher's own workflow engine begins no move before its time."""
        self.plan = self.planned(
            move('w', 'a', 'b'), move('x', 'a', 'c', after=(0,)),
            move('y', 'b', 'c'), move('z', 'c', 'a', after=(1, 2)))
        _state, plan = self.audited()
        actions = self.actions(plan)
        ended, wrong, lock = set(), [], threading.Lock()
        parents = {action.input_parameters['resource_id']: {
            other.input_parameters['resource_id'] for other in actions
            if other.uuid in action.parents} for action in actions}

        def execute(action):
            with lock:
                if not ended >= parents[action.instance_uuid]:
                    wrong.append(action.instance_uuid)
                ended.add(action.instance_uuid)
            return True

        with mock.patch.multiple(
                migration.Migrate, execute=execute,
                pre_condition=lambda action: None):
            workflow_engine.DefaultWorkFlowEngine(
                mock.Mock(max_workers=4, action_execution_rule={}),
                self.context, mock.Mock()).execute(actions)
        self.assertEqual([], wrong)
        self.assertEqual(set(GUESTS.values()), ended)
        self.assertEqual({GUESTS['w'], GUESTS['x'], GUESTS['y']}, parents[
            GUESTS['z']] | parents[GUESTS['x']] | {GUESTS['x'], GUESTS['y']})
        self.assertEqual({'SUCCEEDED'}, {
            action.state for action in self.actions(plan)})

    def test_solution_of_others(self):
        """Their actions run one after the other."""
        audit = self.make_audit()
        strategy = mock.Mock(spec=['name'])
        strategy.name = 'dummy'
        solution = mock.Mock(
            strategy=strategy, global_efficacy=[], efficacy_indicators=[],
            actions=[{'action_type': 'nop',
                      'input_parameters': {'message': str(number)}}
                     for number in range(3)])
        plan = loading.DefaultPlannerLoader().load('pinning').schedule(
            self.context, audit.id, solution)
        first, second, third = self.actions(plan)
        self.assertEqual(
            [[], [first.uuid], sorted([first.uuid, second.uuid])],
            [first.parents, second.parents, sorted(third.parents)])


class TestInstallation(base.DbTestCase):

    def test_nova_is_not_imported(self):
        """Both have options of the same names, so one of them would fail."""
        for name in ('strategies', 'move_planner'):
            self.assertIn(f'nova_pinning.watcher.{name}', sys.modules)
        self.assertNotIn('nova', sys.modules)

    def test_goals_are_watchers_own(self):
        for kind in (strategies.DefragmentationStrategy,
                     strategies.DrainStrategy):
            self.assertIn(type(kind.get_goal()).__module__,
                          'watcher.decision_engine.goal.goals')
            json.dumps(kind.get_schema())

    def test_extra_brings_what_is_imported(self):
        project = tomllib.loads((ROOT / 'pyproject.toml').read_text())
        extra = project['project']['optional-dependencies']
        declared = {requirements.Requirement(line).name
                    for line in extra['watcher'] + extra['tools']
                    + project['project']['dependencies']}
        packages = set()
        for path in (ROOT / 'nova_pinning' / 'watcher').glob('*.py'):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom):
                    packages.add(node.module.partition('.')[0])
        packages -= sys.stdlib_module_names | {'nova_pinning'}
        self.assertIn('watcher', packages)
        found = importlib.metadata.packages_distributions()
        for package in packages:
            self.assertTrue(set(found[package]) & declared, package)
        self.assertIn("'nova-pinning[watcher]'",
                      extras.install_advice('watcher'))
