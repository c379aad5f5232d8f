# SPDX-License-Identifier: Apache-2.0
"""Hosts, guests and requests for tests, with all that is usual left out.

The engine's own values are made here; nova's objects come from the cases of
:mod:`nova_pinning.tests.oracle`, written with
:mod:`nova_pinning.tests.unit.oracle.oracle_cases`.
"""

from hypothesis import strategies
from nova import objects

from nova_pinning import cpuset
from nova_pinning import model
from nova_pinning.tests.oracle import case_generator
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.oracle import scheduled_cases
from nova_pinning.tests.unit.oracle import oracle_cases

#: A hypothesis strategy: whatever the oracle's generator can make. Cases come
#: by number, which takes a tenth of the time of drawing each figure;
#: nova_pinning.tests.oracle.shrink makes one that fails smaller.
ANY_CASE = strategies.builds(case_generator.generate, strategies.just(7),
                             strategies.integers(0, 10**6))

host_state = scheduled_cases.host_state
spec = scheduled_cases.spec


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


def host_topology(*cells):
    """A nova.objects.NUMATopology of cells as cases.host_cell makes them."""
    return oracle_cases.case(list(cells), oracle_cases.guest((1, 1))).host()


def guest_topology(*cells, **values):
    """A nova.objects.InstanceNUMATopology as cases.guest makes it."""
    return oracle_cases.case([], oracle_cases.guest(*cells, **values)).guest()


def aggregate(name='aggregate1', **metadata):
    """A nova.objects.Aggregate; ``__`` in a key stands for a colon."""
    oracle_case.setup()
    return objects.Aggregate(name=name, metadata={
        key.replace('__', ':'): value for key, value in metadata.items()})


def scheduled(case):
    """A case as nova-scheduler sees it.

    :returns: (HostState, RequestSpec)
    """
    return scheduled_cases.state_of(case), scheduled_cases.spec_of(case)
