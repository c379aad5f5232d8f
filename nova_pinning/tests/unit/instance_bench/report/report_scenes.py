# SPDX-License-Identifier: Apache-2.0
"""Made-up runs of experiments for all kinds of tables."""

import dataclasses
import itertools
import random

import fixtures

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import instance_clock
from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench import results_file
from nova_pinning.instance_bench import self_test
from nova_pinning.instance_bench import statistics
from nova_pinning.model import hostclass
from nova_pinning.tests.unit.instance_bench import bench_fakes

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
    versions={'qemu': '9.1.0', 'sysbench': '1.0.20'}, boot_id='first boot')


def sample(values):
    """Values that are independent of each other."""
    return intervals.Sample(clusters=tuple(
        (float(value),) for value in values))


def interval(value, low, high):
    return intervals.Interval(value=value, low=low, high=high)


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


def tenant(name='measured', vcpus=2, **changes):
    return bench_fakes.tenant(name, vcpus, 2048, **{
        'workload': 'sysbench-cpu', **changes})


def neighbours(**changes):
    return tenant('neighbours', role=bench_model.Role.NEIGHBOUR, **changes)


def case(*tenants, skipped='', **factors):
    return bench_model.Case(factors=factors, tenants=tenants, skipped=skipped)


def _clock(time, ahead):
    """A handshake that leaves half a millisecond open."""
    return instance_clock.ClockReading(
        before=time, inside=time + ahead + 0.0005, after=time + 0.001)


class Run:
    """Results in the making, of a repetition in each round."""

    def __init__(self, table='network', workloads=None, *, name='', seed=1,
                 rounds=12, baseline=None):
        self._random = random.Random(f'{table} {seed}')
        self._workloads = {
            one.name: one for one in workloads or [workload()]}
        self._table = table
        self._name = name or f'an-experiment-of-{table}'
        self._rounds = rounds
        self._baseline = baseline or {}
        self.cases = []
        self.measurements = []
        self.clocks = []

    def add(self, case, levels, *, spread=0.01, flags=(), affinity='4',
            rate=1.0, cpus=None):
        """Measure a case.

        :param levels: for each tenant that is read the mean of its figures
        :param spread: standard deviation by mean, or for each tenant
        :param affinity: where the first vCPU is seen, asked for being 4 to 7
        :param rate: of clocks inside
        :param cpus: where each tenant's vCPUs were asked for, if not on 4-7
        """
        self.cases.append(case)
        if case.skipped:
            return
        for number in range(self._rounds):
            readings = []
            for tenant in case.tenants:
                if tenant.name in levels:
                    readings.extend(self._readings(
                        tenant, levels[tenant.name], spread))
            self.measurements.append(bench_model.Measurement(
                factors=case.factors, round=number, repetition=0,
                started=1.75e9 + 60 * len(self.measurements), load=0.2,
                readings=tuple(readings), flags=flags,
                affinities=tuple(bench_model.Affinity(
                    thread=f'{reading.instance}: vCPU 0',
                    asked=cpuset.CpuSet.parse(asked),
                    seen=cpuset.CpuSet.parse(seen))
                    for reading in readings
                    for asked, seen in [
                        ('4-7', affinity) if cpus is None
                        else (cpus[reading.tenant],) * 2])))
        self.clocks.extend(
            instance_clock.ClockCheck(
                factors=case.factors, round=self._rounds - 1,
                instance=reading.instance, first=_clock(0.0, 0.0),
                last=_clock(100.0, 100.0 * (rate - 1)))
            for reading in self.measurements[-1].readings)

    def alone(self, of=None, level=1.0, factors=None, **how):
        """Measure a case of one tenant.

        :param how: as :meth:`add`
        """
        of = of or tenant()
        self.add(case(of, **factors or {'scenario': 'a'}), {of.name: level},
                 **how)
        return self

    def keep(self, is_kept):
        """Forget other measurements than those of some cases' factors."""
        self.measurements[:] = [one for one in self.measurements
                                if is_kept(one.factors)]
        return self

    def _readings(self, tenant, level, spread):
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
                started=1.75e9, ended=1.75e9 + 10.1,
                counters={'run_delay_seconds': 0.02 + 0.001 * number})

    def results(self, failures=(), **conditions):
        """:param conditions: those that are not as in CONDITIONS"""
        return bench_model.Results(
            experiment=bench_model.Experiment(
                name=self._name, about='It shows what it shows.',
                table=self._table, cases=tuple(self.cases),
                baseline=self._baseline, repetitions=1, rounds=self._rounds),
            workloads=self._workloads,
            conditions=(dataclasses.replace(CONDITIONS, **conditions),),
            measurements=tuple(self.measurements), failures=failures,
            clocks=tuple(self.clocks))

    def summary(self, stretch=1.0, **options):
        """:param options: as results has them"""
        return statistics.summarise(self.results(**options), stretch)


def write(results, path):
    """A file of results, as a run would have written it."""
    with results_file.ResultsWriter(path, bench_model.Results(
            experiment=results.experiment,
            workloads=results.workloads)) as writer:
        for line in (*results.conditions, *results.measurements,
                     *results.clocks):
            writer.add(line)


def levels(slow=0.8, floating_spread=0.15, **options):
    """Dedicated and shared instances, idle and among neighbours.

    :param slow: what floating instances get beside neighbours, of what they
        get alone, with a CPU for each vCPU; with three a third of it
    """
    stream = workload('stream', ('copy', 'MB/s', 'higher'),
                      ('scale', 'MB/s', 'higher'), ('latency', 'us', 'lower'))
    run = Run('levels', [workload(), stream],
              baseline={'scenario': 'bare metal'}, **options)
    for name, level in (('sysbench-cpu', 1200.0), ('stream', 23000.0)):
        bare = tenant(platform=BM, workload=name)
        pinned = tenant('enterprise', workload=name)
        shared = tenant('shared', provisioning=VANILLA, guest_class=SHARED,
                        workload=name)
        for scenario, tenants, parts, spread in (
                ('bare metal', (bare,), (1.0,), 0.004),
                ('enterprise, idle host', (pinned,), (0.97,), 0.006),
                ('shared, idle host', (shared,), (0.96,), 0.01),
                *((f'shared at {times}x beside enterprise',
                   (dataclasses.replace(pinned, count=4),
                    dataclasses.replace(shared, count=2 * times)),
                   (0.96, 0.96 * slow / times),
                   {'enterprise': 0.007, 'shared': floating_spread})
                  for times in (1, 3))):
            run.add(case(*tenants, scenario=scenario, workload=name),
                    {tenant.name: level * part
                     for tenant, part in zip(tenants, parts)}, spread=spread,
                    cpus={'measured': '4-5', 'enterprise': '4-11',
                          'shared': '12-15'} if len(tenants) > 1 else None)
    run.add(case(pinned, scenario='enterprise fills the host',
                 workload='stream', skipped='needs 32 CPUs, there are 16'),
            {})
    return run


def isolation(slow=0.8, spread=0.001, times=1, work=None, better='higher',
              **options):
    """Pinned and floating instances beside each other.

    :param slow: what the floating ones get, of what the pinned ones do
    :param times: vCPUs of the floating ones for each of their CPUs
    """
    work = work or workload('sysbench-cpu', ('events', '1/s', better))
    run = Run('levels', [work], **options)
    both = [tenant(name, workload=work.name, provisioning=provisioning,
                   guest_class=guest_class, count=count)
            for name, provisioning, guest_class, count in (
                ('enterprise', PINNED, DEDICATED, 4),
                ('shared', VANILLA, SHARED, 2 * times))]
    run.add(case(*both, scenario='beside each other'),
            {'enterprise': 100.0, 'shared': 100.0 * slow}, spread=spread,
            cpus={'enterprise': '4-11', 'shared': '12-15'})
    return run


def one_cpu():
    """Instances of a vCPU, of which the floating one has one CPU as well."""
    run = Run('levels')
    run.add(case(
        tenant('enterprise', 1),
        tenant('shared', 1, guest_class=SHARED, provisioning=VANILLA),
        scenario='both'), {'enterprise': 100.0, 'shared': 101.0},
        spread=0.001, cpus={'enterprise': '1', 'shared': '0'})
    return run


def mutex(tools=(), **options):
    """Threads that take turns, and threads that compete.

    :param tools: (name, processors, level) of others on the host
    """
    jobs = [dataclasses.replace(
        workload(name, ('median', 'ns', 'lower')),
        workload_class=bench_model.WorkloadClass.SYNCHRONISATION)
        for name in ('handover', 'lock', *(tool[0] for tool in tools))]
    run = Run('mutex', jobs, baseline={'scenario': 'host', 'processors': '2'},
              **options)
    for name, scenario, platform, vcpus, processors, level in (
            ('handover', 'host', BM, 2, '2', 3.1),
            ('handover', 'host', BM, 2, '1', 1.2),
            ('handover', 'guest of 2 CPUs', VM, 2, '2', 7.4),
            ('handover', 'guest of 2 CPUs', VM, 2, '1', 1.4),
            ('handover', 'guest of 1 CPU', VM, 1, '1', 1.35),
            ('lock', 'host', BM, 2, '2', 0.6),
            ('lock', 'host', BM, 2, '1', 1.0),
            *((name, name, BM, 2, processors, level)
              for name, processors, level in tools)):
        run.alone(tenant(vcpus=vcpus, platform=platform, workload=name),
                  level, {'scenario': scenario, 'workload': name,
                          'processors': processors}, spread=0.04)
    return run


def two_processors(on_one=1.0, on_two=2.0, spread=0.01, **options):
    """Threads that take turns on one CPU, and on two."""
    job = dataclasses.replace(
        workload('handover', ('median', 'ns', 'lower')),
        workload_class=bench_model.WorkloadClass.SYNCHRONISATION)
    run = Run('mutex', [job], **options)
    for processors, level in (('1', on_one), ('2', on_two)):
        run.alone(tenant(workload=job.name), level,
                  {'processors': processors}, spread=spread)
    return run


def priority(ratio=0.75, spread=0.01, platform=CN, **options):
    fixed = workload('sysbench-cpu-fixed', ('seconds', 's', 'lower'))
    run = Run('priority', [fixed], **options)
    for threads, light, part in ((1, 20.0, 1.0), (4, 12.0, ratio),
                                 (6, 12.3, ratio)):
        both = [tenant(name, 4, weight=weight, provisioning=VANILLA,
                       platform=platform, guest_class=SHARED,
                       workload='sysbench-cpu-fixed',
                       parameters={'threads': threads})
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
        run.alone(
            tenant(vcpus=8, platform=platform, workload=name,
                   parameters={'threads': threads}),
            level, {'workload': name, 'platform': str(platform),
                    'threads': str(threads)}, spread=0.015)
    return run


def overhead(platform=0.05, by_size=0.6, spread=0.01, **options):
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
        run.alone(
            tenant(vcpus=size, platform=name, provisioning=provisioning,
                   workload='ffmpeg'),
            level, {'workload': 'ffmpeg', 'platform': str(name),
                    'provisioning': str(provisioning), 'size': str(size)},
            spread=spread, cpus={
                'measured': '0-15' if provisioning is VANILLA
                else f'0-{size - 1}'})
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
        run.alone(
            tenant(platform=platform, provisioning=provisioning,
                   workload=job),
            level, {'job': job, 'platform': str(platform),
                    'provisioning': str(provisioning)}, spread=0.02)
    return run


def network(isolate=31.4, better='higher', **options):
    run = Run('network', [workload('iperf3', ('rate', 'Gbit/s', better))],
              baseline={'emulator_threads': 'share',
                        'network_cpus': 'same-cache'}, **options)
    for emulator, interrupts, level in (
            ('share', 'same-cache', 31.0), ('share', 'other-cache', 24.0),
            ('share', 'vcpus', 17.0), ('isolate', 'same-cache', isolate),
            ('vcpus', 'vcpus', 15.0)):
        run.alone(
            tenant(workload='iperf3',
                   network_cpus=bench_model.NetworkCpus(interrupts),
                   emulator_threads=bench_model.EmulatorThreads(emulator)),
            level, {'emulator_threads': emulator, 'network_cpus': interrupts},
            spread=0.03)
    return run


def with_agent(level=37.0, **options):
    run = Run('network', [workload('iperf3', ('rate', 'Gbit/s', 'higher'))],
              baseline={'agent': 'none'}, **options)
    for agent, rate in (('none', 31.0), ('static', level)):
        run.alone(tenant(workload='iperf3',
                         agent=bench_model.AgentScheme(agent)), rate,
                  {'agent': agent}, spread=0.03)
    return run


def latency(**options):
    run = Run('latency', [workload(
        'cyclictest', ('p99.999', 'us', 'lower'), ('mean', 'us', 'lower'),
        ('max', 'us', 'lower'))], **options)
    for provisioning, level in ((PINNED, 20.0), (VANILLA, 90.0)):
        run.alone(tenant(workload='cyclictest', provisioning=provisioning),
                  level, {'workload': 'cyclictest',
                          'provisioning': str(provisioning)}, spread=0.05)
    return run


def matrix(worst=2.0, floating=1.0, cpus=None, **options):
    """Victims beside aggressors; floating ones suffer, pinned ones less.

    :param worst: what aggressors slow floating ones by
    :param floating: what these get, of what pinned ones do
    :param cpus: of the floating ones' tenants, beside an aggressor
    """
    victims = ('sysbench-cpu', 'stream')
    run = Run('neighbours', map(workload, victims),
              baseline={'scenario': 'none'}, **options)
    for name, aggressor, provisioning in itertools.product(
            victims, ('none', 'cpu', 'memory'), (PINNED, VANILLA)):
        slow = 1.0 if aggressor == 'none' else (
            1.1 if provisioning is PINNED else worst)
        victim = tenant('victim', workload=name, provisioning=provisioning)
        run.add(case(*((victim,) if aggressor == 'none'
                       else (victim, neighbours(count=2))),
                     workload=name, scenario=aggressor,
                     provisioning=str(provisioning)),
                {'victim': 1000.0 / slow * (
                    floating if provisioning is VANILLA else 1)},
                cpus=cpus if provisioning is VANILLA
                and aggressor != 'none' else None)
    return run


def copies(spread=0.01, **options):
    run = Run('self-test', **options)
    for number in range(5):
        run.alone(level=100.0, factors={'copy': str(number)}, spread=spread)
    return run


ALL = {'levels': levels, 'mutex': mutex, 'priority': priority,
       'ladder': ladder, 'overhead': overhead, 'multitask': multitask,
       'network': network, 'latency': latency, 'neighbours': matrix,
       'self-test': copies}


def titles(table):
    """The headings of a table."""
    return tuple(column if isinstance(column, str) else column.title
                 for column in table.columns)


def calibration(comparisons=100, including_one=96, stretch=1.0):
    """A self-test's answer; the largest ratio is 1.4."""
    return self_test.Calibration(stretch=stretch, comparisons=tuple(
        self_test.CopyComparison(
            name=f'case {number}', figure='events', ratio=interval(
                1.4, 0.9 if number < including_one else 1.1, 2.0))
        for number in range(comparisons)))


class SelfTest(fixtures.Fixture):
    """A self-test with an answer."""

    def __init__(self, answer=None):
        super().__init__()
        self.answer = answer or calibration()

    def _setUp(self):
        self.useFixture(fixtures.MockPatchObject(
            self_test, 'calibrate', lambda *_results: self.answer))
