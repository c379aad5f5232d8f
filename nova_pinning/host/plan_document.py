# SPDX-License-Identifier: Apache-2.0
"""The section of a host file that holds a plan.

host-1.json has its schema; doc/source/reference/host-files.rst describes it.
"""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.host import plan_model

#: A value's path below the section.
Path = tuple[str | int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ValueReaders:
    """How values are read that a schema cannot check to the end.

    Each keeps note of an error by the path, and gives something in its place.
    """

    cpus: Callable[[str | int, Path], cpuset.CpuSet]
    memory_mib: Callable[[str | int, Path], int]
    page_size_kib: Callable[[str | int, Path], int]


def read(value: Mapping[str, Any],
         readers: ValueReaders) -> plan_model.HostPlan:
    """The plan of a section that the schema has found good."""

    def cpus(key: str) -> cpuset.CpuSet:
        return readers.cpus(value[key], (key,)) if key in value else none

    none = cpuset.CpuSet()
    return plan_model.HostPlan(
        purpose=plan_model.Purpose(value['class']),
        host_cpus=cpus('host_cpus'),
        poll_cpus=cpus('poll_cpus'),
        sizes=tuple(
            plan_model.GuestSize(**size) for size in value.get('sizes', ())),
        page_size_kib=(readers.page_size_kib(value['page_size'],
                                             ('page_size', ))
                       if 'page_size' in value else 0),
        memory_kept_mib={
            int(node): readers.memory_mib(amount, ('memory_kept', node))
            for node, amount in value.get('memory_kept', {}).items()},
        poll_pages=_by_number(value.get('poll_pages', {})),
        offer=_offer(value['offer']),
        interrupts=tuple(
            plan_model.Interrupts(
                device['address'].lower(), device['name'],
                readers.cpus(device['cpus'], ('interrupts', index, 'cpus')))
            for index, device in enumerate(value.get('interrupts', ()))),
        levers={name: str(text)
                for name, text in value.get('levers', {}).items()},
        reasons=tuple(
            plan_model.PlanReason(**reason)
            for reason in value.get('reasons', ())),
        warnings=tuple(
            plan_model.PlanWarning(**warning)
            for warning in value.get('warnings', ())),
        alternatives=tuple(
            _alternative(choice, ('alternatives', index), readers)
            for index, choice in enumerate(value.get('alternatives', ()))),
        choice=value.get('choice', 1))


def write(plan: plan_model.HostPlan) -> dict[str, Any]:
    """What :func:`read` reads; what is as it would be by default left out.

    :returns: mappings, lists, text, numbers and CpuSets
    """
    return {
        'class': str(plan.purpose),
        'host_cpus': plan.host_cpus,
        **_if_any({
            'poll_cpus': plan.poll_cpus,
            'sizes': [dataclasses.asdict(size) for size in plan.sizes],
            'page_size': plan.page_size_kib
            and quantities.page_size_text(plan.page_size_kib),
            'memory_kept': {
                node: quantities.text(mib)
                for node, mib in sorted(plan.memory_kept_mib.items())},
            'poll_pages': dict(sorted(plan.poll_pages.items()))}),
        'offer': _write_offer(plan.offer),
        **_if_any({
            'interrupts': [
                {'address': interrupt.address, 'name': interrupt.name,
                 'cpus': interrupt.cpus} for interrupt in plan.interrupts],
            'levers': dict(plan.levers),
            'reasons': list(map(dataclasses.asdict, plan.reasons)),
            'warnings': list(map(dataclasses.asdict, plan.warnings)),
            'alternatives': [
                _if_any({
                    'host_cpus': alternative.host_cpus,
                    'poll_cpus': alternative.poll_cpus,
                    'shared_cpus': alternative.shared_cpus,
                    'dedicated_cpus': alternative.dedicated_cpus,
                    'offer': _write_offer(alternative.offer),
                    'difference': alternative.difference})
                for alternative in plan.alternatives],
            'choice': plan.choice if plan.choice != 1 else None})}


def _write_offer(offer: plan_model.Offer) -> dict[str, Any]:
    return {
        'sales': [dataclasses.asdict(sale) for sale in offer.sales],
        'stranded_cpus': dict(sorted(offer.stranded_cpus.items())),
        'shared_vcpus': offer.shared_vcpus}


def _offer(value: Mapping[str, Any]) -> plan_model.Offer:
    return plan_model.Offer(
        sales=tuple(plan_model.Sale(**sale) for sale in value['sales']),
        stranded_cpus=_by_number(value['stranded_cpus']),
        shared_vcpus=value['shared_vcpus'])


def _alternative(
    value: Mapping[str, Any], path: Path, readers: ValueReaders,
) -> plan_model.PlanAlternative:
    host, poll, shared, dedicated = (
        readers.cpus(value.get(key, ''), (*path, key))
        for key in ('host_cpus', 'poll_cpus', 'shared_cpus',
                    'dedicated_cpus'))
    return plan_model.PlanAlternative(
        host, poll, shared, dedicated, _offer(value['offer']),
        value.get('difference', ''))


def _by_number(value: Mapping[str | int, int]) -> dict[int, int]:
    return {int(node): count for node, count in value.items()}


def _if_any(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}
