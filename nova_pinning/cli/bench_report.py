# SPDX-License-Identifier: Apache-2.0
"""nova-pinning bench report: what came of measurements, with intervals."""

import argparse
from collections.abc import Sequence
import contextlib
from importlib import metadata
import json

import rich.console

from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.document import atomic_file
from nova_pinning.document import packed
from nova_pinning import errors
from nova_pinning import extras
from nova_pinning.instance_bench.report import document
from nova_pinning.instance_bench.report import page
from nova_pinning.instance_bench.report import report_part
from nova_pinning.instance_bench.report import run_claims
from nova_pinning.instance_bench.report import run_tables
from nova_pinning.instance_bench import results_file
from nova_pinning.instance_bench import run_comparison
from nova_pinning.instance_bench import self_test
from nova_pinning.instance_bench import statistics
from nova_pinning.presentation import printing

#: What a page begins with, in small letters.
_PAGE = b'<!doctype html'


class ReportBench(base_command.FileCommand):
    """Show what 'bench run' measured.

    Tables in the terminal, or with -o a page with tables and charts that
    needs nothing else. The answer comes first, then what the run is too
    small, too noisy or too short for.

    With --self-test intervals are as much wider as this machine's own
    comparisons of identical cases need to include 1.0 in 95%.

    With --baseline each figure is compared with that of earlier runs; the
    exit status is 1 if one got worse by more than the noise and 2%. What
    differs from one boot to the next takes earlier runs of
    several boots to tell from a change. With --claims it is 1 if a claim that
    holds on any machine does not hold here; what is inconclusive is reported,
    and is not a pass.

    Examples::

      nova-pinning bench report results.jsonl
      nova-pinning bench report *.jsonl -o report.html
      nova-pinning bench report after.jsonl --baseline boot-1.jsonl \\
          --baseline boot-2.jsonl --baseline boot-3.jsonl
      nova-pinning bench report results.jsonl --claims --format json
      nova-pinning bench report results.jsonl --self-test self-test.jsonl
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('results', metavar='RESULTS', nargs='+',
                            help='a file that bench run has written')
        parser.add_argument('-o', '--output', metavar='FILE',
                            help='write a page of HTML to this file; - for '
                            'the standard output')
        parser.add_argument('--baseline', metavar='FILE', action='append',
                            default=[], help='results of an earlier run to '
                            'compare with; may be given several times, best '
                            'of all of runs after different boots')
        parser.add_argument(
            '--self-test', metavar='FILE', help='results of bench run '
            'self-test on this machine, to widen intervals by')
        parser.add_argument(
            '--claims', action='store_true',
            help='exit with status 1 if a claim does not hold')
        common_options.add_format(parser, 'table', 'json')

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        if parsed_args.output is not None:
            if parsed_args.output != packed.STANDARD:
                atomic_file.check(parsed_args.output)
                _check_is_page(parsed_args.output)
            page.check()
        extras.need('an interval', 'scipy')
        parts = _parts(parsed_args)
        if parsed_args.output is not None:
            common_options.write_output(parsed_args.output, page.render(
                parts, metadata.version('nova-pinning')))
        if parsed_args.output == packed.STANDARD:
            return _status(parts, parsed_args.claims)
        if parsed_args.format == 'json':
            print(json.dumps(document.report_document(parts), indent=2))
        else:
            console = base_command.console()
            for number, (part, name) in enumerate(zip(
                    parts, report_part.names(parts))):
                if number:
                    console.print()
                _show(part, name, console, not parsed_args.output)
        return _status(parts, parsed_args.claims)


def _check_is_page(path: str) -> None:
    """See that nothing is lost but a page, such as results of hours.

    :raises errors.InputError: if a file is there that is not a page
    """
    with contextlib.suppress(OSError), open(path, 'rb') as file:
        start = file.read(len(_PAGE))
        if start and start.lower() != _PAGE:
            raise errors.InputError(
                'would be replaced, and is not a page of HTML',
                errors.Location(path), 'give the page another name')


def _parts(parsed_args: argparse.Namespace) -> list[report_part.Part]:
    """What there is to show of each file.

    :raises errors.InputError: if a file cannot be read, the self-test is
        none, or a baseline has nothing that was measured again
    """
    calibration = None
    if parsed_args.self_test is not None:
        calibration = self_test.calibrate(
            results_file.read(parsed_args.self_test), parsed_args.self_test)
    stretch = calibration.stretch if calibration else 1.0
    earlier = {path: statistics.summarise(results_file.read(path), stretch)
               for path in parsed_args.baseline}
    parts = []
    for path in parsed_args.results:
        summary = statistics.summarise(results_file.read(path), stretch)
        old = [run for run in earlier.values()
               if run.experiment.name == summary.experiment.name]
        comparison = run_comparison.compare(summary, old) if old else None
        parts.append(report_part.Part(path, summary, comparison, calibration))
    for path, run in earlier.items():
        if not any(part.comparison and part.comparison.changes
                   and run in part.comparison.old for part in parts):
            raise errors.InputError(
                f'has no case of experiment {run.experiment.name} that was '
                'measured alike in a later run', errors.Location(path),
                'measure again with the options, and on the CPUs, of the '
                'earlier run')
    return parts


def _status(parts: list[report_part.Part], has_claims: bool) -> int:
    is_worse = any(
        change.verdict is run_comparison.ChangeVerdict.REGRESSION
        for part in parts if part.comparison
        for change in part.comparison.changes)
    fails = has_claims and any(
        claim.verdict is run_claims.ClaimVerdict.DOES_NOT_HOLD
        for part in parts for claim in part.claims)
    return base_command.FINDINGS if is_worse or fails else base_command.OK


def _show(part: report_part.Part, name: str, console: rich.console.Console,
          has_tables: bool) -> None:
    """A part in the terminal.

    :param name: what it is called, among the others
    :param has_tables: and not only what stands at the top of the page
    """
    printing.title(name, console)
    printing.say(f'{part.answer.sentence} {part.answer.more}', console)
    console.print()
    for text in (part.summary.experiment.about, part.extent, part.widening):
        printing.say(text, console)
    _show_list('Before you rely on this', part.caveats, console)
    printing.heading(f'Claims: {run_claims.counted(part.claims)}', console)
    for claim in part.claims:
        subject = f' ({claim.subject})' if claim.subject else ''
        printing.say(f'{claim.verdict}: {claim.statement}{subject}: '
                     f'{claim.evidence}', console)
    if part.comparison is not None:
        _show_list('Before you rely on the earlier run', part.earlier_caveats,
                   console)
        _show_list('What differs between the hosts',
                   part.comparison.differing, console)
        printing.heading('Change', console)
        printing.say(part.changed, console)
        # Without the others only what changed.
        _show_table(run_tables.changes(part.comparison, has_tables), console)
    if has_tables:
        for table in (part.answer.table, *part.tables, *part.details,
                      *part.published):
            if table and not table.is_detail:
                _show_table(table, console)
        console.print()
        printing.say(part.method, console)


def _show_list(title: str, texts: Sequence[str],
               console: rich.console.Console) -> None:
    if texts:
        printing.heading(title, console)
        for text in texts:
            printing.say(f'- {text}', console)


def _show_table(table: run_tables.ReportTable,
                console: rich.console.Console) -> None:
    if not table.rows:
        return
    printing.heading(table.title, console)
    left_out = table.show(console)
    if left_out:
        printing.say(f'There is no room for: {", ".join(left_out)}; a wider '
                     'terminal, -o or --format json has them.', console)
    if table.note:
        printing.say(table.note, console)
