# SPDX-License-Identifier: Apache-2.0
"""What nova-pinning bench run can measure."""

from collections.abc import Iterable
from collections.abc import Mapping
import json
from typing import Any

import rich.console

from nova_pinning.cli import base_command
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import experiment_file
from nova_pinning.instance_bench import schedule
from nova_pinning.presentation import printing
from nova_pinning.presentation import typed_table


def show(prepared: Iterable[experiment_file.Prepared],
         known: Iterable[bench_model.Workload], output_format: str) -> None:
    """Print the experiments that ship, and workloads.

    With how many cases of each experiment can be measured on this host, and
    about how long that takes.

    :param output_format: table or json
    """
    experiments = list(map(_experiment, prepared))
    workloads = list(map(_workload, known))
    if output_format == 'json':
        print(json.dumps({'experiments': experiments, 'workloads': workloads},
                         indent=2))
    else:
        _show(experiments, workloads, base_command.console())


def _show(experiments: Iterable[Mapping[str, Any]],
          workloads: Iterable[Mapping[str, Any]],
          console: rich.console.Console) -> None:
    printing.title('Experiments', console)
    column, kind = typed_table.Column, typed_table.ColumnKind
    typed_table.show((
        column('name', 'name'), column('cases', 'cases', kind.COUNT),
        column('skipped', 'skipped', kind.COUNT),
        column('seconds', 'takes', kind.SPAN), column('about', 'about'),
    ), experiments, console)
    printing.heading('Workloads', console)
    typed_table.show(
        ('name', 'class', 'figure', 'about'),
        [(row['name'], row['class'],
          '{name} ({unit})'.format(**row['figures'][0]), row['about'])
         for row in workloads], console)


def _experiment(prepared: experiment_file.Prepared) -> dict[str, Any]:
    experiment = prepared.experiment
    units = schedule.units(prepared.planned, lambda case: True)
    return {
        'name': experiment.name, 'about': experiment.about,
        'cases': len(experiment.cases),
        'skipped': sum(1 for case in experiment.cases if case.skipped),
        'seconds': sum(unit.seconds for unit in units)}


def _workload(workload: bench_model.Workload) -> dict[str, Any]:
    return {
        'name': workload.name, 'class': str(workload.workload_class),
        'about': workload.about,
        'figures': [{'name': figure.name, 'unit': figure.unit,
                     'better': str(figure.better)}
                    for figure in workload.figures],
        'parameters': dict(workload.parameters)}
