# SPDX-License-Identifier: Apache-2.0
"""What a plan was asked for with: from the command line, and back again."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
import dataclasses
import math
import shlex
import typing

from nova_pinning.cli import rebalance_options
from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request

if typing.TYPE_CHECKING:
    from nova_pinning.rebalance import move_rules

# Where the option is not called as its value is.
_OPTIONS = {'sizes': '--for'}


def request_of(parsed_args: argparse.Namespace) -> plan_request.PlanRequest:
    """What was asked for on the command line."""
    defaults = _parser(True).parse_args(['--for=1'])
    given: dict[str, typing.Any] = {}
    for field in dataclasses.fields(plan_request.PlanRequest):
        value = getattr(parsed_args, field.name, None)
        if value is None or field.name != 'sizes' and (
                value == getattr(defaults, field.name)):
            continue
        if isinstance(value, list):
            value = tuple(value)
        elif field.name == 'moves':
            number, is_share = value
            value = f'{number:.12g}%' if is_share else str(number)
        elif field.name in ('min_age', 'max_age'):
            value = _shown_days(value)
        given[field.name] = value
    return plan_request.PlanRequest(**given)


def _shown_days(days: float) -> str:
    """A duration as it may be given: 7d, 90m."""
    if days == math.floor(days):
        return f'{days:.0f}d'
    return f'{days * 86400:.0f}s'


def options_of(request: plan_request.PlanRequest) -> Iterator[tuple[str, str]]:
    """Options and their values, '' for those that take none."""
    for field in dataclasses.fields(request):
        value = getattr(request, field.name)
        option = _OPTIONS.get(
            field.name, f'--{field.name.replace("_", "-")}')
        if value is True:
            yield option, ''
        elif isinstance(value, tuple):
            for item in value:
                yield option, item
        elif value:
            yield option, value


def parsed(plan: plan_model.RebalancePlan, where: str) -> argparse.Namespace:
    """The wishes of a plan, as the command that made it had them.

    Those that are not known, since the plan does not say, are the defaults.

    :param where: the plan's file, for errors
    :raises errors.InputError: for values that are none
    """
    request = plan.request or plan_request.PlanRequest()
    if not request.sizes:
        request = dataclasses.replace(request, sizes=','.join(
            gain.size for gain in plan.gains))
    parser = _parser(bool(request.sizes), where)
    return parser.parse_args([
        f'{option}={value}' if value else option
        for option, value in options_of(request)])


def still_there(wishes: argparse.Namespace, fleet: snapshot.Fleet) -> None:
    """Leave out the guests and hosts of wishes that a fleet has no more."""
    guests = {name for guest in fleet.guests
              for name in (guest.uuid, guest.name)}
    hosts = {host.name for host in fleet.hosts}
    wishes.fixed = [name for name in wishes.fixed if name in guests]
    wishes.exclude = [name for name in wishes.exclude if name in hosts]


def within(plan: plan_model.RebalancePlan,
           limits: move_rules.MoveLimits) -> plan_request.PlanRequest:
    """The wishes of a plan, with what is left of its limits."""
    request = plan.request or plan_request.PlanRequest()
    return dataclasses.replace(
        request, moves=str(limits.moves or ''),
        memory=f'{limits.memory_mib}MiB' if limits.memory_mib else '')


def command(plan: plan_model.RebalancePlan, fleet: str) -> str:
    """The command that makes a plan by the same wishes.

    :param fleet: the snapshot to make it for
    """
    words = ['nova-pinning', 'rebalance', str(plan.goal), fleet]
    for host in plan.drained:
        words += ['--host', host]
    if plan.until is not None:
        words += ['--until', str(plan.until)]
    for pair in options_of(plan.request or plan_request.PlanRequest()):
        words += filter(None, pair)
    return shlex.join(words)


class _Parser(argparse.ArgumentParser):
    """One that knows of what file its arguments are."""

    where = ''

    def error(self, message: str) -> typing.NoReturn:
        raise errors.InputError(
            message, errors.Location(self.where),
            'the plan was not written by this release, or was changed')


def _parser(has_sizes: bool, where: str = '') -> argparse.ArgumentParser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.where = where
    if has_sizes:
        rebalance_options.add_sizes(parser)
    rebalance_options.add_limits(parser)
    rebalance_options.add_cost(parser)
    return parser
