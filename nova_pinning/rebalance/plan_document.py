# SPDX-License-Identifier: Apache-2.0
"""A plan of moves as a file: one JSON document, version 2.

A file whose name ends in ``.zst`` is packed with Zstandard, ``-`` stands for
the standard input or output. Each move is one line.
"""

from collections.abc import Sequence
import os
from typing import Any

from nova_pinning.document import encoder
from nova_pinning.document import json_text
from nova_pinning.document import packed
from nova_pinning.document import source
from nova_pinning.document import typed_document
from nova_pinning.rebalance import plan_model

VERSION = 2
_MADE_BY = ('a plan of moves is made by nova-pinning rebalance plan with '
            '--output')


def read_plan(path: str | os.PathLike[str]) -> plan_model.RebalancePlan:
    """Read a plan.

    :raises errors.InputError: if the file cannot be read, is not JSON, is not
        as the schema says or makes no sense: with the place
    """
    return loads(packed.read(path), packed.name(path))


def write_plan(plan: plan_model.RebalancePlan,
               path: str | os.PathLike[str]) -> None:
    """Replace a file by a plan, as a whole.

    :raises errors.InputError: if the file cannot be written
    """
    packed.write(path, dumps(plan))


def loads(text: str, source_name: str = 'plan') -> plan_model.RebalancePlan:
    """A plan from the text of its document.

    :param source_name: what errors call it
    :raises errors.InputError: as :func:`read_plan` does
    """
    document = json_text.parse(text, source_name, _MADE_BY)
    value = document.value
    if not isinstance(value, dict) or 'moves' not in value:
        raise document.error('is not a plan of moves', advice=_MADE_BY)
    # What was not known of hosts is for who reads what a command prints.
    plan: plan_model.RebalancePlan = typed_document.read(
        plan_model.RebalancePlan, document, VERSION, ['gaps'])
    _check_moves(document, plan.moves)
    return plan


def dumps(plan: plan_model.RebalancePlan) -> str:
    """The text of a plan's document; equal plans have equal texts."""
    return ''.join(json_text.lines(plan_to_json(plan)))


def plan_to_json(plan: plan_model.RebalancePlan) -> dict[str, Any]:
    """The values of a plan's document; what is as it mostly is, is left out.
    """
    return {'version': VERSION, 'is_optimal': False,
            **encoder.encode(plan, sparse=True)}


def _check_moves(document: source.YamlDocument,
                 moves: Sequence[plan_model.PlannedMove]) -> None:
    """Make sure that the moves of a guest lead from host to host.

    :raises errors.InputError: if they do not
    """
    last: dict[str, int] = {}
    for number, move in enumerate(moves):
        path = 'moves', number
        if move.target == move.source:
            raise document.error(
                f'{move.target} is the host that the guest is on',
                (*path, 'target'))
        for place, position in enumerate(move.after):
            if position >= number:
                raise document.error(
                    f'move {position} is not before this one, which is '
                    f'{number}', (*path, 'after', place))
        before = last.get(move.guest)
        if before is not None and moves[before].target != move.source:
            raise document.error(
                f'{move.source} is not where the guest is: move {before} '
                f'brings it to {moves[before].target}', (*path, 'source'))
        last[move.guest] = number
    for number, move in enumerate(moves):
        if move.is_parking and last[move.guest] == number:
            raise document.error(
                'the guest does not move on later',
                ('moves', number, 'is_parking'))
