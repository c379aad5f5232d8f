# SPDX-License-Identifier: Apache-2.0
"""A plan of moves for the page's document."""

from typing import Any

from nova_pinning.document import cpu_sequence
from nova_pinning import model
from nova_pinning.presentation import moves_drawing
from nova_pinning.presentation import rebalance_report
from nova_pinning.rebalance import plan_model
from nova_pinning import spelling


def as_dict(plan: plan_model.RebalancePlan) -> dict[str, Any]:
    """A plan: what is said of it, whom it moves, and the moves."""
    steps = rebalance_report.steps(plan)
    return {
        'title': rebalance_report.title(plan),
        'remarks': list(rebalance_report.remarks(plan)),
        'stuck': [[_text(stuck.name or stuck.guest), _text(stuck.host),
                   _text(stuck.reason)] for stuck in plan.stuck],
        'letters': [[guest.guest, guest.letter] for guest
                    in moves_drawing.moved_guests(plan)],
        'moves': [{
            'guest': move.guest, 'name': _text(move.name or move.guest),
            'flavor': _text(move.flavor), 'vcpus': move.vcpus,
            'memory_mib': move.memory_mib,
            'source': _text(move.source), 'target': _text(move.target),
            'kind': str(move.kind), 'parking': move.is_parking,
            'cold_reason': _text(move.cold_reason), 'step': step,
            'seconds': move.seconds, 'to': _placed(move.target_fit),
        } for move, step in zip(plan.moves, steps)]}


def _placed(fit: model.Fit | None) -> list[list[Any]]:
    """As ``page_hosts.placed``, as far as a plan tells."""
    return [] if fit is None else [
        [cell.host_cell,
         cpu_sequence.text_of(tuple(cpu for _vcpu, cpu in sorted(cell.pins))),
         cpu_sequence.text_of(tuple(vcpu for vcpu, _cpu in sorted(cell.pins))),
         cpu_sequence.text_of(cell.emulator_cpus), 0] for cell in fit.cells]


def _text(text: str) -> str:
    return spelling.printable(text)
