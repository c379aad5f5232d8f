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

"""A host in words: what its hardware is, and how its kernel runs.

What is not known of a host is left out.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from nova_pinning.document import quantities
from nova_pinning.drawing import host_plan_facts
from nova_pinning.drawing import topology
from nova_pinning.host import hardware as hardware_lib
from nova_pinning.host import model
from nova_pinning.host import words

_CACHE_LETTERS = {
    hardware_lib.CacheKind.DATA: 'd',
    hardware_lib.CacheKind.INSTRUCTION: 'i',
    hardware_lib.CacheKind.UNIFIED: '',
}

#: The columns of :func:`devices`.
DEVICE_COLUMNS = ('device', 'address', 'id', 'node', 'IOMMU', 'queues',
                  'driver', 'use')


def hardware(
    description: model.HostDescription,
) -> Iterator[tuple[str, str]]:
    """What the host is made of, as labels and texts."""
    cpu = description.cpu_model
    named = ' '.join(filter(None, (cpu.vendor, cpu.model)))
    yield 'CPUs', ', '.join(map(topology.printable, filter(None, (
        topology.summary(description), named, cpu.arch,
        description.system.virtualization))))
    if description.offline_cpus:
        yield 'offline', topology.cpus_text(description.offline_cpus)
    if topology.dies(description):
        yield 'dies', '; '.join(
            f'socket {die.socket} die {die.id}: '
            f'{topology.cpus_text(die.cpus)}' for die in description.dies)
    for kind in description.core_kinds:
        yield f'{topology.printable(kind.name)} cores', topology.cpus_text(
            kind.cpus)
    if description.caches:
        yield 'caches', '; '.join(map(_caches, description.caches))
    others = {distance for number, node in enumerate(description.nodes)
              for distance in node.distances[:number]
              + node.distances[number + 1:]}
    for node in description.nodes:
        distances = (f', distances {" ".join(map(str, node.distances))}'
                     if len(others) > 1 else '')
        yield f'node {node.id}', _node(description, node) + distances
    if len(others) == 1:
        yield 'distances', f'{others.pop()} between any two nodes'


def _caches(caches: hardware_lib.Caches) -> str:
    """'L3 32 MiB, 16 of them, each for 16 CPUs'."""
    name = f'L{caches.level}{_CACHE_LETTERS[caches.kind]}'
    size = (topology.memory(caches.size_kib / 1024)
            if caches.size_kib >= 1024 else f'{caches.size_kib} KiB')
    sizes = sorted({len(domain) for domain in caches.domains})
    shared = f'{sizes[0]}' if len(sizes) == 1 else f'{sizes[0]}-{sizes[-1]}'
    return (f'{len(caches.domains)} x {name} {size} for '
            f'{shared} CPU{"" if sizes == [1] else "s"}')


def _node(description: model.HostDescription, node: model.Node) -> str:
    sockets = topology.sockets(description, node.cpus)
    parts = [topology.numbered('socket', sockets) if sockets
             else f'socket {node.socket}', topology.memory(node.memory_mib)]
    parts += [f'{words.count(pages, "page")} of '
              f'{quantities.shown_page_size(size)}'
              for size, pages in sorted(node.huge_pages.items()) if pages]
    parts.append(topology.cpus_text(node.cpus) if node.cores else 'no CPUs')
    return ', '.join(parts)


def kernel(system: hardware_lib.System) -> Iterator[tuple[str, str]]:
    """How the kernel runs, as labels and texts."""
    known = [
        ('release', system.kernel),
        ('command line', system.command_line),
        ('isolated', topology.cpus_text(system.isolated_cpus)
         if system.isolated_cpus else system.kernel and 'no CPUs'),
        ('nohz_full', system.nohz_full_cpus
         and topology.cpus_text(system.nohz_full_cpus)),
        ('SMT', _SMT.get(system.smt, system.smt)),
        ('governor', '; '.join(
            f'{governor} on {topology.cpus_text(cpus)}'
            for governor, cpus in sorted(system.governors.items()))),
        ('cpufreq', system.cpufreq_driver),
        ('IOMMU', {None: '', True: 'in use', False: 'not in use'}[
            system.has_iommu]),
        ('mitigations', _mitigations(system)),
    ]
    for label, text in known:
        if text:
            yield label, topology.printable(str(text))


# The kernel's words, but for those that people would write likewise.
_SMT = {'forceoff': 'off until the next boot',
        'notsupported': 'not supported', 'notimplemented': 'not known'}


def _mitigations(system: hardware_lib.System) -> str:
    """'9 not affected, 5 mitigated, not mitigated: mds'."""
    states = system.mitigations
    if not states:
        return ''
    vulnerable = system.vulnerable_to
    spared = sum(1 for state in states.values()
                 if state.startswith('Not affected'))
    unknown = sorted(name for name, state in states.items()
                     if state.startswith('Unknown'))
    mitigated = len(states) - spared - len(vulnerable) - len(unknown)
    return ', '.join(filter(None, (
        f'{spared} not affected' if spared else '',
        f'{mitigated} mitigated' if mitigated else '',
        f'not mitigated: {", ".join(vulnerable)}' if vulnerable else '',
        f'not known: {", ".join(unknown)}' if unknown else '')))


def devices(
    found: Iterable[model.PciDevice],
) -> Iterator[tuple[str, ...]]:
    """A row of :data:`DEVICE_COLUMNS` for each device.

    Virtual functions that are alike have one together: there may be hundreds.
    """
    groups: dict[object, list[model.PciDevice]] = {}
    for device in found:
        key: object = device.address
        if device.physical_function:
            key = (device.physical_function, device.driver, device.alias,
                   device.queues, device.in_use)
        groups.setdefault(key, []).append(device)
    for alike in groups.values():
        yield tuple(map(topology.printable, _row(alike)))


def _row(alike: Sequence[model.PciDevice]) -> tuple[str, ...]:
    first = alike[0]
    name = host_plan_facts.DEVICE_KINDS[first.kind]
    group = _number(first.iommu_group)
    if first.physical_function:
        name = f'{name} {words.count(len(alike), "VF")}'
    address = first.address
    if len(alike) > 1:
        # Each has a name and a group of its own.
        address, group = f'{address}...', ''
    else:
        name = ' '.join((name, *first.names))
    use = (host_plan_facts.speed(first.speed_mbps)
           if first.speed_mbps else '',
           f'for guests as {first.alias}' if first.alias else '',
           first.in_use)
    return (name, address, f'{first.vendor_id}:{first.product_id}',
            _number(first.numa_node), group, str(first.queues or ''),
            first.driver, ', '.join(filter(None, use)))


def _number(number: int | None) -> str:
    return '' if number is None else str(number)
