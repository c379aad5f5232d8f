# SPDX-License-Identifier: Apache-2.0
"""nova-pinning advise: what to run a workload on."""

import argparse
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import itertools
import pathlib
import sys

import rich.console

from nova_pinning.bridge.offline import standalone
from nova_pinning.checks import check_rule
from nova_pinning.cli import display
from nova_pinning.document import encoder
from nova_pinning.document import schema
from nova_pinning import errors
from nova_pinning import extras
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import flavor_model
from nova_pinning.host import host_loader
from nova_pinning.host import host_model
from nova_pinning.instance_bench.advise import advice_model
from nova_pinning.instance_bench.advise import advisor
from nova_pinning.instance_bench.advise import own_results
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import results_file
from nova_pinning.instance_bench import self_test
from nova_pinning.instance_bench import statistics
from nova_pinning.instance_bench.workloads import workload_catalogue
from nova_pinning.presentation import printing
from nova_pinning.presentation import typed_table

_OPTION = '--workload'
_PLATFORMS = ('nova', 'vm', 'vmcn', 'cn')
_CATALOGUE = pathlib.Path('etc/nova-pinning/flavors.yaml')
#: Where the catalogue is: the operator's, the installed one, the checkout's.
_ROOTS = (pathlib.Path('/'), pathlib.Path(sys.prefix),
          pathlib.Path(__file__).parents[2])


class Advise(display.Lister):
    """Say what to run a workload on, why, and how sure that is.

    Class, size, where emulator threads run, multi-queue, memory pages, NUMA
    cells, thread policy and realtime, each with its source, how strong that
    is, and where it holds; the results of nova-pinning bench run override it
    where they decide. Then the flavor that agrees with all of that, or what
    stands in the way of one.

    The host is taken to be empty. Sizes of containers go by the ratio of
    their CPUs to the host's (CHR), and take one.

    Examples::

      nova-pinning advise --workload web --host-file host.yaml
      nova-pinning advise --workload sysbench-cpu --steady \\
          --host-file plan.yaml --catalogue flavors.yaml
      nova-pinning advise --workload ffmpeg --host-file plan.yaml \\
          --results platform-overhead.jsonl --format json
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            _OPTION, required=True, metavar='NAME',
            help='what it is, such as redis, kafka or dpdk; or a workload '
                 'as nova-pinning bench run --dry-run lists; or a class: '
                 f'{", ".join(bench_model.WorkloadClass)}')
        parser.add_argument(
            '--load',
            choices=[str(bound) for bound in advice_model.WorkloadBound],
            help='what it is bound by, if that is not what its class says')
        parser.add_argument(
            '--platform', metavar='PLATFORM', choices=_PLATFORMS,
            default=_PLATFORMS[0],
            help='what it is to run on: a server of nova (the default), a '
                 'libvirt guest, a container in a guest, or a container')
        parser.add_argument(
            '--steady', action='store_true',
            help='its performance must stay the same whatever the neighbours '
                 'do')
        parser.add_argument(
            '--host-file', metavar='FILE',
            help='host file, with or without a plan')
        parser.add_argument(
            '--catalogue', metavar='FILE',
            help='flavors to choose from; without it, those of '
                 f'/{_CATALOGUE}, or of the catalogue that comes with the '
                 'package')
        parser.add_argument(
            '--workloads', metavar='FILE', action='append', default=[],
            help="file with one's own workloads; may be given several times")
        parser.add_argument(
            '--results', metavar='FILE', action='extend', nargs='+',
            default=[], help='results of nova-pinning bench run; those of a '
            'self-test widen the intervals of the others')

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        if parsed_args.results:
            extras.need('an interval', 'scipy')
        read = {path: results_file.read(path) for path in parsed_args.results}
        # Those of a self-test say what the others' intervals are worth.
        stretch = max((self_test.calibrate(result).stretch
                       for result in read.values() if _is_self_test(result)),
                      default=1.0)
        own = {path: statistics.summarise(result, stretch)
               for path, result in read.items() if not _is_self_test(result)}
        question = ask(parsed_args, own.values())
        for path, run in own.items():
            if not any(own_results.is_about(run.results, row.tenant, question)
                       for row in run.rows):
                print(f'{path}: not used: it has nothing of '
                      f'{question.workload or question.workload_class} on '
                      f'{question.platform}', file=sys.stderr)
        flavors = catalogue.load(
            parsed_args.catalogue or shipped_catalogue()).flavors
        is_guest = question.platform is not bench_model.PlatformName.CONTAINER
        advice = advisor.advise(
            question, flavors=flavors, refused=refused(
                flavors, question.host) if question.host and is_guest else {},
            summaries=list(own.values()))
        return display.Answer(
            typed_table.of_keys(
                ('topic', 'answer', 'low', 'high', 'unit', 'why', 'strength',
                 'holds', 'sources'), map(line_as_dict, advice.lines)),
            lambda console: show(advice, console), lambda: as_dict(advice))


def ask(parsed_args: argparse.Namespace,
        runs: Iterable[statistics.RunSummary]) -> advice_model.Question:
    """What the options ask.

    :raises errors.InputError: if there is no such workload
    """
    known = dict(itertools.chain.from_iterable(
        run.results.workloads.items() for run in runs))
    known |= workload_catalogue.load(parsed_args.workloads)
    name = parsed_args.workload
    asked = advisor.known_workloads().get(name.lower())
    if name in known:
        workload_class, load = known[name].workload_class, None
    elif asked:
        name, workload_class, load = (
            asked.name, asked.workload_class, asked.load)
    elif name in list(bench_model.WorkloadClass):
        workload_class = bench_model.WorkloadClass(name)
        name, load = '', None
    else:
        raise errors.InputError(
            f'there is no workload, and no class of them, called {name}',
            errors.Location(_OPTION),
            schema.nearest(name, [*known, *bench_model.WorkloadClass,
                                  *advisor.known_workloads()]))
    return advice_model.Question(
        workload=name, workload_class=workload_class, known=asked,
        load=advice_model.WorkloadBound(
            parsed_args.load or load
            or advice_model.usual_load(workload_class)),
        platform=bench_model.PlatformName(parsed_args.platform),
        is_steady=parsed_args.steady,
        host=(host_loader.load(parsed_args.host_file)
              if parsed_args.host_file else None))


def refused(flavors: Sequence[flavor_model.Flavor],
            host: host_model.HostDescription) -> Mapping[str, str]:
    """Why flavors do not go on a host, as flavor check has it."""
    # This loads most of nova.
    standalone.prepare()
    from nova_pinning.bridge.offline import nova_judgement
    from nova_pinning.flavors.checks import flavor_check_run
    return {
        finding.name: finding.message.removeprefix(
            'does not fit on the host given; ')
        for finding in reversed(flavor_check_run.check(
            flavors, nova_judgement.judging, [host]))
        if finding.severity is check_rule.Severity.ERROR}


def _is_self_test(result: bench_model.Results) -> bool:
    return result.experiment.table == self_test.TABLE


def shipped_catalogue() -> str:
    """The catalogue that is taken if none is named.

    :raises errors.InputError: if there is none
    """
    for root in _ROOTS:
        if (root / _CATALOGUE).is_file():
            return str(root / _CATALOGUE)
    raise errors.InputError(
        f'there is no {_CATALOGUE} in any of '
        f'{", ".join(map(str, _ROOTS))}', errors.Location('--catalogue'),
        'name a catalogue')


def as_dict(advice: advice_model.Advice) -> Mapping[str, object]:
    """As JSON has it; amounts are numbers."""
    question = advice.question
    return {
        'version': 2,
        **encoder.encode(dataclasses.replace(question, host=None)),
        'host': question.host.name if question.host else None,
        'flavor': advice.flavors[0] if advice.flavors else '',
        'flavors': list(advice.flavors),
        'flavor_why': advice.why,
        'advice': list(map(line_as_dict, advice.lines)),
        'sources': {
            key: {'key': key, **dataclasses.asdict(source),
                  'year': source.year or None}
            for key, source in advice.sources.items()}}


def line_as_dict(line: advice_model.AdviceLine) -> Mapping[str, object]:
    """A line of it, as JSON has it."""
    return encoder.encode(line) | {
        'answer': str(line),
        'unit': line.unit if line.low is not None else ''}


def show(advice: advice_model.Advice, console: rich.console.Console) -> None:
    """Print it for people."""
    question, host = advice.question, advice.question.host
    printing.title(
        f'{question.workload or question.workload_class} '
        f'({question.load}) on {question.platform}'
        + (f', host {host.name} with {len(host.cpus)} CPUs' if host else ''),
        console)
    numbers = {key: number for number, key in enumerate(advice.sources, 1)}
    rows = [(advice_model.TOPICS[line.topic], str(line), _because(line),
             ' '.join([line.strength, *(
                 f'[{numbers[key]}]' for key in line.sources)]))
            for line in advice.lines]
    if question.known:
        rows.insert(0, ('pinning brings', *_brings(question.known), ' '.join(
            f'[{numbers[key]}]' for key in question.known.sources)))
    if advice.why:
        rows.insert(0, ('flavor', advice.flavors[0] if advice.flavors
                        else 'none', advice.why, ''))
    typed_table.show(('on', 'advice', 'because', 'strength'), rows, console)
    if numbers:
        printing.heading('Sources', console)
        for number, source in enumerate(advice.sources.values(), 1):
            printing.say(f'[{number}] {source}', console, '  ')
            # Whole, to be copied.
            console.print(f'      {source.url}', soft_wrap=True)


def _brings(known: advice_model.KnownWorkload) -> tuple[str, str]:
    """The figure, and what there is to be said of it."""
    return known.figure or 'no published figure', '; '.join(filter(None, (
        known.says, '' if known.figure else
        'measure it with nova-pinning bench run mine')))


def _because(line: advice_model.AdviceLine) -> str:
    holds = f' ({line.holds})' if line.holds else ''
    return '; '.join(filter(None, (line.why + holds, line.remark)))
