# SPDX-License-Identifier: Apache-2.0
"""The parameters of audits: their schemas, and what they ask for."""

from collections.abc import Mapping
from typing import Any

from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning.rebalance import plan_request
from nova_pinning.simulation import spec

_WORDS = {'type': 'array', 'uniqueItems': True,
          'items': {'type': 'string', 'pattern': '^[^-]'}}
_AGE = {'type': 'string', 'pattern': '^[0-9]'}

_COMMON: Mapping[str, Any] = {
    'moves': {
        'description': 'At most so many moves, or a share of the guests such '
        'as 3%. If not given, as many as gain something.',
        'anyOf': [{'type': 'integer', 'minimum': 1},
                  {'type': 'string', 'pattern': r'^[0-9]+(\.[0-9]+)?%$'}],
    },
    'memory': {
        'description': 'Copy at most so much memory in all, such as 512GiB.',
        'type': 'string', 'pattern': '^[0-9]'},
    'live_only': {
        'description': 'Guests that nova cannot move live stay. If false, '
        'they are moved cold, which stops them for the time.',
        'type': 'boolean', 'default': True},
    'fixed': {
        'description': 'Guests that stay, by UUID or name.',
        **_WORDS, 'default': []},
    'tags': {
        'description': 'Guests with one of these server tags stay.',
        **_WORDS, 'default': []},
    'min_age': {
        'description': 'Guests that nova built less than so long ago stay, '
        'such as 7d.', **_AGE},
    'max_age': {
        'description': 'Guests that nova built longer ago stay.',
        **_AGE},
    'exclude': {
        'description': 'Hosts that no guest leaves or comes to.',
        **_WORDS, 'default': []},
    'seconds': {
        'description': 'After so many the best plan so far is taken.',
        'type': 'integer', 'minimum': 1, 'maximum': 3600, 'default': 60,
    },
}


def _schema(required: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """What Watcher checks the parameters of an audit with.

    :param required: the parameter that an audit cannot be made without
    :param own: those of one strategy, in JSON Schema draft 4
    """
    return {
        'type': 'object', 'properties': {**own, **_COMMON},
        'required': [required], 'additionalProperties': False}


DEFRAGMENTATION = _schema('sizes', {
    'sizes': {
        'description': 'Guests to make room for: vCPUs of pinned guests in '
        'one NUMA cell, or flavors, with their weights if there are several, '
        'such as 16 or 16:3,8:1.',
        'anyOf': [{'type': 'integer', 'minimum': 1},
                  {'type': 'string', 'pattern': '^[^-]'}],
    },
    'until': {
        'description': 'Make room for so many guests in all, those that fit '
        'now among them, with as few moves as will do.',
        'type': 'integer', 'minimum': 1},
})

DRAIN = _schema('hosts', {
    'hosts': {
        'description': 'The hosts to empty, by the names of their compute '
        'services.', **_WORDS, 'minItems': 1},
    'disable': {
        'description': 'Disable the compute services of these hosts first, so '
        'that nova-scheduler puts no new guests there.',
        'type': 'boolean', 'default': True},
})


def request_of(
    values: Mapping[str, Any], settings: Any,
    goal: plan_request.MakeRoom | plan_request.DrainHosts,
) -> plan_request.PlanRequest:
    """What the parameters of an audit ask for.

    :param values: by name; those that may be left out may be None
    :param settings: the group of watcher_options
    :raises errors.InputError: for an amount or an age that is none, and for
        ages that no guest has
    """
    moves = values.get('moves')
    share_percent = None
    if isinstance(moves, str):
        share_percent = float(moves.removesuffix('%'))
        moves = None
    memory = values.get('memory')
    is_live = bool(values.get('live_only'))
    least, most = (_days(values, name) for name in ('min_age', 'max_age'))
    if least is not None and most is not None and least >= most:
        raise errors.InputError(
            'leaves no guest to move together with min_age',
            errors.Location('max_age'), 'it has to be the larger')
    return plan_request.PlanRequest(
        goal=goal, moves=moves, share_percent=share_percent,
        memory_mib=None if memory is None else quantities.memory_mib(
            memory, errors.Location('memory')),
        fixed=tuple(values.get('fixed') or ()),
        excluded=tuple(values.get('exclude') or ()),
        rules=plan_request.RuleSettings(
            allows_cold=not is_live, moves_devices=not is_live,
            release=settings.release or '', is_restarted=settings.restarted,
            fixed_tags=frozenset(values.get('tags') or ()),
            least_age_days=least, most_age_days=most,
            crosses_zones=settings.cross_zones,
            isolates=settings.isolated_aggregates),
        seconds=values.get('seconds') or 60)


def _days(values: Mapping[str, Any], name: str) -> float | None:
    text = values.get(name)
    try:
        return None if text is None else spec.hours(text) / 24
    except ValueError as error:
        raise errors.InputError(str(error), errors.Location(name)) from None
