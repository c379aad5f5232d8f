# SPDX-License-Identifier: Apache-2.0
"""Measurements that other work on the machine has disturbed.

What a run is held to presupposes that nothing but its instances ran. The
kernel counts what contradicts that while something is measured: time that
another guest of the same machine had, time that a vCPU waited which has a CPU
for itself, time that CPUs of processes and containers worked for others, and
CPUs at work that no instance was given.
"""

from collections.abc import Sequence

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.report import words
from nova_pinning.instance_bench import statistics

#: Of the time of the CPUs that instances were given, stolen.
STEAL = 0.01
#: Of the time of a pinned guest's vCPUs, waited; of that of CPUs of processes
#: and containers, foreign.
TAKEN = 0.02
#: Of the time of CPUs that no instance was given, busy.
BUSY = 0.5
#: Measurements of a run that may be disturbed before it is held to nothing.
PART = 0.05


def doubt(summary: statistics.RunSummary) -> str:
    """Why the run cannot be held to its figures, '' if it can."""
    measurements = summary.results.measurements
    tenants = {case.key: case.tenants for case in summary.experiment.cases}
    found = [why for one in measurements
             if (why := _of(summary, one, tenants[one.key]))]
    return '' if len(found) <= PART * len(measurements) else (
        f'{len(found):,} of {len(measurements):,} measurements were disturbed '
        f'by other work, the first as {found[0]}')


def _of(summary: statistics.RunSummary,
        measurement: bench_model.Measurement,
        tenants: Sequence[bench_model.Tenant]) -> str:
    """What has disturbed a measurement, '' if nothing that shows."""
    readings = measurement.readings
    seconds = (max((one.ended for one in readings), default=0.0)
               - min((one.started for one in readings), default=0.0))
    given = cpuset.union(one.asked for one in measurement.affinities)
    if not seconds or not given:
        return ''
    stolen = measurement.counters.get('steal_seconds', 0.0) / (
        seconds * len(given))
    if stolen > STEAL:
        return f'{words.percent(stolen)} of its CPUs was stolen'
    for one in readings:
        foreign = one.counters.get('foreign_seconds', 0.0) / seconds
        if foreign > TAKEN:
            return (f'other work took {words.percent(foreign)} of the CPUs of '
                    f'{one.instance}')
    for tenant in filter(_is_alone, tenants):
        for one in readings:
            waited = one.counters.get('run_delay_seconds', 0.0) / (
                seconds * tenant.size.vcpus)
            if one.tenant == tenant.name and waited > TAKEN:
                return (f'vCPUs of {one.instance} waited for a CPU for '
                        f'{words.percent(waited)} of the time')
    busy = [part for sample in measurement.utilisation
            for cpu, part in sample.busy.items() if int(cpu) not in given]
    # A peer works there, too.
    if busy and sum(busy) > BUSY * len(busy) and not any(
            summary.results.workloads[tenant.workload].peer
            for tenant in tenants):
        return ('CPUs of no instance were '
                f'{words.percent(sum(busy) / len(busy))} busy')
    return ''


def _is_alone(tenant: bench_model.Tenant) -> bool:
    """Whether threads of vCPUs have CPUs that nothing else is meant for.

    Only of guests they are told apart from others of the instance.
    """
    return (tenant.platform in (bench_model.PlatformName.GUEST,
                                bench_model.PlatformName.CONTAINER_IN_GUEST)
            and tenant.provisioning is bench_model.Provisioning.PINNED
            and tenant.emulator_threads in (
                bench_model.EmulatorThreads.SHARE,
                bench_model.EmulatorThreads.ISOLATE)
            and tenant.network_cpus is not bench_model.NetworkCpus.VCPUS)
