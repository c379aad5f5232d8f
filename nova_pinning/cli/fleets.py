# SPDX-License-Identifier: Apache-2.0
"""What the commands that work on a fleet share."""

import argparse
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import gc
import itertools
import operator
import sys
import threading

import rich.console
import rich.progress

from nova_pinning.admission import gaps
from nova_pinning.admission import offered_host
from nova_pinning.checks import check_rule
from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import display
from nova_pinning.cli import nova_options
from nova_pinning.cli import progress_bars
from nova_pinning.document import packed
from nova_pinning import errors
from nova_pinning.fleet import document
from nova_pinning.fleet import problems
from nova_pinning.fleet import snapshot
from nova_pinning.host import words
from nova_pinning.presentation import printing
from nova_pinning import spelling

# What is done by then needs no bar.
_PATIENCE_SECONDS = 2.0


def add_argument(parser: argparse.ArgumentParser,
                 required: bool = True) -> None:
    """Add FLEET."""
    parser.add_argument(
        'fleet', metavar='FLEET', nargs=None if required else '?',
        help='a fleet snapshot, packed if its name ends in .zst; - for the '
             'standard input')


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add --output, for a command that makes a snapshot."""
    parser.add_argument(
        '-o', '--output', metavar='FILE', default=packed.STANDARD,
        help='replace this file, as a whole; it is packed if its name ends '
             'in .zst (default: the standard output)')


def load(parsed_args: argparse.Namespace,
         warn: bool = True) -> snapshot.Fleet:
    """Read FLEET, and say on the error output what is odd about it.

    With what --config-file sets, where a command has that.

    :param warn: whether to say it
    :raises errors.InputError: if either cannot be read
    """
    with progress('reading the snapshot'), without_collector():
        fleet = document.read(parsed_args.fleet)
        findings = problems.find(fleet) if warn else ()
    warn_of(findings, parsed_args.fleet)
    return nova_options.with_options(parsed_args, fleet)


def status(hosts: Iterable[offered_host.OfferedHost]) -> int:
    """The exit status of an answer about guests with NUMA cells on hosts."""
    return (base_command.FINDINGS if gaps.are_bounds(hosts)
            else base_command.OK)


def show_gaps(hosts: Sequence[offered_host.OfferedHost],
              console: rich.console.Console) -> None:
    """Print what is not known of hosts, where that makes answers bounds."""
    if gaps.are_bounds(hosts):
        show_doubts(gaps.counted(hosts), console)


def show_doubts(
    doubts: Sequence[gaps.Counted], console: rich.console.Console,
    heading: str = 'Not certain, since not all is known',
) -> None:
    """Print what is not known, if anything is not."""
    if doubts:
        printing.heading(heading, console)
        printing.pairs([
            (gaps.NAMES[kind], f'{words.count(number, "host")}, as {example}')
            for kind, number, example in doubts], console)


def with_gaps(answer: display.Answer,
              hosts: Sequence[offered_host.OfferedHost]) -> display.Answer:
    """An answer that says what is not known of hosts, too."""
    def page(console: rich.console.Console) -> None:
        answer.page(console)
        show_gaps(hosts, console)

    return dataclasses.replace(
        answer, page=page, document=lambda: {
            **answer.document(), 'gaps': gaps.as_list(hosts)})


def named_hosts(names: Sequence[str], fleet: snapshot.Fleet,
                option: str = '--host') -> list[str]:
    """The hosts that an option names, each once.

    :raises errors.InputError: for one that the fleet does not have, or if it
        has none at all
    """
    known = [host.name for host in fleet.hosts]
    if not known:
        raise errors.InputError('has no hosts', fleet.where)
    found = set(known)
    for name in names:
        if name not in found:
            raise errors.InputError(
                f'the fleet has no host called {name!r}',
                errors.Location(option), common_options.known(
                    spelling.nearest(name, known) or known))
    return list(dict.fromkeys(names))


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Switch garbage collection off: it would find none, slowly."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def warn_of(findings: Sequence[check_rule.Finding], path: str = '') -> None:
    """A line on the error output for each code of what was found.

    Notes are left out.

    :param path: the snapshot, for the command that tells all; '' if it has
        none yet
    """
    serious = [finding for finding in findings
               if finding.severity is not check_rule.Severity.NOTE]
    for code, group in itertools.groupby(serious, operator.attrgetter('code')):
        first, *more = group
        text = (f'warning: {code}: {problems.RULES[code].title}: '
                f'{first.subject}: {first.message}')
        if more:
            text += f'; and {len(more):,} more'
        print(spelling.printable(text), file=sys.stderr)
    if serious and path:
        print(f'warning: nova-pinning fleet check {path} tells more',
              file=sys.stderr)


def save(parsed_args: argparse.Namespace, fleet: snapshot.Fleet) -> None:
    """Write a snapshot to --output, and say what is odd about it.

    :raises errors.InputError: if it cannot be written
    """
    with progress('writing the snapshot'):
        document.write(parsed_args.output, fleet)
        findings = problems.find(fleet)
    common_options.tell_file(parsed_args.output)
    warn_of(findings, '' if parsed_args.output == packed.STANDARD
            else parsed_args.output)


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[float], None]]:
    """A bar on the error output for people, once something takes long.

    :param what: that is going on
    :returns: to be told how much is done, from 0 to 1; until it is, the bar
        shows that something is going on
    """
    bar = progress_bars.progress_bars()
    task = bar.add_task(what, total=None)
    patience = threading.Timer(_PATIENCE_SECONDS, bar.start)
    patience.daemon = True
    patience.start()
    try:
        yield lambda part: bar.update(task, total=1.0, completed=part)
    finally:
        patience.cancel()
        patience.join()
        bar.stop()
