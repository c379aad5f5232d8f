# SPDX-License-Identifier: Apache-2.0
"""Cut a case down to what it takes to show one thing."""

import copy
import typing as ty

from nova_pinning.tests.oracle import oracle_case

_Data = dict[str, ty.Any]
_Edit = ty.Callable[[_Data], ty.Any]

#: Whether a case still shows what is of interest.
Property = ty.Callable[[oracle_case.Case], bool]


def shrink(case: oracle_case.Case, holds: Property,
           limit: int = 4000) -> oracle_case.Case:
    """Return the smallest case found for which the property still holds.

    Greedy: try one cut after the other, keep those that leave the property
    intact, and stop when a whole round of cuts brings nothing.

    :param holds: the property; true of the case given
    :param limit: how many cases to try at most
    """
    tried = 0
    useless = 0
    position = 0
    edits = list(_edits(case.data))
    while useless < len(edits) and tried < limit:
        data = copy.deepcopy(case.data)
        edits[position % len(edits)](data)
        tried += 1
        if data != case.data and _still_holds(data, holds):
            case = oracle_case.Case(data)
            edits = list(_edits(data))
            useless = 0
        else:
            position += 1
            useless += 1
    return case


def _still_holds(data: _Data, holds: Property) -> bool:
    try:
        return holds(oracle_case.Case(data))
    except Exception:
        # A cut that makes no sense, such as a PCI pool without its cell.
        return False


def _edits(data: _Data) -> ty.Iterator[_Edit]:
    """Yield everything that could be cut from a case, the most first."""
    host, guest = data['host'], data['guest']
    yield from _fleet_edits(data)
    if len(host) > 1:
        for number in range(len(host)):
            yield lambda d, n=number: d['host'].pop(n)
    if len(guest['cells']) > 1:
        for number in range(len(guest['cells'])):
            yield lambda d, n=number: d['guest']['cells'].pop(n)
    for key, value in (('pci', None), ('limits', None), ('pack', False)):
        if data[key] != value:
            yield lambda d, k=key, v=value: d.update({k: v})
    for key in ('emulator', 'threads', 'pagesize'):
        if guest[key] is not None:
            yield lambda d, k=key: d['guest'].update({k: None})
    yield from _pci_edits(data)
    yield from _network_edits(data)
    for number, cell in enumerate(host):
        yield from _host_edits(number, cell)
    for number, cell in enumerate(guest['cells']):
        yield from _guest_edits(number, cell)
    yield _renumber_vcpus
    yield _renumber_cpus
    yield _renumber_cells


def _fleet_edits(data: _Data) -> ty.Iterator[_Edit]:
    """Yield what could be cut from the other hosts of a fleet."""
    others = data.get('others', ())
    for number in range(len(others)):
        yield lambda d, n=number: d['others'].pop(n)
    if others:
        yield _forget_the_first
    for number, other in enumerate(others):
        edits = [lambda o, n=cell: o['host'].pop(n)
                 for cell in range(len(other['host']))]
        for index, cell in enumerate(other['host']):
            edits.extend(_host_edits(index, cell))
        edits.append(_renumber_cpus)
        for edit in edits:
            yield lambda d, n=number, e=edit: e(d['others'][n])
    if data.get('hasty'):
        yield lambda d: d.update(hasty=False)


def _forget_the_first(data: _Data) -> None:
    """Have the second host of a fleet in the place of the first."""
    other = data['others'].pop(0)
    data['host'] = other['host']
    data['sees_devices'] = other.get('sees_devices', True)
    if data['pci']:
        data['pci'].update(pools=other['pools'], mapping=other['mapping'])


def _host_edits(number: int, cell: _Data) -> ty.Iterator[_Edit]:

    def change(**values: ty.Any) -> _Edit:
        return lambda d: d['host'][number].update(copy.deepcopy(values))

    for core in cell['siblings']:
        yield lambda d, c=core: _remove_cpus(d['host'][number], c)
    for cpu in sorted({*cell['dedicated'], *cell['shared']}):
        yield lambda d, c=cpu: _remove_cpus(d['host'][number], [c])
    for key, value in (('pinned', []), ('cpu_usage', 0), ('memory_used', 0),
                       ('pages', []), ('network', None), ('socket', None)):
        if cell[key] != value:
            yield change(**{key: value})
    for cpu in cell['pinned']:
        yield change(pinned=[c for c in cell['pinned'] if c != cpu])
    for index, pool in enumerate(cell['pages']):
        rest = cell['pages'][:index], cell['pages'][index + 1:]
        yield change(pages=[*rest[0], *rest[1]])
        size, total, used, reserved = pool
        for smaller in ([size, total - used - reserved, 0, 0],
                        [size, total // 2, min(used, total // 2), 0]):
            yield change(pages=[*rest[0], smaller, *rest[1]])
    for key in ('memory', 'cpu_usage', 'memory_used'):
        for less in _smaller(cell[key]):
            yield change(**{key: less})
    yield change(siblings=sorted(map(sorted, cell['siblings'])))


def _guest_edits(number: int, cell: _Data) -> ty.Iterator[_Edit]:

    def change(**values: ty.Any) -> _Edit:
        return lambda d: d['guest']['cells'][number].update(values)

    for key in ('dedicated', 'shared'):
        count = len(cell[key])
        for keep in sorted({0, 1, count // 2, count - 1}):
            if 0 <= keep < count and (
                    keep or len(cell['dedicated']) + len(
                        cell['shared']) > count):
                yield change(**{key: cell[key][:keep]})
    for less in _smaller(cell['memory']):
        if less:
            yield change(memory=less)


def _smaller(number: int) -> list[int]:
    steps = {0, 256, 512, 1024, number // 2 // 256 * 256}
    return sorted(step for step in steps if step < number)


def _pci_edits(data: _Data) -> ty.Iterator[_Edit]:
    if data['pci'] is None:
        return
    for key in ('pools', 'requests'):
        for number, item in enumerate(data['pci'][key]):
            yield lambda d, k=key, n=number: d['pci'][k].pop(n)
            if item['count'] > 1:
                yield lambda d, k=key, n=number: d['pci'][k][n].update(
                    count=1)
    if data['pci']['mapping']:
        yield lambda d: d['pci'].update(mapping=None)


def _network_edits(data: _Data) -> ty.Iterator[_Edit]:
    if not data['limits'] or not data['limits']['network']:
        return
    yield lambda d: d['limits'].update(network=None)
    yield lambda d: d['limits']['network'].update(tunneled=False)
    for name in data['limits']['network']['physnets']:
        yield lambda d, n=name: d['limits']['network']['physnets'].remove(n)


def _remove_cpus(cell: _Data, cpus: list[int]) -> None:
    for key in ('shared', 'dedicated', 'pinned'):
        cell[key] = [cpu for cpu in cell[key] if cpu not in cpus]
    cell['siblings'] = [
        core for core in (
            [cpu for cpu in core if cpu not in cpus]
            for core in cell['siblings'])
        if core]


def _renumber_vcpus(data: _Data) -> None:
    number = 0
    for cell in data['guest']['cells']:
        for key in ('dedicated', 'shared'):
            end = number + len(cell[key])
            cell[key] = list(range(number, end))
            number = end


def _renumber_cpus(data: _Data) -> None:
    """Number the CPUs from 0 on, core by core."""
    names: dict[int, int] = {}
    for cell in data['host']:
        for core in [*cell['siblings'], cell['dedicated'], cell['shared'],
                     cell['pinned']]:
            for cpu in core:
                names.setdefault(cpu, len(names))
    for cell in data['host']:
        for key in ('shared', 'dedicated', 'pinned'):
            cell[key] = sorted(names[cpu] for cpu in cell[key])
        cell['siblings'] = [
            [names[cpu] for cpu in core] for core in cell['siblings']]


def _renumber_cells(data: _Data) -> None:
    names = {cell['id']: number for number, cell in enumerate(data['host'])}
    for cell in data['host']:
        cell['id'] = names[cell['id']]
    for pool in (data['pci'] or {}).get('pools', []):
        pool['numa_node'] = names.get(pool['numa_node'])
