# SPDX-License-Identifier: Apache-2.0
"""Random families of a catalogue, images and hosts, for the flavor fuzz.

A case is plain JSON: ``host`` (what host() takes), ``family`` (as it stands in
a catalogue, with one size), ``numa_cell`` and ``image``.
"""

import random
import typing as ty

from nova_pinning import cpuset
from nova_pinning.host import host_model

GIB = 1024  # in MiB
#: Cases that follow each other are for one host: to start it takes longest.
PER_HOST = 50
_DEDICATED = 'CUSTOM_PINNING_DEDICATED'
_SHARED = 'CUSTOM_PINNING_SHARED'

Case = dict[str, ty.Any]


def generate(seed: int, number: int) -> Case:
    """A case; the same whenever it is asked for."""
    host = _host(random.Random(f'{seed} host {number // PER_HOST}'))
    chance = random.Random(f'{seed} {number}')
    family = _family(chance, host)
    return {'host': host, 'family': family, 'image': _image(chance),
            'numa_cell': {
                'vcpus': host['cores'] * host['threads'],
                'memory': f'{host["memory_gib"]}GiB'}}


def _host(chance: random.Random) -> Case:
    nodes, cores = chance.choice((1, 2, 2, 4)), chance.choice((4, 8, 8, 12))
    threads = chance.choice((1, 2, 2, 2))
    memory_gib = chance.choice((8, 16, 32))
    kinds = chance.choice(('both',) * 5 + ('dedicated', 'shared', 'legacy'))
    return {
        'nodes': nodes, 'cores': cores, 'threads': threads,
        'memory_gib': memory_gib, 'kinds': kinds,
        'pages_2m': chance.choice((0, memory_gib // 4 * 512)),
        'pages_1g': chance.choice((0, memory_gib // 4, memory_gib // 2)),
        'kept': chance.choice((0, 1)),
        'ratio': chance.choice((1.0, 2.0, 4.0, 8.0)),
        'reserved': chance.choice((0, 0, 512)),
        'traits': chance.choice((
            [], [], [], [_DEDICATED] if kinds != 'shared' else [_SHARED])),
        'nvme': [chance.choice((None, *range(nodes)))
                 for _ in range(chance.choice((0, 1, 2, 4)))]}


def host(case: Case) -> host_model.HostDescription:
    """The host of a case."""
    told = case['host']
    each = told['cores'] * told['threads']
    nodes = []
    dedicated: set[int] = set()
    shared: set[int] = set()
    for node in range(told['nodes']):
        first = node * each
        made = tuple(tuple(range(cpu, cpu + told['threads']))
                     for cpu in range(first, first + each, told['threads']))
        pages = {size: told[key] for size, key in (
            (2048, 'pages_2m'), (1048576, 'pages_1g')) if told[key]}
        nodes.append(host_model.NumaNode(
            node, node // 2 if told['nodes'] > 2 else node, made,
            told['memory_gib'] * GIB, pages))
        kept = 0 if node else told['kept']
        floating = kept + 1 + told['cores'] // 8
        if told['kinds'] in ('both', 'dedicated'):
            dedicated.update(cpu for core in made[floating:] for cpu in core)
        if told['kinds'] in ('both', 'shared'):
            shared.update(cpu for core in made[kept:floating]
                          for cpu in core)
        if told['kinds'] == 'shared':
            shared.update(cpu for core in made[kept:] for cpu in core)
    return host_model.HostDescription(
        'host', tuple(nodes), pci_devices=tuple(
            host_model.PciDevice(f'0000:{number + 16:02x}:00.0', '8086',
                                 '0a54', node, 'nvme')
            for number, node in enumerate(told['nvme'])),
        nova=host_model.NovaSettings(
            cpuset.CpuSet(dedicated) if dedicated else None,
            cpuset.CpuSet(shared) if shared else None,
            cpu_allocation_ratio=told['ratio'],
            reserved_memory_mib=told['reserved']),
        traits=frozenset(told['traits']))


def _family(chance: random.Random, told: Case) -> Case:
    """A family of one size; most of it is such as somebody might write."""
    def sometimes(part: float) -> bool:
        return chance.random() < part

    each = told['cores'] * told['threads']
    vcpus = chance.choice((1, 2, 2, 2, 4, 4, 4, 6, 8, each - 2, each, 3))
    vcpus = max(1, vcpus)
    kind = chance.choice(('dedicated', 'dedicated', 'shared', 'mixed', None))
    family: Case = {'sizes': {'s': {
        'vcpus': vcpus,
        'memory': '{}MiB'.format(chance.choice(
            (1024, 2048, 2048, 4096, 4096, 8192, 3000))),
    }}}
    if kind:
        family['class'] = kind
    if kind in ('dedicated', 'mixed'):
        if sometimes(0.7):
            family['thread_policy'] = chance.choice(
                ('require', 'require', 'prefer', 'prefer', 'isolate'))
        if sometimes(0.3):
            family['emulator_threads'] = chance.choice(
                ('share', 'isolate', 'on-vcpus'))
        if sometimes(0.15):
            family['realtime'] = {'vcpus': chance.choice(('^0', '^0-1'))}
            family['page_size'] = 'large'
            family['locked_memory'] = True
    if kind == 'mixed' and 'realtime' not in family:
        family['dedicated_vcpus'] = chance.choice((
            {'count': 'vcpus/2'}, {'count': 2}, '^0', '^0-1', '1-2'))
    if sometimes(0.6):
        family['numa_nodes'] = chance.choice((
            1, 1, 1, min(2, told['nodes']), min(2, vcpus), 'fewest', 'fewest',
            _cells(chance, vcpus, family['sizes']['s'])))
    if sometimes(0.7) and 'page_size' not in family:
        family['page_size'] = chance.choice(
            ('large', 'small', 'small', 'any', '2MiB', '1GiB'))
    if sometimes(0.6):
        family['cpu_topology'] = chance.choice((
            'match-host', 'match-host', 'none', {'threads': 2},
            {'sockets': 1}, {'sockets': 2, 'threads': 2}))
    if sometimes(0.2):
        family['pci_devices'] = {'nvme': chance.choice((1, 2))}
        if sometimes(0.6):
            family['pci_devices']['affinity'] = chance.choice(
                ('required', 'preferred', 'legacy', 'socket'))
    if sometimes(0.7) and kind:
        wanted = 'forbidden' if kind == 'shared' else 'required'
        family['traits'] = {wanted: [_DEDICATED]}
    if sometimes(0.1):
        family['cpu_topology_limits'] = {
            chance.choice(('sockets', 'cores', 'threads')): 2}
    if sometimes(0.05):
        family['memory_encryption'] = True
    if sometimes(0.05):
        family['tpm'] = {'version': '2.0'}
    if sometimes(0.05):
        family['secure_boot'] = 'required'
    if sometimes(0.15):
        family['extra_specs'] = dict(chance.sample(
            _EXTRA, chance.choice((1, 1, 2, 3))))
    return family


def _cells(chance: random.Random, vcpus: int, size: Case) -> ty.Any:
    """Two cells that are written out, some of them interleaved."""
    if vcpus < 2:
        return 1
    memory = int(size['memory'].removesuffix('MiB')) // 2
    numbers = list(range(vcpus))
    if chance.random() < 0.5:
        numbers = numbers[::2] + numbers[1::2]
    cut = chance.choice((vcpus // 2, 1))
    return [{'vcpus': str(cpuset.CpuSet(part)), 'memory': f'{memory}MiB'}
            for part in (numbers[:cut], numbers[cut:])]


#: What a catalogue has no words for, or says in others.
_EXTRA = [
    ('hw:cpu_thread_policy', 'require'), ('resources:VCPU', '0'),
    ('resources:MEMORY_MB', '0'), ('resources:CUSTOM_GOLD', '1'),
    ('resources1:CUSTOM_GOLD', '1'), ('resources2:CUSTOM_GOLD', '1'),
    ('trait1:HW_CPU_X86_AVX', 'required'), ('group_policy', 'none'),
    ('trait:CUSTOM_GOLD', 'required'), ('trait:CUSTOM_GOLD', 'forbidden'),
    ('trait:HW_CPU_HYPERTHREADING', 'required'),
    ('trait:HW_CPU_HYPERTHREADING', 'forbidden'),
    ('trait1:HW_CPU_HYPERTHREADING', 'required'),
    ('resources:PCPU', '2'), ('resources:PCPU', '4'),
    ('resources:VCPU', '2'), ('resources1:PCPU', '2'),
    ('hw:mem_page_size', '2048'), ('hw:cpu_max_threads', '1'),
    ('hw:numa_nodes', '2'), ('hw:pmem', '4GB'),
    ('hw:watchdog_action', 'reset'), ('hw:serial_port_count', '2'),
    ('resources_A:CUSTOM_GOLD', '1'), ('trait_A:CUSTOM_GOLD', 'required'),
    ('hw:emulator_threads_policy', 'isolate'), ('hw:cpu_realtime', 'yes'),
    ('pci_passthrough:alias', 'nvme:0'), ('quota:cpu_shares', '1024'),
    ('accel:device_profile', 'fpga'), ('hw:pci_numa_affinity_policy',
                                       'required')]


def _image(chance: random.Random) -> dict[str, str] | None:
    return chance.choice((
        *(None,) * 15, {}, {'hw_machine_type': 'q35'},
        {'hw_cpu_cores': '2'}, {'hw_cpu_policy': 'dedicated'},
        {'hw_cpu_thread_policy': 'require'}, {'hw_numa_nodes': '2'},
        {'hw_mem_page_size': 'small'},
        {'hw_pci_numa_affinity_policy': 'required'},
        {'trait:CUSTOM_GOLD': 'required'},
        {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35',
         'hw_firmware_stateless': 'true', 'hw_video_model': 'none'}))
