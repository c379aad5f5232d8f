# SPDX-License-Identifier: Apache-2.0
"""Instances on this machine, for tests and for processes that they start.

Apart from the tests, since it is to load quickly.
"""

import contextlib
import time

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import cpu_layout
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import select
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.model import hostclass

SECONDS = 60.0
WORKLOAD = bench_model.Workload(
    name='none', workload_class=bench_model.WorkloadClass.CPU, about='',
    command='', figures=())


def tenant(platform, name='tenant', **values):
    return bench_model.Tenant(**{
        'name': name, 'role': bench_model.Role.MEASURED, 'workload': 'none',
        'platform': bench_model.PlatformName(platform),
        'provisioning': bench_model.Provisioning.PINNED,
        'guest_class': hostclass.HostClass.DEDICATED,
        'size': bench_model.InstanceSize(vcpus=1, memory_mib=128)} | values)


@contextlib.contextmanager
def running(name, *tenants):
    """Instances of tenants on a platform, one each."""
    here = cpu_layout.load()
    if not here.dedicated:
        here = here.undivided()
    places = cpu_layout.instance_cpus(here, tenants)
    requests = [platform_interface.InstanceRequest(
        name=f'{tenant.name}-0', tenant=tenant,
        instance_cpus=places[tenant.name][0], workload=WORKLOAD)
        for tenant in tenants]
    with select.make(bench_model.PlatformName(name),
                     settings.PlatformSettings()) as platform:
        platform.check(requests)
        yield platform.launch(requests)


def wait(job):
    """How a command ended."""
    deadline = time.monotonic() + SECONDS
    while (outcome := job.poll()) is None:
        if time.monotonic() > deadline:
            raise AssertionError('the command did not end')
        time.sleep(0.01)
    return outcome
