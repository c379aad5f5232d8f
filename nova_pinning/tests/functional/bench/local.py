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

"""Instances on this machine, for tests and for processes that they start.

Apart from the tests, since it is to load quickly.
"""

import contextlib
import time

from nova_pinning.bench import layout
from nova_pinning.bench import model
from nova_pinning.bench.platforms import base
from nova_pinning.bench.platforms import select
from nova_pinning.bench.platforms import settings
from nova_pinning.model import hostclass

SECONDS = 60.0
WORKLOAD = model.Workload(
    name='none', workload_class=model.WorkloadClass.CPU, about='',
    command='', figures=())


def tenant(platform, name='tenant', **values):
    return model.Tenant(**{
        'name': name, 'role': model.Role.MEASURED, 'workload': 'none',
        'platform': model.PlatformName(platform),
        'provisioning': model.Provisioning.PINNED,
        'guest_class': hostclass.HostClass.DEDICATED,
        'size': model.Size(vcpus=1, memory_mib=128)} | values)


@contextlib.contextmanager
def running(name, *tenants):
    """Instances of tenants on a platform, one each."""
    here = layout.load()
    if not here.dedicated:
        here = here.undivided()
    places = layout.places(here, tenants)
    requests = [base.Request(
        name=f'{one.name}-0', tenant=one, place=places[one.name][0],
        workload=WORKLOAD) for one in tenants]
    with select.make(model.PlatformName(name),
                     settings.Settings()) as platform:
        platform.check(requests)
        yield platform.launch(requests)


def wait(job):
    """How a command ended."""
    deadline = time.monotonic() + SECONDS
    while (outcome := job.poll()) is None:
        if time.monotonic() > deadline:
            job.stop()
            raise AssertionError('the command did not end')
        time.sleep(0.01)
    return outcome
