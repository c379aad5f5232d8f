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

"""H1xx: nova.conf."""

from collections.abc import Iterator

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.host.check import finding
from nova_pinning.host.check import rule
from nova_pinning.host import model

#: What all of these are about.
SUBJECT = 'nova.conf'

_INSTALL = ('install the nova.conf that "nova-pinning host render" writes, '
            'and restart nova-compute')


def _settings(view: rule.View) -> model.NovaSettings | None:
    return view.facts.nova_conf.settings if view.facts.nova_conf else None


def _problem(
    option: str, there: str, planned: str,
    evidence: finding.Evidence | None = None,
) -> rule.Problem:
    return rule.Problem(
        subject=SUBJECT,
        message=f'{option} is {there or "not set"}, planned is '
                f'{planned or "none"}',
        evidence=(evidence,) if evidence else ())


@rule.rule(
    'H101', finding.Severity.ERROR, 'nova.conf cannot be loaded',
    why='nova-compute does not start with it',
    advice='mend what the message says')
def not_loadable(view: rule.View) -> Iterator[rule.Problem]:
    if view.facts.nova_conf_error:
        yield rule.Problem(
            subject=SUBJECT, message=view.facts.nova_conf_error)


@rule.rule(
    'H102', finding.Severity.ERROR, 'dedicated CPUs are not as planned',
    why='nova pins vCPUs to CPUs that something else runs on, or does not '
        'sell what was set aside',
    advice=_INSTALL)
def dedicated_set(view: rule.View) -> Iterator[rule.Problem]:
    settings = _settings(view)
    if settings:
        yield from _set_problems(
            '[compute] cpu_dedicated_set', settings.dedicated_cpus,
            view.dedicated_cpus)


@rule.rule(
    'H103', finding.Severity.ERROR, 'shared CPUs are not as planned',
    why='floating vCPUs and emulator threads run where they are not expected, '
        'without the set on all CPUs of the host',
    advice=f'{_INSTALL}; take vcpu_pin_set out, which outweighs the set')
def shared_set(view: rule.View) -> Iterator[rule.Problem]:
    settings = _settings(view)
    if settings:
        yield from _set_problems(
            '[compute] cpu_shared_set', settings.shared_cpus,
            view.shared_cpus)


def _set_problems(
    option: str, there: cpuset.CpuSet | None, planned: cpuset.CpuSet,
) -> Iterator[rule.Problem]:
    cpus = there or cpuset.CpuSet()
    if cpus != planned:
        yield _problem(option, str(cpus), str(planned), finding.Evidence(
            name=option, cpus=cpus, expected_cpus=planned))


@rule.rule(
    'H104', finding.Severity.ERROR, 'reserved huge pages are not as planned',
    why='nova sells pages that somebody else needs, so that guests do not '
        'start, or keeps back pages that nobody needs',
    advice=_INSTALL)
def reserved_pages(view: rule.View) -> Iterator[rule.Problem]:
    settings = _settings(view)
    if settings is None:
        return
    planned = view.planned.nova.reserved_huge_pages
    there = settings.reserved_huge_pages
    for node, size_kib in sorted({*planned, *there}):
        wanted = planned.get((node, size_kib), 0)
        found = there.get((node, size_kib), 0)
        if wanted != found:
            yield _problem(
                f'[DEFAULT] reserved_huge_pages for node {node} and pages of '
                f'{quantities.shown_page_size(size_kib)}', str(found),
                str(wanted), finding.Evidence(node=node))


@rule.rule(
    'H105', finding.Severity.WARNING, 'reserved memory is not as planned',
    why='nova sells memory that the host itself needs, or keeps back more '
        'than that',
    advice=_INSTALL)
def reserved_memory(view: rule.View) -> Iterator[rule.Problem]:
    settings = _settings(view)
    planned = view.planned.nova.reserved_memory_mib
    if settings and settings.reserved_memory_mib != planned:
        yield _problem('[DEFAULT] reserved_host_memory_mb',
                       f'{settings.reserved_memory_mib} MiB',
                       f'{planned} MiB')


@rule.rule(
    'H106', finding.Severity.WARNING, 'allocation ratio is not as planned',
    why='more or fewer guests share the CPUs or the memory than planned',
    advice=_INSTALL + '; an operator may also have set the ratio in Placement')
def ratios(view: rule.View) -> Iterator[rule.Problem]:
    settings = _settings(view)
    if settings is None:
        return
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


@rule.rule(
    'H107', finding.Severity.WARNING,
    'nova-compute was started before nova.conf was changed',
    why='it has not read what is in its files now, which is what was compared '
        'with the plan',
    advice='restart it')
def outdated(view: rule.View) -> Iterator[rule.Problem]:
    for process in view.facts.outdated:
        is_service = process.unit.endswith('.service')
        yield rule.Problem(
            subject=SUBJECT,
            message=f'it was changed after process {process.pid} of '
                    f'{process.name} was started',
            evidence=(finding.Evidence(pid=process.pid, name=process.name),),
            mends=(f'systemctl restart {process.unit}',) if is_service
            else ())


@rule.rule(
    'H108', finding.Severity.ERROR, 'options of nova that undo the plan',
    why='nova refuses guests with huge pages, or switches dedicated CPUs off '
        'or slow while no guest is on them',
    advice='take the option out of nova.conf and restart nova-compute')
def undone(view: rule.View) -> Iterator[rule.Problem]:
    conf = view.facts.nova_conf
    if conf and conf.has_file_backed_memory and view.plan.page_size_kib:
        yield rule.Problem(
            subject=SUBJECT,
            message='[libvirt] file_backed_memory is set, and the plan has '
                    "guests' memory in huge pages")
    if conf and conf.manages_cpu_power and view.dedicated_cpus:
        yield rule.Problem(
            subject=SUBJECT,
            message='[libvirt] cpu_power_management is on',
            severity=finding.Severity.WARNING)


@rule.rule(
    'H109', finding.Severity.ERROR, 'devices for guests are not as planned',
    why='guests that ask for a device find no host, or get one that serves '
        'the host itself',
    advice=_INSTALL)
def offered_devices(view: rule.View) -> Iterator[rule.Problem]:
    conf = view.facts.nova_conf
    if conf is None or conf.offered_devices is None:
        return
    devices = view.planned.pci_devices
    served = {one.address for one in view.plan.interrupts} - {
        one.physical_function for one in devices}
    for device in devices:
        is_offered = device.address in conf.offered_devices
        if device.alias and not is_offered:
            yield rule.Problem(
                subject=f'device {device.address}',
                message='[pci] device_spec does not offer it, planned is '
                        f'alias {device.alias}')
        elif is_offered and not device.alias and device.address in served:
            yield rule.Problem(
                subject=f'device {device.address}',
                message='[pci] device_spec offers it to guests, but it serves '
                        f'the host ({", ".join(device.names) or device.kind})')


RULES = (not_loadable, dedicated_set, shared_set, reserved_pages,
         reserved_memory, ratios, outdated, undone, offered_devices)
