# SPDX-License-Identifier: Apache-2.0
"""Fleet snapshots of version 1, as the values of version 2.

What was left out there, and is not here, is filled in. What is wrong otherwise
is found by who reads version 2.
"""

from typing import Any

from nova_pinning.admission import outcome
from nova_pinning import cpuset
from nova_pinning.document import source

VERSION = 1

_Json = dict[str, Any]


def migrated(document: source.YamlDocument) -> _Json:
    """The values of a document of version 1 as those of version 2.

    :raises errors.InputError: if it is none
    """
    try:
        return _fleet(document.value)
    except (AttributeError, IndexError, KeyError, TypeError,
            ValueError) as error:
        raise document.error(
            f'is not a fleet snapshot of version {VERSION}: '
            f'{type(error).__name__} {error}') from None


def _fleet(value: _Json) -> _Json:
    tables: _Json = {'device_keys': [], 'pci_pools': [], 'inventories': []}
    topologies = value.get('topologies', [])
    pinned = [[_cpus(cell, 'dedicated_vcpus') for cell in one['cells']]
              for one in topologies]
    return {
        **value, **tables, 'version': 2,
        'layouts': [list(map(_cell, one['cells']))
                    for one in value['layouts']],
        'l3_domains': [list(map(_normal, one.get('l3_domains', [])))
                       for one in value['layouts']],
        'topologies': [
            {**one, 'cells': list(map(_guest_cell, one['cells']))}
            for one in topologies],
        'pci_aliases': {
            name: _without(alias, 'kinds') | {'specs': alias.get(
                'specs', list(map(_keys, alias.get('kinds', []))))}
            for name, alias in value.get('pci_aliases', {}).items()},
        'hosts': [_host(host, tables) for host in value['hosts']],
        'guests': [_guest(guest, pinned, tables)
                   for guest in value.get('guests', [])]}


def _host(host: _Json, tables: _Json) -> _Json:
    found = _renamed(host, {'class': 'host_class', 'layout': 'cells'})
    found['l3_domains'] = host['layout']
    if 'pci_pools' in host:
        found['pci_pools'] = _place(tables['pci_pools'], [
            {'is_complete': False, **_device(pool, tables)}
            for pool in host['pci_pools']])
    if 'inventories' in host:
        has = host['inventories']
        found['held'] = {
            name: has[name]['held'] for name in has if 'held' in has[name]}
        found['inventories'] = _place(tables['inventories'], {
            name: _without(has[name], 'held') for name in has
            if 'total' in has[name]})
        found['gaps'] = [*host.get('gaps', []), {
            'kind': outcome.DoubtKind.PROVIDERS,
            'text': f'snapshots of version {VERSION} tell nothing of other '
                    'resource providers than its own'}]
    return found


def _guest(guest: _Json, pinned: list[list[str]], tables: _Json) -> _Json:
    """
    :param pinned: the dedicated vCPUs of each cell of each topology
    """
    found = _renamed(guest, {'class': 'guest_class'})
    if 'devices' in guest:
        found['devices'] = [
            _device(device, tables) for device in guest['devices']]
    if 'fit' in guest and 'topology' in guest:
        found['fit'] = list(map(
            _cell_fit, guest['fit'], pinned[guest['topology']]))
    return found


def _place(table: list[Any], value: Any) -> int:
    table.append(value)
    return len(table) - 1


def _device(device: _Json, tables: _Json) -> _Json:
    return {**_without(device, 'kind'), 'keys': _place(
        tables['device_keys'],
        _keys(device['kind']) | device.get('keys', {}))}


def _without(value: _Json, *keys: str) -> _Json:
    return {key: item for key, item in value.items() if key not in keys}


def _renamed(value: _Json, names: dict[str, str]) -> _Json:
    return {names.get(key, key): item for key, item in value.items()}


def _keys(kind: str) -> _Json:
    vendor_id, _colon, product_id = kind.partition(':')
    return {'vendor_id': vendor_id, 'product_id': product_id}


def _normal(cpus: str) -> str:
    return str(cpuset.CpuSet.parse(cpus))


def _cpus(cell: _Json, key: str) -> str:
    return _normal(cell.get(key, ''))


def _cell(cell: _Json) -> _Json:
    return {'cores': [], **cell, **{
        key: _cpus(cell, key) for key in ('dedicated_cpus', 'shared_cpus')}}


def _guest_cell(cell: _Json) -> _Json:
    return _renamed(cell, {'page_size': 'page_size_kib'}) | {
        key: _cpus(cell, key) for key in ('dedicated_vcpus', 'shared_vcpus')}


def _cell_fit(cell: _Json, vcpus: str) -> _Json:
    found = _renamed(_without(cell, 'pins'),
                     {'cell': 'host_cell', 'cpus': 'pins'})
    if 'cpus' in cell:
        found['pins'] = f'{vcpus}:{cell["cpus"]}'
    elif cell.get('pins'):
        found['pins'] = ':'.join(
            ','.join(map(str, part)) for part in zip(*cell['pins']))
    return found
