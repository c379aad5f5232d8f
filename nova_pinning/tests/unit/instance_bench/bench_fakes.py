# SPDX-License-Identifier: Apache-2.0
"""Make-believe platforms for the tests of measurements.

Whatever goes out into the world is a step of a World, which has a clock of
its own, knows what runs, and can raise an error at any step.
"""

import contextlib
import dataclasses
import re

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import cpu_layout
from nova_pinning.instance_bench import experiment_file
from nova_pinning.instance_bench import instance_clock
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench import run_edges
from nova_pinning.model import hostclass

_NANOSECONDS = re.compile(r'end=.* \+ (\d+)\)\)')
EPOCH = 500_000_000

WORKLOAD = bench_model.Workload(
    name='spin', workload_class=bench_model.WorkloadClass.CPU, about='Spins.',
    command='spin --threads={threads} --seconds={duration}',
    figures=(bench_model.WorkloadFigure(name='turns', unit='1/s',
                                        better=bench_model.Better.HIGHER,
                                        pattern=r'turns: ([0-9.]+)'),
             bench_model.WorkloadFigure(name='seconds', unit='s',
                                        better=bench_model.Better.LOWER,
                                        pattern=None)),
    prepare=('mkdir {work}/spin',),
    parameters={'threads': 1, 'duration': 10}, seconds=10)
PEERED = dataclasses.replace(WORKLOAD, name='peered', peer='serve {peer}')
TRAFFIC = dataclasses.replace(
    WORKLOAD, name='traffic',
    workload_class=bench_model.WorkloadClass.NETWORK)
WORKLOADS = {workload.name: workload
             for workload in (WORKLOAD, PEERED, TRAFFIC)}


def tenant(name='enterprise', vcpus=1, memory_mib=1024, **changes):
    """A tenant, of pinned guests if nothing else is said."""
    return bench_model.Tenant(**{
        'name': name, 'role': bench_model.Role.MEASURED, 'workload': 'spin',
        'platform': bench_model.PlatformName.GUEST,
        'provisioning': bench_model.Provisioning.PINNED,
        'guest_class': hostclass.HostClass.DEDICATED,
        'size': bench_model.InstanceSize(vcpus=vcpus, memory_mib=memory_mib),
        **changes})


def container(name='enterprise', **changes):
    return tenant(name, **{
        'platform': bench_model.PlatformName.CONTAINER, **changes})


CONDITIONS = bench_model.Conditions(
    cpu_model='Fake 1', topology='1 socket', cpus=8, memory_mib=65536,
    kernel='6.1', governor='', smt='off', load=0.25, mitigations={},
    layout={}, versions={'python': '3'}, boot_id='this boot')


def cpus(text):
    return cpuset.CpuSet.parse(text)


#: 8 CPUs in cores of 2, in two L3 domains: 2 for the host, 2 shared.
LAYOUT = cpu_layout.CpuLayout(
    host=cpus('0-1'), shared=cpus('2-3'), dedicated=cpus('4-7'),
    cores=tuple(map(cpus, ('0-1', '2-3', '4-5', '6-7'))),
    l3_domains=(cpus('0-3'), cpus('4-7')), nodes=(cpus('0-7'),),
    memory_mib=65536)


def case(name, *tenants, skipped=''):
    return bench_model.Case(
        factors={'scenario': name}, skipped=skipped,
        tenants=tenants or (container(),))


def trial(*cases, workloads=WORKLOADS, **changes):
    """An experiment that is small, and ready to be run."""
    return experiment_file.Prepared(
        experiment=bench_model.Experiment(**{
            'name': 'trial', 'about': 'Tries.', 'table': 'levels',
            'cases': cases, 'baseline': {}, 'repetitions': 2, 'rounds': 1,
            **changes}),
        layout=LAYOUT, workloads=workloads)


class World:
    """Where everything happens.

    :param fault: an exception, raised at step ``at``, counted from 0
    """

    def __init__(self, fault=None, at=-1):
        self.time = 1000.0
        self.steps = []
        self.alive = set()
        self.commands = []
        self.slept = []
        self.bound = []
        self.stolen = 0.0
        self._fault = fault
        self._at = at
        # What tests set to have odd things happen.
        self.takes = 10
        self.look_takes = 0
        self.outcome = {}
        self.printed = 'turns: 12.5\n'
        # By the names of instances: what their clocks are ahead by, and what
        # they gain each second.
        self.offsets = {}
        self.gains = {}
        self.counted = 0
        # Parts of the time: of each CPU, busy and with interrupts, and of one
        # that each instance had.
        self.loads = {}
        self.used = {}
        self.seen = None
        self.dies = ''

    def step(self, name):
        number = len(self.steps)
        self.steps.append(name)
        if number == self._at:
            raise self._fault

    def sleep(self, seconds):
        self.step('sleep')
        self.slept.append(seconds)
        self.time += seconds

    def load(self):
        self.step('load')
        return 0.5

    @contextlib.contextmanager
    def peer(self, command, cpus):
        self.step('peer')
        self.alive.add(('peer', command))
        try:
            yield self.check
        finally:
            self.alive.discard(('peer', command))

    def check(self):
        self.step('check peer')

    @contextlib.contextmanager
    def bind(self, cpus):
        self.step('bind')
        self.bound += [cpus] if cpus else []
        yield
        self.step('unbind')

    @property
    def edges(self):
        return run_edges.Edges(
            monotonic=lambda: self.time, now=self.now, sleep=self.sleep,
            load=self.load, peer=self.peer, bind=self.bind,
            steal=self.steal, idle=self.idle)

    def idle(self, or_interrupted):
        return {0: self.time / 2, 1: self.time, **{
            cpu: self.time * (1 - busy + interrupts * or_interrupted)
            for cpu, (busy, interrupts) in self.loads.items()}}

    def now(self):
        return EPOCH + self.time

    def inside(self, name, time):
        """What the clock of an instance shows at a time."""
        return (EPOCH + time + self.offsets.get(name, 0)
                + self.gains.get(name, 0) * (time - 1000.0))

    def steal(self, cpus):
        self.step('steal')
        self.stolen += 0.25
        return {'steal_seconds': self.stolen}


class Job:

    def __init__(self, instance, command):
        self.world = instance.world
        self.command = command
        self.instance = instance
        self.key = instance.name, 'job', id(self)
        self.world.alive.add(self.key)
        self.begun = self.world.time

    def poll(self):
        self.world.step('poll')
        self.world.time += self.world.look_takes
        if self.command.startswith('while ('):
            if self.instance.name == self.world.dies:
                return platform_interface.CommandOutcome(
                    status=1, stdout='', stderr='no such thing')
            return None
        runs, ended = [], self.begun
        window = _NANOSECONDS.search(self.command)
        while True:
            began, ended = ended, ended + self.world.takes
            runs.append((began, ended))
            if not window or ended >= self.begun + int(window[1]) / 1e9:
                break
        if self.world.time < ended:
            return None
        self.world.alive.discard(self.key)
        return platform_interface.CommandOutcome(**{
            'status': 0, 'stdout': ''.join(map(self.told, runs)),
            'stderr': '', **self.world.outcome})

    def told(self, run):
        began, ended = (round(1e9 * self.world.inside(
            self.instance.name, time)) for time in run)
        return f'\x1e{began}\n{self.world.printed}\x1e{ended}\n'


class Instance:

    programs = '/programs'
    peer = '127.0.0.1'

    def __init__(self, world, request):
        self.world = world
        self.request = request
        self.name = request.name
        self.cpus = (request.instance_cpus.cpus if request.instance_cpus
                     else cpuset.CpuSet(range(8)))
        self.work = f'/work/{self.name}'
        world.alive.add((self.name, 'instance'))

    def start(self, command):
        self.world.step(f'start {self.name}')
        self.world.commands.append((self.name, command))
        return Job(self, command)

    def affinities(self):
        self.world.step('affinities')
        return [bench_model.Affinity(
            thread='process 1 (spin)', asked=self.cpus,
            seen=self.cpus if self.world.seen is None else self.world.seen)]

    def clock(self):
        self.world.step('clock')
        now = self.world.now()
        return instance_clock.ClockReading(
            before=now - 0.001, after=now + 0.001,
            inside=self.world.inside(self.name, self.world.time))

    def counters(self):
        self.world.step('counters')
        self.world.counted += 1
        return {'run_delay_seconds': float(self.world.counted),
                'cpu_seconds': self.world.time
                * self.world.used.get(self.name, 0)}

    def close(self):
        self.world.step('close')
        self.end()

    def end(self):
        self.world.alive -= {key for key in self.world.alive
                             if key[0] == self.name}


class Platform:

    def __init__(self, world, name):
        self.world = world
        self.name = name
        self.checked = []
        self.instances = []

    def __enter__(self):
        self.world.step('enter')
        self.world.alive.add((self.name, 'platform'))
        return self

    def __exit__(self, *_unused):
        for instance in self.instances:
            instance.end()
        self.world.alive.discard((self.name, 'platform'))

    def check(self, requests):
        self.world.step('check')
        self.checked.append(requests)

    def launch(self, requests):
        launched = []
        for request in requests:
            instance = Instance(self.world, request)
            self.instances.append(instance)
            launched.append(instance)
            self.world.step('launch')
        return launched

    def versions(self):
        return {'platform': str(self.name)}
