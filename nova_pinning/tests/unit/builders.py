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

"""Hosts, guests and requests for tests, with all that is usual left out.

The engine's own values are made here; nova's objects come from the cases of
:mod:`nova_pinning.tests.oracle`, written with
:mod:`nova_pinning.tests.unit.oracle.cases`.
"""

import uuid

from hypothesis import strategies
from nova import objects
from nova.scheduler import host_manager

from nova_pinning import cpuset
from nova_pinning import model
from nova_pinning.tests.oracle import case as case_lib
from nova_pinning.tests.oracle import generate
from nova_pinning.tests.unit.oracle import cases

#: A hypothesis strategy: whatever the oracle's generator can make. Cases come
#: by number, which takes a tenth of the time of drawing each figure;
#: nova_pinning.tests.oracle.shrink makes one that fails smaller.
ANY_CASE = strategies.builds(
    generate.generate, strategies.just(7), strategies.integers(0, 10 ** 6))


def host_cell(number=0, cpus=(), threads=1, **values):
    """A host cell whose dedicated CPUs are these; values override fields.

    :param cpus: dedicated CPU ids
    :param threads: how many neighbours in cpus make up a core
    """
    cpus = tuple(cpus)
    for name in ('shared_cpus', 'dedicated_cpus', 'pinned_cpus'):
        if name in values:
            values[name] = cpuset.CpuSet(values[name])
    return model.HostCell(**{
        'id': number,
        'shared_cpus': cpuset.CpuSet(),
        'dedicated_cpus': cpuset.CpuSet(cpus),
        'pinned_cpus': cpuset.CpuSet(),
        'cores': tuple(cpus[first:first + threads]
                       for first in range(0, len(cpus), threads)),
        'memory_mib': 16384,
    } | values)


def host(*cells, **ratios):
    return model.Host(tuple(cells), **ratios)


def guest(*cells, **values):
    """A dedicated guest; each cell is (vCPUs, MiB) or (.., page size)."""
    made = []
    first = 0
    for vcpus, memory_mib, *page_size in cells:
        made.append(model.GuestCell(
            tuple(range(first, first + vcpus)), (), memory_mib, *page_size))
        first += vcpus
    return model.Guest(tuple(made), **{
        'cpu_policy': model.CpuPolicy.DEDICATED} | values)


def floating_guest(*cells, **values):
    """A shared guest; each cell is (vCPUs, MiB) or (.., page size)."""
    made = []
    first = 0
    for vcpus, memory_mib, *page_size in cells:
        made.append(model.GuestCell(
            (), tuple(range(first, first + vcpus)), memory_mib, *page_size))
        first += vcpus
    return model.Guest(tuple(made), **values)


def model_of(case):
    """A case as the engine's own values, worked out without the bridge.

    :returns: (model.Host, model.Guest)
    """
    cells = []
    for data, nova_cell in zip(case.data['host'], case.host().cells):
        network = data['network'] or {'physnets': (), 'tunneled': False}
        cells.append(model.HostCell(
            id=data['id'],
            shared_cpus=cpuset.CpuSet(data['shared']),
            dedicated_cpus=cpuset.CpuSet(data['dedicated']),
            pinned_cpus=cpuset.CpuSet(data['pinned']),
            # Nova takes the free threads of a core in the order in which
            # Python iterates over this very set.
            cores=tuple(
                (*free, *(core - free)) for free, core in zip(
                    nova_cell.free_siblings, nova_cell.siblings)),
            memory_mib=data['memory'],
            memory_used_mib=data['memory_used'],
            shared_used=data['cpu_usage'],
            pages=tuple(model.PagePool(*pool) for pool in data['pages']),
            physnets=frozenset(network['physnets']),
            tunneled=network['tunneled'],
            socket=data['socket']))
    limits = case.data['limits'] or {'cpu': None, 'ram': None, 'network': None}
    network = limits['network'] or {'physnets': (), 'tunneled': False}
    data = case.data['guest']
    return model.Host(tuple(cells), limits['cpu'], limits['ram']), model.Guest(
        cells=tuple(
            model.GuestCell(
                tuple(sorted(cell['dedicated'])),
                tuple(sorted(cell['shared'])),
                cell['memory'], data['pagesize'])
            for cell in data['cells']),
        cpu_policy=model.CpuPolicy(data['policy'] or 'shared'),
        thread_policy=model.ThreadPolicy(data['threads'] or 'prefer'),
        emulator_isolated=data['emulator'] == 'isolate',
        physnets=frozenset(network['physnets']),
        tunneled=network['tunneled'])


def host_state(name='host1', topology=None, **values):
    """A nova HostState; values override attributes.

    :param topology: nova.objects.NUMATopology or None
    """
    state = host_manager.HostState(name, f'{name}.example', uuid.uuid4().hex)
    state.uuid = str(uuid.uuid4())
    state.numa_topology = topology
    state.cpu_allocation_ratio = 16.0
    state.ram_allocation_ratio = 1.5
    state.allocation_candidates = [{'mappings': {}}]
    for key, value in values.items():
        setattr(state, key, value)
    return state


def host_topology(*cells):
    """A nova.objects.NUMATopology of cells as cases.host_cell makes them."""
    return cases.case(list(cells), cases.guest((1, 1))).host()


def guest_topology(*cells, **values):
    """A nova.objects.InstanceNUMATopology as cases.guest makes it."""
    return cases.case([], cases.guest(*cells, **values)).guest()


def aggregate(name='aggregate1', **metadata):
    """A nova.objects.Aggregate; ``__`` in a key stands for a colon."""
    case_lib.setup()
    return objects.Aggregate(name=name, metadata={
        key.replace('__', ':'): value for key, value in metadata.items()})


def spec(topology=None, extra_specs=None, image=None, **values):
    """A nova.objects.RequestSpec; values override fields.

    :param topology: nova.objects.InstanceNUMATopology or None
    :param image: image properties
    """
    case_lib.setup()
    return objects.RequestSpec(**{
        'instance_uuid': str(uuid.uuid4()),
        'flavor': objects.Flavor(
            vcpus=1, memory_mb=1, root_gb=0, ephemeral_gb=0, swap=0,
            extra_specs=extra_specs or {}),
        'image': objects.ImageMeta(
            properties=objects.ImageMetaProps(**image or {})),
        'numa_topology': topology,
        'pci_requests': objects.InstancePCIRequests(requests=[]),
        'requested_resources': [],
        'scheduler_hints': {},
    } | values)


def scheduled(case):
    """A case as nova-scheduler sees it.

    :returns: (HostState, RequestSpec)
    """
    inputs = case.inputs()
    limits = inputs.limits
    state = host_state(topology=inputs.host_topology)
    if limits:
        state.cpu_allocation_ratio = limits.cpu_allocation_ratio
        state.ram_allocation_ratio = limits.ram_allocation_ratio
    state.pci_stats = inputs.pci_stats
    state.allocation_candidates = [{'mappings': inputs.provider_mapping}]
    values = {}
    if limits and 'network_metadata' in limits:
        values['network_metadata'] = limits.network_metadata
    extra_specs = {
        f'hw:{key}': value for key, value in (
            ('cpu_policy', case.data['guest']['policy']),
            ('cpu_thread_policy', case.data['guest']['threads'])) if value}
    return state, spec(
        inputs.instance_topology, extra_specs,
        pci_requests=objects.InstancePCIRequests(
            requests=inputs.pci_requests or []), **values)
