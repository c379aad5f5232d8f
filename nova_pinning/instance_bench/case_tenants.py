# SPDX-License-Identifier: Apache-2.0
"""Tenants of a case, made to the size of the host.

A number of the file may depend on the host: a size that is a part of the CPUs
of a class, a number of instances that fills them or oversubscribes them, a
parameter that is a multiple of the vCPUs.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from typing import Any

from nova_pinning.document import decoder
from nova_pinning.host import words
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import cpu_layout
from nova_pinning.model import hostclass

_PLANNING = {hostclass.HostClass.SHARED: '--shared-cpus',
             hostclass.HostClass.DEDICATED: '--class dedicated'}
#: Memory that is left to the host, as a part of all.
_HOST_MEMORY = 0.1
#: Platforms whose instances have a network interface of their own.
_WITH_INTERFACE = (bench_model.PlatformName.GUEST,
                   bench_model.PlatformName.CONTAINER_IN_GUEST,
                   bench_model.PlatformName.NOVA)
#: Keys that the file and a tenant have alike.
_AS_THEY_ARE = (
    'name', 'role', 'workload', 'platform', 'provisioning', 'weight',
    'emulator_threads', 'network_cpus', 'queues', 'agent', 'flavor')
_GUESTS = (bench_model.PlatformName.GUEST,
           bench_model.PlatformName.CONTAINER_IN_GUEST)
#: What tenants may set on some platforms only, and why on no others.
_ONLY_ON = (
    ('agent', _GUESTS, 'nova-pinning agent works for guests; measure it with '
     '--platform vm'),
    ('network_cpus', _GUESTS, 'no interrupts and no vhost threads of this '
     'host carry its packets; measure them with --platform vm'),
    ('queues', _WITH_INTERFACE, "queues are those of a guest's network "
     'interface'))
#: Platforms whose instances have their own memory.
_WITH_MEMORY = (bench_model.PlatformName.CONTAINER,
                bench_model.PlatformName.GUEST,
                bench_model.PlatformName.CONTAINER_IN_GUEST)

#: What the file says of a tenant, by its keys; of parameters the workload's.
TenantSpec = Mapping[str, Any]


def tenants(specs: Sequence[TenantSpec], layout: cpu_layout.CpuLayout,
            ) -> tuple[tuple[bench_model.Tenant, ...], str]:
    """The tenants of a case on a host.

    :param specs: with ``name``, ``role`` and ``workload``, which is a name
    :returns: and why they do not fit on it, '' if they do
    """
    placed = [_tenant(spec, layout) for spec in specs]
    lacking = ''
    for index, spec in enumerate(specs):
        tenant = placed[index]
        count = _count(spec, placed, index, layout)
        if count < 1:
            lacking = lacking or _too_few(tenant, layout) or (
                f'{tenant.name}: an instance has '
                f'{words.count(tenant.size.vcpus, "vCPU")}, and the '
                f'others leave fewer {tenant.guest_class} CPUs')
        placed[index] = dataclasses.replace(tenant, count=max(count, 1))
    return tuple(placed), lacking or _refusal(placed, layout)


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


def _tenant(spec: TenantSpec,
            layout: cpu_layout.CpuLayout) -> bench_model.Tenant:
    """All but how many there are.

    What says neither is dedicated and pinned; shared ones float, and what
    floats is shared.
    """
    floats = spec.get('provisioning') == bench_model.Provisioning.VANILLA
    guest_class = hostclass.HostClass(spec.get(
        'class', hostclass.HostClass.SHARED if floats
        else hostclass.HostClass.DEDICATED))
    provisioning = (bench_model.Provisioning.PINNED
                    if guest_class is hostclass.HostClass.DEDICATED
                    else bench_model.Provisioning.VANILLA)
    vcpus = _vcpus(spec['size']['vcpus'], len(layout.of(guest_class)))
    tenant: bench_model.Tenant = decoder.decode(bench_model.Tenant, {
        'provisioning': provisioning,
        **{key: spec[key] for key in _AS_THEY_ARE if key in spec},
        'guest_class': guest_class, 'size': {
            'vcpus': vcpus, 'memory_mib': _amount(
                spec['size']['memory_mib'], vcpus)},
        'parameters': {name: _amount(value, vcpus)
                       for name, value in spec['parameters'].items()}})
    return dataclasses.replace(
        tenant, queues=bench_model.NetworkQueues.ONE
    ) if tenant.queues and vcpus == 1 else tenant


def _vcpus(value: Any, cpus: int) -> int:
    """:param cpus: that the class has on the host"""
    if isinstance(value, dict):
        share = int(round(value.get('share', 1) * cpus, 6))
        return max(1, min(int(value.get('most', cpus)), share))
    return int(value)


def _amount(value: Any, vcpus: int) -> bench_model.Parameter:
    """A multiple of the vCPUs is rounded half up, and is 1 at least."""
    if isinstance(value, dict):
        return max(1, int(value['per_vcpu'] * vcpus + 0.5))
    amount: bench_model.Parameter = value
    return amount


def _count(spec: TenantSpec, tenants: Sequence[bench_model.Tenant], index: int,
           layout: cpu_layout.CpuLayout) -> int:
    """How many instances: 0 if there is no room for what is to fill."""
    tenant = tenants[index]
    cpus = layout.of(tenant.guest_class)
    if 'oversubscription' in spec:
        return max(1, int(spec['oversubscription'] * len(cpus)
                          / tenant.size.vcpus + 0.5)) if cpus else 0
    count = spec.get('count', 1)
    if count != 'fill':
        return int(count)
    # Those whose number is not worked out yet count as one instance.
    taken = sum(
        other.size.vcpus * other.count for other in tenants
        if other is not tenant
        and other.provisioning is tenant.provisioning
        and not layout.of(other.guest_class).isdisjoint(cpus))
    if tenant.provisioning is bench_model.Provisioning.VANILLA:
        # Two vCPUs on one CPU are slow, but they run.
        return max((len(cpus) - taken) // tenant.size.vcpus,
                   min(len(cpus), 1))
    isolate = tenant.emulator_threads is bench_model.EmulatorThreads.ISOLATE
    return (len(cpus) - taken) // (tenant.size.vcpus + isolate)


def _too_few(tenant: bench_model.Tenant, layout: cpu_layout.CpuLayout) -> str:
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


def _refusal(tenants: Sequence[bench_model.Tenant],
             layout: cpu_layout.CpuLayout) -> str:
    """Why some tenants cannot be had on this host, '' if they can."""
    for tenant in tenants:
        for key, platforms, why in _ONLY_ON:
            if getattr(tenant, key) and tenant.platform not in platforms:
                return why
        if (tenant.platform is bench_model.PlatformName.BARE_METAL
                and tenant.weight != bench_model.USUAL_WEIGHT):
            return ('processes of the host have no weights; measure them '
                    'with --platform cn or vm')
    here = [tenant for tenant in tenants
            if tenant.platform is not bench_model.PlatformName.NOVA]
    try:
        for tenant in here:
            lacking = _too_few(tenant, layout)
            if lacking:
                return lacking
        agents = {tenant.agent for tenant in here}
        if len(agents) > 1:
            return 'a host has one agent, and tenants of the case set several'
        if layout.planned is None and agents - {
                None, bench_model.AgentScheme.NONE}:
            return ('nova-pinning agent goes by the plan of the host; give '
                    '--plan')
        placed = cpu_layout.instance_cpus(layout, here)
        for tenant in here:
            if tenant.network_cpus is not None:
                cpu_layout.network_cpus(
                    layout, placed[tenant.name][0], tenant.network_cpus)
    except bench_errors.BenchError as error:
        return str(error)
    needed = sum(tenant.count * tenant.size.memory_mib for tenant in here
                 if tenant.platform in _WITH_MEMORY)
    room = int(layout.memory_mib * (1 - _HOST_MEMORY))
    if needed > room:
        return (f'needs {needed} MiB of memory, and the host has {room} MiB '
                'to spare')
    return ''
