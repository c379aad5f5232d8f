# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have."""

import argparse
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
import sys

from nova_pinning.admission import outcome
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.model import nova_release


def add_format(parser: argparse._ActionsContainer, default: str,
               *others: str, note: str = '') -> None:
    """Add --format.

    :param default: the format by default
    :param others: that there are
    :param note: what else to say in the help
    """
    parser.add_argument('-f', '--format', choices=(default, *others),
                        default=default,
                        help=f'{default} by default{note}')


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


def number(least: int, most: int) -> Callable[[str], int]:
    """A type for argparse: a whole number in a range."""
    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f'{text!r} is not a number from {least} to {most:,}')
        return value

    return number


def cpu_list(text: str) -> cpuset.CpuSet:
    """A type for argparse: CPUs in the kernel's list syntax."""
    try:
        return cpuset.CpuSet.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


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
    kinds: Iterable[outcome.DoubtKind] = tuple(outcome.DoubtKind),
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
    return frozenset(map(outcome.DoubtKind, parsed_args.assume))
