# SPDX-License-Identifier: Apache-2.0
"""Requests, workloads and commands that platforms are tested with."""

import dataclasses

import fixtures

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import agent
from nova_pinning.instance_bench.platforms import polling
from nova_pinning.model import hostclass
from nova_pinning.tests.unit.instance_bench import bench_fakes

WORKLOAD = bench_model.Workload(
    name='sleep', workload_class=bench_model.WorkloadClass.CPU,
    about='It sleeps.',
    command='sleep 1', figures=())
TENANT = bench_fakes.tenant(memory_mib=512, workload='sleep',
                            platform=bench_model.PlatformName.NOVA)
#: What a tenant is that shares CPUs with others.
FLOATING = {'provisioning': bench_model.Provisioning.VANILLA,
            'guest_class': hostclass.HostClass.SHARED}


def tenant(**changes):
    return dataclasses.replace(TENANT, **changes)


def request(number=0, workload=WORKLOAD, instance_cpus=None, **changes):
    """A request for an instance of a tenant that differs in these."""
    wanted = tenant(**changes)
    return platform_interface.InstanceRequest(
        name=f'{wanted.name}-{number}', tenant=wanted,
        instance_cpus=instance_cpus, workload=workload)


def outcome(status=0, stdout='', stderr=''):
    return platform_interface.CommandOutcome(
        status=status, stdout=stdout, stderr=stderr)


class PassingTime(fixtures.Fixture):
    """Time that passes only while somebody waits to look again."""

    def _setUp(self):
        self.now = 0.0
        self.useFixture(fixtures.MockPatchObject(polling, 'time', self))

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class GuestAgents(fixtures.Fixture):
    """Ways into instances, which tell what was run in them.

    :param jobs: what comes of the first commands
    :ivar silent: the end of the name of an instance that does not answer
    """

    def __init__(self, *jobs):
        self.jobs = iter(jobs)
        self.silent = ()
        self.waited = []
        self.commands = []

    def _setUp(self):
        for name in 'await_ready', 'start':
            fake = getattr(self, name)
            self.useFixture(fixtures.MockPatchObject(
                agent.RemoteInstance, name,
                lambda instance, given, fake=fake: fake(instance, given)))

    def await_ready(self, instance, seconds):
        self.waited.append(seconds)
        if instance.name.endswith(self.silent):
            raise bench_errors.InstanceError('silent')

    def start(self, instance, command):
        self.commands.append(command)
        return next(self.jobs, Job())


class Job:
    """A command that has ended after some looks at it.

    :param looks: None for one that does not end
    """

    def __init__(self, looks=0, **how):
        self.looks = looks
        self.how = how

    def poll(self):
        if self.looks is None:
            return None
        self.looks -= 1
        return None if self.looks >= 0 else outcome(**self.how)
