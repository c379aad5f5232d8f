# SPDX-License-Identifier: Apache-2.0


"""What nova-scheduler itself remembers of a request that found no host."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import typing

from oslo_config import cfg
import rich.console

from nova_pinning.cli import common_options
from nova_pinning.conf import pinning
from nova_pinning import errors
from nova_pinning.host import words
from nova_pinning import model
from nova_pinning.presentation import printing
from nova_pinning.presentation import typed_table
from nova_pinning.scheduler import record
from nova_pinning.scheduler import record_reader

_UNSET = '[pinning] metrics_directory'


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedRefusal:
    """What there is about a request.

    :param refusal: the last time that it found no host, None if none is known
    :param process: of nova-scheduler, by its pid; 0 if there is no refusal
    :param earlier: how often it found none before that
    :param notes: what else is worth knowing
    """

    refusal: record.NoHost | None = None
    process: int = 0
    earlier: int = 0
    notes: tuple[str, ...] = ()


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add --record."""
    parser.add_argument(
        '--record', metavar='DIR',
        help='where nova-scheduler keeps which requests found no host, for '
             '--server (default: [pinning] metrics_directory of nova.conf)')


def find_refusal(parsed_args: argparse.Namespace,
                 names: Sequence[str]) -> RecordedRefusal:
    """Look for a request in what all processes of nova-scheduler remember.

    :param names: UUID of the server, ID of the request, or both
    :raises errors.InputError: if the directory of --record cannot be read, or
        nothing tells where nova-scheduler keeps it and there is no FLEET
    """
    # With a fleet there is more to say, whatever is wrong here.
    is_all = parsed_args.fleet is None
    directory = parsed_args.record
    try:
        if directory is None:
            directory = _configured(common_options.nova_arguments(parsed_args))
        if not directory:
            raise errors.InputError(
                'no record of refusals is known: --record does not name one, '
                f'and {_UNSET} is not set in nova.conf')
        memories, notes = _read(directory)
    except errors.InputError as error:
        if is_all or parsed_args.record is not None:
            raise
        return RecordedRefusal(notes=(str(error),))
    matching = sorted((
        (memory, refusal)
        for memory in memories
        for refusal in memory.refusals
        if refusal.instance in names or refusal.request_id in names),
                      key=lambda pair: pair[1].time)
    if not matching:
        return RecordedRefusal(notes=(
            *notes, _why_none(names[0], directory, memories)))
    memory, refusal = matching[-1]
    return RecordedRefusal(refusal, memory.process,
                           len(matching) - 1, tuple(notes))


def _configured(arguments: list[str]) -> str | None:
    """``[pinning] metrics_directory`` of nova.conf.

    :raises errors.InputError: if it cannot be loaded
    """
    from nova_pinning.bridge.offline import nova_conf_reader

    conf = cfg.ConfigOpts()
    pinning.register_opts(conf)
    try:
        conf(arguments, project='nova', prog='nova-pinning')
        directory: str | None = conf.pinning.metrics_directory
    except (cfg.Error, OSError, ValueError) as error:
        raise errors.InputError(
            nova_conf_reader.message(error), errors.Location('nova.conf'),
            '--record names the directory without it') from error
    return directory


def _read(directory: str) -> tuple[list[record.ProcessRecord], list[str]]:
    """What can be read, and notes about what cannot."""
    memories: list[record.ProcessRecord] = []
    notes: list[str] = []
    for _path, read in record_reader.read(directory):
        if isinstance(read, record.ProcessRecord):
            memories.append(read)
        else:
            first = (read.errors[0] if isinstance(read, errors.InputErrors)
                     else read)
            notes.append(f'not looked at: {first}')
    return memories, notes


def _why_none(about: str, directory: str,
              memories: list[record.ProcessRecord]) -> str:
    if not memories:
        return (f'nova-scheduler has written no record to {directory}: it '
                f'has served no request since it was started, {_UNSET} is '
                'another one for it, or it runs elsewhere')
    hosts = ', '.join(sorted({memory.host for memory in memories}))
    since = min(memory.since for memory in memories)
    forgotten = sum(memory.forgotten for memory in memories)
    text = (f'nova-scheduler on {hosts} remembers no refusal of {about}: '
            f'its records go back to {since}')
    if forgotten:
        text += f', of which the oldest {forgotten:,} are forgotten'
    return text + '; the scheduler of another controller may know more'


def show(recorded: RecordedRefusal, console: rich.console.Console) -> None:
    """Print what nova-scheduler itself said; the notes are not printed."""
    refusal = recorded.refusal
    if refusal is None:
        return
    printing.title(
        f'No host for {refusal.instance} at {refusal.time}', console)
    printing.say(
        f'{refusal.flavor}, {refusal.request_id or "unknown request"}, by '
        f'nova-scheduler on {refusal.host}, process {recorded.process}',
        console, '  ')
    if recorded.earlier:
        printing.say(
            'It found none '
            f'{words.count(recorded.earlier, "time")} before',
            console, '  ')
    for name, causes in refusal.refused.items():
        total = sum(cause.hosts for cause in causes)
        printing.heading(
            f'{name} refused {words.count(total, "host")}',
            console)
        typed_table.show((
            typed_table.count('hosts'), 'cause', 'for example'), [
            (cause.hosts, _cause(cause),
             f'{cause.example}: {cause.figures}'.removesuffix(': '))
            for cause in causes], console)


def _cause(cause: record.RecordedCause) -> str:
    try:
        return model.summarise(model.Reason(cause.reason))
    except ValueError:
        # Of a newer release.
        return cause.reason


def as_dict(recorded: RecordedRefusal) -> dict[str, typing.Any] | None:
    """The same for machines."""
    if recorded.refusal is None:
        return None
    return {**record.as_dict(recorded.refusal), 'process': recorded.process,
            'earlier': recorded.earlier}


def rows(refusal: dict[str, typing.Any] | None) -> Iterator[
        dict[str, typing.Any]]:
    """A cause each, of what :func:`as_dict` returns."""
    for name, causes in (refusal or {'refused': {}})['refused'].items():
        for cause in causes:
            yield {'filter': name, **cause}
