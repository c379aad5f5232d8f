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

"""nova-pinning bench report: what came of measurements, with intervals."""

import argparse
from collections.abc import Sequence
import contextlib
from importlib import metadata
import json
import math

import rich.console

from nova_pinning.bench import compare
from nova_pinning.bench.report import caveats
from nova_pinning.bench.report import claims
from nova_pinning.bench.report import document
from nova_pinning.bench.report import page
from nova_pinning.bench.report import tables
from nova_pinning.bench import results as bench_results
from nova_pinning.bench import statistics
from nova_pinning.cli import base
from nova_pinning.cli import bench_options
from nova_pinning.cli import options
from nova_pinning.cli import printing
from nova_pinning.document import files
from nova_pinning import errors

#: What a page begins with, in small letters.
_PAGE = b'<!doctype html'


class ReportBench(base.Command):
    """Show what 'bench run' measured.

    Tables in the terminal, or with -o a page with tables and charts that
    needs nothing else. What the run is too small, too noisy or too short for
    is said first.

    With --baseline each figure is compared with that of an earlier run; the
    exit status is 1 if one got worse by more than the noise and the
    tolerance. With --claims it is 1 if a claim that holds on any machine does
    not hold here; what is inconclusive is told, and is no pass.
    """

    epilog = """
        Examples::

          nova-pinning bench report results.jsonl
          nova-pinning bench report *.jsonl -o report.html
          nova-pinning bench report after.jsonl --baseline before.jsonl
          nova-pinning bench report results.jsonl --claims --format json
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('results', metavar='RESULTS', nargs='+',
                            help='a file that bench run has written')
        parser.add_argument('-o', '--output', metavar='FILE',
                            help='write a page of HTML to this file')
        parser.add_argument('--baseline', metavar='OLD',
                            help='results of an earlier run to compare with')
        parser.add_argument(
            '--tolerance', type=_part, default=compare.TOLERANCE,
            metavar='PART', help='change that is none, such as 0.02 '
            '(default: %(default)s)')
        parser.add_argument(
            '--claims', action='store_true',
            help='exit with status 1 if a claim does not hold')
        options.add_format(parser, 'table', 'json')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        if parsed_args.output is not None:
            files.check(parsed_args.output)
            _check_is_page(parsed_args.output)
            page.check()
        bench_options.check_can_reckon()
        parts = _parts(parsed_args)
        if parsed_args.output is not None:
            files.replace(parsed_args.output, page.render(
                parts, metadata.version('nova-pinning')))
        if parsed_args.format == 'json':
            print(json.dumps(document.document(parts), indent=2))
        else:
            console = base.console()
            for place, (part, name) in enumerate(zip(
                    parts, page.names(parts))):
                if place:
                    console.print()
                _show(part, name, console, not parsed_args.output)
            if parsed_args.output is not None:
                console.print()
                printing.say(f'The page is {parsed_args.output}.', console)
        return _status(parts, parsed_args.claims)


def _part(text: str) -> float:
    """A type for argparse."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < 1:
        raise argparse.ArgumentTypeError(
            f'{text!r} is no part of one, such as 0.02')
    return found


def _check_is_page(path: str) -> None:
    """See that nothing is lost but a page, such as results of hours.

    :raises errors.InputError: if a file is there that is no page
    """
    with contextlib.suppress(OSError), open(path, 'rb') as file:
        start = file.read(len(_PAGE))
        if start and start.lower() != _PAGE:
            raise errors.InputError(
                'would be replaced, and is no page of HTML',
                errors.Location(path), 'give the page another name')


def _parts(parsed_args: argparse.Namespace) -> list[page.Part]:
    """What there is to show of each file.

    :raises errors.InputError: if a file cannot be read, or the baseline is of
        none of the experiments
    """
    old = None
    if parsed_args.baseline is not None:
        old = statistics.summarise(bench_results.read(parsed_args.baseline))
    parts = []
    for path in parsed_args.results:
        summary = statistics.summarise(bench_results.read(path))
        is_same = (old is not None
                   and old.experiment.name == summary.experiment.name)
        parts.append(page.Part(
            path, summary, claims.claims(summary),
            compare.compare(summary, old, parsed_args.tolerance)
            if is_same and old is not None else None))
    if old is not None:
        _check_compared(parts, old, parsed_args.baseline)
    return parts


def _check_compared(parts: list[page.Part], old: statistics.Summary,
                    path: str) -> None:
    """:raises errors.InputError: if there is nothing to compare with"""
    found = [one.comparison for one in parts if one.comparison is not None]
    if not found:
        raise errors.InputError(
            f'has results of experiment {old.experiment.name}, and no other '
            'file has', errors.Location(path),
            options.known([one.summary.experiment.name for one in parts]))
    if not any(one.changes for one in found):
        raise errors.InputError(
            'has no case that was measured alike in the later run',
            errors.Location(path), 'measure again with the options, and on '
            'the CPUs, of the earlier run')


def _status(parts: list[page.Part], has_claims: bool) -> int:
    is_worse = any(one.comparison is not None and one.comparison.regressions
                   for one in parts)
    fails = has_claims and any(
        claim.verdict is claims.Verdict.DOES_NOT_HOLD
        for one in parts for claim in one.claims)
    return base.FINDINGS if is_worse or fails else base.OK


def _show(part: page.Part, name: str, console: rich.console.Console,
          has_tables: bool) -> None:
    """A part in the terminal.

    :param name: what it is called, among the others
    :param has_tables: and not only what stands at the top of the page
    """
    summary = part.summary
    printing.title(name, console)
    printing.say(summary.experiment.about, console)
    printing.say(page.extent(summary.results), console)
    _show_list('Before you rely on this', caveats.caveats(summary), console)
    printing.heading(f'Claims: {claims.counted(part.claims)}', console)
    for claim in part.claims:
        subject = f' ({claim.subject})' if claim.subject else ''
        printing.say(f'{claim.verdict}: {claim.statement}{subject}: '
                     f'{claim.evidence}', console)
    if part.comparison is not None:
        _show_list('Before you rely on the earlier run', page.doubts(part),
                   console)
        _show_comparison(part.comparison, console, has_tables)
    if has_tables:
        for table in tables.tables(summary):
            if not table.is_detail:
                _show_table(table, console)
        for other in (tables.flags(summary.results),
                      tables.skipped(summary)):
            if other is not None:
                _show_table(other, console)
        console.print()
        printing.say(page.method(summary), console)


def _show_list(title: str, texts: Sequence[str],
               console: rich.console.Console) -> None:
    if texts:
        printing.heading(title, console)
        for text in texts:
            printing.say(f'- {text}', console)


def _show_comparison(comparison: compare.Comparison,
                     console: rich.console.Console, has_all: bool) -> None:
    """
    :param has_all: figures, and not only those that changed
    """
    _show_list('What differs between the hosts', comparison.differing,
               console)
    printing.heading('Change', console)
    printing.say(page.told(comparison), console)
    table = tables.changes(comparison, has_all)
    if table.rows:
        _show_table(table, console)


def _show_table(table: tables.Table, console: rich.console.Console) -> None:
    printing.heading(table.title, console)
    shown, left_out = table, []
    for name in tables.DISPENSABLE:
        if printing.has_room(shown.columns, shown.rows, console):
            break
        if name in shown.columns:
            shown = shown.without(name)
            left_out.append(name)
    printing.table(shown.columns, shown.rows, console, shown.numbers)
    if left_out:
        printing.say(f'There is no room for: {", ".join(left_out)}; a wider '
                     'terminal, -o or --format json has them.', console)
    if table.note:
        printing.say(table.note, console)
