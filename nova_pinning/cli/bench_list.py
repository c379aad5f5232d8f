# SPDX-License-Identifier: Apache-2.0
"""nova-pinning bench list: what there is to measure."""

import argparse
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import rich.console

from nova_pinning.cli import bench_run
from nova_pinning.cli import display
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import experiment_file
from nova_pinning.instance_bench import schedule
from nova_pinning.instance_bench.workloads import workload_catalogue
from nova_pinning.presentation import printing
from nova_pinning.presentation import typed_table

_COLUMNS = ('kind', 'name', 'class', 'cases', 'skipped', 'seconds', 'about')


class ListBench(display.Lister):
    """List experiments and workloads.

    Shows for each experiment how many of its cases can be measured on this
    host, and about how long that takes.

    Examples::

      nova-pinning bench list
      nova-pinning bench list --plan plan.yaml --short
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        bench_run.add_choices(parser)

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        experiments = [
            _experiment(bench_run.prepare(name, parsed_args))
            for name in experiment_file.shipped()]
        workloads = [
            _workload(workload) for workload in workload_catalogue.load(
                parsed_args.workloads).values()]
        return display.Answer(
            typed_table.of_keys(_COLUMNS, [
                *({'kind': 'experiment', **row} for row in experiments),
                *({'kind': 'workload', **row} for row in workloads)]),
            lambda console: _show(experiments, workloads, console),
            lambda: {'experiments': experiments, 'workloads': workloads})


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
