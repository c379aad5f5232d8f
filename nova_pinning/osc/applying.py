# SPDX-License-Identifier: Apache-2.0
"""What commands that change a cloud have in common."""

import argparse
from collections.abc import Iterator
import contextlib
import sys
from typing import TypeVar

import rich.progress

from nova_pinning.cli import progress_bars
from nova_pinning import errors

_T = TypeVar('_T')


def add_options(parser: argparse.ArgumentParser, dry_run: str) -> None:
    """Add --yes and --dry-run.

    :param dry_run: help for the latter
    """
    parser.add_argument('--yes', action='store_true', help='do not ask')
    parser.add_argument('--dry-run', action='store_true', help=dry_run)


def is_agreed(cloud: str, form: str) -> bool:
    """Ask whether to go on; say that nothing was changed if not.

    :param cloud: the cloud's name
    :param form: what --format says; only with text is there somebody to ask
    :raises errors.InputError: if nobody can be asked
    """
    if form == 'json' or not sys.stdin.isatty():
        raise errors.InputError(
            'there is no terminal to ask for confirmation on, so nothing was '
            'changed',
            advice='give --yes to apply without being asked, or --dry-run to '
                   'see what would change')
    print(f'Apply to cloud {cloud}? [y/N] ', end='', file=sys.stderr,
          flush=True)
    try:
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        print('\nnothing was changed', file=sys.stderr)
        raise
    if answer.strip().lower() in ('y', 'yes'):
        return True
    print('nothing was changed')
    return False


def with_progress(results: Iterator[_T], total: int,
                  what: str) -> Iterator[_T]:
    """The same results, with a bar on the error output for people.

    :param what: what there are so many of
    """
    with progress_bars.progress_bars(
            *rich.progress.Progress.get_default_columns(),
            rich.progress.MofNCompleteColumn()) as bar:
        task = bar.add_task(what, total=total)
        for result in results:
            yield result
            bar.advance(task)


@contextlib.contextmanager
def interruptible(done: list[_T], total: int, what: str) -> Iterator[None]:
    """Say how far it came if it is interrupted, or the cloud fails.

    :param done: what is done so far; somebody else fills it
    """
    try:
        yield
    except (KeyboardInterrupt, errors.CloudError) as error:
        how = ('interrupted' if isinstance(error, KeyboardInterrupt)
               else 'stopped')
        print(f'{how} after {len(done)} of {total} {what}; run the command '
              'again to finish', file=sys.stderr)
        raise
