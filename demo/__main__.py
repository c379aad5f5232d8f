# SPDX-License-Identifier: Apache-2.0
"""The demo: ``python -m demo``."""

import argparse
from collections.abc import Iterator
import contextlib
import json
import logging
import pathlib
import signal
import sys
import traceback
import warnings

from rich import console as rich_console

from demo import outcome
from demo import progress
from demo import report
from nova_pinning.document import atomic_file
from nova_pinning import errors
from nova_pinning import signals

# Nova is imported only after the first words are on the screen: that takes
# seconds.

_INTRODUCTION = """\
Nova's own API, conductor, scheduler, compute managers and Placement run in
this process; only the hypervisor is a fake. The filters and weighers of
nova-pinning choose among two hosts with 80 CPUs and 768 GiB each: one sells
dedicated CPUs, one sells each CPU three times."""


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog='python -m demo',
        description='Place dedicated and shared guests through nova and show '
                    'where they landed.',
        epilog='Exits with 0 if the story came out as told, with 1 if it did '
               'not, with 2 if it could not begin, with 130 if it was '
               'interrupted. Example: ./run demo --out /tmp/guests')
    parser.add_argument(
        '--out', metavar='DIR', type=pathlib.Path,
        default=pathlib.Path('demo-output'),
        help="where to write each guest's XML (default: %(default)s)")
    parser.add_argument(
        '--format', choices=('text', 'json'), default='text',
        help='what to print in the end; JSON goes to standard output, '
             'progress to standard error (default: %(default)s)')
    parser.add_argument(
        '--no-color', action='store_true',
        help='no colours; the environment variable NO_COLOR does the same')
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run the demo.

    :returns: the exit status
    """
    options = _arguments(argv)
    options.out = options.out.absolute()
    console = _console(options.no_color)
    complaints = _console(options.no_color, stderr=True)
    try:
        report.check_directory(options.out)
    except OSError as error:
        complaints.print(
            f'demo: cannot write to {options.out}: {error.strerror}. Name '
            'another directory with --out.', soft_wrap=True)
        return 2
    try:
        if options.format == 'json':
            shown = complaints if complaints.is_terminal else None
            result = _run(options.out, shown, complaints)
        else:
            result = _run(options.out, console, complaints)
        if result is None:
            return 1
        written = report.write_guests(result, options.out)
    except KeyboardInterrupt:
        complaints.print('\nInterrupted. No guest was written.')
        return 130
    except errors.InputError as error:
        complaints.print(f'demo: {error}', soft_wrap=True)
        return 1
    if options.format == 'json':
        json.dump(outcome.to_json(result) | {
            'files': [str(path) for path in written]}, sys.stdout, indent=2)
        print()
    else:
        report.show(result, console)
        console.print(
            f'\nThe XML of each of the {len(written)} guests is in '
            f'{options.out}', soft_wrap=True)
    return 0 if result.as_told else 1


def _console(no_color: bool, stderr: bool = False) -> rich_console.Console:
    # Nothing here is written in rich's markup, and file names and messages
    # may look like it.
    return rich_console.Console(
        no_color=no_color or None, stderr=stderr, highlight=False,
        markup=False, emoji=False)


def _run(
    directory: pathlib.Path,
    console: rich_console.Console | None,
    complaints: rich_console.Console,
) -> outcome.Outcome | None:
    """Play the story.

    :param directory: where to leave nova's log if it breaks off
    :param console: where to say what is going on, None for nowhere
    :param complaints: where to say what went wrong
    :returns: None if it broke off
    """
    console = console or rich_console.Console(quiet=True)
    console.print(_INTRODUCTION + '\n')
    nova_log = ''
    interrupts = _Interrupts()
    try:
        with (_quiet_libraries(),
              progress.announcing(console, interrupts.check) as announce):
            with announce('Loading nova', 1) as advance:
                from demo import cloud
                from demo import story
                _mute_logging()  # nova has just set it up
                advance()
            nova = cloud.Cloud()
            with announce('Starting nova and Placement', 1) as advance:
                nova.setUp()
                advance()
            try:
                with signals.handled((signal.SIGINT,), interrupts.put_off):
                    return story.Story(nova, announce).play()
            finally:
                nova_log = nova.nova_log
                nova.cleanUp()
    except ImportError as error:
        complaints.print(
            f'\ndemo: {error}. The demo needs more than nova-pinning itself '
            'does: pip install "nova-pinning[test]"', soft_wrap=True)
    except Exception as error:
        log = directory / 'nova.log'
        atomic_file.replace(log, nova_log + traceback.format_exc(), 0o644)
        complaints.print(
            f'\ndemo: {error}\nThe log of nova is in {log}', soft_wrap=True)
    return None


class _Interrupts:
    """Puts off a Ctrl-C until nova has finished what it is at.

    That takes a second or two. Interrupted anywhere, its threads would wait
    a minute for each other. Another Ctrl-C takes effect at once.
    """

    def __init__(self) -> None:
        self._is_pending = False

    def put_off(self, number: int, frame: object) -> None:
        self.check()
        self._is_pending = True

    def check(self) -> None:
        """Called between steps."""
        if self._is_pending:
            raise KeyboardInterrupt


def _mute_logging() -> None:
    logging.getLogger().handlers[:] = [logging.NullHandler()]


@contextlib.contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Keep warnings and log lines off the terminal.

    What warnings there are is nova's business, not the reader's; and nova's
    harness keeps nova's log, except while it is being set up or taken down.
    """
    root = logging.getLogger()
    handlers, hook = root.handlers[:], sys.excepthook
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        _mute_logging()
        try:
            yield
        finally:
            root.handlers[:] = handlers
            # Loading nova makes oslo.log print uncaught errors its own way.
            sys.excepthook = hook


if __name__ == '__main__':
    sys.exit(main())
