# SPDX-License-Identifier: Apache-2.0
"""Why Placement has no allocation candidate of a host, with figures."""

from collections.abc import Iterable
from collections.abc import Iterator

from nova_pinning.admission import guest_request
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import providers

_RESOURCES = 'resources'
_REQUIRED = 'required-trait'
_FORBIDDEN = 'forbidden-trait'


def shortages(
    host: offered_host.OfferedHost, used: providers.Used,
    queries: Iterable[guest_request.CandidatesQuery],
) -> tuple[outcome.AdmissionRefusal, ...]:
    """Why a host answers none of the queries; () if it answers one, or may.

    :param queries: any of which will do
    :returns: what keeps it from the one that it comes closest to
    """
    return min((_of_query(host, used, query) for query in queries),
               key=len, default=())


def _of_query(
    host: offered_host.OfferedHost, used: providers.Used,
    query: guest_request.CandidatesQuery,
) -> tuple[outcome.AdmissionRefusal, ...]:
    try:
        if any(True for _ in providers.takeable(host, used, query)):
            return ()
        if any(True for _ in providers.candidates(host, used, query)):
            return (_refusal(
                _RESOURCES, '', 'its own provider would give nothing, and '
                'nova takes no host without'),)
    except providers.UnfinishedSearch:
        return ()
    if query.fault:
        return (_refusal(
            _RESOURCES, '', f'Placement refuses the query: {query.fault}'),)
    search = providers.Search(host, used, query, supposes=True)
    return (*_too_little(search), *_trait_mismatches(search)) or (
        _refusal(_RESOURCES, *_not_together(search)),)


def _refusal(name: str, about: str, text: str) -> outcome.AdmissionRefusal:
    return outcome.AdmissionRefusal(
        outcome.RefusalLayer.PLACEMENT, name, about, text)


def _too_little(
    search: providers.Search,
) -> Iterator[outcome.AdmissionRefusal]:
    """The resource classes that its providers cannot give."""
    for name, need in search.query.resources.items():
        if not need or not providers.is_told(search.host, name):
            continue
        offers = [(has, has.left(search.used[index].get(name, 0)))
                  for index, has in search.host.offers.get(name, ())]
        have = sum(left for _has, left in offers)
        at_once = max((
            amount for part in search.parts
            for asked, amount in part.resources
            if asked == name and not search.giving(((name, amount),))),
            default=0)
        text = ''
        if have < need:
            total = sum(has.total for has, _left in offers)
            text = f'{have:,} {name} left of {total:,}, {need:,} needed'
        elif at_once > max(left for _has, left in offers):
            text = (f'no one provider has {at_once:,} {name} left, only all '
                    f'of them together have {have:,}')
        elif at_once:
            text = (f'{at_once:,} {name} needed at once, to be had '
                    + ' or '.join(sorted({
                        f'in steps of {has.step_size:,} from '
                        f'{has.min_unit:,} to {has.most:,}'
                        for has, _left in offers})))
        if text:
            yield _refusal(_RESOURCES, name, text)


def _trait_mismatches(
    search: providers.Search,
) -> Iterator[outcome.AdmissionRefusal]:
    """The traits that none of its providers has as it is asked for.

    Those count that offer what the traits are asked with, used or not.
    """
    query = search.query
    lacking = set(query.root_required - search.had[providers.ROOT])
    spoiling = set(query.root_forbidden & search.shown[providers.ROOT])
    for group in query.groups:
        offering = [search.offering(piece) for piece in (
            [group.asked] if group.suffix else
            [(resource,) for resource in group.asked])]
        had = frozenset[str]().union(*[
            search.had[index] for indices in offering for index in indices])
        if any(offering):
            lacking |= group.required - had
        for indices in filter(None, offering):
            spoiling |= group.forbidden.intersection(*[
                search.shown[index] for index in indices])
    for trait in sorted(lacking):
        yield _refusal(
            _REQUIRED, trait, f'has no trait {trait}, which is required')
    for trait in sorted(spoiling):
        yield _refusal(
            _FORBIDDEN, trait, f'has trait {trait}, which is forbidden')


def _not_together(search: providers.Search) -> tuple[str, str]:
    """What its providers cannot do though each can do some of it.

    :returns: a resource class, '' for none, and a clause
    """
    groups = {group.suffix: group for group in search.query.groups}
    for part in search.parts:
        if part.options:
            continue
        group = groups[part.suffix]
        wanted = [f'{amount:,} {name}' for name, amount in part.resources]
        if group.suffix:
            wanted += [f'trait {trait}' for trait in sorted(group.required)]
        wanted += [f'no trait {trait}' for trait in sorted(group.forbidden)]
        return next((name for name, _amount in part.resources), ''), (
            f'no one provider has all of {", ".join(wanted)} left')
    for part in search.parts:
        alike = [other for other in search.parts if other.suffix
                 and (other.resources, other.options) == (
                     part.resources, part.options)]
        for name, amount in part.resources if part.suffix else ():
            have = sum(search.left(index, name) for index in part.options)
            if have < amount * len(alike):
                traits = ' and '.join(sorted(groups[part.suffix].required))
                return name, (
                    f'{have:,} {name}{" with " * bool(traits)}{traits} left, '
                    f'{amount * len(alike):,} needed')
    conditions = [
        text for text, is_asked in (
            ('with all traits', bool(search.query.required)),
            ('from different providers',
             search.query.group_policy == 'isolate'),
            ('below one of them', bool(search.query.same_subtree)))
        if is_asked]
    return '', ', '.join((
        'its providers have enough left for each part of the request, but not '
        'for all of it together', *conditions))
