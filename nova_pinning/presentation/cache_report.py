# SPDX-License-Identifier: Apache-2.0
"""On how many L3 caches the guests of a plan will lie, and what to set."""

from collections.abc import Iterator
import dataclasses

import rich.console

from nova_pinning.admission import l3_layout
from nova_pinning.host import host_model
from nova_pinning.host import plan_model
from nova_pinning.host import words
from nova_pinning.presentation import printing
from nova_pinning.presentation import typed_table
from nova_pinning.simulation import cache_forecast


def noted(planned: host_model.HostDescription,
          study: cache_forecast.CacheStudy) -> host_model.HostDescription:
    """The host, with what was found among the reasons of its plan.

    And among its warnings, if something is to be changed.
    """
    plan = planned.plan
    assert plan is not None
    found = study.forecasts[0]
    by_size = words.listed([
        f'of {words.count(size.size.vcpus, "vCPU")} on {size.empty.caches} '
        f'and {_mean(size.full)} (fewest: {size.empty.fewest})'
        for size in found.sizes])
    reason = plan_model.PlanReason(
        'l3_caches', 'guests lie on so many L3 caches of an empty host, and '
        f'of one that is 90% sold (simulated): {by_size}')
    return dataclasses.replace(planned, plan=dataclasses.replace(
        plan, reasons=(*(
            other for other in plan.reasons
            if other.subject != reason.subject), reason),
        warnings=(*plan.warnings, *_warnings(study))))


def _warnings(
    study: cache_forecast.CacheStudy,
) -> Iterator[plan_model.PlanWarning]:
    found, best = study.forecasts[0], study.proposed
    if found.is_good or not found.full.guests:
        return
    message = (
        f'of the guests on hosts that are 90% sold {found.on_fewest:.0%} lie '
        f'on the fewest L3 caches, all together on {found.ratio:.2f} times '
        'as many')
    advice = (
        f'{best.setting.change}: then it is {best.on_fewest:.0%}, and '
        f'{best.ratio:.2f} times; {best.sold:.1%} of the CPUs are sold '
        f'instead of {found.sold:.1%}, {best.sold_by_nova:.1%} with the '
        'weighers that nova has by default'
    ) if best is not found else (
        'no setting has them on fewer and sells '
        f'{cache_forecast.LEAST_SOLD:.0%} of as much')
    apart = [f'hw:numa_nodes={size.size.cells} of '
             f'{words.count(size.size.vcpus, "vCPU")}'
             for size in best.sizes if size.size.cells > 1]
    if apart and best is not found:
        advice += f'; flavors need {words.listed(apart)}'
    if best.setting.nodes_per_socket != 0:
        advice += '; discover and plan the host again after that'
    yield plan_model.PlanWarning('l3-scattered', message, advice)


def show(study: cache_forecast.CacheStudy,
         console: rich.console.Console) -> None:
    """Show what comes of each setting."""
    found = study.forecasts
    share = typed_table.ColumnKind.SHARE
    printing.heading('L3 caches', console)
    typed_table.show(
        ('', 'NUMA nodes', *map(typed_table.count, ('Cells', 'Guests')),
         typed_table.Column(title='On fewest', kind=share),
         typed_table.count('Caches'),
         typed_table.Column(title='Sold', kind=share),
         typed_table.Column(title="Nova's", kind=share)),
        [(f'{number}.', forecast.setting.name, forecast.host_cells,
          forecast.guests, forecast.on_fewest, _mean(forecast.full),
          forecast.sold, forecast.sold_by_nova)
         for number, forecast in enumerate(found, 1)], console)
    console.print()
    typed_table.show(
        ('vCPUs', typed_table.count('Fewest'),
         *(f'{number}.' for number in range(1, len(found) + 1))),
        [(str(sizes[0].size.vcpus), sizes[0].empty.fewest, *(
            _caches(size) + (f' x{size.size.cells}'
                             if size.size.cells > 1 else '')
            for size in sizes))
         for sizes in zip(*(forecast.sizes for forecast in found))], console)
    console.print()
    printing.say(' '.join(_legend(study)), console)


def _legend(study: cache_forecast.CacheStudy) -> Iterator[str]:
    yield (
        'Guests: of the mix, on an empty host. On fewest, Caches: guests on '
        'as few L3 caches as have their vCPUs, and L3 caches a guest, on '
        'hosts that are 90% sold (simulated). Sold: dedicated CPUs when 1% of '
        "the guests were refused; Nova's: with the weighers that nova has by "
        'default. By size: caches on an empty host / on one that is 90% sold; '
        'x2: in 2 cells (hw:numa_nodes). NPS4: 4 NUMA nodes a socket. L3: one '
        "for each L3 cache. spread: without nova's packing strategy. in "
        'order: with cores-in-order.patch.')
    if len(study.forecasts) == 1:
        yield 'No NUMA node has several L3 caches: there is nothing to set.'
    for name, message in study.impossible.items():
        yield f'{name}: {message}.'
    for number, forecast in enumerate(study.forecasts, 1):
        if forecast.slow_claims:
            yield (f'{number}.: on the hosts that were left for '
                   f'{forecast.slow_claims:.1%} of the guests nova-compute '
                   'looks for cells longer than [pinning] '
                   'nova_claim_max_seconds, at worst for '
                   f'{words.span(forecast.worst_claim_seconds)}'
                   + (': not for this mix.' if forecast.hangs else '.'))
    yield f'Proposed: {study.forecasts.index(study.proposed) + 1}.'


def _caches(size: cache_forecast.SizeCaches) -> str:
    """'2 / 3.27': on an empty host, and on full ones."""
    return f'{size.empty.caches} / {_mean(size.full)}'


def _mean(caches: l3_layout.CacheSum) -> str:
    return f'{caches.caches / caches.guests:.2f}' if caches.guests else '-'
