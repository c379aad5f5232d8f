# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have."""

from __future__ import annotations
import argparse
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
import contextlib
import math
import os
import sys
import typing
from typing import TypeVar

from nova_pinning.admission import outcome
from nova_pinning import cpuset
from nova_pinning.document import atomic_file
from nova_pinning.document import packed
from nova_pinning import errors
from nova_pinning.model import nova_release
from nova_pinning import spelling

if typing.TYPE_CHECKING:
    from nova_pinning.upgrade import known_hits

_T = TypeVar('_T')


def add_format(parser: argparse._ActionsContainer, default: str,
               *others: str, note: str = '') -> None:
    """Add --format.

    :param default: the format by default
    :param others: that there are
    :param note: what else to say in the help
    """
    parser.add_argument('-f', '--format', choices=(default, *others),
                        default=default, metavar='FORMAT',
                        help=f'%(choices)s (default: %(default)s){note}')


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add --output, for a command that writes one text."""
    parser.add_argument(
        '-o', '--output', metavar='FILE', default=packed.STANDARD,
        help='replace this file, as a whole and only once all is done '
             '(default: -, the standard output)')


def check_output(path: str) -> None:
    """Make sure that --output can be written, before it takes long.

    :raises errors.InputError: if it cannot
    """
    if path != packed.STANDARD:
        atomic_file.check(path)


def write_output(path: str, text: str) -> None:
    """Write a text to where --output says, and say where the file is.

    :raises errors.InputError: if it cannot be written
    """
    if path == packed.STANDARD:
        print(text, end='')
        # Before what is said about it, where both go to one place.
        sys.stdout.flush()
        return
    atomic_file.replace(path, text)
    tell_file(path)


def tell_file(path: str) -> None:
    """Say on the error output where a file is that was written."""
    if path != packed.STANDARD and not atomic_file.is_stream(path):
        print(spelling.printable(f'wrote {os.path.abspath(path)}'),
              file=sys.stderr)


#: Names that an error lists.
_NAMES_SHOWN = 8


def known(names: Sequence[str], most: int = _NAMES_SHOWN) -> str:
    """Advice that names what there is: 'there are a, b, ...'."""
    if not names:
        return 'there are none'
    return f'there {"is" if len(names) == 1 else "are"} {listed(names, most)}'


def listed(names: Sequence[str], most: int = _NAMES_SHOWN) -> str:
    """'a, b, ...'."""
    return ', '.join([*names[:most], *(['...'] if names[most:] else [])])


def accepted(read: Callable[[str], _T], fits: Callable[[_T], bool],
             expected: str) -> Callable[[str], _T]:
    """A type for argparse: what is read of a text, if it fits.

    :param read: raises ValueError for what is nothing of the kind
    :param expected: what the text has to be, in an error
    """
    def accept(text: str) -> _T:
        with contextlib.suppress(ValueError):
            value = read(text)
            if fits(value):
                return value
        raise argparse.ArgumentTypeError(f'{text!r} is not {expected}')

    return accept


def number(least: int, most: int) -> Callable[[str], int]:
    """A type for argparse: a whole number in a range."""
    return accepted(int, lambda value: least <= value <= most,
                    f'a number from {least} to {most:,}')


#: A type for argparse: what has a place in the file system.
file_path = accepted(
    str, lambda path: path != packed.STANDARD,
    'a path; the standard output is for something else')
#: A type for argparse: a number above 0.
positive = accepted(float, lambda value: 0 < value < math.inf,
                    'a number above 0')


def told(read: Callable[[str], _T]) -> Callable[[str], _T]:
    """A type for argparse: what is read of a text, or says what is wrong.

    :param read: raises ValueError with a message for people
    """
    def tell(text: str) -> _T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return tell


#: A type for argparse: CPUs in the kernel's list syntax.
cpu_list = told(cpuset.CpuSet.parse)


def defects(parsed_args: argparse.Namespace) -> known_hits.KnownDefects:
    """The known defects of hosts that run what --release says.

    That counts for hosts of which nothing else tells it. A release that all
    this is not tested with is told on the error output, as upgrade check
    tells it.

    :raises errors.InputError: for a release that there is not
    """
    from nova_pinning.upgrade import known_hits
    from nova_pinning.upgrade import register

    usual = (register.shipped().version(parsed_args.release, '--release')
             if parsed_args.release else None)
    if usual is not None and not usual.is_tested:
        print(f'warning: --release: {usual.doubt}', file=sys.stderr)
    return known_hits.KnownDefects(usual)


def add_release(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Add --release."""
    parser.add_argument('--release', type=_release, metavar='RELEASE',
                        help=help_text)


def _release(text: str) -> nova_release.NovaRelease:
    """A type for argparse: a release; the newest for one that is later."""
    # A tenth of a second that few commands need.
    from nova_pinning.upgrade import register
    try:
        version = register.shipped().version(text, '--release')
    except errors.InputError as error:
        raise argparse.ArgumentTypeError(
            f'{error.message}; {error.advice}') from error
    if version.release is None:
        newest = nova_release.NEWEST
        print(f'warning: --release: {version.doubt}; taken for {newest}',
              file=sys.stderr)
        return newest
    return version.release


def add_image_properties(parser: argparse.ArgumentParser) -> None:
    """Add --image-property, which may be given several times."""
    parser.add_argument(
        '--image-property', action='append', default=[], metavar='KEY=VALUE',
        help="a property of the guest's image, such as "
             'hw_cpu_policy=shared; may be given several times')


def image_properties(parsed_args: argparse.Namespace) -> dict[str, str]:
    """What --image-property says.

    :raises errors.InputError: for a key without a value, or given twice
    """
    return pairs(parsed_args.image_property,
                 errors.Location('--image-property'), 'hw_cpu_policy=shared')


def pairs(items: Iterable[str], where: errors.Location,
          example: str) -> dict[str, str]:
    """Values by key, from ``key=value`` each.

    :raises errors.InputError: for a key without a value, or given twice
    """
    given: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition('=')
        if not equals or not key:
            raise errors.InputError(f'{item!r} is not a key with a value',
                                    where, f'write it like {example}')
        if key in given:
            raise errors.InputError(f'{key} is given twice', where)
        given[key] = value
    return given


def add_assume(
    parser: argparse._ActionsContainer,
    kinds: Iterable[str] = tuple(outcome.DoubtKind),
) -> None:
    """The option that takes away what is not known of these kinds."""
    names = list(map(str, kinds))
    parser.add_argument(
        '--assume', metavar='KIND', action='append', default=[],
        choices=names,
        help='take what is not known of this kind to be as a guest needs it: '
             + ', '.join(names) + '; may be given several times. '
             'Otherwise it makes an answer undecided, and the output names it')


def assumed(
    parsed_args: argparse.Namespace,
) -> frozenset[outcome.DoubtKind]:
    """The kinds that the option names."""
    return frozenset(
        kind for kind in outcome.DoubtKind if kind in parsed_args.assume)


def add_host_files(parser: argparse.ArgumentParser, what: str) -> None:
    """Add --host-files.

    :param what: the files tell here
    """
    parser.add_argument('--host-files', metavar='DIR',
                        help=f'a directory of host files, which tell {what}; '
                        'the name in a file is that of the compute service')


def add_nova_conf(parser: argparse.ArgumentParser,
                  about: str = '') -> None:
    """Add --config-file, as nova's own programs have it.

    It takes a directory too, which they call --config-dir.

    :param about: for the help, '' for nova-api's
    """
    parser.add_argument(
        '--config-file', metavar='FILE', action='append', default=[],
        dest='nova_arguments', type=_nova_argument, help=about or (
            'nova.conf as nova-api is given it, or a directory of such files; '
            'may be given several times (default: those that nova reads by '
            'default)'))


def nova_arguments(parsed_args: argparse.Namespace) -> list[str]:
    """What it says, as nova's own programs would be told."""
    return [word for pair in parsed_args.nova_arguments for word in pair]


def _nova_argument(path: str) -> tuple[str, str]:
    return ('--config-dir' if os.path.isdir(path) else '--config-file', path)
