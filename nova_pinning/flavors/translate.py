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
"""A shape of the catalogue as the extra specs that nova reads.

What each word becomes is in doc/source/reference/catalogue.rst. A family
without a class, and without any other word, gets none but
``pinning:catalogue`` and ``pinning:family``. A class adds ``hw:cpu_policy``;
``dedicated`` with ``thread_policy: require`` adds a guest CPU topology as
well, unless ``cpu_topology`` says otherwise.
"""

from collections.abc import Iterator
import fractions
import re

from nova_pinning.document import quantities
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.flavors import cells
from nova_pinning.flavors import model
from nova_pinning.flavors import shape
from nova_pinning.flavors import throttles

#: An extra spec, its value, and where in the document it comes from.
Spec = tuple[str, str, source.Path]

# Nova's limit for keys and values (nova.api.validation.parameter_types).
_MAX_LENGTH = 255
_MASK = re.compile(r'\^?\d+(-\d+)?(,\^?\d+(-\d+)?)*', re.ASCII)
_PERIOD_US = 100_000
# libvirt takes no quota below it.
_MIN_QUOTA_US = 1000


def extra_specs(
    one: shape.Shape,
) -> tuple[dict[str, str], dict[str, errors.Location]]:
    """The extra specs of a shape, and where each comes from.

    :raises errors.InputError: if something in it makes no sense
    """
    specs: dict[str, str] = {}
    origins: dict[str, errors.Location] = {}
    for key, value, path in _all(one):
        if key in specs:
            raise one.error(
                f'{key} is there already, from {origins[key].key}', path,
                'leave one of them out')
        if len(value) > _MAX_LENGTH:
            raise one.error(
                f'{key} gets longer than the {_MAX_LENGTH} characters that '
                'nova takes', path)
        specs[key] = value
        origins[key] = one.document.locate(path, key=True)
    return specs, origins


def _all(one: shape.Shape) -> Iterator[Spec]:
    yield model.CATALOGUE_KEY, one.document.value['name'], ('name',)
    yield model.FAMILY_KEY, one.family, one.family_path
    guest_cells = cells.cells(one)
    yield from _cpu_policies(one)
    yield from _numa(one, guest_cells)
    yield from _topology(one, guest_cells)
    yield from _memory(one)
    yield from _realtime(one)
    yield from _devices(one)
    yield from _cpu_quotas(one)
    yield from throttles.throttles(one)
    yield from _traits(one)
    for key, value, path in one.group('extra_specs'):
        # As nova's own documents write booleans.
        yield key, (str(value).lower() if isinstance(value, bool)
                    else str(value)), path


def _cpu_policies(one: shape.Shape) -> Iterator[Spec]:
    for key, spec in (('class', 'hw:cpu_policy'),
                      ('thread_policy', 'hw:cpu_thread_policy')):
        if one.get(key):
            yield spec, one.get(key), one.path_of(key)
    # Nova lets them run on the guest's vCPUs if nothing is said.
    if one.get('emulator_threads', 'on-vcpus') != 'on-vcpus':
        yield ('hw:emulator_threads_policy', one.get('emulator_threads'),
               one.path_of('emulator_threads'))
    if one.get('dedicated_vcpus') is not None:
        path = one.path_of('dedicated_vcpus')
        yield 'hw:cpu_dedicated_mask', _dedicated_mask(one, path), path


def _dedicated_mask(one: shape.Shape, path: source.Path) -> str:
    asked = one.get('dedicated_vcpus')
    if isinstance(asked, str):
        return _mask(one, asked, path)
    count = throttles.number(one, asked['count'], (*path, 'count'))
    if not 0 < count < one.vcpus:
        raise one.error(
            f'{count} of {one.vcpus} vCPUs are no mixture', path,
            'at least one must be dedicated, and one must not')
    # The first vCPUs float: guests do their housekeeping there.
    return _range(one.vcpus - count, one.vcpus - 1)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f'{first}-{last}'


def _mask(one: shape.Shape, text: str, path: source.Path) -> str:
    """A mask of vCPUs as nova takes it, with its ``^``."""
    mask = ''.join(text.split())
    if not _MASK.fullmatch(mask):
        raise one.error(f'{text!r} is not a list of vCPUs', path,
                        "write it like '2-7' or '^0-1'")
    cells.cpus(one, mask, path)
    return mask


def _numa(one: shape.Shape, found: cells.Cells | None) -> Iterator[Spec]:
    if found is None:
        return
    path = one.path_of('numa_nodes')
    yield 'hw:numa_nodes', str(len(found.cells)), path
    if not found.is_explicit:
        return
    for number, cell in enumerate(found.cells):
        here = ((*path, number) if isinstance(one.get('numa_nodes'), list)
                else path)
        yield f'hw:numa_cpus.{number}', str(cell.vcpus), here
        yield f'hw:numa_mem.{number}', str(cell.memory_mib), here


def _topology(one: shape.Shape, found: cells.Cells | None) -> Iterator[Spec]:
    is_paired = (one.get('class') == 'dedicated'
                 and one.get('thread_policy') == 'require')
    asked = one.get('cpu_topology', 'match-host' if is_paired else 'none')
    path = one.path_of('cpu_topology' if 'cpu_topology' in one.settings
                       else 'thread_policy')
    if asked == 'none':
        return
    if asked == 'match-host':
        counts = ([len(cell.vcpus) for cell in found.cells] if found
                  else [one.vcpus])
        asked = _match_host(one.vcpus, counts, is_paired)
    elif len(asked) == 3:
        product = asked['sockets'] * asked['cores'] * asked['threads']
        if product != one.vcpus:
            raise one.error(
                f'sockets, cores and threads make {product} vCPUs, not '
                f'{one.vcpus}', path)
    for key in ('sockets', 'cores', 'threads'):
        if key in asked:
            yield f'hw:cpu_{key}', str(asked[key]), path


def _match_host(vcpus: int, counts: list[int],
                is_paired: bool) -> dict[str, int]:
    """A topology like that of the host CPUs that the vCPUs will be.

    A socket for each NUMA cell, and two threads for each core where the
    thread policy pairs siblings and no cell has an odd number of vCPUs.
    """
    sockets = len(counts) if len(set(counts)) == 1 else 1
    threads = (2 if is_paired and all(one % 2 == 0 for one in counts)
               else 1)
    return {'sockets': sockets, 'cores': vcpus // sockets // threads,
            'threads': threads}


def _memory(one: shape.Shape) -> Iterator[Spec]:
    size = one.get('page_size')
    path = one.path_of('page_size')
    if size in ('large', 'small', 'any'):
        yield 'hw:mem_page_size', size, path
    elif size is not None:
        # A number of KiB: nova's check of names for units knows only some.
        kib = quantities.page_size_kib(size, one.where(path))
        if not kib:
            raise one.error('a page of no size is none', path)
        yield 'hw:mem_page_size', str(kib), path
    yield from _flag(one, 'locked_memory', 'hw:locked_memory')


def _flag(one: shape.Shape, key: str, spec: str) -> Iterator[Spec]:
    value = one.get(key)
    if value is not None:
        yield spec, str(value).lower(), one.path_of(key)


def _realtime(one: shape.Shape) -> Iterator[Spec]:
    asked = one.get('realtime', False)
    if asked is False:
        return
    path = one.path_of('realtime')
    yield 'hw:cpu_realtime', 'true', path
    if asked is not True:
        mask_path = (*path, 'vcpus')
        yield ('hw:cpu_realtime_mask',
               _mask(one, asked['vcpus'], mask_path), mask_path)


def _devices(one: shape.Shape) -> Iterator[Spec]:
    counts = []
    for alias, asked, path in one.group('pci_devices'):
        if alias == 'affinity':
            yield 'hw:pci_numa_affinity_policy', asked, path
            continue
        count = throttles.number(one, asked, path)
        if not count:
            raise one.error(f'0 devices {alias} are none', path)
        counts.append(f'{alias}:{count}')
        last_path = path
    if counts:
        yield 'pci_passthrough:alias', ','.join(counts), last_path
    yield from _flag(one, 'nic_multiqueue', 'hw:vif_multiqueue_enabled')


def _cpu_quotas(one: shape.Shape) -> Iterator[Spec]:
    if one.get('cpu_priority') is not None:
        path = one.path_of('cpu_priority')
        shares = throttles.number(one, one.get('cpu_priority'), path)
        yield 'quota:cpu_shares', str(shares), path
    cap = one.get('cpu_cap')
    if cap is None:
        return
    path = one.path_of('cpu_cap')
    if 'percent' in cap and 'quota_us' in cap:
        raise one.error('percent and quota_us say the same thing twice', path,
                        'leave one of them out')
    period = cap.get('period_us', _PERIOD_US)
    quota = cap.get('quota_us')
    if quota is None:
        quota = int(period * fractions.Fraction(str(cap['percent'])) / 100)
        if quota < _MIN_QUOTA_US:
            raise one.error(
                f'{cap["percent"]} percent of {period} microseconds are less '
                f'than {_MIN_QUOTA_US}, the least that libvirt takes', path,
                'make the period longer')
    yield 'quota:cpu_period', str(period), path
    yield 'quota:cpu_quota', str(quota), path


def _traits(one: shape.Shape) -> Iterator[Spec]:
    asked = one.get('traits', {})
    for word in ('required', 'forbidden'):
        for position, trait in enumerate(asked.get(word, ())):
            yield (f'trait:{trait}', word,
                   (*one.path_of('traits'), word, position))
