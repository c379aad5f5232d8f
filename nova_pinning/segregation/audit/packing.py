# SPDX-License-Identifier: Apache-2.0
"""S7xx: hosts that take NUMA cells in another order than is expected.

nova sorts a host's cells by ``[compute]
packing_host_numa_cells_allocation_strategy``, nova-scheduler by its own
nova.conf and nova-compute by that of its host. Where these differ, an
aggregate can say what the hosts have.
"""

from nova_pinning.checks import check_rule
from nova_pinning.placement import placement_traits
from nova_pinning.segregation.audit import audited
from nova_pinning.segregation.audit import commands
from nova_pinning.segregation import segregation_model

_OPTION = 'packing_host_numa_cells_allocation_strategy'


def _word(packs_cells: bool) -> str:
    return str(packs_cells).lower()


def _said(host: segregation_model.MarkedHost) -> dict[bool, list[str]]:
    """The names of a host's aggregates by what they say."""
    by_packing: dict[bool, list[str]] = {}
    for aggregate in host.aggregates:
        packs_cells = placement_traits.parse_packing(
            aggregate.metadata.get(placement_traits.PACKING_KEY, ''))
        if packs_cells is not None:
            by_packing.setdefault(packs_cells, []).append(aggregate.name)
    return by_packing


@check_rule.rule(
    'S701', check_rule.Severity.WARNING,
    'aggregate whose order of NUMA cells is not a boolean',
    why='nova-scheduler passes over it and goes by its own option, which need '
        'not be that of the hosts',
    advice='set it to true or false, as in the nova.conf of the hosts, or '
           'take it out')
def no_boolean(view: audited.AuditedCloud) -> check_rule.Violations:
    for aggregate in view.aggregates:
        text = aggregate.metadata.get(placement_traits.PACKING_KEY)
        if text is not None and placement_traits.parse_packing(text) is None:
            yield audited.violation(
                aggregate, f'{placement_traits.PACKING_KEY} is {text!r}',
                (_correction(view, aggregate),))


def _correction(view: audited.AuditedCloud,
                aggregate: segregation_model.HostAggregate) -> str:
    """What the hosts' files all say, or else nothing, as it is now."""
    packings = {description.nova.packs_cells
                for name, description in view.settings.descriptions.items()
                if name in aggregate.hosts} - {None}
    if len(packings) == 1:
        return commands.set_property(
            aggregate, placement_traits.PACKING_KEY,
            _word(bool(packings.pop())))
    return commands.set_property(aggregate, placement_traits.PACKING_KEY,
                                 None)


@check_rule.rule(
    'S702', check_rule.Severity.WARNING,
    'host whose aggregates disagree on the order of NUMA cells',
    why='nova-scheduler cannot tell which of them is right and goes by its '
        'own option, which need not be that of the host',
    advice='take the one that is wrong out of its aggregate, or the host out '
           'of that')
def aggregates_disagree(view: audited.AuditedCloud) -> check_rule.Violations:
    for host in view.hosts:
        said = _said(host)
        if len(said) > 1:
            told = ', '.join(f'{_word(packs_cells)} by {", ".join(names)}'
                             for packs_cells, names in sorted(said.items()))
            yield audited.violation(
                host, f'{placement_traits.PACKING_KEY} is {told}')


@check_rule.rule(
    'S703', check_rule.Severity.WARNING,
    'host that takes NUMA cells in another order than nova-scheduler expects',
    why='a guest that fits by the one order may be refused by the other: its '
        'claim on the host fails, and nova tries another host, if there is '
        'one',
    advice='give the host the setting that the others have, and restart '
           'nova-compute; or have an aggregate say what the host has')
def not_as_expected(view: audited.AuditedCloud) -> check_rule.Violations:
    for host in view.hosts:
        description = view.settings.descriptions.get(host.name)
        has = description.nova.packs_cells if description else None
        if has is None:
            continue
        said = _said(host)
        if len(said) == 1:
            [(expected, names)] = said.items()
            source = f'aggregate {", ".join(names)}'
        elif view.settings.scheduler.packs_cells is not None:
            expected = view.settings.scheduler.packs_cells
            source = "nova-scheduler's nova.conf"
        else:
            continue
        if has != expected:
            yield audited.violation(
                host, f'{_OPTION} is {_word(has)} by its host file, '
                f'{_word(expected)} by {source}')
