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

"""Tenants of a case, made to the size of the host.

What an experiment says of a tenant is gathered in a Wish, each value with its
place in the file. A number may depend on the host: a size that is a part of
the CPUs of a class, a number of instances that fills them or oversubscribes
them, a parameter that is a multiple of the vCPUs.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from typing import Any

from nova_pinning.bench import errors
from nova_pinning.bench import layout as bench_layout
from nova_pinning.bench import model
from nova_pinning.document import source
from nova_pinning.host import words
from nova_pinning.model import hostclass

_PLANNING = {hostclass.HostClass.SHARED: '--shared-cpus',
             hostclass.HostClass.DEDICATED: '--class dedicated'}
#: Memory that is left to the host, as a part of all.
_HOST_MEMORY = 0.1
#: Platforms whose instances have a memory of their own.
_WITH_MEMORY = (model.PlatformName.CONTAINER, model.PlatformName.GUEST,
                model.PlatformName.CONTAINER_IN_GUEST)


@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """A value of the file, and where it stands."""

    value: Any
    path: source.Path = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What an experiment says of a tenant.

    :param settings: by the keys of the file
    :param parameters: of its workload, as the file has them
    """

    name: str
    role: model.Role
    workload: model.Workload
    settings: Mapping[str, Given]
    parameters: Mapping[str, Given]

    def get(self, key: str, default: Any = None) -> Any:
        return self.settings[key].value if key in self.settings else default

    @property
    def guest_class(self) -> hostclass.HostClass:
        return hostclass.HostClass(
            self.get('class', hostclass.HostClass.DEDICATED))

    @property
    def provisioning(self) -> model.Provisioning:
        """Pinned if dedicated and floating if shared, if nothing is said."""
        usual = (model.Provisioning.PINNED
                 if self.guest_class is hostclass.HostClass.DEDICATED
                 else model.Provisioning.VANILLA)
        return model.Provisioning(self.get('provisioning', usual))


def tenants(wishes: Sequence[Wish], layout: bench_layout.Layout,
            ) -> tuple[tuple[model.Tenant, ...], str]:
    """The tenants of a case on a host.

    :returns: and why they do not fit on it, '' if they do
    """
    found = [_tenant(wish, layout) for wish in wishes]
    lacking = ''
    for place, wish in enumerate(wishes):
        count = _count(wish, found, place, layout)
        if count < 1:
            lacking = lacking or _too_few(found[place], layout) or (
                f'{wish.name}: an instance has '
                f'{words.count(found[place].size.vcpus, "vCPU")}, and the '
                f'others leave fewer {wish.guest_class} CPUs')
        found[place] = dataclasses.replace(found[place], count=max(count, 1))
    return tuple(found), lacking or _refusal(found, layout)


def vcpus_text(size: Mapping[str, Any]) -> str:
    """vCPUs of a size of the file, for people; no two forms look alike."""
    vcpus = size['vcpus']
    if isinstance(vcpus, int):
        return str(vcpus)
    if 'most' in vcpus:
        return f'up to {vcpus["most"]}'
    share = vcpus['share']
    return 'all CPUs' if share == 1 else f'{share:.0%} of the CPUs'


def amount_text(value: Any) -> str:
    """A parameter of the file, for people."""
    return (f'{value["per_vcpu"]:g}x' if isinstance(value, dict)
            else str(value))


def _tenant(wish: Wish, layout: bench_layout.Layout) -> model.Tenant:
    """All but how many there are."""
    size = _size(wish.get('size'), len(layout.of(wish.guest_class)))
    emulator, network = wish.get('emulator_threads'), wish.get('network_cpus')
    return model.Tenant(
        name=wish.name, role=wish.role, workload=wish.workload.name,
        platform=model.PlatformName(wish.get('platform')),
        provisioning=wish.provisioning, guest_class=wish.guest_class,
        size=size, weight=wish.get('weight', 100),
        parameters={name: _amount(given.value, size.vcpus)
                    for name, given in wish.parameters.items()},
        emulator_threads=model.EmulatorThreads(emulator) if emulator else None,
        network_cpus=model.NetworkCpus(network) if network else None,
        flavor=wish.get('flavor', ''))


def _size(value: Mapping[str, Any], cpus: int) -> model.Size:
    """:param cpus: that the class has on the host"""
    vcpus, memory = value['vcpus'], value['memory_mib']
    if isinstance(vcpus, dict):
        vcpus = max(1, min(vcpus['most'], cpus) if 'most' in vcpus
                    else int(round(vcpus['share'] * cpus, 6)))
    if isinstance(memory, dict):
        memory = memory['per_vcpu'] * vcpus
    return model.Size(vcpus=vcpus, memory_mib=memory)


def _amount(value: Any, vcpus: int) -> model.Parameter:
    """A multiple of the vCPUs is rounded half up, and is 1 at least."""
    if isinstance(value, dict):
        return max(1, int(value['per_vcpu'] * vcpus + 0.5))
    found: model.Parameter = value
    return found


def _count(wish: Wish, found: Sequence[model.Tenant], place: int,
           layout: bench_layout.Layout) -> int:
    """How many instances: 0 if there is no room for what is to fill."""
    tenant = found[place]
    cpus = layout.of(tenant.guest_class)
    if 'oversubscription' in wish.settings:
        return max(1, round(wish.get('oversubscription') * len(cpus)
                            / tenant.size.vcpus)) if cpus else 0
    count = wish.get('count', 1)
    if count != 'fill':
        return int(count)
    if tenant.provisioning is model.Provisioning.VANILLA:
        return bench_layout.capacity(layout, tenant.guest_class,
                                     tenant.provisioning, tenant.size.vcpus)
    # Those whose number is not worked out yet count as one instance.
    taken = sum(
        other.size.vcpus * other.count for other in found
        if other is not tenant
        and other.provisioning is model.Provisioning.PINNED
        and not layout.of(other.guest_class).isdisjoint(cpus))
    isolate = tenant.emulator_threads is model.EmulatorThreads.ISOLATE
    return (len(cpus) - taken) // (tenant.size.vcpus + isolate)


def _too_few(tenant: model.Tenant, layout: bench_layout.Layout) -> str:
    """Why a class has not the CPUs for an instance, '' if it has."""
    cpus = len(layout.of(tenant.guest_class))
    if not cpus:
        return f'there are no {tenant.guest_class} CPUs' + (
            ' in the plan; make one with nova-pinning host plan '
            f'{_PLANNING[tenant.guest_class]}, or leave --plan out'
            if layout.planned else '')
    if tenant.size.vcpus <= cpus:
        return ''
    return (f'{tenant.name}: an instance has '
            f'{words.count(tenant.size.vcpus, "vCPU")}, and there '
            f'{"is" if cpus == 1 else "are"} '
            f'{words.count(cpus, f"{tenant.guest_class} CPU")}')


def _refusal(found: Sequence[model.Tenant],
             layout: bench_layout.Layout) -> str:
    """Why the host is too small for some tenants, '' if it is not."""
    here = [tenant for tenant in found
            if tenant.platform is not model.PlatformName.NOVA]
    try:
        for tenant in here:
            lacking = _too_few(tenant, layout)
            if lacking:
                return lacking
        placed = bench_layout.places(layout, here)
        for tenant in here:
            if tenant.network_cpus is not None:
                bench_layout.network_cpus(
                    layout, placed[tenant.name][0], tenant.network_cpus)
    except errors.BenchError as error:
        return str(error)
    needed = sum(tenant.count * tenant.size.memory_mib for tenant in here
                 if tenant.platform in _WITH_MEMORY)
    room = int(layout.memory_mib * (1 - _HOST_MEMORY))
    if needed > room:
        return (f'needs {needed} MiB of memory, and the host has {room} MiB '
                'to spare')
    return ''
