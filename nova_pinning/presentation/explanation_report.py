# SPDX-License-Identifier: Apache-2.0
"""An explanation, for machines (version 1) and for people."""

import collections
from collections.abc import Iterator
from collections.abc import Sequence
import itertools
from typing import Any

import rich.console
import rich.text

from nova_pinning.admission import device_room
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import l3_layout
from nova_pinning.admission import outcome
from nova_pinning.admission import scheduler_rules
from nova_pinning import cpuset
from nova_pinning.document import encoder
from nova_pinning.document import quantities
from nova_pinning.explain import explanation
from nova_pinning.explain import flavor_alternatives
from nova_pinning.explain import host_verdicts
from nova_pinning.explain import verdict_summary
from nova_pinning.fit import cell_check
from nova_pinning.flavors import listing
from nova_pinning.host import words
from nova_pinning import model
from nova_pinning.presentation import fit_text
from nova_pinning.presentation import fleet_host_picture
from nova_pinning.presentation import guest_drawing
from nova_pinning.presentation import host_structure
from nova_pinning.presentation import printing
from nova_pinning.presentation import terminal_drawing
from nova_pinning.presentation import typed_table

# Hosts that stand for many.
_EXAMPLES = 3
_STATUS_TRAIT = 'COMPUTE_STATUS_DISABLED'
_NO_STOCK = device_room.UsableDevices(None, '', 0, 0)


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
        'devices': [{
            'alias': one.alias, 'policy': one.policy, 'wanted': one.wanted,
            'free': one.free, 'total': one.total,
            'by_place': [stock._asdict() for stock in one.stocks],
        } for one in verdict.devices],
        'lacks_devices': verdict.lack and verdict.lack._asdict(),
        'fit': None, 'cells': [],
        'l3_caches': verdict.caches and verdict.caches.caches,
        'fewest_l3_caches': verdict.caches and verdict.caches.fewest}
    if isinstance(place, model.Refusal):
        told['fit'] = {
            'reason': str(place.reason),
            'message': str(place),
            'guest_cell': place.guest_cell,
            'shortages': list(map(encoder.encode, place.shortages))}
    else:
        told['cells'] = fit_text.as_list(place)
    return told


def _helps(remediation: explanation.Remediation) -> dict[str, Any]:
    return {
        'properties': list(map(_alternative, remediation.properties)),
        'smaller': list(map(_alternative, remediation.smaller)),
        'enable': [{'host': host.name, 'disabled_reason': host.disabled_reason}
                   for host in remediation.disabled],
        'lacks_room': list(remediation.lacks_room)}


def _alternative(
        alternative: flavor_alternatives.FlavorAlternative) -> dict[str, Any]:
    return {
        'text': alternative.text,
        'changes': dict(alternative.changes),
        'flavor': listing.as_dict(alternative.flavor),
        'hosts': list(alternative.hosts)}


def show(explanation: explanation.Explanation, console: rich.console.Console,
         remarks: Sequence[str] = (), lists_hosts: bool = False) -> None:
    """Print the sum, what Placement alone says, and what would help.

    :param remarks: what else is worth knowing
    :param lists_hosts: whether to print a line for each host, too
    """
    request = explanation.request
    printing.title(
        f'{request.name} ({request.vcpus} vCPUs, '
        f'{quantities.shown_memory(request.memory_mib)}, '
        f'{request.guest_class})', console)
    printing.say(f'{explanation.sentence}.', console, '  ')
    for remark in remarks:
        printing.say(f'Note: {remark}', console, '  ')
    _show_placement(explanation, console)
    if explanation.groups:
        printing.heading('Why not', console)
        typed_table.show(
            (typed_table.count('hosts'), 'cause', 'for example'),
            [(group.count, group.text, f'{first.host}: {first.figures}')
             for group in explanation.groups
             for first in group.verdicts[:1]], console)
    if lists_hosts:
        printing.heading('Hosts', console)
        typed_table.show(('host', 'verdict'), [
            (verdict.host, _fits(verdict) if verdict.fits
             else verdict.figures)
            for verdict in explanation.verdicts], console)
    if not explanation.fitting:
        printing.heading('What would make it fit, each tried', console)
        lines = list(_remediation(explanation.remediation))
        for line in lines or ('nothing that was tried',):
            printing.say(line, console, '  ')
        return
    _show_fitting(explanation, console)


def _show_fitting(explanation: explanation.Explanation,
                  console: rich.console.Console) -> None:
    fitting = [verdict for verdict in explanation.verdicts if verdict.fits]
    for certain, title in ((True, 'It fits'), (False, 'It may fit')):
        hosts = [verdict for verdict in fitting
                 if bool(verdict.doubts) is not certain]
        if not hosts:
            continue
        printing.heading(title, console)
        most = '' if certain else 'at most '
        printing.say(
            f'on {most}{_on([verdict.host for verdict in hosts])} of '
            f'{len(explanation.verdicts):,}', console, '  ')
        by_caches = collections.defaultdict[
            l3_layout.GuestCaches, list[str]](list)
        for verdict in hosts:
            if verdict.caches:
                by_caches[verdict.caches].append(verdict.host)
        if any(found.caches > found.fewest for found in by_caches):
            for found, names in sorted(by_caches.items()):
                printing.say(f'{_caches(found)}: {_on(names)}', console, '  ')
        if not certain:
            printing.say(f'for example {hosts[0].host}: {hosts[0].doubt}',
                         console, '  ')


def _fits(verdict: host_verdicts.HostVerdict) -> str:
    if verdict.doubts:
        return f'may fit: {verdict.doubt}'
    return f'fits, {_caches(verdict.caches)}' if verdict.caches else 'fits'


def _caches(found: l3_layout.GuestCaches) -> str:
    """'on 3 L3 caches where 1 would do'."""
    text = f'on {words.count(found.caches, "L3 cache")}'
    if found.caches > found.fewest:
        text += f' where {found.fewest} would do'
    return text


def _show_placement(explanation: explanation.Explanation,
                    console: rich.console.Console) -> None:
    printing.heading('Before the filters: Placement alone', console)
    for number, query in enumerate(explanation.request.queries):
        printing.say(('or for ' if number else 'is asked for ')
                     + _query_text(query), console, '  ')
    total = len(explanation.verdicts)
    printing.say(
        f'would exclude {explanation.excluded:,} of '
        f'{words.count(total, "host")}' +
        (': ' if explanation.placement_groups else '') +
        ', '.join(f'{placement_group.count:,} {placement_group.text}'
                  for placement_group in explanation.placement_groups),
        console, '  ')
    for text, count in collections.Counter(
            doubt.text for verdict in explanation.verdicts
            for doubt in verdict.doubts).items():
        printing.say(
            f'Not known for {words.count(count, "host")}: {text}',
            console, '  ')


def _query_text(query: guest_request.CandidatesQuery) -> str:
    parts = [', '.join(f'{name} {amount:,}' for name, amount
                       in sorted(query.resources.items()))]
    if query.required:
        parts.append('traits ' + ', '.join(sorted(query.required)))
    forbidden = query.forbidden - {_STATUS_TRAIT}
    if forbidden:
        parts.append('not ' + ', '.join(sorted(forbidden)))
    return '; '.join(parts)


def _remediation(remediation: explanation.Remediation) -> Iterator[str]:
    for alternative in (*remediation.properties, *remediation.smaller):
        yield f'- {alternative.text}: fits on {_on(alternative.hosts)}'
    for host in remediation.disabled[:_EXAMPLES]:
        reason = f' ({host.disabled_reason})' if host.disabled_reason else ''
        yield f'- enable host {host.name}, which is disabled{reason}'
    if len(remediation.disabled) > _EXAMPLES:
        yield (f'- or one of {len(remediation.disabled) - _EXAMPLES:,} more '
               'disabled hosts')
    if remediation.lacks_room:
        count = len(remediation.lacks_room)
        yield (f'- {words.count(count, "host")} '
               f'{"lacks" if count == 1 else "lack"} '
               'nothing but room: which moves of guests make it, if any do, '
               'says nova-pinning rebalance plan FLEET --for FLAVOR')


def _on(hosts: Sequence[str]) -> str:
    """'2 hosts (a, b)'."""
    names = ', '.join(hosts[:_EXAMPLES])
    more = ', ...' if len(hosts) > _EXAMPLES else ''
    return f'{words.count(len(hosts), "host")} ({names}{more})'


def show_host(verdict: host_verdicts.HostVerdict,
              occupancy: host_occupancy.HostOccupancy,
              request: guest_request.GuestRequest,
              console: rich.console.Console,
              rules: scheduler_rules.SchedulerRules) -> None:
    """Print what each layer says of one host, and its cells.

    :param rules: what nova-scheduler is set to
    """
    host = occupancy.host
    printing.heading(f'Host {host.name}, layer by layer', console)
    printing.pairs(_layers(verdict, occupancy, rules), console)
    if isinstance(verdict.fit, model.Fit) and (
            verdict.fit.cells or request.topology is None):
        for line in fit_text.lines(verdict.fit):
            printing.say(line, console, '    ')
    if verdict.devices:
        printing.heading('Its devices, free of all', console)
        typed_table.show(
            ('alias', 'wanted', 'free', 'node', 'traits'),
            [(one.alias or 'of ports', f'{one.wanted} ({one.policy})',
              f'{stock.free} of {stock.total}',
              '' if stock.numa_node is None else str(stock.numa_node),
              stock.traits.replace(',', ' '))
             for one in verdict.devices
             for stock in one.stocks or (_NO_STOCK,)], console)
    if not host.cells:
        return
    guests = words.count(len(occupancy.guests), 'guest')
    printing.heading(f'Its cells, with {guests}', console)
    guest_cell = 0
    if isinstance(verdict.fit, model.Refusal):
        guest_cell = verdict.fit.guest_cell or 0
    typed_table.show(
        ('cell', 'free CPUs', 'whole cores', 'free memory', 'free pages',
         f'lacks for guest cell {guest_cell}' if guest_cell else 'lacks'),
        [_cell(cell, occupancy, request, guest_cell)
         for cell in occupancy.engine.cells], console)
    console.print()
    terminal_drawing.show(
        guest_drawing.draw(
            fleet_host_picture.fleet_host_description(host),
            cpuset.union(
                cpuset.CpuSet(cell.pinned_cpus)
                for cell in occupancy.engine.cells),
            fleet_host_picture.guest_placement(request, verdict.fit)),
        console)


def _layers(
    verdict: host_verdicts.HostVerdict,
    occupancy: host_occupancy.HostOccupancy,
    rules: scheduler_rules.SchedulerRules,
) -> Iterator[tuple[str, str]]:
    host = occupancy.host
    yield 'the host', 'is enabled' if host.is_enabled else (
        'is disabled' + (f': {host.disabled_reason}'
                         if host.disabled_reason else ''))
    yield 'Placement', 'offers it' if not verdict.by_placement else (
        'excludes it: ' + '; '.join(
            refusal.text for refusal in verdict.by_placement))
    for name, refusals in itertools.groupby(
            (refusal for refusal in verdict.refusals
             if refusal.layer is outcome.RefusalLayer.FILTER),
            lambda refusal: refusal.name):
        yield name, 'refuses it: ' + '; '.join(
            refusal.text for refusal in refusals)
    yield 'HostClassFilter', (
        'is not enabled' if not rules.keeps_classes
        else f'refuses it: {verdict.class_refusal}'
        if verdict.class_refusal
        else 'passes it' if host.known_class is not None
        else "passes it: nothing indicates the host's class"
        if host.is_opaque
        else "passes it: nothing but its guests indicates the host's class")
    yield 'PinnedTopologyFilter', (
        f'refuses it: {verdict.lack.text if verdict.lack else verdict.fit}'
        if isinstance(verdict.fit, model.Refusal)
        else f'may pass it: {verdict.doubt}' if verdict.doubts
        else f'passes it, {_caches(verdict.caches)}' if verdict.caches
        else 'passes it')


def _cell(cell: model.CellView, occupancy: host_occupancy.HostOccupancy,
          request: guest_request.GuestRequest,
          guest_cell: int) -> tuple[str, ...]:
    """A row of the table of cells.

    :param guest_cell: the guest cell that it is compared with
    """
    assert isinstance(cell, model.HostCell)
    free = cell.free_cpus
    whole = sum(len(core) == size and size > 0 for core, size
                in zip(cell.free_cores, cell.core_sizes))
    lacks = ''
    guest = request.topology
    if guest is not None:
        shortage = cell_check.shortage(
            cell, occupancy.engine, guest, guest.demands[guest_cell])
        lacks = 'nothing' if shortage is None else str(
            shortage).removeprefix(f'cell {cell.id} has ')
    return (
        str(cell.id),
        f'{len(free)} of {cell.dedicated_count}'
        + (f': {free}' if free else ''),
        str(whole),
        quantities.shown_memory(
            max(0, cell.memory_mib - cell.memory_used_mib)),
        ', '.join(
            f'{pool.total - pool.used - pool.reserved:,} of '
            f'{quantities.shown_page_size(pool.size_kib)}'
            for pool in host_structure.huge_pools(cell)),
        lacks)
