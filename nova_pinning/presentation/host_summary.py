# SPDX-License-Identifier: Apache-2.0
"""A host in words: what its hardware is, and how its kernel runs.

What is not known of a host is left out.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from nova_pinning.document import quantities
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import words
from nova_pinning.presentation import host_structure
from nova_pinning.presentation import plan_facts
from nova_pinning import spelling

_CACHE_LETTERS = {
    hardware.CacheKind.DATA: 'd',
    hardware.CacheKind.INSTRUCTION: 'i',
    hardware.CacheKind.UNIFIED: '',
}

#: The columns of :func:`devices`.
DEVICE_COLUMNS = ('device', 'address', 'id', 'node', 'IOMMU', 'queues',
                  'driver', 'use')


def hardware_rows(
    description: host_model.HostDescription,
) -> Iterator[tuple[str, str]]:
    """What the host is made of, as labels and texts."""
    cpu = description.cpu_model
    named = ' '.join(filter(None, (cpu.vendor, cpu.model)))
    yield 'CPUs', ', '.join(map(spelling.printable, filter(None, (
        host_structure.summary(description), named, cpu.arch,
        description.system.virtualization))))
    if description.offline_cpus:
        yield 'offline', host_structure.cpus_text(description.offline_cpus)
    if host_structure.dies(description):
        yield 'dies', '; '.join(
            f'{host_structure.socket_text(description, [die.socket])} die '
            f'{die.id}: {host_structure.cpus_text(die.cpus)}'
            for die in description.dies)
    for kind in description.core_kinds:
        yield (f'{spelling.printable(kind.name)} cores',
               host_structure.cpus_text(kind.cpus))
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


def _caches(caches: hardware.Caches) -> str:
    """'L3 32 MiB, 16 of them, each for 16 CPUs'."""
    name = f'L{caches.level}{_CACHE_LETTERS[caches.kind]}'
    size = (host_structure.memory(caches.size_kib / 1024)
            if caches.size_kib >= 1024 else f'{caches.size_kib} KiB')
    sizes = sorted({len(domain) for domain in caches.domains})
    shared = f'{sizes[0]}' if len(sizes) == 1 else f'{sizes[0]}-{sizes[-1]}'
    return (f'{len(caches.domains)} x {name} {size} for '
            f'{shared} CPU{"" if sizes == [1] else "s"}')


def _node(description: host_model.HostDescription,
          node: host_model.NumaNode) -> str:
    parts = [
        host_structure.socket_text(
            description, host_structure.sockets(description, node.cpus)
            or [node.socket]),
        host_structure.memory(node.memory_mib)]
    parts += [f'{words.count(pages, "page")} of '
              f'{quantities.shown_page_size(size)}'
              for size, pages in sorted(node.huge_pages.items()) if pages]
    parts.append(
        host_structure.cpus_text(node.cpus) if node.cores else 'no CPUs')
    return ', '.join(parts)


def kernel_rows(system: hardware.System) -> Iterator[tuple[str, str]]:
    """How the kernel runs, as labels and texts."""
    known = [
        ('release', system.kernel),
        ('command line', system.command_line),
        ('isolated', host_structure.cpus_text(system.isolated_cpus)
         if system.isolated_cpus else system.kernel and 'no CPUs'),
        ('nohz_full', system.nohz_full_cpus
         and host_structure.cpus_text(system.nohz_full_cpus)),
        ('SMT', _SMT.get(system.smt, system.smt)),
        ('governor', '; '.join(
            f'{governor} on {host_structure.cpus_text(cpus)}'
            for governor, cpus in sorted(system.governors.items()))),
        ('cpufreq', system.cpufreq_driver),
        ('IOMMU', {None: '', True: 'in use', False: 'not in use'}[
            system.has_iommu]),
        ('mitigations', _mitigations(system))]
    for label, text in known:
        if text:
            yield label, spelling.printable(str(text))


# The kernel's words, but for those that people would write likewise.
_SMT = {'forceoff': 'off until the next boot',
        'notsupported': 'not supported', 'notimplemented': 'not known'}


def _mitigations(system: hardware.System) -> str:
    """'9 not affected, 5 mitigated, not mitigated: mds'."""
    states = system.mitigations
    if not states:
        return ''
    vulnerable = system.vulnerable_to
    spared = sum(1 for state in states.values()
                 if state.startswith('Not affected'))
    unknown = sorted(name for name, state in states.items()
                     if state.startswith('Unknown'))
    exposed = system.vulnerable_by_smt
    mitigated = len(states) - spared - sum(
        map(len, (vulnerable, exposed, unknown)))
    return ', '.join(filter(None, (
        f'{spared} not affected' if spared else '',
        f'{mitigated} mitigated' if mitigated else '',
        f'sibling threads exposed: {", ".join(exposed)}' if exposed else '',
        f'not mitigated: {", ".join(vulnerable)}' if vulnerable else '',
        f'not known: {", ".join(unknown)}' if unknown else '')))


def device_rows(
    pci_devices: Iterable[host_model.PciDevice],
) -> Iterator[tuple[str, ...]]:
    """A row of :data:`DEVICE_COLUMNS` for each device.

    Virtual functions that are alike have one together: there may be hundreds.
    """
    groups: dict[object, list[host_model.PciDevice]] = {}
    for device in pci_devices:
        key: object = device.address
        if device.physical_function:
            key = (device.physical_function, device.driver, device.alias,
                   device.queues, device.in_use)
        groups.setdefault(key, []).append(device)
    for alike in groups.values():
        yield tuple(map(spelling.printable, _row(alike)))


def _row(alike: Sequence[host_model.PciDevice]) -> tuple[str, ...]:
    first = alike[0]
    name = plan_facts.DEVICE_KINDS[first.kind]
    group = _number(first.iommu_group)
    if first.physical_function:
        name = f'{name} {words.count(len(alike), "VF")}'
    address = first.address
    if len(alike) > 1:
        # Each has a name and its own group.
        address, group = f'{address}...', ''
    else:
        name = ' '.join((name, *first.names))
    use = (plan_facts.speed(first.speed_mbps)
           if first.speed_mbps else '',
           f'for guests as {first.alias}' if first.alias else '',
           first.in_use)
    return (name, address, f'{first.vendor_id}:{first.product_id}',
            _number(first.numa_node), group, str(first.queues or ''),
            first.driver, ', '.join(filter(None, use)))


def _number(number: int | None) -> str:
    return '' if number is None else str(number)
