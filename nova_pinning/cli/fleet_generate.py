# SPDX-License-Identifier: Apache-2.0
"""nova-pinning fleet generate: a generated snapshot."""

import argparse
import sys
import textwrap

from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import fleets
from nova_pinning import errors
from nova_pinning.fleet import generate
from nova_pinning.fleet import shapes
from nova_pinning.fleet import snapshot
from nova_pinning.host import host_loader
from nova_pinning.model import hostclass

# As many as a snapshot can be read of with any shape as it is by default.
_MAX_HOSTS = 20_000
_MAX_CHURN = 100
# What is not filled without a word.
_MISSED = 0.03
# What a fleet like a plan, which has no guests, has no use for.
_OF_GUESTS = {'seed': 0, 'filled': generate.FILLED, 'mix': '', 'shared': 0.0,
              'churn': generate.CHURN}


class GenerateFleet(base_command.FileCommand):
    """Generate a fleet snapshot, for demonstrations and tests.

    Guests of a mix of sizes come and go until the hosts are as full as is
    asked for, so that what is free is in pieces as it is on real hosts. The
    same options give the same snapshot on any machine. Hosts like a plan are
    empty: 'capacity' and 'simulate' tell what such hosts would sell.

    Examples::

      nova-pinning fleet generate --hosts 1000 -o fleet.json.zst
      nova-pinning fleet generate --hosts 200 --shape epyc-nps4 \\
        --seed 7 --filled 90% --mix 4:50,8:30,32x2:20 -o fleet.json
      nova-pinning fleet generate --hosts 50 --shared 40% \\
        | nova-pinning fleet show -
      nova-pinning fleet generate --hosts 12 --like plan.yaml -o fleet.json
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.epilog = f'{parser.epilog}\n\nShapes::\n\n' + '\n'.join(
            f'  {shape.name}\n' + textwrap.fill(
                shape.description, 68, initial_indent='    ',
                subsequent_indent='    ')
            for shape in shapes.SHAPES.values())
        share = common_options.accepted(
            _part, lambda part: 0 <= part <= 1, 'a share such as 80% or 0.8')
        parser.add_argument('--hosts', metavar='N', required=True,
                            type=common_options.number(1, _MAX_HOSTS),
                            help=f'how many hosts, at most {_MAX_HOSTS:,}')
        kinds = parser.add_mutually_exclusive_group()
        kinds.add_argument('--shape', metavar='NAME',
                           choices=list(shapes.SHAPES),
                           default=next(iter(shapes.SHAPES)),
                           help='what they are like: one of the shapes '
                           'below (default: %(default)s)')
        kinds.add_argument('--like', metavar='PLAN',
                           help='a plan of host plan, or a host file, that '
                           'they are like; without guests')
        parser.add_argument('--seed', metavar='N', default=0,
                            type=common_options.number(0, 2 ** 63 - 1),
                            help='seed of what is random (default: '
                                 '%(default)s)')
        parser.add_argument('--filled', metavar='PERCENT',
                            type=share, default=generate.FILLED,
                            help='how much of the dedicated CPUs is sold, '
                            'and of the memory of shared hosts '
                            '(default: 80%%); less if no more fits')
        parser.add_argument('--mix', metavar='SIZES', default='',
                            help='dedicated guests: vCPUs[xCELLS], with '
                            'weights, such as 4:50,8:30,32x2:20; otherwise '
                            'those of the shape')
        parser.add_argument('--shared', metavar='PERCENT',
                            type=share, default=0.0,
                            help='how many of the hosts are for shared '
                            'guests (default: none)')
        parser.add_argument('--churn', metavar='N', default=generate.CHURN,
                            type=common_options.accepted(
                                float, lambda often: 0 <= often <= _MAX_CHURN,
                                f'a number from 0 to {_MAX_CHURN}'),
                            help='how often guests are replaced by others, '
                            'on average (default: %(default)g)')
        fleets.add_output(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        common_options.check_output(parsed_args.output)
        if parsed_args.like is not None:
            for name, default in _OF_GUESTS.items():
                if getattr(parsed_args, name) != default:
                    raise errors.InputError(
                        'a fleet like a plan has no guests',
                        errors.Location(f'--{name}'), 'leave it out')
            fleets.save(parsed_args, generate.empty_fleet(
                host_loader.load(parsed_args.like), parsed_args.hosts))
            return base_command.OK
        with fleets.progress('filling hosts') as tell:
            fleet = generate.generate_fleet(
                parsed_args.hosts, parsed_args.shape, parsed_args.seed,
                filled=parsed_args.filled, mix=parsed_args.mix,
                shared=parsed_args.shared, churn=parsed_args.churn,
                tell=tell)
        fleets.save(parsed_args, fleet)
        _warn(fleet, parsed_args.filled)
        return base_command.OK


def _warn(fleet: snapshot.Fleet, filled: float) -> None:
    """Say on the error output where hosts are less full than asked for."""
    for host_class, sold in generate.filled(fleet).items():
        if sold < filled - _MISSED:
            what = ('dedicated CPUs are'
                    if host_class is hostclass.HostClass.DEDICATED
                    else 'memory of shared hosts is')
            print(f'warning: {sold:.1%} of the {what} sold, not {filled:.0%}: '
                  'guests of these sizes do not get nearer', file=sys.stderr)


def _part(text: str) -> float:
    """Of one: 0.8 of '80%' or '0.8'."""
    number = text.strip().removesuffix('%')
    return float(number) / (100 if text.strip() != number else 1)
