# SPDX-License-Identifier: Apache-2.0
"""Which of a cloud's flavors makes the servers that a tenant wants."""

from collections.abc import Sequence
import shlex

from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.platforms import cgroups
from nova_pinning.model import hostclass

SHARES_KEY = 'quota:cpu_shares'
POLICY_KEY = 'hw:cpu_policy'
EMULATOR_KEY = 'hw:emulator_threads_policy'

#: Nova's words; None is for what it does if nothing is said.
_EMULATOR = {
    bench_model.EmulatorThreads.SHARE: 'share',
    bench_model.EmulatorThreads.ISOLATE: 'isolate',
    bench_model.EmulatorThreads.VCPUS: None,
}


def choose(
    tenant: bench_model.Tenant, flavors: Sequence[flavor_model.Flavor],
    weights_differ: bool,
) -> flavor_model.Flavor:
    """The flavor that is named, or the plainest that fits.

    :param weights_differ: whether there are servers of another weight at the
        same time, so that the flavor has to name its own
    :raises nova_pinning.errors.InputError: if there is none, with the command
        that creates it
    """
    if tenant.flavor:
        return _named(tenant, flavors, weights_differ)
    fitting = [flavor for flavor in flavors
               if not _misfits(tenant, flavor, weights_differ)]
    if not fitting:
        raise errors.InputError(
            f'the cloud has no flavor for tenant {tenant.name!r}: '
            f'{_needs(tenant)}', advice=_advice(tenant, weights_differ))
    return min(
        fitting, key=lambda flavor: (len(flavor.extra_specs), flavor.name))


def _named(
    tenant: bench_model.Tenant, flavors: Sequence[flavor_model.Flavor],
    weights_differ: bool,
) -> flavor_model.Flavor:
    for flavor in flavors:
        if tenant.flavor in (flavor.name, flavor.id):
            break
    else:
        raise errors.InputError(
            f'the cloud has no flavor {tenant.flavor!r}, which tenant '
            f'{tenant.name!r} names', advice=_advice(tenant, weights_differ))
    if wrong := _misfits(tenant, flavor, weights_differ):
        raise errors.InputError(
            f'flavor {flavor.name!r} is not what tenant {tenant.name!r} '
            f'wants: {", ".join(wrong)}',
            advice='name another one, or let it be found by class and size')
    return flavor


def _misfits(
    tenant: bench_model.Tenant, flavor: flavor_model.Flavor,
    weights_differ: bool,
) -> list[str]:
    """In what a flavor is not what a tenant wants."""
    specs = flavor.extra_specs
    misfits = []
    if flavor.vcpus != tenant.size.vcpus:
        misfits.append(f'it has {flavor.vcpus} vCPUs, not {tenant.size.vcpus}')
    if flavor.memory_mib != tenant.size.memory_mib:
        misfits.append(f'it has {flavor.memory_mib} MiB of memory, not '
                       f'{tenant.size.memory_mib}')
    policy = specs.get(POLICY_KEY, 'shared')
    if policy != _policy(tenant):
        misfits.append(f'its {POLICY_KEY} is {policy}, not {_policy(tenant)}')
    try:
        its_class = hostclass.class_of_guest(specs)
    except hostclass.UnknownClass as error:
        misfits.append(str(error))
    else:
        if its_class is not tenant.guest_class:
            misfits.append(f'its class is {its_class}, not '
                           f'{tenant.guest_class}')
    shares = specs.get(SHARES_KEY)
    if shares != _shares(tenant) and (
            shares is not None or _names_shares(tenant, weights_differ)):
        misfits.append(f'its {SHARES_KEY} is {shares or "not set"}, not '
                       f'{_shares(tenant)}')
    if tenant.emulator_threads is not None:
        emulator_policy = _EMULATOR[tenant.emulator_threads]
        if specs.get(EMULATOR_KEY) != emulator_policy:
            misfits.append(
                f'its {EMULATOR_KEY} is '
                f'{specs.get(EMULATOR_KEY, "not set")}, not '
                f'{emulator_policy or "left out"}')
    return misfits


def _policy(tenant: bench_model.Tenant) -> str:
    return ('dedicated' if tenant.provisioning
            is bench_model.Provisioning.PINNED else 'shared')


def _shares(tenant: bench_model.Tenant) -> str:
    """As the catalogue has them: a tenant's weight is that of a vCPU."""
    return str(tenant.weight * tenant.size.vcpus)


def _names_shares(tenant: bench_model.Tenant, weights_differ: bool) -> bool:
    return weights_differ or tenant.weight != cgroups.USUAL_WEIGHT


def _needs(tenant: bench_model.Tenant) -> str:
    return (f'{tenant.size.vcpus} vCPUs, {tenant.size.memory_mib} MiB, '
            f'{tenant.guest_class}, {POLICY_KEY} {_policy(tenant)}')


def _advice(tenant: bench_model.Tenant, weights_differ: bool) -> str:
    """The command that creates the flavor."""
    if (tenant.provisioning is bench_model.Provisioning.PINNED
            and tenant.guest_class is hostclass.HostClass.SHARED):
        return 'nova pins servers of the dedicated class only'
    properties = []
    if tenant.provisioning is bench_model.Provisioning.PINNED:
        properties.append(f'{POLICY_KEY}=dedicated')
    elif tenant.guest_class is hostclass.HostClass.DEDICATED:
        properties.append(f'{flavor_model.CLASS_KEY}=dedicated')
    if _names_shares(tenant, weights_differ):
        properties.append(f'{SHARES_KEY}={_shares(tenant)}')
    if tenant.emulator_threads is not None:
        if policy := _EMULATOR[tenant.emulator_threads]:
            properties.append(f'{EMULATOR_KEY}={policy}')
    name = tenant.flavor or (f'bench-{tenant.guest_class}-'
                             f'{tenant.size.vcpus}')
    return ' '.join((
        'create it: openstack flavor create --vcpus',
        f'{tenant.size.vcpus} --ram {tenant.size.memory_mib} --disk 4',
        *(f'--property {extra_spec}' for extra_spec in properties),
        shlex.quote(name)))
