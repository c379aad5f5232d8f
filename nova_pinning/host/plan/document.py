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

"""The section of a host file that holds a plan.

host-1.json has its schema; doc/source/reference/host-files.rst describes it.
"""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
from typing import Any

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.host.plan import model

#: A value's path below the section.
Path = tuple[str | int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Readers:
    """How values are read that a schema cannot check to the end.

    Each keeps note of an error by the path, and gives something in its place.
    """

    cpus: Callable[[str | int, Path], cpuset.CpuSet]
    memory_mib: Callable[[str | int, Path], int]
    page_size_kib: Callable[[str | int, Path], int]


def read(value: Mapping[str, Any], readers: Readers) -> model.Plan:
    """The plan of a section that the schema has found good."""

    def cpus(key: str) -> cpuset.CpuSet:
        return readers.cpus(value[key], (key,)) if key in value else none

    none = cpuset.CpuSet()
    return model.Plan(
        purpose=model.Purpose(value['class']),
        host_cpus=cpus('host_cpus'),
        poll_cpus=cpus('poll_cpus'),
        sizes=tuple(model.GuestSize(**one) for one in value.get('sizes', ())),
        page_size_kib=(
            readers.page_size_kib(value['page_size'], ('page_size',))
            if 'page_size' in value else 0),
        memory_kept_mib={
            int(node): readers.memory_mib(amount, ('memory_kept', node))
            for node, amount in value.get('memory_kept', {}).items()},
        poll_pages=_by_number(value.get('poll_pages', {})),
        offer=_offer(value['offer']),
        interrupts=tuple(
            model.Interrupts(
                one['address'].lower(), one['name'],
                readers.cpus(one['cpus'], ('interrupts', place, 'cpus')))
            for place, one in enumerate(value.get('interrupts', ()))),
        reasons=tuple(
            model.Reason(**one) for one in value.get('reasons', ())),
        warnings=tuple(
            model.Warning(**one) for one in value.get('warnings', ())),
        alternatives=tuple(
            _alternative(one, ('alternatives', place), readers)
            for place, one in enumerate(value.get('alternatives', ()))),
        choice=value.get('choice', 1))


def write(plan: model.Plan) -> dict[str, Any]:
    """What :func:`read` reads; what is as it would be by default left out.

    :returns: mappings, lists, text, numbers and CpuSets
    """
    return {
        'class': str(plan.purpose),
        'host_cpus': plan.host_cpus,
    } | _if_any({
        'poll_cpus': plan.poll_cpus,
        'sizes': [dataclasses.asdict(size) for size in plan.sizes],
        'page_size': plan.page_size_kib and quantities.page_size_text(
            plan.page_size_kib),
        'memory_kept': {node: quantities.text(mib) for node, mib
                        in sorted(plan.memory_kept_mib.items())},
        'poll_pages': dict(sorted(plan.poll_pages.items())),
    }) | {
        'offer': _write_offer(plan.offer),
    } | _if_any({
        'interrupts': [{
            'address': one.address, 'name': one.name, 'cpus': one.cpus,
        } for one in plan.interrupts],
        'reasons': [dataclasses.asdict(one) for one in plan.reasons],
        'warnings': [dataclasses.asdict(one) for one in plan.warnings],
        'alternatives': [_if_any({
            'host_cpus': one.host_cpus,
            'poll_cpus': one.poll_cpus,
            'shared_cpus': one.shared_cpus,
            'dedicated_cpus': one.dedicated_cpus,
            'offer': _write_offer(one.offer),
            'difference': one.difference,
        }) for one in plan.alternatives],
    }) | ({'choice': plan.choice} if plan.choice != 1 else {})


def _write_offer(offer: model.Offer) -> dict[str, Any]:
    return {
        'sales': [dataclasses.asdict(sale) for sale in offer.sales],
        'stranded_cpus': dict(sorted(offer.stranded_cpus.items())),
        'shared_vcpus': offer.shared_vcpus,
    }


def _offer(value: Mapping[str, Any]) -> model.Offer:
    return model.Offer(
        sales=tuple(model.Sale(**sale) for sale in value['sales']),
        stranded_cpus=_by_number(value['stranded_cpus']),
        shared_vcpus=value['shared_vcpus'])


def _alternative(
    value: Mapping[str, Any], path: Path, readers: Readers,
) -> model.Alternative:
    host, poll, shared, dedicated = (
        readers.cpus(value.get(key, ''), (*path, key))
        for key in ('host_cpus', 'poll_cpus', 'shared_cpus',
                    'dedicated_cpus'))
    return model.Alternative(
        host, poll, shared, dedicated, _offer(value['offer']),
        value.get('difference', ''))


def _by_number(value: Mapping[str | int, int]) -> dict[int, int]:
    return {int(node): count for node, count in value.items()}


def _if_any(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}
