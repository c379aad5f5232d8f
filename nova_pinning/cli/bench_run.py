# SPDX-License-Identifier: Apache-2.0
"""nova-pinning bench run: an experiment, measured."""

import argparse
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import functools
import json
import os
import signal
import sys
import time
import types
from typing import Any

import rich.console

from nova_pinning.cli import base_command
from nova_pinning.cli import bench_image
from nova_pinning.cli import bench_list
from nova_pinning.cli import bench_progress
from nova_pinning.cli import common_options
from nova_pinning import errors
from nova_pinning.host import machine_files
from nova_pinning.host import own_threads
from nova_pinning.host import words
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import conditions
from nova_pinning.instance_bench import cpu_layout
from nova_pinning.instance_bench import exclusive_run
from nova_pinning.instance_bench import experiment_file
from nova_pinning.instance_bench import kernel_counters
from nova_pinning.instance_bench import own_command
from nova_pinning.instance_bench import peer
from nova_pinning.instance_bench.platforms import select
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.instance_bench import results_file
from nova_pinning.instance_bench import run
from nova_pinning.instance_bench import run_edges
from nova_pinning.instance_bench import schedule
from nova_pinning.instance_bench.workloads import workload_catalogue
from nova_pinning.presentation import printing
from nova_pinning.presentation import typed_table
from nova_pinning import signals

_INTERRUPTED = 130
_MAX_ROUNDS = 10_000
_MAX_WINDOW_SECONDS = 3600
_MAX_SECONDS = 24 * 60 * 60
#: Of cases that are left out for the same reason.
_NAMES_SHOWN = 2
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class RunBench(base_command.FileCommand):
    """Run an experiment.

    Measures each case of an experiment, in an order that the seed decides,
    and adds a line to the file of results for each repetition. If the file is
    there, and is of the same experiment, what it lacks is measured: so a run
    that was interrupted is resumed by the same command, and cases that failed
    are tried again. Cases that this host is too small for are left out;
    --dry-run lists them with the reason, and without EXPERIMENT all
    experiments and workloads that ship.

    What was started is ended, whatever happens, and what was changed is put
    back. Ends in status 1 if a case could not be measured.

    Guests and servers boot an image. If there is none in the directory of
    --image, it is built of Debian packages by mmdebstrap, which takes root: a
    kernel, the QEMU guest agent, and what workloads need. Root can log in on
    its serial console without a password. Do not put such a guest where
    others reach its console.

    Examples::

      nova-pinning bench run --dry-run
      nova-pinning bench run smp-mutex --dry-run
      nova-pinning bench run cpu-priority --platform cn --short
      nova-pinning bench run mine --minutes 30 --command 'xz -k9c /vmlinuz'
      nova-pinning bench run platform-overhead --plan plan.yaml \\
        --only workload=ffmpeg --only size=2 --only size=4
      nova-pinning bench run my-experiment.yaml -o results.jsonl \\
        --workloads my-workloads.yaml
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('experiment', metavar='EXPERIMENT', nargs='?',
                            help='a name, or a file; --dry-run lists the '
                            'names')
        parser.add_argument('-o', '--output', metavar='FILE',
                            type=common_options.file_path,
                            help='results are added to this file; the name '
                            'of the experiment with .jsonl by default')
        add_choices(parser)
        parser.add_argument('--only', metavar='FACTOR=VALUE', default=[],
                            action='append',
                            help='run these cases only; may be given several '
                            'times. The others can be run later, into the '
                            'same file')
        parser.add_argument('--deadline', metavar='SECONDS', default=3600,
                            type=common_options.number(1, _MAX_SECONDS),
                            help='after which a command has failed '
                            '(default: %(default)s)')
        parser.add_argument('--dry-run', action='store_true',
                            help='list the cases, with how long they take; '
                            'what platforms need is not looked for')
        common_options.add_format(parser, 'table', 'json')
        add_settings(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        if parsed_args.experiment is None:
            return _list_all(parsed_args)
        prepared = prepare(parsed_args.experiment, parsed_args)
        is_chosen = _chosen(prepared.experiment, parsed_args.only)
        path = parsed_args.output or f'{prepared.experiment.name}.jsonl'
        if parsed_args.command or parsed_args.minutes:
            prepared = _resumable(prepared, path)
        if parsed_args.dry_run:
            _list(prepared, is_chosen, path, parsed_args.format)
            return base_command.OK
        _check_any(prepared.experiment, is_chosen)
        try:
            with _interruptible(), results_file.ResultsWriter(
                    path, prepared.planned) as writer:
                if parsed_args.image:
                    bench_image.build_missing(
                        parsed_args.image, workload_catalogue.load(
                            parsed_args.workloads).values())
                units = schedule.units(writer.before, is_chosen)
                summary = _run(prepared, units, writer, parsed_args)
        except KeyboardInterrupt:
            print('interrupted: all that was started is ended; '
                  f'{_kept(path)}', file=sys.stderr)
            return _INTERRUPTED
        _show(prepared.experiment, summary, path, parsed_args.format,
              is_new=bool(units))
        return base_command.FINDINGS if summary.failed else base_command.OK


def _kept(path: str) -> str:
    if not os.path.exists(path):
        return 'nothing was measured'
    return (f'results so far are in {path}, and the same command measures '
            'what is left')


def add_choices(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide which cases an experiment has."""
    parser.add_argument('--plan', metavar='PLAN', default='',
                        help='what nova-pinning host plan has written for '
                        'this host; without it a default layout is used')
    parser.add_argument('--platform', metavar='PLATFORM', action='append',
                        choices=list(map(str, bench_model.PlatformName)),
                        help='bm, cn, vm, vmcn or nova, instead of those of '
                        'the experiment; may be given several times')
    parser.add_argument('--short', action='store_true',
                        help='less of everything, as the experiment says: '
                        'to try it out')
    parser.add_argument('--rounds', metavar='N',
                        type=common_options.number(1, _MAX_ROUNDS),
                        help='how often all of it is done, each time with new '
                        'instances; what the experiment says unless given')
    parser.add_argument('--window', metavar='SECONDS',
                        type=common_options.number(1, _MAX_WINDOW_SECONDS),
                        help='for how long instances that are measured '
                        'together repeat their command; what the experiment '
                        'says unless given')
    what = parser.add_mutually_exclusive_group()
    what.add_argument('--workload', metavar='NAME', default='',
                      help='instead of those of the experiment')
    what.add_argument('--command', metavar='COMMAND', default='',
                      help='the same, of a command for /bin/sh, and how long '
                      'it takes; it is run once before, in an empty directory')
    parser.add_argument('--minutes', metavar='N',
                        type=common_options.number(1, _MAX_SECONDS // 60),
                        help='as many rounds as take about so long')
    parser.add_argument('--workloads', metavar='FILE', action='append',
                        default=[],
                        help='workloads of your own; may be given several '
                        'times')


def prepare(name: str,
            parsed_args: argparse.Namespace) -> experiment_file.Prepared:
    """An experiment for this host, as the options say.

    :raises errors.InputError: if it, a workload or the plan is wrong
    """
    workloads = dict(workload_catalogue.load(parsed_args.workloads))
    workload, settings = parsed_args.workload, {
        key: value for key, value in (
            ('rounds', parsed_args.rounds),
            ('window_seconds', parsed_args.window)) if value is not None}
    if parsed_args.command:
        workload = own_command.NAME
        workloads[workload] = own_command.workload(
            parsed_args.command, own_command.seconds(
                parsed_args.command, parsed_args.deadline))
    options = experiment_file.ExperimentOptions(
        platforms=tuple(map(bench_model.PlatformName,
                            dict.fromkeys(parsed_args.platform or ()))),
        workload=workload, is_short=parsed_args.short, settings=settings)
    layout = cpu_layout.load(parsed_args.plan)
    found = experiment_file.read(name, layout, workloads, options)
    if parsed_args.command and parsed_args.window is None:
        found = found.with_settings(window_seconds=own_command.window_seconds(
            found.planned))
    return found if parsed_args.minutes is None else found.with_settings(
        rounds=own_command.rounds(found.planned, parsed_args.minutes))


def _resumable(prepared: experiment_file.Prepared,
               path: str) -> experiment_file.Prepared:
    """The same, as it was begun: a command does not take as long each time.

    :raises errors.InputError: if the file cannot be read
    """
    if not os.path.exists(path):
        return prepared
    before = results_file.read(path)
    is_same = before.experiment.cases == prepared.experiment.cases and all(
        before.workloads[name].command == workload.command
        for name, workload in prepared.workloads.items())
    return dataclasses.replace(
        prepared, experiment=before.experiment, workloads=before.workloads
    ) if is_same else prepared


def _list_all(parsed_args: argparse.Namespace) -> int:
    """List what there is to measure.

    :raises errors.InputError: if it was to be measured
    """
    names = experiment_file.shipped()
    if not parsed_args.dry_run:
        raise errors.InputError(
            'is missing', errors.Location('EXPERIMENT'),
            f'{common_options.known(list(names))}; --dry-run tells of all')
    bench_list.show(
        [prepare(name, parsed_args) for name in names],
        workload_catalogue.load(parsed_args.workloads).values(),
        parsed_args.format)
    return base_command.OK


def _chosen(experiment: bench_model.Experiment,
            only: Sequence[str]) -> Callable[[bench_model.Case], bool]:
    """Which cases --only leaves.

    :raises errors.InputError: if it names what there is not
    """
    chosen: dict[str, set[str]] = {}
    for text in only:
        factor, _equals, value = text.partition('=')
        known = dict.fromkeys(
            case.factors[factor] for case in experiment.cases
            if factor in case.factors)
        if value not in known:
            # Values have commas in them.
            raise errors.InputError(
                f'no case has {factor} {value!r}', errors.Location('--only'),
                common_options.known(list(map(repr, known)) or list(
                    dict.fromkeys(name for case in experiment.cases
                                  for name in case.factors)), 20))
        chosen.setdefault(factor, set()).add(value)
    return lambda case: all(case.factors.get(factor) in values
                            for factor, values in chosen.items())


def _check_any(experiment: bench_model.Experiment,
               is_chosen: Callable[[bench_model.Case], bool]) -> None:
    """:raises errors.InputError: if no case can be measured here"""
    cases = [case for case in experiment.cases if is_chosen(case)]
    if all(case.skipped for case in cases):
        reasons = dict.fromkeys(case.skipped for case in cases)
        raise errors.InputError(
            f'no case of {experiment.name} can be measured on this host: '
            f'{"; ".join(reasons) or "there is none with all of --only"}')


def _run(prepared: experiment_file.Prepared, units: tuple[schedule.CaseRound,
                                                          ...],
         writer: results_file.ResultsWriter,
         parsed_args: argparse.Namespace) -> run.RunTotals:
    settings = read_settings(parsed_args)
    # Servers of a cloud too: those of two runs may share a host, which may
    # be this one.
    with (exclusive_run.measuring(),
          bench_progress.watcher(units) as watcher):
        runner = run.ExperimentRunner(
            make=lambda name: select.make(name, settings),
            conditions=functools.partial(conditions.gather, prepared.layout),
            edges=_edges(), watcher=watcher,
            deadline_seconds=parsed_args.deadline)
        return runner.run(prepared, units, writer)


def _edges() -> run_edges.Edges:
    tree = machine_files.Tree()
    return run_edges.Edges(
        monotonic=time.monotonic, now=time.time, sleep=time.sleep,
        load=conditions.load, peer=peer.running, bind=own_threads.keeping_to,
        steal=lambda cpus: kernel_counters.steal(
            tree.text('/proc/stat') or '', cpus),
        idle=lambda or_interrupted: kernel_counters.idle(
            tree.text('/proc/stat') or '', or_interrupted))


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Have signals that end programs raise KeyboardInterrupt, but once.

    What was started is being ended after the first; that must come to its
    end.
    """
    told = False

    def interrupt(_number: int, _frame: types.FrameType | None) -> None:
        nonlocal told
        if told:
            print('ending what was started; this can take a while',
                  file=sys.stderr)
            return
        told = True
        raise KeyboardInterrupt

    with signals.handled(_SIGNALS, interrupt):
        yield


def _list(prepared: experiment_file.Prepared,
          is_chosen: Callable[[bench_model.Case], bool], path: str,
          output_format: str) -> None:
    """Show what a run would do."""
    experiment = prepared.experiment
    before = results_file.resumed(path, prepared.planned)
    if before.conditions:
        results_file.check_same(path, before,
                                conditions.gather(prepared.layout))
    left: dict[str, float] = {}
    for unit in schedule.units(before, is_chosen):
        left[unit.case.name] = left.get(unit.case.name, 0.0) + unit.seconds
    cases = [case for case in experiment.cases if is_chosen(case)]
    if output_format == 'json':
        print(json.dumps({
            'experiment': experiment.name, 'seconds': sum(left.values()),
            'layout': {name: str(cpus) for name, cpus
                       in prepared.layout.as_mapping().items()},
            'cases': [_as_dict(case, left.get(case.name)) for case in cases],
        }, indent=2))
        return
    console = base_command.console()
    printing.title(f'{experiment.name}: {experiment.about}', console)
    printing.say(
        f'{experiment.rounds} × ('
        f'{words.count(experiment.warm_ups, "warm-up")} and '
        f'{words.count(experiment.repetitions, "repetition")}), seed '
        f'{experiment.seed}', console)
    printing.say('CPUs: ' + ', '.join(
        f'{name} {cpus or "none"}'
        for name, cpus in prepared.layout.as_mapping().items()), console)
    first = experiment.cases[0].factors
    alike = {factor: value for factor, value in first.items()
             if all(case.factors[factor] == value
                    for case in experiment.cases)}
    if alike:
        printing.say('all cases: ' + ', '.join(
            f'{factor} {value}' for factor, value in alike.items()), console)
    console.print()
    differ = [factor for factor in first if factor not in alike]
    typed_table.show(
        [*differ, 'instances', 'takes'],
        [[*(case.factors[factor] for factor in differ), _instances(case),
          _takes(case, left.get(case.name))] for case in cases], console)
    _show_skipped(cases, console)
    console.print()
    without = _without_baseline(before, is_chosen)
    if without:
        printing.say(without, console)
    printing.say(f'about {words.span(sum(left.values()))} in '
                 f'all; results go to {path}', console)
    printing.say('not looked at: whether the platforms have what they need',
                 console)


def _without_baseline(before: bench_model.Results,
                      is_chosen: Callable[[bench_model.Case], bool]) -> str:
    """Why there will be no ratios, '' if there will be."""
    baseline = before.experiment.baseline
    measured = [*(case.factors for case in before.experiment.cases
                  if is_chosen(case) and not case.skipped),
                *(measurement.factors for measurement in before.measurements)]
    if not baseline or any(baseline.items() <= factors.items()
                           for factors in measured):
        return ''
    named = ', '.join(f'{factor} {value}'
                      for factor, value in baseline.items())
    return (f'no ratios: the baseline ({named}) is neither among these cases '
            'nor measured already; see --platform and --only')


def _as_dict(case: bench_model.Case, seconds: float | None) -> dict[str, Any]:
    return {
        'factors': dict(case.factors),
        'skipped': case.skipped,
        'instances': {
            tenant.name: tenant.count
            for tenant in case.tenants},
        'seconds': seconds}


def _instances(case: bench_model.Case) -> str:
    """'1 enterprise of 2 vCPUs, 3 shared of 1 vCPU'."""
    # The name of a tenant that has none.
    return ', '.join(
        ('1 instance' if (tenant.count, tenant.name) == (1, 'instances')
         else f'{tenant.count} {tenant.name}')
        + f' of {words.count(tenant.size.vcpus, "vCPU")}'
        for tenant in case.tenants)


def _takes(case: bench_model.Case, seconds: float | None) -> str:
    if case.skipped:
        return 'skipped'
    return ('measured' if seconds is None
            else words.span(seconds))


def _show_skipped(cases: Sequence[bench_model.Case],
                  console: rich.console.Console) -> None:
    """Why cases are left out, one reason for all that have it."""
    reasons: dict[str, list[str]] = {}
    for case in cases:
        if case.skipped:
            reasons.setdefault(case.skipped, []).append(case.name)
    if reasons:
        printing.heading('Skipped', console)
    for reason, names in reasons.items():
        more = len(names) - _NAMES_SHOWN
        printing.say(
            f'{reason}: {"; ".join(names[:_NAMES_SHOWN])}'
            f'{f"; and {more} more" if more > 0 else ""}', console, '  ')


def _show(experiment: bench_model.Experiment, summary: run.RunTotals,
          path: str, output_format: str, is_new: bool) -> None:
    """Say what a run came to.

    :param is_new: whether there was anything left to measure
    """
    skipped = sum(1 for case in experiment.cases if case.skipped)
    if output_format == 'json':
        print(json.dumps({
            'experiment': experiment.name, 'results': path,
            'measured': summary.measured, 'failed': summary.failed,
            'skipped': skipped}, indent=2))
        return
    console = base_command.console()
    done = (f'{words.count(summary.measured, "repetition")} measured, '
            f'{words.count(summary.failed, "case")} failed, {skipped} of '
            f'{len(experiment.cases)} skipped; results are in {path}')
    if not is_new:
        done = (f'all was measured already, and is in {path}; for a new run '
                'name another file with -o')
    printing.say(f'{experiment.name}: {done}', console)
    printing.say('next: nova-pinning bench report '
                 f'{path} -o report.html', console)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add an option for each of the settings of platforms."""
    usual = settings.PlatformSettings()
    guests = parser.add_argument_group('guests (vm, vmcn) and servers')
    guests.add_argument('--image', metavar='DIR', default='',
                        help='the directory of the image; it is built there '
                        'if there is none')
    cloud = parser.add_argument_group('servers of a cloud (nova)')
    cloud.add_argument('--server-image', metavar='IMAGE',
                       default=usual.server_image,
                       help='that servers boot (default: %(default)s)')
    cloud.add_argument('--hypervisor', metavar='COMMAND', default='',
                       help="put before virsh to reach a compute host's "
                       "libvirt, {host} being the host's name: 'ssh {host}'")


def read_settings(
        parsed_args: argparse.Namespace) -> settings.PlatformSettings:
    """What the options of add_settings say."""
    usual = settings.PlatformSettings()
    return dataclasses.replace(
        usual, plan=parsed_args.plan, image=parsed_args.image,
        server_image=parsed_args.server_image,
        hypervisor=parsed_args.hypervisor,
        # As virsh has it.
        connect=os.environ.get('LIBVIRT_DEFAULT_URI') or usual.connect)
