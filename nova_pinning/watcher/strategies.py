# SPDX-License-Identifier: Apache-2.0
"""The strategies pinning_defragmentation and pinning_drain.

They hand Watcher the plans that ``nova-pinning rebalance`` makes, as its own
actions. Watcher's goals say which figures a strategy has to give, and keep
whatever else it gives.
"""

import abc
from collections.abc import Iterable
from typing import Any

from openstack import connection as sdk_connection
from oslo_config import cfg
from oslo_log import log
from watcher.decision_engine.solution import efficacy
from watcher.decision_engine.strategy.strategies import base

from nova_pinning.cli import guest_options
from nova_pinning.cli import rebalance_options
from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request
from nova_pinning.rebalance import planning
from nova_pinning.watcher import fleet_source
from nova_pinning.watcher import indicators
from nova_pinning.watcher import move_order
from nova_pinning.watcher import nova_process
from nova_pinning.watcher import parameters
from nova_pinning.watcher import watcher_options

LOG = log.getLogger(__name__)

#: What Watcher's own strategies write on hosts that are maintained, and leave
#: alone for it (host_maintenance.HostMaintenance.REASON_FOR_MAINTAINING).
MAINTAINED = 'watcher_maintaining'


class RebalanceStrategy(base.BaseStrategy):
    """A strategy whose solution is a plan of nova-pinning rebalance.

    :cvar PARAMETERS: of an audit, as JSON Schema
    :ivar order: for each action of the solution the positions of those that
        have to end before, for :mod:`nova_pinning.watcher.move_planner`
    """

    PARAMETERS: dict[str, Any]

    def __init__(self, config: Any, osc: Any = None) -> None:
        super().__init__(config, osc)
        watcher_options.register_opts(cfg.CONF)
        self.planner = 'pinning'
        self.order: move_order.Order = ()
        self.fleet: snapshot.Fleet
        self.plan: plan_model.RebalancePlan

    @classmethod
    def get_display_name(cls) -> str:
        return cls.get_translatable_display_name()

    @classmethod
    def get_config_opts(cls) -> list[cfg.Opt]:
        return []

    @classmethod
    def get_schema(cls) -> dict[str, Any]:
        return cls.PARAMETERS

    def pre_execute(self) -> None:
        """Read the fleet."""
        fleet = fleet_source.read_fleet(
            cfg.CONF.pinning_watcher, self._connection, LOG.warning)
        if self.audit_scope:
            model = self.compute_model
            fleet = fleet_source.in_scope(
                fleet,
                {node.hostname
                 for node in model.get_all_compute_nodes().values()},
                set(model.get_all_instances()))
        self.fleet = fleet

    def do_execute(self, audit: Any = None) -> None:
        """Have the plan made, and put it into Watcher's actions.

        :raises errors.InputError: if there is none, or the parameters are
            none for this fleet
        """
        with nova_process.NovaProcess() as nova:
            request = parameters.request_of(
                self.input_parameters, cfg.CONF.pinning_watcher,
                self.wanted(nova))
            rebalance_options.check_names(request, self.fleet)
            self.plan = planning.make_plan(request, self.fleet,
                                           nova.predict_claim)
        self.check_plan()
        LOG.info('%s moves are planned: %s', len(self.plan.moves),
                 self.plan.stopped)
        firsts = self.add_first_actions()
        for move in self.plan.moves:
            self._add_move(move)
        self.order = move_order.behind(
            firsts, [move.after for move in self.plan.moves])

    def post_execute(self) -> None:
        """Nothing; the figures are given last of all."""

    def execute(self, audit: Any = None) -> Any:
        """As Watcher does it, with figures that its goal does not know."""
        solution = super().execute(audit=audit)
        found = solution.efficacy
        found.indicators = [
            *found.indicators,
            *_shown(indicators.plan_figures(self.plan))]
        found.global_efficacy = [
            *(found.global_efficacy or ()),
            *_shown(indicators.gains(self.plan))]
        return solution

    @abc.abstractmethod
    def wanted(
        self, nova: nova_process.NovaProcess,
    ) -> plan_request.MakeRoom | plan_request.DrainHosts:
        """What the parameters of the audit want.

        :param nova: tells what guests of flavors are
        """

    def check_plan(self) -> None:
        """Make sure that the plan is what was asked for.

        :raises errors.InputError: if it is not, with what stands in the way
        """

    def add_first_actions(self) -> int:
        """Add what has to be done before anything is moved.

        :returns: how many actions that is
        """
        return 0

    def _add_move(self, move: plan_model.PlannedMove) -> None:
        values = {'migration_type': str(move.kind),
                  'source_node': move.source,
                  'destination_node': move.target}
        if move.name:
            values['resource_name'] = move.name
        self.solution.add_action(
            action_type=self.MIGRATION, resource_id=move.guest,
            input_parameters=values)
        # Watcher's action has no place for it.
        LOG.info('%s goes from %s to %s, to CPUs %s', move.guest, move.source,
                 move.target, ','.join(
                     str(cpu) for cell in (move.target_fit.cells if
                                           move.target_fit else ())
                     for _vcpu, cpu in cell.pins) or 'that are shared')

    def _connection(self) -> sdk_connection.Connection:
        """The compute API and Placement, with Watcher's own user."""
        conf = cfg.CONF.nova
        return sdk_connection.Connection(
            session=self.osc.session, region_name=conf.region_name,
            interface=(conf.valid_interfaces or ['public'])[0])


class DefragmentationStrategy(RebalanceStrategy):
    """Makes room for large guests with as few moves as will do."""

    PARAMETERS = parameters.DEFRAGMENTATION

    @classmethod
    def get_name(cls) -> str:
        return 'pinning_defragmentation'

    @classmethod
    def get_translatable_display_name(cls) -> str:
        return 'Defragmentation of hosts with pinned guests'

    @classmethod
    def get_goal_name(cls) -> str:
        return 'server_consolidation'

    def wanted(self, nova: nova_process.NovaProcess) -> plan_request.MakeRoom:
        return plan_request.MakeRoom(
            sizes=tuple(rebalance_options.sizes(
                str(self.input_parameters['sizes']), self.fleet,
                lambda named: nova.call(guest_options.requests_by_name,
                                        named, self.fleet, {}))),
            until=self.input_parameters.get('until'))

    def post_execute(self) -> None:
        """Give the figures that the goal asks for."""
        self.solution.set_efficacy_indicators(
            compute_nodes_count=sum(
                host.is_enabled for host in self.fleet.hosts),
            released_compute_nodes_count=indicators.released_hosts(
                self.fleet, self.plan),
            instance_migrations_count=len(self.plan.moves))


class DrainStrategy(RebalanceStrategy):
    """Empties hosts, with moves elsewhere where that takes some."""

    PARAMETERS = parameters.DRAIN

    @classmethod
    def get_name(cls) -> str:
        return 'pinning_drain'

    @classmethod
    def get_translatable_display_name(cls) -> str:
        return 'Draining of hosts with pinned guests'

    @classmethod
    def get_goal_name(cls) -> str:
        return 'cluster_maintaining'

    def wanted(
            self, nova: nova_process.NovaProcess) -> plan_request.DrainHosts:
        return plan_request.DrainHosts(
            hosts=tuple(self.input_parameters['hosts']))

    def check_plan(self) -> None:
        """Make sure that no guest is left behind."""
        if self.plan.stuck:
            raise errors.InputErrors(tuple(
                errors.InputError(
                    f'{guest.name or guest.guest} cannot leave it: '
                    f'{guest.reason}', errors.Location(f'host {guest.host}'))
                for guest in self.plan.stuck))
        moved = {move.guest for move in self.plan.moves}
        left = sum(guest.host in self.input_parameters['hosts']
                   and guest.uuid not in moved for guest in self.fleet.guests)
        if left:
            raise errors.InputError(
                f'{left} guests cannot leave the hosts: {self.plan.stopped}')

    def add_first_actions(self) -> int:
        """Disable the compute services of the hosts."""
        if not self.input_parameters.get('disable', True):
            return 0
        for host in self.input_parameters['hosts']:
            self.solution.add_action(
                action_type='change_nova_service_state', resource_id=host,
                input_parameters={
                    'resource_name': host, 'state': 'disabled',
                    'disabled_reason': MAINTAINED})
        return len(self.input_parameters['hosts'])


def _shown(figures: Iterable[indicators.PlanFigure],
           ) -> list[efficacy.Indicator]:
    return [efficacy.Indicator(name=figure.name, unit=figure.unit,
                               description=figure.description,
                               value=figure.value) for figure in figures]
