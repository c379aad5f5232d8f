# SPDX-License-Identifier: Apache-2.0
"""Hosts with GPUs: what is sold of them, and what nobody can use any more.

How many guests ask for how many GPUs is as in Alibaba's trace of 2023 with
half of its GPUs in guests of several (openb_pod_list_multigpu50), fractions of
GPUs left out, and so are the vCPUs of guests without. Those of 16 and 32 come
only where there are hosts without GPUs: elsewhere, one of them takes the CPUs
of one or two GPUs wherever it is put, which strands 7% of the GPUs at least.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import functools
from typing import Any

from benchmarks.scheduling import fleets
from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.fleet import shapes
from nova_pinning.model import weighers
from nova_pinning.simulation import admission_columns
from nova_pinning.simulation import column_scheduler
from nova_pinning.simulation import fast
from nova_pinning.simulation import scheduler_configuration
from nova_pinning.simulation import simulation_run
from nova_pinning import units

OURS = 'pinning'
#: What the others are held against.
COMPARED = 'nova-default', 'nova-packing'
#: Of all GPUs, how many may be stranded at most.
MOST_STRANDED = 0.05

_GPU = devices.device_keys('10de', '2330')
_CPUS_PER_GPU, _GIB_PER_CPU, _GPUS_PER_CELL = 12, 4, 4
_HOST = shapes.HostTemplate(
    name='gpus', description='', sockets=2, cores=32, l3_cores=8,
    kept_cores={0: 2, 1: 2}, memory_mib=400 * units.MIB_PER_GIB,
    memory_per_vcpu_mib=_GIB_PER_CPU * units.MIB_PER_GIB, mix='8:1',
    cell_devices=(shapes.TemplateDevices('gpu', _GPU, _GPUS_PER_CELL, 0),))


def _guest(gpus: int) -> guest_request.GuestRequest:
    cpus = _CPUS_PER_GPU * gpus
    plain = fleets.guest(cpus, _GIB_PER_CPU * cpus,
                         cells=1 if gpus <= _GPUS_PER_CELL else 2)
    return dataclasses.replace(
        plain, name=f'{gpus} GPUs',
        devices=(devices.PciRequest('gpu', (_GPU,), gpus),))


_WITH: fleets.Mix = tuple(
    (_guest(gpus), weight)
    for gpus, weight in ((1, 3911), (2, 222), (4, 206), (8, 556)))
_WITHOUT = {8: 185, 12: 366, 16: 215, 32: 290}


def _scenario(
    title: str, without: Iterable[tuple[int, int]], with_gpus: int,
    others: int = 0,
) -> fleets.Scenario:
    """
    :param without: vCPUs and weight of each size without GPUs
    :param with_gpus: hosts
    :param others: hosts without
    """
    return fleets.Scenario(
        title=f'1, 2, 4 and 8 GPUs with 12 vCPUs each, {title}',
        fleet=fleets.with_devices(with_gpus, with_gpus + others, _HOST),
        has_bound=False,
        mix=(*_WITH, *((fleets.guest(cpus, _GIB_PER_CPU * cpus), weight)
                       for cpus, weight in without)))


SCENARIOS: Mapping[str, Callable[[], fleets.Scenario]] = {
    'gpus': functools.partial(
        _scenario, 'and guests of 8 to 32 vCPUs without, on 12 hosts of 2 '
        'cells of 60 CPUs and 4 GPUs and 6 hosts like them without GPUs',
        [(cpus, 4 * weight) for cpus, weight in _WITHOUT.items()], 12, 6),
    'gpus-filled': functools.partial(
        _scenario, 'and guests of 8 and 12 vCPUs without, on 16 hosts of 2 '
        'cells of 60 CPUs and 4 GPUs',
        [(cpus, 3 * _WITHOUT[cpus]) for cpus in (8, 12)], 16),
    'gpus-apart': functools.partial(
        _scenario, 'on 16 hosts of 2 cells of 60 CPUs and 4 GPUs that are '
        'theirs alone', (), 16)}

_OURS = scheduler_configuration.NAMED[OURS]
#: By name, in the order of the table.
CONFIGURATIONS = {
    named.name: named for named in (
        *map(scheduler_configuration.NAMED.__getitem__, COMPARED), _OURS,
        dataclasses.replace(_OURS, name='pinning-without-L3', multipliers={
            **_OURS.multipliers, weighers.CACHE_LOCALITY: 0.0}))
}


def sold_and_stranded(
    scenario: fleets.Scenario, name: str, seed: int, share: float, window: int,
) -> tuple[float, float]:
    """Which shares of the GPUs are sold, and stranded, at the limit.

    :param name: of the configuration
    :param share: of the last so many (window) arrivals that are refused then
    """
    made: list[fast.FastScheduler] = []

    def factory(
        columns: admission_columns.AdmissionColumns,
        configuration: scheduler_configuration.SchedulerConfiguration,
    ) -> column_scheduler.ColumnScheduler[Any]:
        made.append(fast.FastScheduler(columns, configuration))
        return made[0]

    simulation_run.run(
        scenario.fleet, scenario.arrivals(seed), CONFIGURATIONS[name],
        seed=seed, factory=factory, plan=simulation_run.RunPlan(
            refused_share=share, window=window, stops_at_limit=True))
    ledger = made[0].ledger
    total = sum(pool.total for host in ledger.hosts for pool in host.pci_pools)
    # Larger guests have as many CPUs to each GPU, and use no more.
    usable = sum(
        len(made[0].columns.judge.filled(
            scenario.mix[0][0], occupancy).guests) - len(occupancy.guests)
        for occupancy in ledger.occupancies if occupancy.host.pci_pools)
    free = int(ledger.free_devices.sum())
    return (total - free) / total, (free - usable) / total
