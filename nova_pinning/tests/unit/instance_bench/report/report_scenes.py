# SPDX-License-Identifier: Apache-2.0
"""Made-up runs of experiments for all kinds of tables."""

import itertools
import random

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_model
from nova_pinning.model import hostclass

BM = bench_model.PlatformName.BARE_METAL
VM = bench_model.PlatformName.GUEST
CN = bench_model.PlatformName.CONTAINER
VANILLA = bench_model.Provisioning.VANILLA
PINNED = bench_model.Provisioning.PINNED
DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED

CONDITIONS = bench_model.Conditions(
    cpu_model='A CPU <of> "ours"', cpus=16, memory_mib=65536,
    topology='1 socket, 1 NUMA node, 8 cores, 16 CPUs, 2 L3 domains',
    kernel='6.12.1', governor='performance', smt='on', load=0.1,
    mitigations={'meltdown': 'Not affected', 'mds': 'Mitigation: buffers'},
    layout={'dedicated': cpuset.CpuSet.parse('4-11'),
            'shared': cpuset.CpuSet.parse('12-15'),
            'host': cpuset.CpuSet.parse('0-3')},
    versions={'qemu': '9.1.0', 'sysbench': '1.0.20'})


def workload(name='sysbench-cpu', *figures):
    """figures: name, unit and which is better, each."""
    return bench_model.Workload(
        name=name, workload_class=bench_model.WorkloadClass.CPU,
        about='It counts.',
        command=f'{name} run', figures=tuple(bench_model.WorkloadFigure(
            name=figure, unit=unit, better=bench_model.Better(better),
            pattern=None if figure == 'seconds' else f'{figure}: (.*)')
            for figure, unit, better in figures
            or (('events', '1/s', 'higher'),)))


def tenant(name='measured', **changes):
    values = {
        'role': bench_model.Role.MEASURED, 'workload': 'sysbench-cpu',
        'platform': VM, 'provisioning': PINNED, 'guest_class': DEDICATED,
        'size': bench_model.InstanceSize(vcpus=2, memory_mib=2048)}
    return bench_model.Tenant(name=name, **values | changes)


def neighbours(**changes):
    return tenant('neighbours', role=bench_model.Role.NEIGHBOUR, **changes)


def case(*tenants, skipped='', **factors):
    return bench_model.Case(factors=factors, tenants=tenants, skipped=skipped)


class Run:
    """Results in the making."""

    def __init__(self, table, workloads, *, name='', seed=1, repetitions=12,
                 rounds=1, baseline=None):
        self._random = random.Random(f'{table} {seed}')
        self._workloads = {workload.name: workload for workload in workloads}
        self._table = table
        self._name = name or f'an-experiment-of-{table}'
        self._repetitions = repetitions
        self._rounds = rounds
        self._baseline = baseline or {}
        self._cases = []
        self.measurements = []

    def add(self, case, levels, *, spread=0.01, flags=(), affinity='4',
            inside=0.0):
        """Measure a case.

        :param levels: for each tenant that is read the mean of its figures
        :param spread: standard deviation by mean, or for each tenant
        :param affinity: where the first vCPU is seen, asked for being 4 to 7
        """
        self._cases.append(case)
        if case.skipped:
            return
        for round_, repetition in itertools.product(
                range(self._rounds), range(self._repetitions)):
            readings = []
            for tenant in case.tenants:
                if tenant.name in levels:
                    readings.extend(self._readings(
                        tenant, levels[tenant.name], spread, inside))
            self.measurements.append(bench_model.Measurement(
                factors=case.factors, round=round_, repetition=repetition,
                started=1.75e9 + 60 * len(self.measurements), load=0.2,
                readings=tuple(readings), flags=flags,
                affinities=tuple(bench_model.Affinity(
                    thread=f'{reading.instance}: vCPU 0',
                    asked=cpuset.CpuSet.parse('4-7'),
                    seen=cpuset.CpuSet.parse(affinity))
                    for reading in readings)))

    def _readings(self, tenant, level, spread, inside):
        if isinstance(spread, dict):
            spread = spread[tenant.name]
        for number in range(tenant.count):
            figures = {
                figure.name: (level * (1 + 0.1 * index)
                              * self._random.gauss(1, spread))
                for index, figure in enumerate(
                    self._workloads[tenant.workload].figures)}
            yield bench_model.Reading(
                tenant=tenant.name, instance=f'{tenant.name}-{number}',
                command=f'{tenant.workload} run --threads=2', figures=figures,
                outside_seconds=10.1, inside_seconds=10.0 + inside,
                tolerance_seconds=0.2)

    def results(self, conditions=CONDITIONS, failures=()):
        return bench_model.Results(
            experiment=bench_model.Experiment(
                name=self._name, about='It shows what it shows.',
                table=self._table, cases=tuple(self._cases),
                baseline=self._baseline, repetitions=self._repetitions,
                rounds=self._rounds),
            workloads=self._workloads, conditions=(conditions,),
            measurements=tuple(self.measurements), failures=failures)


def levels(slow=0.6, floating_spread=0.15, **options):
    """Dedicated and shared instances, idle and among neighbours."""
    stream = workload('stream', ('copy', 'MB/s', 'higher'),
                      ('scale', 'MB/s', 'higher'), ('latency', 'us', 'lower'))
    run = Run('levels', [workload(), stream],
              baseline={'scenario': 'bare metal'}, **options)
    for name, level in (('sysbench-cpu', 1200.0), ('stream', 23000.0)):
        bare = tenant(platform=BM, workload=name)
        pinned = tenant('enterprise', workload=name)
        shared = tenant('shared', provisioning=VANILLA, guest_class=SHARED,
                        workload=name)
        for scenario, part, spread, tenants in (
                ('bare metal', 1.0, 0.004, (bare,)),
                ('enterprise, idle host', 0.97, 0.006, (pinned,)),
                ('shared, idle host', 0.96, 0.01, (shared,)),
                ('enterprise beside shared, 3x', 0.96, 0.007,
                 (pinned, neighbours(count=6, guest_class=SHARED))),
                ('shared beside enterprise, 3x', slow, floating_spread,
                 (shared, neighbours(count=6, guest_class=SHARED)))):
            run.add(case(*tenants, scenario=scenario, workload=name),
                    {tenants[0].name: level * part}, spread=spread)
    run.add(case(pinned, scenario='enterprise fills the host',
                 workload='stream', skipped='needs 32 CPUs, there are 16'),
            {})
    return run


def mutex(**options):
    contend = workload('mutex', ('seconds', 's', 'lower'))
    run = Run('mutex', [contend], baseline={'scenario': 'host SMP'},
              **options)
    for scenario, platform, level in (
            ('host SMP', BM, 3.1), ('host UP', BM, 1.2),
            ('guest of 2 CPUs, SMP', VM, 7.4),
            ('guest of 2 CPUs, UP', VM, 1.4), ('guest of 1 CPU', VM, 1.35)):
        run.add(case(tenant(platform=platform, workload='mutex'),
                     scenario=scenario), {'measured': level}, spread=0.04)
    return run


def priority(ratio=0.75, spread=0.01, **options):
    fixed = workload('sysbench-cpu-fixed', ('seconds', 's', 'lower'))
    run = Run('priority', [fixed], **options)
    for threads, light, part in ((1, 20.0, 1.0), (4, 12.0, ratio),
                                 (6, 12.3, ratio)):
        size = bench_model.InstanceSize(vcpus=4, memory_mib=2048)
        both = [tenant(name, weight=weight, provisioning=VANILLA,
                       guest_class=SHARED, workload='sysbench-cpu-fixed',
                       size=size, parameters={'threads': threads})
                for name, weight in (('heavy', 100), ('light', 50))]
        run.add(case(*both, threads=str(threads)),
                {'heavy': light * part, 'light': light}, spread=spread)
    return run


def ladder(**options):
    run = Run('ladder', [
        workload('sysbench-cpu'), workload(
            'sysbench-memory-read', ('rate', 'MiB/s', 'higher'))],
        baseline={'platform': 'bm'}, **options)
    for name, threads, platform in itertools.product(
            ('sysbench-cpu', 'sysbench-memory-read'), (1, 2, 4, 6, 8, 12),
            (BM, VM)):
        level = 400.0 * min(threads, 8) * (
            1 if platform is BM else 0.97 - 0.01 * threads)
        run.add(case(
            tenant(platform=platform, workload=name,
                   parameters={'threads': threads},
                   size=bench_model.InstanceSize(vcpus=8, memory_mib=2048)),
            workload=name, platform=str(platform), threads=str(threads)),
            {'measured': level}, spread=0.015)
    return run


def overhead(platform=0.05, by_size=0.6, **options):
    ffmpeg = workload('ffmpeg', ('seconds', 's', 'lower'))
    run = Run('overhead', [ffmpeg], baseline={
        'platform': 'bm', 'provisioning': 'vanilla'}, **options)
    for size, (name, provisioning), level in (
            (size, kind, 200 / size * (1 + part * (platform
                                                   + by_size / size)))
            for size in (2, 4, 8, 16)
            for kind, part in (((BM, VANILLA), 0), ((BM, PINNED), -0.05),
                               ((CN, VANILLA), 0.6), ((CN, PINNED), 0.2),
                               ((VM, VANILLA), 1.2), ((VM, PINNED), 1))):
        run.add(case(
            tenant(platform=name, provisioning=provisioning,
                   workload='ffmpeg', size=bench_model.InstanceSize(
                       vcpus=size, memory_mib=1024 * size)),
            workload='ffmpeg', platform=str(name),
            provisioning=str(provisioning), size=str(size)),
            {'measured': level}, spread=0.01)
    return run


def multitask(**options):
    jobs = [workload('ffmpeg', ('seconds', 's', 'lower')),
            workload('ffmpeg-many', ('seconds', 's', 'lower'))]
    run = Run('multitask', jobs, baseline={
        'platform': 'bm', 'provisioning': 'vanilla'}, **options)
    for job, platform, provisioning, level in (
            ('ffmpeg', BM, VANILLA, 30.0), ('ffmpeg-many', BM, VANILLA, 41.0),
            ('ffmpeg', CN, VANILLA, 31.0), ('ffmpeg-many', CN, VANILLA, 55.0),
            ('ffmpeg', CN, PINNED, 30.2), ('ffmpeg-many', CN, PINNED, 43.0)):
        run.add(case(
            tenant(platform=platform, provisioning=provisioning,
                   workload=job), job=job, platform=str(platform),
            provisioning=str(provisioning)), {'measured': level},
            spread=0.02)
    return run


def network(**options):
    run = Run('network', [workload('iperf3', ('rate', 'Gbit/s', 'higher'))],
              baseline={'interrupts': 'none'}, **options)
    for emulator, interrupts, level in (
            ('share', 'same-cache', 31.0), ('share', 'other-cache', 24.0),
            ('share', 'vcpus', 17.0), ('isolate', 'same-cache', 31.4),
            ('vcpus', 'vcpus', 15.0)):
        guest = tenant(workload='iperf3',
                       network_cpus=bench_model.NetworkCpus(interrupts),
                       emulator_threads=bench_model.EmulatorThreads(emulator))
        run.add(case(guest, emulator=emulator, interrupts=interrupts),
                {'measured': level}, spread=0.03)
    return run


ALL = {'levels': levels, 'mutex': mutex, 'priority': priority,
       'ladder': ladder, 'overhead': overhead, 'multitask': multitask,
       'network': network}
