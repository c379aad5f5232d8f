#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""An explanation for machines, version 1."""

from collections.abc import Sequence
from typing import Any

from nova_pinning.flavors import listing
from nova_pinning.fleet.explain import explanation
from nova_pinning.fleet.explain import judge
from nova_pinning.fleet.explain import moves
from nova_pinning.fleet.explain import sums
from nova_pinning.fleet.explain import ways
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning import model
from nova_pinning.reports import fits


def as_dict(found: explanation.Explanation,
            remarks: Sequence[str] = ()) -> dict[str, Any]:
    """All of it; lists are in the order of the fleet, or cheapest first.

    :param remarks: what else is worth knowing
    """
    wanted = found.wanted
    return {
        'version': 1,
        'flavor': listing.as_dict(wanted.flavor),
        'guest_class': str(wanted.guest_class),
        'summary': found.sentence,
        'remarks': list(remarks),
        'hosts_asked': len(found.verdicts),
        'hosts_fitting': len(found.fitting),
        'causes': [_group(one) for one in found.groups],
        'placement': {
            'queries': [_query(one) for one in wanted.queries],
            'hosts_excluded': found.excluded,
            'excluded_for': [{
                'kind': str(one.kind), 'name': one.name, 'count': one.count,
            } for one in found.placement_groups],
        },
        'helps': _helps(found.helps),
        'hosts': [_verdict(one) for one in found.verdicts],
    }


def _group(group: sums.Group) -> dict[str, Any]:
    return {
        'layer': str(group.cause.layer), 'reason': group.cause.name,
        'about': group.cause.about, 'text': group.text,
        'count': group.count,
        'hosts': [one.host for one in group.verdicts]}


def _query(query: fleet_wanted.Query) -> dict[str, Any]:
    return {'resources': dict(query.resources),
            'required': sorted(query.required),
            'forbidden': sorted(query.forbidden)}


def _verdict(verdict: judge.Verdict) -> dict[str, Any]:
    outcome = verdict.outcome
    cause = verdict.cause
    told: dict[str, Any] = {
        'name': verdict.host,
        'fits': verdict.fits,
        'layer': str(cause.layer) if cause else None,
        'message': verdict.figures or None,
        'is_enabled': verdict.is_enabled,
        'placement': [str(one) for one in verdict.exclusions],
        'unknown_traits': sorted(verdict.unknown_traits),
        'class': None if verdict.class_refusal is None else str(
            verdict.class_refusal),
        'fit': None, 'cells': [],
    }
    if isinstance(outcome, model.Refusal):
        told['fit'] = {
            'reason': str(outcome.reason), 'message': str(outcome),
            'guest_cell': outcome.guest_cell,
            'shortages': [{
                'host_cell': one.host_cell, 'reason': str(one.reason),
                'need': one.need, 'have': one.have,
            } for one in outcome.shortages]}
    else:
        told['cells'] = fits.as_list(outcome)
    return told


def _helps(helps: explanation.Helps) -> dict[str, Any]:
    return {
        'properties': [_way(one) for one in helps.properties],
        'smaller': [_way(one) for one in helps.smaller],
        'enable': [{'host': one.name, 'disabled_reason': one.disabled_reason}
                   for one in helps.disabled],
        'move_one': _clearings(helps.single),
        'move_two': _clearings(helps.pairs),
    }


def _way(way: ways.Way) -> dict[str, Any]:
    flavor = way.wanted.flavor
    return {'text': way.text, 'changes': dict(way.changes),
            'flavor': listing.as_dict(flavor), 'hosts': list(way.hosts)}


def _clearings(found: moves.Clearings) -> dict[str, Any]:
    return {
        'hosts': list(found.hosts),
        'examples': [{
            'host': one.host,
            'moves': [{
                'uuid': move.guest.uuid, 'name': move.guest.name,
                'flavor': move.guest.flavor, 'vcpus': move.guest.vcpus,
                'memory_mib': move.guest.memory_mib, 'to': move.target,
            } for move in one.moves],
        } for one in found.shown]}
