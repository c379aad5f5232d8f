# SPDX-License-Identifier: Apache-2.0
"""What the commands that plan moves share: options, and what they make."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import re

from nova_pinning.admission import guest_request
from nova_pinning.admission import outcome
from nova_pinning.cli import common_options
from nova_pinning.cli import fleets
from nova_pinning.cli import guest_options
from nova_pinning.cli import nova_options
from nova_pinning.document import quantities
from nova_pinning.document import size_mix
from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import plan_request
from nova_pinning.rebalance import slot_size
from nova_pinning.simulation import spec

_MOST_MOVES = 1_000_000
_FOR = '--for'
#: Kinds of doubt that only moves have: whether guests that were asked for in
#: no availability zone may leave that of their host, and whether all guests
#: were restarted since the last upgrade of nova, or some of its bugs hit them.
_ANY_ZONE = 'any-zone'
_RESTARTED = 'restarted'


def _share(text: str) -> tuple[float, bool]:
    """A number, and whether it is of a hundred."""
    number, is_share = text.removesuffix('%'), text.endswith('%')
    return float(number) if is_share else int(number), is_share


_moves = common_options.accepted(
    _share, lambda told: 0 < told[0] <= (100 if told[1] else _MOST_MOVES),
    'a number of moves of at least 1, nor a share such as 3%')
_days = common_options.told(lambda text: spec.hours(text) / 24)
_seconds = common_options.told(lambda text: spec.hours(text) * 3600)


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """Add --for, and the image of guests."""
    parser.add_argument(
        _FOR, dest='sizes', metavar='SIZES',
        help='guests to make room for: vCPUs of pinned guests in '
             'one NUMA cell, or flavors of the snapshot, with weights if need '
             'be, such as 16 or 16:3,8:1')
    common_options.add_image_properties(parser)


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add what bounds the moves."""
    group = parser.add_argument_group('what may be moved')
    group.add_argument(
        '--moves', metavar='N', type=_moves,
        help='at most so many moves, or N%% of the guests; if not given, as '
             'many as gain something')
    group.add_argument(
        '--memory', metavar='AMOUNT',
        help='copy at most so much memory in all, such as 512GiB')
    group.add_argument(
        '--fixed', metavar='GUEST', action='append', default=[],
        help='a guest that stays, by UUID or name; may be given several '
             'times, as the next three may')
    group.add_argument(
        '--exclude', metavar='HOST', action='append', default=[],
        help='a host that no guest leaves or comes to')
    group.add_argument(
        '--tag', metavar='TAG', action='append', default=[],
        help='guests with this server tag stay')
    group.add_argument(
        '--min-age', metavar='AGE', type=_days,
        help='guests that nova built less than so long ago stay, such as 7d: '
             'they may soon be gone anyway')
    group.add_argument(
        '--max-age', metavar='AGE', type=_days,
        help='guests that nova built longer ago stay')
    group.add_argument(
        '--live-only', action='store_true',
        help='guests that nova cannot move live stay; without it they are '
             'moved cold, which stops them for the time')
    add_cloud(parser)


def add_cloud(parser: argparse.ArgumentParser) -> None:
    """Add what is not in a snapshot of the cloud's own rules."""
    parser.add_argument(
        '--release', metavar='RELEASE', default='',
        help='the nova, such as 2026.1 or 33.0.2, of hosts of which the '
             'snapshot does not tell it; its known bugs keep guests from '
             'being moved')
    nova_options.add_option(parser)
    common_options.add_assume(
        parser, (*outcome.DoubtKind, _ANY_ZONE, _RESTARTED))


def add_cost(parser: argparse.ArgumentParser) -> None:
    """Add what the time that moves take is reckoned with."""
    group = parser.add_argument_group('what moves cost')
    group.add_argument(
        '--bandwidth', metavar='RATE', default='1000MiB',
        help='of one migration in a second, such as 10Gbit or 1000MiB '
             '(default: %(default)s)')
    group.add_argument(
        '--parallel', metavar='N', type=common_options.number(1, 1000),
        default=1, help='migrations at the same time at most (default: 1)')
    group.add_argument(
        '--maintenance-window', metavar='TIME', type=_seconds,
        help='how long moves may be made at a time, such as 2h; the plan '
             'says how many such windows it takes')
    group.add_argument(
        '--local-disks', action='store_true',
        help="disks are the hosts' own, and are copied too")


def add_solver(parser: argparse.ArgumentParser) -> None:
    """Add how the plan is looked for."""
    group = parser.add_argument_group('how it is looked for')
    group.add_argument(
        '--seconds', metavar='N', type=common_options.positive, default=60.0,
        help='after which the best plan so far is taken, with the bound that '
             'is proved by then (default: 60)')


def request_of(
    parsed_args: argparse.Namespace,
    goal: plan_request.MakeRoom | plan_request.DrainHosts,
) -> plan_request.PlanRequest:
    """What the options ask for, but for the goal.

    :raises errors.InputError: for a limit that allows nothing, a release that
        is not known, ages that no guest has, and a bandwidth that is none
    """
    moves, is_share = parsed_args.moves or (None, False)
    conf = nova_options.read(parsed_args)
    return plan_request.PlanRequest(
        goal=goal, moves=None if is_share else moves,
        share_percent=moves if is_share else None,
        memory_mib=_memory_mib(parsed_args.memory),
        fixed=tuple(dict.fromkeys(parsed_args.fixed)),
        excluded=tuple(dict.fromkeys(parsed_args.exclude)),
        rules=rule_settings(parsed_args),
        cost=plan_request.CostSettings(
            bandwidth_mib=_bandwidth_mib(parsed_args.bandwidth),
            parallel=parsed_args.parallel,
            window_seconds=parsed_args.maintenance_window,
            shared_storage=not parsed_args.local_disks,
            post_copy=(conf is not None and
                       conf.libvirt.live_migration_permit_post_copy),
            auto_converge=(conf is not None and
                           conf.libvirt.live_migration_permit_auto_converge)),
        seconds=parsed_args.seconds)


def with_sizes(
    parsed_args: argparse.Namespace, request: plan_request.PlanRequest,
    goal: plan_request.MakeRoom, fleet: snapshot.Fleet,
) -> plan_request.PlanRequest:
    """A request for room for what --for says.

    :raises errors.InputError: as :func:`sizes`
    """
    with fleets.progress('asking nova what the flavors are'):
        return dataclasses.replace(request, goal=dataclasses.replace(
            goal, sizes=tuple(sizes(
                parsed_args.sizes, fleet,
                lambda named: guest_options.requests_by_name(
                    named, fleet,
                    common_options.image_properties(parsed_args))))))


def check_names(request: plan_request.PlanRequest,
                fleet: snapshot.Fleet) -> None:
    """Make sure that a fleet has the hosts and guests of a request.

    :raises errors.InputError: naming one that it has not
    """
    excluded = fleets.named_hosts(request.excluded, fleet, '--exclude')
    if isinstance(request.goal, plan_request.DrainHosts):
        both = set(excluded).intersection(
            fleets.named_hosts(request.goal.hosts, fleet, '--drain'))
        if both:
            raise errors.InputError(
                f'{min(both)} is to be emptied (--drain), and no guest may '
                'leave it', errors.Location('--exclude'))
    known = {name for guest in fleet.guests
             for name in (guest.uuid, guest.name) if name}
    for name in request.fixed:
        if name not in known:
            raise errors.InputError(
                f'the fleet has no guest called {name!r}',
                errors.Location('--fixed'),
                'name it as openstack server list --all-projects does')


def _memory_mib(text: str | None) -> int | None:
    if text is None:
        return None
    where = errors.Location('--memory')
    memory_mib = quantities.memory_mib(text, where)
    if not memory_mib:
        raise errors.InputError('allows no move', where,
                                'write it like 512GiB')
    return memory_mib


def rule_settings(
        parsed_args: argparse.Namespace) -> plan_request.RuleSettings:
    """What the options of :func:`add_limits` or :func:`add_cloud` say.

    :raises errors.InputError: for a release that is not known, and for ages
        that no guest has
    """
    common_options.defects(parsed_args)
    least = getattr(parsed_args, 'min_age', None)
    most = getattr(parsed_args, 'max_age', None)
    if least is not None and most is not None and least >= most:
        raise errors.InputError(
            'leaves no guest to move together with --min-age',
            errors.Location('--max-age'), 'it has to be the larger')
    is_live = getattr(parsed_args, 'live_only', False)
    return plan_request.RuleSettings(
        allows_cold=not is_live, moves_devices=not is_live,
        release=parsed_args.release,
        fixed_tags=frozenset(getattr(parsed_args, 'tag', ())),
        least_age_days=least, most_age_days=most,
        crosses_zones=_ANY_ZONE in parsed_args.assume,
        is_restarted=_RESTARTED in parsed_args.assume,
        assumes=common_options.assumed(parsed_args))


def _bandwidth_mib(text: str) -> float:
    where = errors.Location('--bandwidth')
    match = re.fullmatch(
        r'([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)(?:/s)?', text.strip())
    unit = match and quantities.unit_bytes(match[2] or 'MiB')
    if not match or unit is None or not float(match[1]):
        raise errors.InputError(f'{text!r} is not a rate', where,
                                'write it like 10Gbit or 1000MiB')
    return float(match[1]) * float(unit) / 2 ** 20


def sizes(
    text: str, fleet: snapshot.Fleet,
    requests_of: Callable[[Mapping[str, errors.Location]],
                          Mapping[str, guest_request.GuestRequest]],
) -> list[slot_size.SlotSize]:
    """What --for says.

    :param requests_of: asked for guests of flavors that are named
    :raises errors.InputError: for what is not a size, nor a flavor
    """
    where = errors.Location(_FOR)
    found: list[slot_size.SlotSize] = []
    for share in size_mix.parse(text, where):
        weight = float(share.weight)
        if share.cells > 1:
            raise errors.InputError(
                f'{share.what} has several NUMA cells', where,
                'name a flavor that has, of the snapshot or written out')
        if share.vcpus:
            found.append(slot_size.dedicated_slot(
                share.vcpus, weight=weight, guests=fleet.guests))
        else:
            request = requests_of({share.what: where})[share.what]
            found.append(slot_size.SlotSize(
                request=request, name=request.name, weight=weight))
    return found
