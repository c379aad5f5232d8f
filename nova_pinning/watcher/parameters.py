# SPDX-License-Identifier: Apache-2.0
"""The parameters of audits: their schemas, and the options they stand for."""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from typing import Any

_WORDS = {'type': 'array', 'uniqueItems': True,
          'items': {'type': 'string', 'pattern': '^[^-]'}}
_AGE = {'type': 'string', 'pattern': '^[0-9]'}


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an audit.

    :param name: by which it is given
    :param schema: of JSON Schema draft 4, with a description
    :param option: of nova-pinning rebalance that has its value, once for each
        of a list, or is a switch; '' if it is none of that command's
    :param is_required: whether an audit cannot be made without
    """

    name: str
    schema: Mapping[str, Any]
    option: str = ''
    is_required: bool = False


COMMON = (
    Parameter('moves', {
        'description': 'At most so many moves, or a share of the guests such '
        'as 3%. If not given, as many as gain something.',
        'anyOf': [{'type': 'integer', 'minimum': 1},
                  {'type': 'string', 'pattern': r'^[0-9]+(\.[0-9]+)?%$'}],
    }, '--moves'),
    Parameter('memory', {
        'description': 'Copy at most so much memory in all, such as 512GiB.',
        'type': 'string', 'pattern': '^[0-9]'}, '--memory'),
    Parameter('live_only', {
        'description': 'Guests that nova cannot move live stay. If false, '
        'they are moved cold, which stops them for the time.',
        'type': 'boolean', 'default': True}, '--live-only'),
    Parameter('fixed', {
        'description': 'Guests that stay, by UUID or name.',
        **_WORDS, 'default': []}, '--fixed'),
    Parameter('tags', {
        'description': 'Guests with one of these server tags stay.',
        **_WORDS, 'default': []}, '--tag'),
    Parameter('min_age', {
        'description': 'Guests that nova built less than so long ago stay, '
        'such as 7d.', **_AGE}, '--min-age'),
    Parameter('max_age', {
        'description': 'Guests that nova built longer ago stay.',
        **_AGE}, '--max-age'),
    Parameter('exclude', {
        'description': 'Hosts that no guest leaves or comes to.',
        **_WORDS, 'default': []}, '--exclude'),
    Parameter('seconds', {
        'description': 'After so many the best plan so far is taken.',
        'type': 'integer', 'minimum': 1, 'maximum': 3600, 'default': 60,
    }, '--seconds'),
)

DEFRAGMENTATION = (
    Parameter('sizes', {
        'description': 'Guests to make room for: vCPUs of pinned guests in '
        'one NUMA cell, or flavors, with their weights if there are several, '
        'such as 16 or 16:3,8:1.',
        'anyOf': [{'type': 'integer', 'minimum': 1},
                  {'type': 'string', 'pattern': '^[^-]'}],
    }, '--for', is_required=True),
    Parameter('until', {
        'description': 'Make room for so many guests in all, those that fit '
        'now among them, with as few moves as will do.',
        'type': 'integer', 'minimum': 1}, '--until'),
    *COMMON,
)

DRAIN = (
    Parameter('hosts', {
        'description': 'The hosts to empty, by the names of their compute '
        'services.', **_WORDS, 'minItems': 1}, '--host', is_required=True),
    Parameter('disable', {
        'description': 'Disable the compute services of these hosts first, so '
        'that nova-scheduler puts no new guests there.',
        'type': 'boolean', 'default': True}),
    *COMMON,
)


def schema(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """What Watcher checks the parameters of an audit with."""
    return {
        'type': 'object',
        'properties': {one.name: dict(one.schema) for one in parameters},
        'required': [one.name for one in parameters if one.is_required],
        'additionalProperties': False}


def command_options(parameters: Sequence[Parameter],
                    values: Mapping[str, Any]) -> list[str]:
    """The options that stand for the parameters of an audit.

    :param values: by name; those that are not given, or are None, are left to
        the command
    """
    options = []
    for one in parameters:
        value = values.get(one.name)
        if one.option and value is True:
            options.append(one.option)
        elif one.option and value not in (None, False):
            options += [
                f'{one.option}={word}' for word in
                (value if isinstance(value, list) else [value])]
    return options
