# SPDX-License-Identifier: Apache-2.0
"""nova-pinning advise: what to run a workload on."""

import argparse
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import itertools
import pathlib
import sys

import rich.console

from nova_pinning.cli import display
from nova_pinning.document import schema
from nova_pinning import errors
from nova_pinning import extras
from nova_pinning.flavors import catalogue
from nova_pinning.host import host_loader
from nova_pinning.host import words
from nova_pinning.instance_bench.advise import advisor
from nova_pinning.instance_bench.advise import hosts
from nova_pinning.instance_bench.advise import model
from nova_pinning.instance_bench.advise import own_results
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import results_file
from nova_pinning.instance_bench import statistics
from nova_pinning.instance_bench.workloads import workload_catalogue
from nova_pinning.presentation import printing

_OPTION = '--workload'
_PLATFORMS = ('nova', 'vm', 'vmcn', 'cn')
_CATALOGUE = pathlib.Path('etc/nova-pinning/flavors.yaml')
#: Where the catalogue is: the operator's, the installed one, the checkout's.
_ROOTS = (pathlib.Path('/'), pathlib.Path(sys.prefix),
          pathlib.Path(__file__).parents[2])

#: What people ask about that is near to the name of another class.
_DATABASES = frozenset(('mysql', 'mariadb', 'postgres', 'postgresql'))
_DATABASE = ('a relational database is of class disk, with --load very-io if '
             'it does little but IO')

_TOPICS: Mapping[model.Topic, str] = {
    model.Topic.CLASS: 'class',
    model.Topic.SIZE: 'size',
    model.Topic.FLAVOR: 'flavor',
    model.Topic.EMULATOR: 'emulator threads',
    model.Topic.MULTIQUEUE: 'multi-queue',
    model.Topic.GAIN: 'gain of pinning',
    model.Topic.CAUTION: 'mind',
}


class Advise(display.Lister):
    """Say what to run a workload on, why, and how sure that is.

    Class, size, flavor, where emulator threads run, multi-queue, and what
    pinning gains. From published best practice, each with its source and the
    condition under which it held, and from the results of nova-pinning bench
    run, which count more where they decide.

    Sizes go by the ratio of an instance's CPUs to its host's (CHR), and take
    a host. It is taken to be empty.
    """

    epilog = """
        Examples::

          nova-pinning advise --workload web --host host.yaml
          nova-pinning advise --workload sysbench-cpu --steady \\
              --host plan.yaml --catalogue flavors.yaml
          nova-pinning advise --workload ffmpeg --host plan.yaml \\
              --results platform-overhead.jsonl --format json
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            _OPTION, required=True, metavar='NAME',
            help='name of a workload, as nova-pinning bench list shows, or '
                 'a class: '
                 f'{", ".join(bench_model.WorkloadClass)}')
        parser.add_argument(
            '--load', choices=[str(bound) for bound in model.WorkloadBound],
            help='what it is bound by, if that is not what its class says')
        parser.add_argument(
            '--platform', choices=_PLATFORMS, default=_PLATFORMS[0],
            help='what it is to run on: a server of nova (the default), a '
                 'libvirt guest, a container in a guest, or a container')
        parser.add_argument(
            '--steady', action='store_true',
            help='its performance must stay the same whatever the neighbours '
                 'do')
        parser.add_argument(
            '--host', metavar='FILE',
            help='host file, with or without a plan, or what virsh '
                 'capabilities prints')
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
            default=[], help='results of nova-pinning bench run')
        return parser

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        if parsed_args.results:
            extras.need('an interval', 'scipy')
        results = [results_file.read(path) for path in parsed_args.results]
        question = ask(parsed_args, results)
        for path, result in zip(parsed_args.results, results):
            if not own_results.are_about(result, question):
                print(f'{path}: not used: {_not_about(result, question)}',
                      file=sys.stderr)
        room = None
        if parsed_args.host is not None:
            room = hosts.bare_host(host_loader.load(parsed_args.host))
        advice = advisor.advise(
            question, room=room,
            flavors=catalogue.load(
                parsed_args.catalogue or shipped_catalogue()).flavors,
            summaries=[statistics.summarise(result) for result in results])
        return display.Answer(
            ('topic', 'value', 'low', 'high', 'unit', 'why', 'evidence',
             'held', 'rule', 'sources'),
            map(advisor.line_as_dict, advice.lines),
            lambda console: show(advice, room, console),
            lambda: advisor.as_dict(advice))


def ask(parsed_args: argparse.Namespace,
        results: Iterable[bench_model.Results]) -> model.Question:
    """What the options ask.

    :raises errors.InputError: if there is no such workload
    """
    known = dict(itertools.chain.from_iterable(
        result.workloads.items() for result in results))
    known |= workload_catalogue.load(parsed_args.workloads)
    name = parsed_args.workload
    if name in known:
        workload_class = known[name].workload_class
    elif name in list(bench_model.WorkloadClass):
        workload_class = bench_model.WorkloadClass(name)
        name = ''
    else:
        raise errors.InputError(
            f'there is no workload, and no class of them, called {name}',
            errors.Location(_OPTION),
            _DATABASE if name.lower() in _DATABASES else schema.nearest(
                name, [*known, *bench_model.WorkloadClass]))
    return model.Question(
        workload=name,
        workload_class=workload_class,
        load=model.WorkloadBound(parsed_args.load
                                 or model.LOADS[workload_class]),
        platform=bench_model.PlatformName(parsed_args.platform),
        is_steady=parsed_args.steady)


def _not_about(results: bench_model.Results,
               question: model.Question) -> str:
    """What results are of, and what is asked about."""
    tenants = list(own_results.measured(results))
    what = 'nothing'
    if tenants:
        what = ' on '.join(words.listed(sorted(names)) for names in (
            {tenant.workload for tenant in tenants},
            {str(tenant.platform) for tenant in tenants}))
    return (f'it has {what}; this advice is for '
            f'{question.workload or question.workload_class} on '
            f'{question.platform}')


def shipped_catalogue(roots: Sequence[pathlib.Path] = _ROOTS) -> str:
    """The catalogue that is taken if none is named.

    :raises errors.InputError: if there is none
    """
    for root in roots:
        if (root / _CATALOGUE).is_file():
            return str(root / _CATALOGUE)
    raise errors.InputError(
        f'there is no {_CATALOGUE} in any of '
        f'{", ".join(map(str, roots))}', errors.Location('--catalogue'),
        'name a catalogue')


def show(advice: model.Advice, room: hosts.BareHost | None,
         console: rich.console.Console) -> None:
    """Print it for people."""
    question = advice.question
    printing.title(
        f'{question.workload or question.workload_class} '
        f'({question.load}) on {question.platform}'
        + (f', host {room.name} with {room.cpus} CPUs' if room else ''),
        console)
    numbers = {source: number for number, source
               in enumerate(advice.sources, 1)}
    printing.table(
        ('on', 'advice', 'because', 'evidence'),
        [(_TOPICS[line.topic], str(line.value), _because(line),
          _evidence(line, [numbers[source] for source in line.sources]))
         for line in advice.lines], console)
    thin: dict[str, list[str]] = {}
    for line in advice.lines:
        for remark in line.thin:
            topics = thin.setdefault(remark, [])
            if _TOPICS[line.topic] not in topics:
                topics.append(_TOPICS[line.topic])
    if thin:
        printing.heading('Where the evidence is thin', console)
        for remark, topics in thin.items():
            printing.say(f'{", ".join(topics)}: {remark}', console, '  ')
    if numbers:
        printing.heading('Sources', console)
        for source, number in numbers.items():
            printing.say(f'[{number}] {source}', console, '  ')
            # Whole, to be copied.
            console.print(f'      {source.url}', soft_wrap=True)


def _because(line: model.AdviceLine) -> str:
    return f'{line.why} (held for: {line.held})' if line.held else line.why


def _evidence(line: model.AdviceLine, numbers: Sequence[int]) -> str:
    return ' '.join(
        [line.evidence.value, *(f'[{number}]' for number in numbers)])
