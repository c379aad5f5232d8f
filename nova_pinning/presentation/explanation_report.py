# SPDX-License-Identifier: Apache-2.0
"""An explanation for machines, version 1."""

from collections.abc import Sequence
from typing import Any

from nova_pinning.admission import guest_request
from nova_pinning.admission import outcome
from nova_pinning.explain import explanation
from nova_pinning.explain import flavor_alternatives
from nova_pinning.explain import host_verdicts
from nova_pinning.explain import moves
from nova_pinning.explain import verdict_summary
from nova_pinning.flavors import listing
from nova_pinning import model
from nova_pinning.presentation import fit_text


def as_dict(explanation: explanation.Explanation,
            remarks: Sequence[str] = ()) -> dict[str, Any]:
    """All of it; lists are in the order of the fleet, or cheapest first.

    :param remarks: what else is worth knowing
    """
    request = explanation.request
    return {
        'version': 1,
        'flavor': listing.as_dict(explanation.flavor),
        'guest_class': str(request.guest_class),
        'summary': explanation.sentence,
        'remarks': list(remarks),
        'hosts_asked': len(explanation.verdicts),
        'hosts_fitting': len(explanation.fitting),
        'is_certain': explanation.is_certain,
        'causes': [_group(group) for group in explanation.groups],
        'placement': {
            'queries': [_query(query) for query in request.queries],
            'hosts_excluded': explanation.excluded,
            'excluded_for': [{
                'kind': str(placement_group.kind),
                'name': placement_group.name,
                'count': placement_group.count,
            } for placement_group in explanation.placement_groups]},
        'helps': _helps(explanation.remediation),
        'hosts': list(map(verdict_as_dict, explanation.verdicts))}


def _group(group: verdict_summary.RefusalGroup) -> dict[str, Any]:
    return {
        'layer': str(group.cause.rank), 'reason': group.cause.name,
        'about': group.cause.about, 'text': group.text,
        'count': group.count,
        'hosts': [verdict.host for verdict in group.verdicts]}


def _query(query: guest_request.CandidatesQuery) -> dict[str, Any]:
    return {'resources': dict(query.resources),
            'required': sorted(query.required),
            'forbidden': sorted(query.forbidden)}


def verdict_as_dict(verdict: host_verdicts.HostVerdict) -> dict[str, Any]:
    """What is said of one host."""
    place = verdict.fit
    cause = verdict.cause
    told: dict[str, Any] = {
        'name': verdict.host,
        'fits': verdict.fits,
        'gaps': [{'kind': str(gap.kind), 'text': gap.text}
                 for gap in verdict.doubts],
        'layer': str(cause.rank) if cause else None,
        'message': verdict.figures or None,
        'is_enabled': verdict.is_enabled,
        'placement': [refusal.text for refusal in verdict.by_placement],
        'filters': {refusal.name: refusal.text for refusal in verdict.refusals
                    if refusal.layer is outcome.RefusalLayer.FILTER},
        'unknown_traits': sorted(
            doubt.about for doubt in verdict.doubts
            if doubt.kind is outcome.DoubtKind.TRAITS),
        'class': verdict.class_refusal or None,
        'fit': None, 'cells': []}
    if isinstance(place, model.Refusal):
        told['fit'] = {
            'reason': str(place.reason),
            'message': str(place),
            'guest_cell': place.guest_cell,
            'shortages': [{
                'host_cell': shortage.host_cell,
                'reason': str(shortage.reason),
                'need': shortage.need,
                'have': shortage.have} for shortage in place.shortages]}
    else:
        told['cells'] = fit_text.as_list(place)
    return told


def _helps(remediation: explanation.Remediation) -> dict[str, Any]:
    return {
        'properties': list(map(_alternative, remediation.properties)),
        'smaller': list(map(_alternative, remediation.smaller)),
        'enable': [{'host': host.name, 'disabled_reason': host.disabled_reason}
                   for host in remediation.disabled],
        'move_one': _clearings(remediation.single),
        'move_two': _clearings(remediation.pairs)}


def _alternative(
        alternative: flavor_alternatives.FlavorAlternative) -> dict[str, Any]:
    return {
        'text': alternative.text,
        'changes': dict(alternative.changes),
        'flavor': listing.as_dict(alternative.flavor),
        'hosts': list(alternative.hosts)}


def _clearings(clearings: moves.HostClearings) -> dict[str, Any]:
    return {
        'hosts': list(clearings.hosts),
        'examples': [{
            'host': clearing.host,
            'moves': [{
                'uuid': move.guest.uuid, 'name': move.guest.name,
                'flavor': move.guest.flavor, 'vcpus': move.guest.vcpus,
                'memory_mib': move.guest.memory_mib, 'to': move.target,
                'defects': [hit.as_dict() for hit in move.defects],
            } for move in clearing.moves],
        } for clearing in clearings.shown]}
