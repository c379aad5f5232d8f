# SPDX-License-Identifier: Apache-2.0


"""Hosts for tests: one by hand, any number by hypothesis, and as XML."""

import random
from xml.sax import saxutils

from hypothesis import strategies

from nova_pinning import cpuset
from nova_pinning.host import guest_affinity
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import hostfile

GIB = 1024
MIB_PAGES = 2048
GIB_PAGES = 1024 * 1024


def host(**values):
    """Two nodes of two cores with two threads each: (0, 4), (1, 5), ..."""
    nodes = tuple(
        host_model.NumaNode(
            id=number, socket=number, cores=cores, memory_mib=8 * GIB)
        for number, cores in enumerate((((0, 4), (1, 5)), ((2, 6), (3, 7)))))
    return host_model.HostDescription(
        **{'name': 'small', 'nodes': nodes} | values)


def settings(dedicated=None, shared=None, **values):
    """What nova.conf says, from CPU lists."""
    return host_model.NovaSettings(
        dedicated_cpus=None if dedicated is None
        else cpuset.CpuSet.parse(dedicated),
        shared_cpus=None if shared is None else cpuset.CpuSet.parse(shared),
        **values)


def _random(draw):
    """Random orders by number: hypothesis takes long to draw each place."""
    return random.Random(draw(strategies.integers(0, 10 ** 6)))


@strategies.composite
def _all_cores(draw, count):
    """Cores with ids in any order: numbered evenly, or anyhow."""
    threads = draw(strategies.sampled_from([1, 2, 2, 4]))
    size = count * threads
    ids = range(draw(strategies.sampled_from([0, 0, 100])), 4 * size + 100)
    if draw(strategies.booleans()):
        numbering = draw(strategies.sampled_from(['split', 'adjacent']))
        return list(hostfile.split_cores(
            cpuset.CpuSet(ids[:size]), threads, numbering))
    shuffled = _random(draw).sample(ids, size)
    cores = []
    for first in range(0, size, threads):
        # Some threads may be offline.
        online = draw(strategies.integers(1, threads))
        cores.append(tuple(sorted(shuffled[first:first + online])))
    return cores


@strategies.composite
def _nodes(draw):
    sockets = draw(strategies.integers(1, 3))
    per_socket = draw(strategies.integers(1, 3))
    per_node = draw(strategies.integers(1, 12))
    count = sockets * per_socket
    cores = draw(_all_cores(count * per_node))
    cached = draw(strategies.sampled_from([None, 1, 2, 4, 8]))
    first = draw(strategies.sampled_from([0, 0, 3]))
    nodes = []
    for number in range(count):
        own = tuple(sorted(
            cores[number * per_node:(number + 1) * per_node]))
        memory_mib = draw(strategies.integers(GIB, 1024 * GIB))
        pages = draw(strategies.sampled_from([
            {}, {GIB_PAGES: 1}, {MIB_PAGES: 0, GIB_PAGES: memory_mib // GIB},
            {MIB_PAGES: memory_mib // 4}]))
        nodes.append(host_model.NumaNode(
            id=first + number, socket=number // per_socket, cores=own,
            memory_mib=memory_mib, huge_pages=pages,
            l3_domains=hostfile.even_domains(own, cached) if cached else (),
            gpu=draw(strategies.sampled_from(['', '0004:05:00.0'])),
            distances=draw(strategies.sampled_from([
                (), tuple(10 if other == number else 21
                          for other in range(count))]))))
    return tuple(nodes)


@strategies.composite
def _settings(draw, nodes):
    cpus = sorted(cpuset.union(node.cpus for node in nodes))
    split = draw(strategies.integers(0, len(cpus)))
    order = _random(draw).sample(cpus, len(cpus))
    dedicated = cpuset.CpuSet(order[:split]) or None
    shared = cpuset.CpuSet(
        order[split:split + draw(strategies.integers(0, 8))]) or None
    reserved = {
        (node.id, size): draw(strategies.integers(1, pages))
        for node in nodes for size, pages in node.huge_pages.items()
        if pages and draw(strategies.booleans())}
    return host_model.NovaSettings(
        dedicated_cpus=dedicated, shared_cpus=shared,
        cpu_allocation_ratio=draw(strategies.sampled_from([1.0, 3.0, 16.5])),
        ram_allocation_ratio=draw(strategies.sampled_from([1.0, 1.5])),
        reserved_memory_mib=draw(strategies.integers(0, 1000)),
        reserved_huge_pages=reserved,
        packs_cells=draw(strategies.sampled_from([None, True, False])))


# Files may have no other control characters.
_TEXT = strategies.text(
    strategies.characters(
        exclude_categories=('Cs', 'Cc'), include_characters='\n\t',
        exclude_characters='\ufffe\uffff'),
    max_size=40)


@strategies.composite
def _device(draw, bus, nodes):
    return host_model.PciDevice(
        f'0000:{bus:02x}:00.0', draw(strategies.sampled_from([
            '144d', '8086', '10de'])), '0953',
        draw(strategies.sampled_from([None, nodes[0].id])),
        draw(strategies.sampled_from(['', 'nvme', 'a & b'])),
        kind=draw(strategies.sampled_from(hardware.PciKind)),
        driver=draw(strategies.sampled_from(['', 'i40e', 'null'])),
        vfio_driver=draw(strategies.sampled_from(['', 'null', '0123'])),
        names=draw(strategies.sampled_from([(), ('eth0',), ('1', 'no')])),
        iommu_group=draw(strategies.sampled_from([None, 0, 30])),
        queues=draw(strategies.sampled_from([0, 8])),
        interrupts=draw(strategies.sampled_from(
            [(), (0,), (9,), tuple(range(120, 153))])),
        speed_mbps=draw(strategies.sampled_from([0, 25000])),
        in_use=draw(_TEXT),
        physical_function=draw(strategies.sampled_from(
            ['', '0000:3b:00.0'])),
        **draw(_further))


# What discovery adds, of which most devices have nothing.
_further = strategies.sampled_from([{}, {}, {
    'parent': 'pci0000:00', 'companions': ('0000:3b:00.1',),
    'sriov_totalvfs': 0, 'bars_kib': (), 'reset_methods': ()}, {
        'parent': 'pci0000:00', 'sriov_totalvfs': 64,
        'bars_kib': (16, 128 * GIB_PAGES), 'reset_methods': ('flr', 'bus'),
        'rdma_devices': ('mlx5_0',), 'namespaces_mib': {'nvme0n1': 1907729},
        'mdev_types': (hardware.VirtualGpuType('nvidia-699', 'A100-4C', 0),),
        'vgpu_types': (hardware.VirtualGpuType('1155'),),
        'vgpu_type': '1155', 'mig_instances': 0,
        'resource_class': 'CUSTOM_A', 'traits': ('CUSTOM_A_SWITCH_0',),
        'mdev_type': 'nvidia-699'}])


@strategies.composite
def _parts(draw, cpus):
    """Some of the CPUs, divided up."""
    order = _random(draw).sample(list(cpus), len(cpus))
    count = draw(strategies.integers(1, 4))
    parts = [cpuset.CpuSet(order[start::count + 1]) for start in range(count)]
    return tuple(sorted(part for part in parts if part))


@strategies.composite
def _caches(draw, nodes, cpus):
    private = hostfile.private_domains(nodes)
    caches = [
        hardware.Caches(level, kind, draw(strategies.sampled_from(
            [0, 32, 1280, 107520])), draw(strategies.sampled_from(
                [private['cores'], private['cpus'], draw(_parts(cpus))])))
        for level, kind in ((1, hardware.CacheKind.DATA),
                            (1, hardware.CacheKind.INSTRUCTION),
                            (2, hardware.CacheKind.UNIFIED))]
    last = tuple(sorted({
        domain for node in nodes for domain in node.l3_domains}))
    if last:
        caches.append(hardware.Caches(
            3, hardware.CacheKind.UNIFIED, 33792, last))
    return draw(strategies.sampled_from([(), tuple(caches)]))


@strategies.composite
def _resctrl(draw, cpus):
    ways = draw(strategies.integers(2, 20))
    return draw(strategies.sampled_from([None, hardware.Resctrl(
        dict(enumerate(draw(_parts(cpus)))),
        draw(strategies.sampled_from([None, hardware.CacheAllocation(
            (1 << ways) - 1, draw(strategies.integers(1, 2)),
            draw(strategies.sampled_from([0, 1 << (ways - 2)])),
            draw(strategies.sampled_from([1, 16])),
            draw(strategies.booleans()))])),
        draw(strategies.sampled_from([
            None, hardware.BandwidthAllocation(10),
            hardware.BandwidthAllocation(10, 10, 8)])))]))


@strategies.composite
def _system(draw, cpus):
    governors = draw(_parts(cpus))
    some = strategies.sampled_from([cpuset.CpuSet(), *governors])
    return hardware.System(
        kernel=draw(strategies.sampled_from(['', '6.1.0-18-amd64', '1.0'])),
        command_line=draw(_TEXT),
        isolated_cpus=draw(some),
        nohz_full_cpus=draw(some),
        smt=draw(strategies.sampled_from(['', 'on', 'off'])),
        cpufreq_driver=draw(strategies.sampled_from(['', 'intel_pstate'])),
        governors=dict(zip(draw(strategies.sampled_from([
            [], ['performance', 'null', '1', 'a b']])), governors)),
        virtualization=draw(strategies.sampled_from(['', 'vmx', 'svm'])),
        has_iommu=draw(strategies.sampled_from([None, True, False])),
        posted_interrupts=draw(strategies.sampled_from([None, True, False])),
        mitigations=draw(strategies.dictionaries(
            strategies.sampled_from(['l1tf', 'spectre_v2', '~']), _TEXT)),
        page_size_kib=draw(strategies.sampled_from([4, 16, 64])))


@strategies.composite
def _hardware(draw, nodes):
    """What only discovery finds, for a part of the hosts."""
    if draw(strategies.booleans()):
        return {}
    cpus = cpuset.union(node.cpus for node in nodes)
    kinds = draw(_parts(cpus))
    return {
        'offline_cpus': draw(strategies.sampled_from(
            [cpuset.CpuSet(), cpuset.CpuSet([max(cpus) + 1])])),
        'dies': tuple(
            hardware.Die(number // 2, number, part)
            for number, part in enumerate(draw(_parts(cpus)))),
        'caches': draw(_caches(nodes, cpus)),
        'core_kinds': tuple(
            hardware.CoreKind(name, part, capacity)
            for name, part, capacity in zip(
                ('performance', 'efficient', 'capacity-1', 'x'), kinds,
                (1024, 0, 1, 5))),
        'resctrl': draw(_resctrl(cpus)),
        'system': draw(_system(cpus)),
    }


@strategies.composite
def _between(draw, devices):
    """What is between devices."""
    addresses = tuple(device.address for device in devices)
    some = [(), *([addresses] if len(addresses) > 1 else [])]
    return {
        'pci_bridges': draw(strategies.sampled_from([(), (
            hardware.PciBridge('0000:f0:00.0', 'pci0000:f0'),
            hardware.PciBridge(
                '0000:f1:00.0', '0000:f0:00.0', hardware.PciPort.UPSTREAM,
                False, 7))])),
        'nvlinks': draw(strategies.sampled_from(
            [None, *(tuple(hardware.NvLinks(one, 18) for one in some[at:])
                     for at in range(1, len(some) + 1))])),
        'gpu_partitions': tuple(
            hardware.GpuPartition(number, one) for number, one in enumerate(
                draw(strategies.sampled_from(some)) and some[1:]))}


@strategies.composite
def any_host(draw):
    """A host description that can be true."""
    nodes = draw(_nodes())
    devices = tuple(
        draw(_device(bus, nodes))
        for bus in range(draw(strategies.integers(0, 3))))
    return host_model.HostDescription(
        name=draw(strategies.from_regex(
            r'[A-Za-z0-9][A-Za-z0-9._-]{0,20}', fullmatch=True)),
        nodes=nodes,
        pci_devices=devices,
        **draw(_between(devices)),
        nova=draw(_settings(nodes)),
        cpu_model=host_model.CpuModel(
            arch=draw(strategies.sampled_from(['x86_64', 'aarch64'])),
            model=draw(strategies.sampled_from(['', 'EPYC-Milan', 'null'])),
            features=draw(strategies.sampled_from([(), ('avx', 'pdpe1gb')])),
            maxphysaddr_bits=draw(strategies.sampled_from([0, 46]))),
        traits=draw(strategies.frozensets(strategies.sampled_from(
            ['CUSTOM_A', 'CUSTOM_PINNING_DEDICATED']))),
        description=draw(_TEXT),
        **draw(_hardware(nodes)))


def capabilities(description, offline=()):
    """What virsh capabilities prints of a host.

    :param offline: ids of further CPUs, which the first node has offline
    """
    lines = ['<capabilities>', ' <host>', '  <cpu>',
             f'   <arch>{description.cpu_model.arch}</arch>',
             f'   <model>{description.cpu_model.model}</model>',
             f'   <vendor>{description.cpu_model.vendor}</vendor>']
    lines += [f"   <feature name='{name}'/>"
              for name in description.cpu_model.features]
    lines += ['  </cpu>', '  <topology>',
              f"   <cells num='{len(description.nodes)}'>"]
    for node in description.nodes:
        lines += _cell(description, node, offline)
        offline = ()
    lines += ['   </cells>', '  </topology>', '  <cache>']
    lines += [
        f"   <bank id='{number}' level='3' type='both' size='32' unit='MiB' "
        f"cpus='{domain}'/>"
        for number, domain in enumerate(sorted({
            domain for node in description.nodes
            for domain in node.l3_domains}))]
    lines += ['  </cache>', ' </host>', '</capabilities>']
    return '\n'.join(lines)


def _cell(description, node, offline):
    small_kib = description.system.page_size_kib
    huge_kib = sum(size * pages for size, pages in node.huge_pages.items())
    small = (node.memory_mib * 1024 - huge_kib) // small_kib
    yield f"    <cell id='{node.id}'>"
    yield f"     <memory unit='KiB'>{node.memory_mib * 1024}</memory>"
    for size, pages in sorted(
            {small_kib: small, **node.huge_pages}.items()):
        yield f"     <pages unit='KiB' size='{size}'>{pages}</pages>"
    if node.distances:
        yield '     <distances>'
        for other, distance in zip(description.nodes, node.distances):
            yield f"      <sibling id='{other.id}' value='{distance}'/>"
        yield '     </distances>'
    cpus = [(cpu, number, core) for number, core in enumerate(node.cores)
            for cpu in core]
    yield f"     <cpus num='{len(cpus) + len(offline)}'>"
    for cpu, number, core in sorted(cpus):
        socket = next((die.socket for die in description.dies
                       if cpu in die.cpus), node.socket)
        siblings = saxutils.quoteattr(str(cpuset.CpuSet(core)))
        yield (f"      <cpu id='{cpu}' socket_id='{socket}' die_id='0' "
               f"cluster_id='0' core_id='{number}' siblings={siblings}/>")
    for cpu in offline:
        yield f"      <cpu id='{cpu}'/>"
    yield '     </cpus>'
    yield '    </cell>'


@strategies.composite
def any_placement(draw, description):
    """A guest on a host, and the CPUs that others are pinned to."""
    cpus = sorted(description.cpus)
    order = _random(draw).sample(cpus, len(cpus))
    used = cpuset.CpuSet(order[:draw(strategies.integers(0, len(cpus)))])
    pinned = order[::-1][:draw(strategies.integers(0, len(cpus)))]
    vcpus = {number: cpuset.CpuSet([cpu])
             for number, cpu in enumerate(pinned)}
    others = cpuset.CpuSet(cpus) - cpuset.CpuSet(pinned)
    if len(others) > 1:
        vcpus |= {len(vcpus) + number: others
                  for number in range(draw(strategies.integers(0, 3)))}
    emulator = cpuset.CpuSet(draw(strategies.sets(
        strategies.sampled_from(cpus), max_size=4)))
    nodes = draw(strategies.lists(strategies.sampled_from(
        [node.id for node in description.nodes]), unique=True))
    return used, guest_affinity.GuestAffinity(
        vcpu_cpus=vcpus, emulator_cpus=emulator,
        memory_nodes=dict(enumerate(nodes)),
        devices=frozenset(
            device.address for device in description.pci_devices
            if draw(strategies.booleans())),
        name=draw(strategies.text(
            strategies.characters(exclude_categories=('Cs',)), max_size=60)))
