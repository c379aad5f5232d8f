# SPDX-License-Identifier: Apache-2.0
"""nova-pinning simulate: arrivals and departures, as nova would place them."""

import argparse
from collections.abc import Sequence
import dataclasses
import json
import os
import sys

from nova_pinning.admission import gaps
from nova_pinning.admission import outcome
from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import fleets
from nova_pinning.cli import guest_options
from nova_pinning.cli import nova_options
from nova_pinning import errors
from nova_pinning.presentation import simulation_report
from nova_pinning.simulation import compare
from nova_pinning.simulation import rebalance_policy
from nova_pinning.simulation import settings
from nova_pinning.simulation import simulation_run
from nova_pinning.simulation import spec
from nova_pinning.simulation import trace

#: Ended by an interrupt, as shells have it.
_INTERRUPTED = 130
_MOST_SEEDS = 10_000
_OF_HARDWARE = (outcome.DoubtKind.CELLS, outcome.DoubtKind.DEVICES,
                outcome.DoubtKind.DEVICE_TAGS)


class Simulate(base_command.FileCommand):
    """Simulate arrivals and departures of guests on a fleet.

    Each guest is put where nova-scheduler would put it. Several configurations
    and seeds are compared in one table, with 95% confidence intervals.

    The same seed gives the same result on any machine and with any number of
    processes.

    A host takes no guest of which it is not certain that it may be there, and
    the output names what is not known. The exit status is 1 then.

    Examples::

      nova-pinning simulate fleet.json.zst --trace arrivals.csv
      nova-pinning simulate fleet.json.zst --empty --seeds 10 \\
          --arrivals 'mix=8:70,16:30 load=0.5-1.2 lifetime=24h' \\
          --configuration nova-default --configuration pinning
      nova-pinning simulate fleet.json.zst \\
          --arrivals 'mix=small:3,large rate=20 lifetime=7d' \\
          --configuration /etc/nova/nova.conf
      nova-pinning simulate fleet.json.zst --lifetimes 30d \\
          --arrivals 'mix=8:70,16:30 load=0.8-1.1 lifetime=30d' \\
          --rebalance 'every=6h moves=1%' --stop-at-limit
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        fleets.add_argument(parser)
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument(
            '--trace', metavar='FILE',
            help='arrivals from a CSV file with the columns time, id, '
                 'lifetime and flavor, or vcpus, memory and class')
        what.add_argument(
            '--arrivals', metavar='SPEC',
            help="arrivals that are drawn, such as 'mix=8:70,16:30 rate=100 "
                 "lifetime=24h'; the admin guide has all keys")
        parser.add_argument(
            '--configuration', action='append', default=[], metavar='NAME',
            help='of weighers: nova-default, nova-packing, best-fit, pinning '
                 '(the default), or a nova.conf; may be given '
                 'several times, and others are compared with the first')
        parser.add_argument(
            '--rebalance', metavar='SPEC',
            help="run each configuration a second time, with guests moved "
                 "now and then to make room, such as 'every=6h moves=1%%'; "
                 'the admin guide has all keys')
        parser.add_argument(
            '--without-reserve', action='store_true',
            help='run each configuration a second time, as if no host was '
                 'kept by pinning:reserve: what is sold more then is what '
                 'the reserve costs')
        parser.add_argument(
            '--seeds', type=common_options.number(1, _MOST_SEEDS), default=1,
            metavar='N', help='run each configuration with the seeds 1 to N '
                              '(default: 1)')
        parser.add_argument(
            '--empty', action='store_true',
            help="begin without the fleet's own guests")
        parser.add_argument(
            '--lifetimes', metavar='DURATION',
            type=common_options.told(spec.hours),
            help="mean lifetime of the fleet's own guests, such as 30d; they "
                 'stay unless this is given')
        parser.add_argument(
            '--stop-at-limit', action='store_true',
            help='end each run when 1%% of the latest 1,000 arrivals were '
                 'refused')
        nova_options.add_option(parser)
        # Guests are put on cells and devices that there are.
        common_options.add_assume(parser, [
            kind for kind in outcome.DoubtKind
            if kind not in _OF_HARDWARE])
        common_options.add_image_properties(parser)
        common_options.add_format(parser, 'table', 'json')

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        study = _study(parsed_args)
        total, done = study.source.count * len(study.cases), 0
        with fleets.progress('simulating') as tell:
            def arrived(count: int) -> None:
                nonlocal done
                done += count
                tell(min(1.0, done / total))

            try:
                results = compare.perform(study, processes=_cpus(),
                                          tell=arrived)
            except KeyboardInterrupt:
                print('interrupted', file=sys.stderr)
                return _INTERRUPTED
        doubts = simulation_report.doubts(results)
        if not doubts:
            _check_possible(results)
        names = [configuration.name for configuration in study.configurations]
        if parsed_args.format == 'json':
            print(json.dumps({
                **simulation_report.study_document(results, names),
                'gaps': gaps.counted_as_list(doubts)}, indent=2))
        else:
            console = base_command.console()
            simulation_report.show(results, names, study, console)
            fleets.show_doubts(doubts, console)
        return base_command.FINDINGS if doubts else base_command.OK


def _check_possible(results: Sequence[simulation_run.Result]) -> None:
    """
    :raises errors.InputError: if there is nothing to be said of any guest
    """
    if not any(result.arrivals for result in results) and any(
            result.impossible for result in results):
        raise errors.InputError(
            'no host of the fleet could hold any of the guests, even if it '
            'was empty', None, 'ask nova-pinning explain why')


def _cpus() -> int:
    """The CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def _study(parsed_args: argparse.Namespace) -> compare.Study:
    """What is asked for on the command line."""
    chosen = [settings.load(name)
              for name in parsed_args.configuration or ['pinning']]
    names = [configuration.name for configuration in chosen]
    for name in names:
        if names.count(name) > 1:
            raise errors.InputError(
                f'{name} appears twice', errors.Location('--configuration'))
    if parsed_args.rebalance is not None:
        policy = rebalance_policy.parse(parsed_args.rebalance)
        chosen = [either for configuration in chosen for either in (
            configuration, configuration.with_moves(policy))]
    if parsed_args.without_reserve:
        chosen = [either for configuration in chosen for either in (
            configuration, configuration.without_reserve())]
    arrivals: spec.ArrivalSpec | trace.ArrivalTrace
    if parsed_args.trace is None:
        arrivals = spec.parse(parsed_args.arrivals)
    else:
        if not parsed_args.trace:
            raise errors.InputError('names no file',
                                    errors.Location('--trace'))
        with fleets.progress('reading the trace'):
            arrivals = trace.scan(parsed_args.trace)
    fleet = fleets.load(parsed_args)
    if not fleet.hosts:
        raise errors.InputError('has no hosts', fleet.where)
    filters = nova_options.enabled_filters(fleet)
    chosen = [
        dataclasses.replace(configuration, enabled_filters=filters)
        if configuration.enabled_filters is None else configuration
        for configuration in chosen]
    return compare.Study(
        fleet=fleet, source=arrivals.source(
            guest_options.requests_by_name(
                arrivals.flavors, fleet,
                common_options.image_properties(parsed_args)),
            sum(len(host.dedicated_cpus) for host in fleet.hosts)),
        configurations=tuple(chosen),
        seeds=tuple(range(1, parsed_args.seeds + 1)),
        plan=simulation_run.RunPlan(
            is_empty=parsed_args.empty, stay_hours=parsed_args.lifetimes,
            stops_at_limit=parsed_args.stop_at_limit,
            looks_at_l3=True,
            assumes=common_options.assumed(parsed_args)))
