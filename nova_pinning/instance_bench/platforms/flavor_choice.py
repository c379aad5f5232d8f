# SPDX-License-Identifier: Apache-2.0
"""Which of a cloud's flavors makes the servers that a tenant wants."""

from collections.abc import Sequence

from nova_pinning import errors
from nova_pinning.flavors import commands
from nova_pinning.flavors import flavor_model
from nova_pinning.instance_bench import bench_model
from nova_pinning.model import hostclass

SHARES_KEY = 'quota:cpu_shares'
POLICY_KEY = 'hw:cpu_policy'
EMULATOR_KEY = 'hw:emulator_threads_policy'
QUEUES_KEY = 'hw:vif_multiqueue_enabled'


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
    named = [flavor for flavor in flavors
             if tenant.flavor in ('', flavor.name, flavor.id)]
    fitting = [flavor for flavor in named
               if not _misfits(tenant, flavor, weights_differ)]
    if fitting:
        return min(fitting, key=lambda flavor: (len(flavor.extra_specs),
                                                flavor.name))
    if tenant.flavor and named:
        wrong = _misfits(tenant, named[0], weights_differ)
        raise errors.InputError(
            f'flavor {named[0].name!r} is not what tenant {tenant.name!r} '
            f'wants: {"; ".join(wrong)}',
            advice='name another one, or let it be found by class and size')
    called = f' {tenant.flavor!r}' if tenant.flavor else ''
    raise errors.InputError(
        f'the cloud has no flavor{called} for tenant {tenant.name!r}',
        advice=_advice(tenant, weights_differ))


def _wanted(tenant: bench_model.Tenant,
            weights_differ: bool) -> dict[str, tuple[str | None, ...]]:
    """Extra specs with the values that do, the one to be set first.

    None is for one that is left out.
    """
    is_pinned = tenant.provisioning is bench_model.Provisioning.PINNED
    # As the catalogue has them: a tenant's weight is that of a vCPU.
    shares = str(tenant.weight * tenant.size.vcpus)
    is_usual = tenant.weight == bench_model.USUAL_WEIGHT and not weights_differ
    wanted: dict[str, tuple[str | None, ...]] = {
        POLICY_KEY: ('dedicated',) if is_pinned else (None, 'shared'),
        SHARES_KEY: (None, shares) if is_usual else (shares,)}
    if tenant.emulator_threads is not None:
        wanted[EMULATOR_KEY] = (tenant.emulator_threads.policy,)
    if tenant.queues is not None:
        wanted[QUEUES_KEY] = (
            ('true',) if tenant.queues is bench_model.NetworkQueues.VCPUS
            else (None, 'false'))
    return wanted


def _misfits(
    tenant: bench_model.Tenant, flavor: flavor_model.Flavor,
    weights_differ: bool,
) -> list[str]:
    """In what a flavor is not what a tenant wants."""
    size, specs = tenant.size, flavor.extra_specs
    try:
        its_class = str(hostclass.class_of_guest(specs))
    except hostclass.UnknownClass as error:
        return [str(error)]
    compared = [
        ('vCPUs', str(flavor.vcpus), (str(size.vcpus),)),
        ('memory in MiB', str(flavor.memory_mib), (str(size.memory_mib),)),
        *((key, specs.get(key), values)
          for key, values in _wanted(tenant, weights_differ).items()),
        ('class', its_class, (str(tenant.guest_class),))]
    return [f'{name}: {found or "not set"}, not {_needed(values)}'
            for name, found, values in compared if found not in values]


def _needed(values: Sequence[str | None]) -> str:
    return ' or '.join(value or 'left out' for value in values)


def _advice(tenant: bench_model.Tenant, weights_differ: bool) -> str:
    """The command that creates the flavor."""
    is_dedicated = tenant.guest_class is hostclass.HostClass.DEDICATED
    specs = {key: values[0] for key, values
             in _wanted(tenant, weights_differ).items()}
    if specs[POLICY_KEY] is None and is_dedicated:
        specs[flavor_model.CLASS_KEY] = 'dedicated'
    elif specs[POLICY_KEY] and not is_dedicated:
        return 'nova pins servers of the dedicated class only'
    create, = commands.create_commands(flavor_model.Flavor(
        name=tenant.flavor
        or f'bench-{tenant.guest_class}-{tenant.size.vcpus}',
        vcpus=tenant.size.vcpus, memory_mib=tenant.size.memory_mib,
        disk_gib=4, extra_specs={key: value for key, value in specs.items()
                                 if value is not None}))
    return 'create it: ' + create.replace(' \\\n  ', ' ')
