# SPDX-License-Identifier: Apache-2.0
"""H1xx: nova.conf."""

import dataclasses

from nova_pinning.checks import check_rule
from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.host.check import facts
from nova_pinning.host import core_division
from nova_pinning.host import host_model

#: What all of these are about.
SUBJECT = 'nova.conf'

_INSTALL = ('install the nova.conf that "nova-pinning host render" writes, '
            'and restart nova-compute')


def _settings(view: facts.CheckedHost) -> host_model.NovaSettings:
    """As they are; those that nobody could read differ from no plan."""
    conf = view.facts.nova_conf
    return conf.settings if conf else view.planned.nova


def _problem(
    option: str, there: str, planned: str,
    evidence: facts.HostEvidence | None = None,
) -> check_rule.Violation:
    return check_rule.Violation(
        subject=SUBJECT,
        message=f'{option} is {there or "not set"}, planned is '
                f'{planned or "none"}',
        evidence=(evidence,) if evidence else ())


@check_rule.rule(
    'H101', check_rule.Severity.ERROR, 'nova.conf cannot be loaded',
    why='nova-compute does not start with it',
    advice='correct what the message says')
def not_loadable(view: facts.CheckedHost) -> check_rule.Violations:
    if view.facts.nova_conf_error:
        yield check_rule.Violation(
            subject=SUBJECT, message=view.facts.nova_conf_error)


@check_rule.rule(
    'H102', check_rule.Severity.ERROR, 'dedicated CPUs are not as planned',
    why='nova pins vCPUs to CPUs that something else runs on, or does not '
        'sell what was set aside',
    advice=_INSTALL)
def dedicated_set(view: facts.CheckedHost) -> check_rule.Violations:
    settings = _settings(view)
    divided = core_division.of_host(
        dataclasses.replace(view.facts.host, nova=settings))
    for problem in _set_problems(
            '[compute] cpu_dedicated_set', settings.dedicated_cpus,
            view.dedicated_cpus):
        yield dataclasses.replace(problem, message='; '.join(
            filter(None, (problem.message, divided))))


@check_rule.rule(
    'H103', check_rule.Severity.ERROR, 'shared CPUs are not as planned',
    why='floating vCPUs and emulator threads run where they are not expected, '
        'without the set on all CPUs of the host',
    advice=f'{_INSTALL}; take vcpu_pin_set out, which outweighs the set')
def shared_set(view: facts.CheckedHost) -> check_rule.Violations:
    conf = view.facts.nova_conf
    if conf and conf.pin_set:
        # Even where it has the planned CPUs: vCPUs are pinned to them, too.
        yield _problem(
            '[DEFAULT] vcpu_pin_set', str(conf.pin_set), '',
            facts.HostEvidence(name='[DEFAULT] vcpu_pin_set',
                               cpus=conf.pin_set,
                               expected_cpus=view.shared_cpus))
    elif conf:
        yield from _set_problems(
            '[compute] cpu_shared_set', conf.settings.shared_cpus,
            view.shared_cpus)


def _set_problems(
    option: str, there: cpuset.CpuSet | None, planned: cpuset.CpuSet,
) -> check_rule.Violations:
    cpus = there or cpuset.CpuSet()
    if cpus != planned:
        yield _problem(option, str(cpus), str(planned), facts.HostEvidence(
            name=option, cpus=cpus, expected_cpus=planned))


@check_rule.rule(
    'H104', check_rule.Severity.ERROR,
    'reserved huge pages are not as planned',
    why='nova sells pages that somebody else needs, so that guests do not '
        'start, or keeps back pages that nobody needs',
    advice=_INSTALL)
def reserved_pages(view: facts.CheckedHost) -> check_rule.Violations:
    settings = _settings(view)
    planned = view.planned.nova.reserved_huge_pages
    there = settings.reserved_huge_pages
    for node, size_kib in sorted({*planned, *there}):
        expected = planned.get((node, size_kib), 0)
        seen = there.get((node, size_kib), 0)
        if expected != seen:
            yield _problem(
                f'[DEFAULT] reserved_huge_pages for node {node} and pages of '
                f'{quantities.shown_page_size(size_kib)}', str(seen),
                str(expected), facts.HostEvidence(node=node))


@check_rule.rule(
    'H105', check_rule.Severity.WARNING, 'reserved memory is not as planned',
    why='nova sells memory that the host itself needs, or keeps back more '
        'than that',
    advice=_INSTALL)
def reserved_memory(view: facts.CheckedHost) -> check_rule.Violations:
    settings = _settings(view)
    planned = view.planned.nova.reserved_memory_mib
    if settings.reserved_memory_mib != planned:
        yield _problem('[DEFAULT] reserved_host_memory_mb',
                       f'{settings.reserved_memory_mib} MiB',
                       f'{planned} MiB')


@check_rule.rule(
    'H106', check_rule.Severity.WARNING, 'allocation ratio is not as planned',
    why='more or fewer guests share the CPUs or the memory than planned',
    advice=_INSTALL + '; an operator may also have set the ratio in Placement')
def ratios(view: facts.CheckedHost) -> check_rule.Violations:
    settings = _settings(view)
    planned = view.planned.nova
    # Pinned vCPUs are never oversubscribed.
    if view.shared_cpus and (
            settings.cpu_allocation_ratio != planned.cpu_allocation_ratio):
        yield _problem('[DEFAULT] cpu_allocation_ratio',
                       str(settings.cpu_allocation_ratio),
                       str(planned.cpu_allocation_ratio))
    if settings.ram_allocation_ratio != planned.ram_allocation_ratio:
        yield _problem('[DEFAULT] ram_allocation_ratio',
                       str(settings.ram_allocation_ratio),
                       str(planned.ram_allocation_ratio))


@check_rule.rule(
    'H107', check_rule.Severity.WARNING,
    'nova-compute was started before nova.conf was changed',
    why='it has not read what is in its files now, which is what was compared '
        'with the plan',
    advice='restart it')
def outdated(view: facts.CheckedHost) -> check_rule.Violations:
    for process in view.facts.outdated:
        is_service = process.unit.endswith('.service')
        yield check_rule.Violation(
            subject=SUBJECT,
            message=f'it was changed after process {process.pid} of '
                    f'{process.name} was started',
            evidence=(facts.HostEvidence(pid=process.pid, name=process.name),),
            remediation=(f'systemctl restart {process.unit}',) if is_service
            else ())


@check_rule.rule(
    'H108', check_rule.Severity.ERROR, 'options of nova that undo the plan',
    why='nova refuses guests with huge pages, or switches dedicated CPUs off '
        'or slow while no guest is on them',
    advice='take the option out of nova.conf and restart nova-compute')
def undone(view: facts.CheckedHost) -> check_rule.Violations:
    conf = view.facts.nova_conf
    if conf and conf.has_file_backed_memory and view.plan.page_size_kib:
        yield check_rule.Violation(
            subject=SUBJECT,
            message='[libvirt] file_backed_memory is set, and the plan has '
                    "guests' memory in huge pages")
    if conf and conf.manages_cpu_power and view.dedicated_cpus:
        yield check_rule.Violation(
            subject=SUBJECT,
            message='[libvirt] cpu_power_management is on',
            severity=check_rule.Severity.WARNING)


@check_rule.rule(
    'H109', check_rule.Severity.ERROR, 'devices for guests are not as planned',
    why='guests that ask for a device find no host, or get one that serves '
        'the host itself',
    advice=_INSTALL)
def offered_devices(view: facts.CheckedHost) -> check_rule.Violations:
    conf = view.facts.nova_conf
    if conf is None or conf.offered_devices is None:
        return
    devices = view.planned.pci_devices
    served = {interrupt.address for interrupt in view.plan.interrupts} - {
        device.physical_function for device in devices}
    for device in devices:
        is_offered = device.address in conf.offered_devices
        if device.alias and not is_offered:
            yield check_rule.Violation(
                subject=f'device {device.address}',
                message='[pci] device_spec does not offer it, planned is '
                        f'alias {device.alias}')
        elif is_offered and not device.alias and device.address in served:
            yield check_rule.Violation(
                subject=f'device {device.address}',
                message='[pci] device_spec offers it to guests, but it serves '
                        f'the host ({", ".join(device.names) or device.kind})')


@check_rule.rule(
    'H110', check_rule.Severity.WARNING,
    'NUMA nodes are not taken in the planned order',
    why='nova-scheduler expects guests in other nodes than nova-compute puts '
        'them, and a guest that fits by the one order may be refused by the '
        'other: its claim fails, and nova tries another host',
    advice=f'{_INSTALL}; nova-scheduler needs the same setting, or an '
           "aggregate's metadata that tell it of the host's")
def packing(view: facts.CheckedHost) -> check_rule.Violations:
    settings = _settings(view)
    option = '[compute] packing_host_numa_cells_allocation_strategy'
    planned, there = view.planned.nova.packs_cells, settings.packs_cells
    if planned is not None and there != planned:
        yield _problem(option, str(there).lower(), str(planned).lower())
    elif planned is None and there:
        yield check_rule.Violation(
            subject=SUBJECT,
            message=f'{option} is true, and the plan does not say whether '
                    'nova-scheduler knows',
            severity=check_rule.Severity.NOTE,
            advice='see that it is true for nova-scheduler, too, or that '
                   "an aggregate's metadata tell it of the host's; then "
                   'write packs_cells: true into the section nova of the '
                   'plan')
