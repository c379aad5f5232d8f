# SPDX-License-Identifier: Apache-2.0
"""The planner ``pinning``, which keeps the order that moves need.

Watcher's planners order actions by their type. Of the migrations of one plan
``weight`` runs two at a time, whichever they are,
``node_resource_consolidation`` one of each host, and
``workload_stabilization`` all at once, while one may need the room that
another leaves.
"""

from typing import Any

from oslo_config import cfg
from oslo_log import log
from watcher.common import utils
from watcher.decision_engine.planner import weight
from watcher import objects

from nova_pinning.watcher import move_order

LOG = log.getLogger(__name__)


class MovePlanner(weight.WeightPlanner):
    """Gives each action the parents that the strategy says it has.

    An action is begun when its parents have ended, however they did.
    """

    @classmethod
    def get_config_opts(cls) -> list[cfg.Opt]:
        return [cfg.IntOpt(
            'parallelization', default=2, min=1,
            help='How many guests are moved at the same time at most. Raise '
                 'it where the network between hosts is fast, and '
                 '[watcher_workflow_engines.taskflow] max_workers with it.')]

    def schedule(self, context: Any, audit_id: int, solution: Any) -> Any:
        """Write the plan of a solution into Watcher's database.

        :param solution: of a strategy of ours, whose ``order`` has the
            positions of each action's parents; of another strategy the actions
            run one after the other
        :returns: watcher.objects.ActionPlan
        """
        plan = self.create_action_plan(context, audit_id, solution)
        actions = [
            objects.Action(context, uuid=utils.generate_uuid(), parents=[],
                           action_plan_id=plan.id, **action)
            for action in solution.actions]
        order = getattr(solution.strategy, 'order', None)
        if order is None:
            order = move_order.one_by_one(len(actions))
        for action, parents in zip(actions, move_order.limited(
                order, self.config.parallelization), strict=True):
            action.parents = [actions[parent].uuid for parent in parents]
            action.create()
        self._create_efficacy_indicators(context, plan.id,
                                         solution.efficacy_indicators)
        if not actions:
            LOG.info('There is nothing to be moved')
            plan.state = objects.action_plan.State.SUCCEEDED
            plan.save()
        return plan
