# SPDX-License-Identifier: Apache-2.0
"""P61x: ways of L3 caches, and memory bandwidth."""

from collections.abc import Mapping

from nova_pinning.checks import check_rule
from nova_pinning.checks.check_rule import Severity
from nova_pinning import fit
from nova_pinning.flavors.checks import checked
from nova_pinning.flavors import flavor_model
from nova_pinning import model
from nova_pinning.placement import cache_resources

_KEYS = (flavor_model.L3_WAYS_KEY, flavor_model.BANDWIDTH_KEY)


def _ways(subject: checked.CheckedFlavor) -> int:
    """Of each cache; 0 for none, or what nova refuses."""
    return subject.number(flavor_model.L3_WAYS_KEY)


def _has_limit(subject: checked.CheckedFlavor) -> bool:
    return flavor_model.BANDWIDTH_KEY in subject.specs


def _needs(subject: checked.CheckedFlavor) -> tuple[
        Mapping[str, int], frozenset[str]]:
    return cache_resources.request(
        _ways(subject), _has_limit(subject), max(1, len(subject.cells)))


@check_rule.rule(
    'P610', Severity.ERROR, 'more cache ways than any host has',
    why='no L3 cache of the hosts has so many ways for one guest: Placement '
        'finds no host, and where it is not asked the guest runs without',
    advice='ask for fewer, or spread the guest over more NUMA cells, each of '
           'which has the ways of a cache of its own')
def too_many_ways(subject: checked.CheckedFlavor) -> check_rule.Violations:
    ways = _ways(subject)
    if not ways or not subject.hosts:
        return
    most = max((host.caches.ways if host.caches else 0)
               for host in subject.hosts)
    if ways > most:
        yield subject.violation(
            f'{ways} ways of each L3 cache, but no cache of the hosts given '
            f'has more than {most} for one guest', _KEYS[:1])


@check_rule.rule(
    'P611', Severity.ERROR, 'memory bandwidth that no host can limit',
    why='the hosts have no memory bandwidth allocation, or resctrl was not '
        'mounted when they were discovered: Placement finds no host, and '
        'where it is not asked the guest runs without a limit',
    advice='leave it out, or get hosts that can')
def no_bandwidth(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if _has_limit(subject) and subject.hosts and not any(
            host.caches and host.caches.has_bandwidth
            for host in subject.hosts):
        yield subject.violation(
            'none of the hosts given can limit memory bandwidth', _KEYS[1:])


@check_rule.rule(
    'P612', Severity.WARNING, 'cache ways that Placement does not count',
    why='the scheduler sends guests to hosts that have no ways or groups '
        'left, or none at all, where they run without',
    advice='have Placement count them: with provider.yaml as "nova-pinning '
           'host show -f provider-config" writes it, and the extra specs that '
           'the message names',
    in_catalogue='write l3_ways and memory_bandwidth, of which these are '
                 'made')
def not_counted(subject: checked.CheckedFlavor) -> check_rule.Violations:
    amounts, required = _needs(subject)
    missing = [f'resources:{name}={amount}'
               for name, amount in amounts.items()
               if subject.asked(name) < amount]
    missing += [f'trait:{trait}=required'
                for trait in sorted(required - subject.traits('required'))]
    if missing:
        yield subject.violation(
            f'it should have {", ".join(missing)} as well', _KEYS)


@check_rule.rule(
    'P613', Severity.WARNING, 'cache ways for a guest that floats',
    why='a guest without vCPUs of its own shares them with others, and the '
        'cache they warm up with them; its ways are set aside even while it '
        'runs in another cache',
    advice='pin the vCPUs, or leave the ways out')
def floating_ways(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if _ways(subject) and not subject.is_pinned:
        yield subject.violation(
            f'{_ways(subject)} ways of each L3 cache, but no vCPU is pinned',
            _KEYS[:1])


@check_rule.rule(
    'P614', Severity.WARNING, 'guest in more L3 caches than are counted',
    why='it takes ways in each cache that it runs on, of which Placement '
        'counts one for each NUMA cell, and nova gives out the cores of a '
        'host cell in an order that does not follow its caches: a host may '
        'run out of ways sooner than Placement thinks, and the last guests '
        'run without',
    advice='give the guest as many NUMA cells as it takes caches, where the '
           'hosts have a NUMA node for each cache, or ask for '
           'resources:CUSTOM_L3_WAYS for all of them')
def several_caches(subject: checked.CheckedFlavor) -> check_rule.Violations:
    ways, guest = _ways(subject), subject.guest
    if not ways or not subject.is_pinned or guest is None:
        return
    asked = subject.asked(cache_resources.L3_WAYS)
    for host in subject.candidates:
        resctrl = host.description.resctrl
        first = fit.fit_guest(host.host.engine, guest)
        if resctrl is None or isinstance(first, model.Refusal):
            continue
        pinned = {cpu for cell in first.cells for _vcpu, cpu in cell.pins}
        caches = sum(not pinned.isdisjoint(cpus)
                     for cpus in resctrl.domains.values())
        if caches > max(1, len(subject.cells)) and asked < ways * caches:
            yield subject.violation(
                f'nova pins it to {caches} L3 caches of {host.title}, even '
                f'of an empty one, where it takes {ways * caches} ways',
                _KEYS[:1])
