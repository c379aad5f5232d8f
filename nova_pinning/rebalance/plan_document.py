# SPDX-License-Identifier: Apache-2.0
"""A plan of moves as a file: one JSON document, version 1.

A file whose name ends in ``.zst`` is packed with Zstandard, ``-`` stands for
the standard input or output. Each move is one line.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import json
import os
from typing import Any

from nova_pinning.document import json_text
from nova_pinning.document import packed
from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.fleet import cpu_sequence
from nova_pinning import model
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request

VERSION = 1
_SCHEMA = 'rebalance-plan-1.json'
_MADE_BY = ('a plan of moves is made by nova-pinning rebalance defragment, or '
            'rebalance drain, with --output')

_Json = Mapping[str, Any]


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
    try:
        document = json_text.parse(text, source_name)
    except errors.InputError as error:
        if text.lstrip().startswith('{'):
            raise
        raise errors.InputError(
            error.message, error.where, _MADE_BY) from None
    if not isinstance(document.value, dict) or 'moves' not in document.value:
        raise document.error('is not a plan of moves', advice=_MADE_BY)
    return plan_from_json(document)


def dumps(plan: plan_model.RebalancePlan) -> str:
    """The text of a plan's document; equal plans have equal texts."""
    return ''.join(_lines(plan_to_json(plan)))


def _lines(document: _Json) -> Iterator[str]:
    """JSON with a line for each move, and each thing in another list."""
    write = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    opening = '{'
    for key, value in document.items():
        yield f'{opening}\n{json.dumps(key)}: '
        if isinstance(value, list) and value:
            yield '[\n' + ',\n'.join(map(write, value)) + '\n]'
        else:
            yield write(value)
        opening = ','
    yield '\n}\n'


def plan_to_json(plan: plan_model.RebalancePlan) -> dict[str, Any]:
    """The values of a plan's document; what is as it mostly is, is left out.
    """
    return {
        'version': VERSION,
        'goal': str(plan.goal),
        'fleet': {'digest': plan.fleet_digest,
                  **_given({'taken_at': plan.taken_at})},
        **({} if plan.request is None else {
            'request': plan_request.request_to_json(plan.request)}),
        'is_optimal': plan.is_optimal,
        **_given({
            'until': plan.until,
            'stopped': plan.stopped,
            'gains': [_gain_to_json(gain) for gain in plan.gains],
            'drained': list(plan.drained),
            'stuck': [{'guest': guest.guest, **_given({'name': guest.name}),
                       'host': guest.host, 'reason': guest.reason}
                      for guest in plan.stuck]}),
        'moves': [_move_to_json(move) for move in plan.moves]}


def plan_from_json(document: source.YamlDocument) -> plan_model.RebalancePlan:
    """The plan of a document.

    :raises errors.InputErrors: if it is not as the schema says
    :raises errors.InputError: if it makes no sense all the same
    """
    schema.validate(document, schema.shipped(__package__, _SCHEMA))
    value: _Json = document.value
    moves = tuple(_move(document, move, number)
                  for number, move in enumerate(value['moves']))
    _check_order(document, moves)
    return plan_model.RebalancePlan(
        goal=plan_model.PlanGoal(value['goal']),
        moves=moves,
        gains=tuple(plan_model.SlotGain(
            size=gain['size'], before=gain['before'], after=gain['after'],
            bound=gain.get('bound')) for gain in value.get('gains', ())),
        drained=tuple(value.get('drained', ())),
        stuck=tuple(plan_model.StuckGuest(
            guest=guest['guest'], host=guest['host'],
            reason=guest['reason'], name=guest.get('name', ''))
            for guest in value.get('stuck', ())),
        is_optimal=value.get('is_optimal', False),
        stopped=value.get('stopped', ''),
        fleet_digest=value['fleet']['digest'],
        taken_at=value['fleet'].get('taken_at', ''),
        until=value.get('until'),
        request=(plan_request.request_from_json(value['request'])
                 if 'request' in value else None))


def _given(values: _Json) -> dict[str, Any]:
    """Values that are there."""
    return {key: value for key, value in values.items() if value}


def _gain_to_json(gain: plan_model.SlotGain) -> dict[str, Any]:
    document: dict[str, Any] = {
        'size': gain.size, 'before': gain.before, 'after': gain.after}
    if gain.bound is not None:
        document['bound'] = gain.bound
    return document


def _move_to_json(move: plan_model.PlannedMove) -> dict[str, Any]:
    document = {
        'guest': move.guest,
        **_given({'name': move.name, 'flavor': move.flavor}),
        'source': move.source,
        'target': move.target,
        'kind': str(move.kind),
        'vcpus': move.vcpus,
        'memory_mib': move.memory_mib,
        **_given({
            'disk_gib': move.disk_gib,
            'source_fit': _fit_to_json(move.source_fit),
            'target_fit': _fit_to_json(move.target_fit)})}
    if move.seconds is not None:
        document['seconds'] = move.seconds
    return {**document, **_given({
        'is_parking': move.is_parking, 'cold_reason': move.cold_reason,
        'after': list(move.after)})}


def _fit_to_json(fit: model.Fit | None) -> list[dict[str, Any]]:
    return [] if fit is None else [{
        'cell': cell.host_cell,
        **_given({
            'vcpus': cpu_sequence.text_of(
                tuple(vcpu for vcpu, _cpu in cell.pins)),
            'cpus': cpu_sequence.text_of(
                tuple(cpu for _vcpu, cpu in cell.pins)),
            'emulator_cpus': cpu_sequence.text_of(cell.emulator_cpus),
            'page_size_kib': cell.page_size_kib})} for cell in fit.cells]


def _move(document: source.YamlDocument, value: _Json,
          place: int) -> plan_model.PlannedMove:
    path = 'moves', place
    if value['target'] == value['source']:
        raise document.error(
            f'{value["target"]} is the host that the guest is on',
            (*path, 'target'))
    for number, position in enumerate(value.get('after', ())):
        if position >= place:
            raise document.error(
                f'move {position} is not before this one, which is {place}',
                (*path, 'after', number))
    return plan_model.PlannedMove(
        guest=value['guest'], name=value.get('name', ''),
        flavor=value.get('flavor', ''), source=value['source'],
        target=value['target'],
        kind=plan_model.MigrationKind(value['kind']),
        vcpus=value['vcpus'], memory_mib=value['memory_mib'],
        disk_gib=value.get('disk_gib', 0),
        source_fit=_fit(document, value, (*path, 'source_fit')),
        target_fit=_fit(document, value, (*path, 'target_fit')),
        seconds=(float(value['seconds']) if 'seconds' in value else None),
        is_parking=value.get('is_parking', False),
        cold_reason=value.get('cold_reason', ''),
        after=tuple(value.get('after', ())))


def _fit(document: source.YamlDocument, value: _Json,
         path: source.Path) -> model.Fit | None:
    cells: Sequence[_Json] = value.get(str(path[-1]), ())
    return model.Fit(tuple(
        _cell_fit(document, cell, (*path, number))
        for number, cell in enumerate(cells))) if cells else None


def _cell_fit(document: source.YamlDocument, value: _Json,
              path: source.Path) -> model.CellFit:
    sequences = {}
    for key in ('vcpus', 'cpus', 'emulator_cpus'):
        try:
            sequences[key] = (
                cpu_sequence.parse(value[key]) if key in value else ())
        except ValueError as error:
            raise document.error(str(error), (*path, key)) from None
    vcpus, cpus = sequences['vcpus'], sequences['cpus']
    if len(vcpus) != len(cpus):
        raise document.error(
            f'has {len(cpus)} CPUs for {len(vcpus)} vCPUs', (*path, 'cpus'))
    return model.CellFit(
        host_cell=value['cell'], pins=tuple(zip(vcpus, cpus)),
        emulator_cpus=sequences['emulator_cpus'],
        page_size_kib=value.get('page_size_kib'))


def _check_order(document: source.YamlDocument,
                 moves: Sequence[plan_model.PlannedMove]) -> None:
    """Make sure that the moves of a guest lead from host to host.

    :raises errors.InputError: if they do not
    """
    last: dict[str, int] = {}
    for number, move in enumerate(moves):
        before = last.get(move.guest)
        if before is not None and moves[before].target != move.source:
            raise document.error(
                f'{move.source} is not where the guest is: move {before} '
                f'brings it to {moves[before].target}',
                ('moves', number, 'source'))
        last[move.guest] = number
    for number, move in enumerate(moves):
        if move.is_parking and last[move.guest] == number:
            raise document.error(
                'the guest does not move on later',
                ('moves', number, 'is_parking'))
