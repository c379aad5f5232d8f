# SPDX-License-Identifier: Apache-2.0
"""The demo: ``python -m demo``."""

import argparse
from collections.abc import Iterator
import contextlib
import logging
import pathlib
import signal
import sys
import traceback
import warnings

from rich import console as rich_console

from demo import outcome
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
               'interrupted. NO_COLOR in the environment means no colours. '
               'Example: ./run demo --out /tmp/guests')
    parser.add_argument(
        '--out', metavar='DIR', type=pathlib.Path,
        default=pathlib.Path('demo-output'),
        help="where to write each guest's XML (default: %(default)s)")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run the demo.

    :returns: the exit status
    """
    options = _arguments(argv)
    options.out = options.out.absolute()
    console, complaints = _console(), _console(stderr=True)
    try:
        report.check_directory(options.out)
    except OSError as error:
        complaints.print(
            f'demo: cannot write to {options.out}: {error.strerror}. Name '
            'another directory with --out.', soft_wrap=True)
        return 2
    try:
        result = _run(options.out, console, complaints)
        if result is None:
            return 1
        report.write_guests(result, options.out)
    except KeyboardInterrupt:
        complaints.print('\nInterrupted. No guest was written.')
        return 130
    except errors.InputError as error:
        complaints.print(f'demo: {error}', soft_wrap=True)
        return 1
    report.show(result, console)
    console.print(
        f'\nThe XML of each of the {len(result.guests)} guests is in '
        f'{options.out}', soft_wrap=True)
    return 0 if all(result.checks.values()) else 1


def _console(stderr: bool = False) -> rich_console.Console:
    # Nothing here is written in rich's markup, and file names and messages
    # may look like it.
    return rich_console.Console(
        stderr=stderr, highlight=False, markup=False, emoji=False)


def _run(
    directory: pathlib.Path,
    console: rich_console.Console,
    complaints: rich_console.Console,
) -> outcome.Outcome | None:
    """Play the story.

    A Ctrl-C is put off until nova has finished what it is at, which takes a
    second or two: interrupted anywhere, its threads would wait a minute for
    each other. Another Ctrl-C takes effect at once.

    :param directory: where to leave nova's log if it breaks off
    :param console: where to say what is going on
    :param complaints: where to say what went wrong
    :returns: None if it broke off
    """
    console.print(_INTRODUCTION + '\n')
    nova_log = ''
    interrupts: list[int] = []

    def tell(sentence: str) -> None:
        if interrupts:
            raise KeyboardInterrupt
        if sentence:
            console.print(f'{sentence} ...')

    def put_off(number: int, frame: object) -> None:
        tell('')
        interrupts.append(number)

    try:
        with _quiet_libraries():
            tell('Loading nova')
            from demo import cloud
            from demo import story
            _mute_logging()  # nova has just set it up
            nova = cloud.Cloud()
            tell('Starting nova and Placement')
            nova.setUp()
            try:
                with signals.handled((signal.SIGINT,), put_off):
                    return story.Story(nova, tell).play()
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
