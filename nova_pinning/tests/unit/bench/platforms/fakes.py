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

"""Requests, workloads and commands that platforms are tested with."""

import dataclasses

from nova_pinning.bench import model
from nova_pinning.bench.platforms import base
from nova_pinning.model import hostclass

WORKLOAD = model.Workload(
    name='sleep', workload_class=model.WorkloadClass.CPU, about='It sleeps.',
    command='sleep 1', figures=())
TENANT = model.Tenant(
    name='enterprise', role=model.Role.MEASURED, workload='sleep',
    platform=model.PlatformName.NOVA,
    provisioning=model.Provisioning.PINNED,
    guest_class=hostclass.HostClass.DEDICATED,
    size=model.Size(vcpus=1, memory_mib=512))


def tenant(**changes):
    return dataclasses.replace(TENANT, **changes)


def request(number=0, workload=WORKLOAD, place=None, **changes):
    """A request for an instance of a tenant that differs in these."""
    wanted = tenant(**changes)
    return base.Request(name=f'{wanted.name}-{number}', tenant=wanted,
                        place=place, workload=workload)


def outcome(status=0, stdout='', stderr=''):
    return base.Outcome(
        status=status, stdout=stdout, stderr=stderr, outside_seconds=1.0,
        inside_seconds=None, tolerance_seconds=0.1)


class Job:
    """A command that has ended after some looks at it.

    :param looks: None for one that does not end
    """

    def __init__(self, looks=0, **how):
        self.looks = looks
        self.how = how
        self.is_stopped = False

    def poll(self):
        if self.is_stopped:
            return outcome(-9)
        if self.looks is None:
            return None
        self.looks -= 1
        return None if self.looks >= 0 else outcome(**self.how)

    def stop(self):
        self.is_stopped = True
