# SPDX-License-Identifier: Apache-2.0
"""S5xx: what hosts offer."""

from collections.abc import Iterator

from nova_pinning.checks import check_rule
from nova_pinning.flavors.checks import checked
from nova_pinning.host import engine
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import client
from nova_pinning.segregation.audit import audited
from nova_pinning.segregation.audit import commands
from nova_pinning.segregation import segregation_model

DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED


def _has(view: audited.AuditedCloud, host: segregation_model.MarkedHost,
         resource_class: str) -> bool:
    inventory = view.inventories[host.provider].get(resource_class)
    return bool(inventory and inventory.total)


def _known(
        view: audited.AuditedCloud, host_class: hostclass.HostClass
) -> Iterator[segregation_model.MarkedHost]:
    """The hosts of a class whose inventories were looked at."""
    return (host for host in view.hosts_of(host_class)
            if host.provider in view.inventories)


def _turned(view: audited.AuditedCloud, host: segregation_model.MarkedHost,
            host_class: hostclass.HostClass,
            resource_class: str) -> tuple[str, ...]:
    """What turns a host to a class, if it has CPUs for that.

    And if nothing tells of another, which is to be settled first.
    """
    is_likely = _has(view, host,
                     resource_class) and segregation_model.agrees(host)
    return (commands.set_class(host, host_class),) if is_likely else ()


@check_rule.rule(
    'S501', check_rule.Severity.ERROR, 'dedicated host without PCPU',
    why='there are no CPUs to pin to, so no dedicated guest is ever offered '
        'the host',
    advice='set [compute] cpu_dedicated_set in its nova.conf and restart '
           'nova-compute; or mark it as a shared host, if it is one')
def dedicated_without_pcpu(
        view: audited.AuditedCloud) -> check_rule.Violations:
    for host in _known(view, DEDICATED):
        if not _has(view, host, 'PCPU'):
            yield audited.violation(host, 'it has no inventory of PCPU',
                                    _turned(view, host, SHARED, 'VCPU'))


@check_rule.rule(
    'S502', check_rule.Severity.ERROR, 'shared host without VCPU',
    why='no shared guest is ever offered the host',
    advice='set [compute] cpu_shared_set in its nova.conf and restart '
           'nova-compute; or mark it as a dedicated host, if it is one')
def shared_without_vcpu(view: audited.AuditedCloud) -> check_rule.Violations:
    for host in _known(view, SHARED):
        if not _has(view, host, 'VCPU'):
            yield audited.violation(host, 'it has no inventory of VCPU',
                                    _turned(view, host, DEDICATED, 'PCPU'))


@check_rule.rule(
    'S503', check_rule.Severity.WARNING, 'shared host with PCPU',
    why='a dedicated flavor without its trait, or an image that asks for '
        'pinned CPUs, gets onto the host, and CPUs that wait for such guests '
        'are lost to shared ones',
    advice='take [compute] cpu_dedicated_set out of its nova.conf and restart '
           'nova-compute')
def shared_with_pcpu(view: audited.AuditedCloud) -> check_rule.Violations:
    for host in _known(view, SHARED):
        # One without VCPU is not a shared host at all.
        if _has(view, host, 'PCPU') and _has(view, host, 'VCPU'):
            inventory = view.inventories[host.provider]['PCPU']
            yield audited.violation(host, f'it offers {inventory.total} PCPU')


@check_rule.rule(
    'S504', check_rule.Severity.WARNING,
    'dedicated host with more VCPU than its emulator threads need',
    why='every VCPU beyond those invites shared guests: to any flavor '
        'without a trait the host is as good as a shared one',
    advice='make [compute] cpu_shared_set in its nova.conf smaller, or take '
           'it out, and restart nova-compute; if that many are meant, say so '
           'with --emulator-cpus or with host files (--host-files)')
def too_many_vcpus(view: audited.AuditedCloud) -> check_rule.Violations:
    allowed, reason = _emulator_cpus(view)
    for host in _known(view, DEDICATED):
        description = view.settings.descriptions.get(host.name)
        if description:
            limit = len(engine.shared_cpus(description))
            why = f'its host file sets aside {limit}'
        elif allowed is None:
            continue
        else:
            limit, why = allowed, reason
        inventory = view.inventories[host.provider].get('VCPU')
        # Without PCPU it is not a dedicated host at all.
        if inventory and inventory.total > limit and _has(view, host, 'PCPU'):
            yield audited.violation(
                host, f'it offers {inventory.total} VCPU, and {why}')


def _emulator_cpus(view: audited.AuditedCloud) -> tuple[int | None, str]:
    """How many VCPU dedicated hosts may have, and who says so.

    None if any number may be right: mixed guests have floating vCPUs too.
    """
    if view.settings.emulator_cpus is not None:
        return view.settings.emulator_cpus, (
            f'--emulator-cpus allows {view.settings.emulator_cpus}')
    dedicated = [subject for subject in map(
        checked.CheckedFlavor, view.flavors) if subject.is_pinned]
    if any(subject.cpu_policy is model.CpuPolicy.MIXED
           for subject in dedicated):
        return None, ''
    if any(subject.emulator_policy == 'share' for subject in dedicated):
        return audited.EMULATOR_CPUS, (
            f'{audited.EMULATOR_CPUS} are taken to be enough')
    return 0, 'no flavor has hw:emulator_threads_policy=share'


def _oversold(view: audited.AuditedCloud,
              resource_class: str) -> check_rule.Violations:
    """The dedicated hosts that offer more of something than they have."""
    for host in _known(view, DEDICATED):
        inventory = view.inventories[host.provider].get(resource_class)
        if inventory and inventory.allocation_ratio > 1.0:
            yield _ratio_problem(host, resource_class, inventory)


def _ratio_problem(
        host: segregation_model.MarkedHost, resource_class: str,
        inventory: client.ProviderInventory) -> check_rule.Violation:
    return audited.violation(
        host, f'the allocation ratio of {resource_class} is '
        f'{inventory.allocation_ratio:g}',
        (commands.set_allocation_ratio(host, resource_class),))


@check_rule.rule(
    'S505', check_rule.Severity.ERROR, 'PCPU with an allocation ratio',
    why='a host CPU is pinned to one vCPU only: above 1.0 Placement sends '
        'guests that the host then refuses, below 1.0 CPUs stay unsold',
    advice='set it to 1.0, as nova-compute does')
def pcpu_ratio(view: audited.AuditedCloud) -> check_rule.Violations:
    for host in view.hosts:
        inventory = view.inventories.get(host.provider, {}).get('PCPU')
        if inventory and inventory.allocation_ratio != 1.0:
            yield _ratio_problem(host, 'PCPU', inventory)


@check_rule.rule(
    'S506', check_rule.Severity.WARNING, 'dedicated host that oversells VCPU',
    why='its VCPU are the CPUs of emulator threads; sold several times over '
        'to guests that float, they leave the emulators of pinned guests '
        'waiting',
    advice='set [DEFAULT] cpu_allocation_ratio = 1.0 in its nova.conf; where '
           'that is not set at all, nova-compute keeps what Placement has')
def vcpu_ratio(view: audited.AuditedCloud) -> check_rule.Violations:
    return _oversold(view, 'VCPU')


@check_rule.rule(
    'S507', check_rule.Severity.WARNING,
    'dedicated host that oversells memory',
    why='the memory of a pinned guest lies in its NUMA cells and cannot be '
        'oversold there: Placement sends guests that the host then refuses, '
        'and others run it out of memory',
    advice='set [DEFAULT] ram_allocation_ratio = 1.0 in its nova.conf; where '
           'that is not set at all, nova-compute keeps what Placement has')
def memory_ratio(view: audited.AuditedCloud) -> check_rule.Violations:
    return _oversold(view, 'MEMORY_MB')
