#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""nova-pinning bench list: what there is to measure."""

import argparse
import json
from typing import Any

from nova_pinning.bench import experiment
from nova_pinning.bench import model
from nova_pinning.bench import schedule
from nova_pinning.bench.workloads import catalogue
from nova_pinning.cli import base
from nova_pinning.cli import bench_progress
from nova_pinning.cli import bench_run
from nova_pinning.cli import options
from nova_pinning.cli import printing


class ListBench(base.Command):
    """List experiments and workloads.

    Shows for each experiment how many of its cases can be measured on this
    host, and about how long that takes.
    """

    epilog = """
        Examples::

          nova-pinning bench list
          nova-pinning bench list --plan plan.yaml --short
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        bench_run.add_choices(parser)
        options.add_format(parser, 'table', 'json')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        experiments = [
            _experiment(bench_run.prepare(name, parsed_args))
            for name in experiment.shipped()]
        workloads = catalogue.load(parsed_args.workloads)
        if parsed_args.format == 'json':
            print(json.dumps({
                'experiments': experiments,
                'workloads': [_workload(one) for one in workloads.values()],
            }, indent=2))
            return base.OK
        console = base.console()
        printing.title('Experiments', console)
        printing.table(
            ('name', 'cases', 'skipped', 'takes', 'about'),
            [(one['name'], str(one['cases']), str(one['skipped']),
              bench_progress.duration(one['seconds']), one['about'])
             for one in experiments], console, ('cases', 'skipped'))
        printing.heading('Workloads', console)
        printing.table(
            ('name', 'class', 'figure', 'about'),
            [(one.name, str(one.workload_class),
              f'{one.figures[0].name} ({one.figures[0].unit})', one.about)
             for one in workloads.values()], console)
        return base.OK


def _experiment(prepared: experiment.Prepared) -> dict[str, Any]:
    wanted = prepared.experiment
    units = schedule.units(model.Results(
        experiment=wanted, workloads=prepared.workloads, conditions=(),
        measurements=()), lambda case: True)
    return {
        'name': wanted.name, 'about': wanted.about,
        'cases': len(wanted.cases),
        'skipped': sum(1 for case in wanted.cases if case.skipped),
        'seconds': sum(unit.seconds for unit in units)}


def _workload(one: model.Workload) -> dict[str, Any]:
    return {
        'name': one.name, 'class': str(one.workload_class),
        'about': one.about,
        'figures': [{'name': figure.name, 'unit': figure.unit,
                     'better': str(figure.better)}
                    for figure in one.figures],
        'parameters': dict(one.parameters)}
