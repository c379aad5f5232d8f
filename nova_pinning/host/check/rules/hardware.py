# SPDX-License-Identifier: Apache-2.0
"""H2xx: the machine and its kernel."""

from collections.abc import Iterable

from nova_pinning.checks import check_rule
from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.host.check import commands
from nova_pinning.host.check import facts
from nova_pinning.host import host_model
from nova_pinning.host import levers
from nova_pinning.host import words

_PLAN_AGAIN = ('use the plan of this kind of host, or discover and plan this '
               'host again')
_START = ('start the unit nova-pinning-host that "nova-pinning host render" '
          'writes')
# What the firmware keeps differs a little from boot to boot.
_LEAST_MEMORY = 0.98


@check_rule.rule(
    'H200', check_rule.Severity.ERROR, 'the plan is for another machine',
    why='nothing that it says can be compared with this one',
    advice='give the plan of this kind of hosts')
def other_kind(view: facts.CheckedHost) -> check_rule.Violations:
    if view.is_other_machine:
        there = view.facts.host
        yield check_rule.Violation(
            subject=there.name,
            message=f'it has {words.cpus(view.online_cpus)} on '
                    f'{len(there.nodes)} NUMA nodes, and the machine of plan '
                    f'{view.planned.name} {words.cpus(view.planned.cpus)} on '
                    f'{len(view.planned.nodes)}; nothing else was checked',
            evidence=(facts.HostEvidence(
                cpus=view.online_cpus, expected_cpus=view.planned.cpus),))


@check_rule.rule(
    'H201', check_rule.Severity.ERROR, 'planned CPUs are offline or missing',
    why='nova-compute does not start if a CPU of cpu_dedicated_set is not '
        'online, and guests that were pinned to it run elsewhere',
    advice='switch them on, or plan the host again without them')
def missing_cpus(view: facts.CheckedHost) -> check_rule.Violations:
    missing = view.planned.cpus - view.online_cpus
    if missing:
        offline = missing & view.facts.host.offline_cpus
        state = 'are not there' if not offline else 'are offline'
        yield check_rule.Violation(
            subject='CPUs',
            message=f'{words.cpus(missing)} of the plan '
                    + (state if len(missing) > 1 else
                       state.replace('are', 'is')),
            evidence=(facts.HostEvidence(
                cpus=view.online_cpus, expected_cpus=view.planned.cpus),),
            remediation=tuple(
                commands.write(f'/sys/devices/system/cpu/cpu{cpu}/online', 1)
                for cpu in offline))


@check_rule.rule(
    'H202', check_rule.Severity.WARNING, 'CPUs that the plan does not know',
    why='nobody has said what they are for: nova sells none of them, and host '
        'services that are confined leave them idle',
    advice=_PLAN_AGAIN)
def unplanned_cpus(view: facts.CheckedHost) -> check_rule.Violations:
    unknown = view.online_cpus - view.planned.cpus
    if unknown:
        yield check_rule.Violation(
            subject='CPUs',
            message=f'the plan does not know {words.cpus(unknown)}',
            evidence=(facts.HostEvidence(
                cpus=unknown, expected_cpus=cpuset.CpuSet()),))


@check_rule.rule(
    'H203', check_rule.Severity.ERROR, 'the machine is not the planned one',
    why='CPUs that the plan takes for neighbours are none, so that cores are '
        'split between guests and the host, and guests are far from their '
        'memory or caches',
    advice=_PLAN_AGAIN)
def other_machine(view: facts.CheckedHost) -> check_rule.Violations:
    planned, there = view.planned, view.facts.host
    # CPUs that one of the two lacks are another rule's.
    common = planned.cpus & there.cpus
    groups = _groups(there, common)
    for what, expected in _groups(planned, common).items():
        seen = groups[what]
        # Not every host file tells of caches.
        if expected == seen or not expected or not seen:
            continue
        yield check_rule.Violation(
            subject='topology',
            message=f'the {what} are not those of the planned machine',
            evidence=(
                *(facts.HostEvidence(name=f'planned {what}',
                                     expected_cpus=cpus)
                  for cpus in sorted(expected - seen)),
                *(facts.HostEvidence(name=f'these {what}', cpus=cpus)
                  for cpus in sorted(seen - expected))))


def _groups(
    host: host_model.HostDescription, common: cpuset.CpuSet,
) -> dict[str, frozenset[cpuset.CpuSet]]:
    """What CPUs have together, by what it is."""
    found: dict[str, Iterable[Iterable[int]]] = {
        'NUMA nodes': [node.cpus for node in host.nodes],
        'cores': [core for node in host.nodes for core in node.cores],
        'L3 domains': [
            domain for node in host.nodes for domain in node.l3_domains]}
    return {what: frozenset(cpuset.CpuSet(group) & common for group in groups)
            - {cpuset.CpuSet()} for what, groups in found.items()}


@check_rule.rule(
    'H204', check_rule.Severity.ERROR, 'isolcpus= contradicts the plan',
    why='the scheduler does not spread threads over isolated CPUs: host '
        'services and floating vCPUs that are confined to them all run on '
        'the first; and where only some dedicated CPUs are isolated, guests '
        'are not alike',
    advice='isolate dedicated and poll CPUs, all of them or none, as '
           '"nova-pinning host render" does, and boot the host again')
def isolated(view: facts.CheckedHost) -> check_rule.Violations:
    return _kernel_set(
        view, 'isolcpus=', view.facts.host.system.isolated_cpus)


@check_rule.rule(
    'H205', check_rule.Severity.WARNING, 'nohz_full= contradicts the plan',
    why='the kernel spends more time on each of its entries on such CPUs, '
        'which pays off only where a single thread runs: on dedicated and '
        'poll CPUs',
    advice='name dedicated and poll CPUs, all of them or none, as '
           '"nova-pinning host render" does, and boot the host again')
def tickless(view: facts.CheckedHost) -> check_rule.Violations:
    return _kernel_set(
        view, 'nohz_full=', view.facts.host.system.nohz_full_cpus)


def _kernel_set(
    view: facts.CheckedHost, parameter: str, there: cpuset.CpuSet,
) -> check_rule.Violations:
    if not there:
        return
    taken = view.taken_cpus & view.online_cpus
    wrong = (there & view.planned.cpus) - taken
    left_out = taken - there
    evidence = facts.HostEvidence(
        name=parameter, cpus=there, expected_cpus=view.taken_cpus)
    if wrong:
        yield check_rule.Violation(
            subject='kernel command line',
            message=f'{parameter} has {words.cpus(wrong)}, neither dedicated '
                    'nor poll CPUs',
            evidence=(evidence,))
    if left_out and there & taken:
        yield check_rule.Violation(
            subject='kernel command line',
            message=f'{parameter} leaves out {words.cpus(left_out)} of the '
                    'dedicated and poll CPUs',
            evidence=(evidence,), severity=check_rule.Severity.WARNING)


@check_rule.rule(
    'H206', check_rule.Severity.WARNING,
    'dedicated CPUs whose governor is not performance',
    why='a vCPU that was idle for a moment finds its CPU at a low clock',
    advice=_START)
def governor(view: facts.CheckedHost) -> check_rule.Violations:
    for name, cpus in sorted(view.facts.host.system.governors.items()):
        slow = cpus & view.taken_cpus
        if name != 'performance' and slow:
            yield check_rule.Violation(
                subject='cpufreq',
                message=f'the governor of {words.cpus(slow)} is {name}',
                evidence=(facts.HostEvidence(name=name, cpus=slow),),
                remediation=(
                    f'cpupower -c {slow} frequency-set -g performance',))


@check_rule.rule(
    'H207', check_rule.Severity.ERROR, 'SMT is not as planned',
    why='what the plan sells as a core is half a core, or the other way '
        'round',
    advice='set it in the firmware or by nosmt on the kernel command line, '
           'or plan the host again')
def smt(view: facts.CheckedHost) -> check_rule.Violations:
    planned, there = view.planned.system.smt, view.facts.host.system.smt
    if planned and there and (planned == 'on') != (there == 'on'):
        remediation = ('echo on > /sys/devices/system/cpu/smt/control',) if (
            there == 'off') else ()
        yield check_rule.Violation(
            subject='SMT', message=f'SMT is {there}, planned is {planned}',
            remediation=remediation)


@check_rule.rule(
    'H208', check_rule.Severity.ERROR, 'no IOMMU for passthrough',
    why='PCI devices cannot be passed through to guests',
    advice='switch it on in the firmware, and put intel_iommu=on iommu=pt or '
           'amd_iommu=on iommu=pt on the kernel command line')
def no_iommu(view: facts.CheckedHost) -> check_rule.Violations:
    aliases = sorted({device.alias for device in view.planned.pci_devices
                      if device.alias})
    if aliases and view.facts.host.system.has_iommu is False:
        yield check_rule.Violation(
            subject='IOMMU',
            message='the kernel uses no IOMMU, but flavors ask for '
                    f'{words.listed(aliases)}')


@check_rule.rule(
    'H209', check_rule.Severity.WARNING,
    'PCI device is not where it was planned',
    why='guests that ask for it find no host, or it is near other CPUs than '
        'those set aside for it',
    advice='look whether it is broken or was moved to another slot, and plan '
           'the host again')
def devices(view: facts.CheckedHost) -> check_rule.Violations:
    there = {device.address: device for device in view.facts.host.pci_devices}
    served = {interrupt.address for interrupt in view.plan.interrupts}
    for device in view.planned.pci_devices:
        if not device.alias and device.address not in served:
            continue
        present = there.get(device.address)
        names = ', '.join((device.alias, *device.names)).strip(', ')
        subject = f'device {device.address}' + (f' ({names})' if names else '')
        product = f'{device.vendor_id}:{device.product_id}'
        if present is None:
            yield check_rule.Violation(subject=subject,
                                       message='it is not there')
        elif (present.vendor_id, present.product_id) != (
                device.vendor_id, device.product_id):
            yield check_rule.Violation(
                subject=subject,
                message=f'it is {present.vendor_id}:{present.product_id}, '
                        f'planned is {product}')
        elif present.numa_node != device.numa_node:
            yield check_rule.Violation(
                subject=subject,
                message=f'it is on {_node(present.numa_node)}, planned is '
                        f'{_node(device.numa_node)}',
                evidence=(facts.HostEvidence(node=present.numa_node),))


def _node(number: int | None) -> str:
    return 'no NUMA node' if number is None else f'NUMA node {number}'


@check_rule.rule(
    'H210', check_rule.Severity.WARNING, 'a node has less memory than planned',
    why='there is not enough for what the plan sells; a memory module may '
        'have failed',
    advice='look at what the firmware and the kernel say of memory modules')
def less_memory(view: facts.CheckedHost) -> check_rule.Violations:
    there = {node.id: node.memory_mib for node in view.facts.host.nodes}
    for node in view.planned.nodes:
        memory_mib = there.get(node.id, 0)
        if memory_mib < node.memory_mib * _LEAST_MEMORY:
            seen, planned = quantities.shown_alike(
                memory_mib, node.memory_mib)
            yield check_rule.Violation(
                subject=f'NUMA node {node.id}',
                message=f'it has {seen} of memory, planned are {planned}',
                evidence=(facts.HostEvidence(node=node.id),))


@check_rule.rule(
    'H211', check_rule.Severity.NOTE, 'the kernel moves memory between nodes',
    why='automatic NUMA balancing takes pages of guests away for a moment to '
        'see who uses them, though where they belong is settled',
    advice=_START)
def numa_balancing(view: facts.CheckedHost) -> check_rule.Violations:
    if (view.facts.numa_balancing and view.dedicated_cpus and
            len(view.facts.host.nodes) > 1):
        yield check_rule.Violation(
            subject='kernel', message='automatic NUMA balancing is on',
            remediation=('sysctl kernel.numa_balancing=0',))


@check_rule.rule(
    'H212', check_rule.Severity.NOTE, 'the kernel merges equal pages',
    why='a guest that writes to a merged page waits for a copy of it, which '
        'may come from another node, and guests can learn of each other',
    advice=f'{_START}; ksmtuned, where it is installed, switches it on again')
def merged_pages(view: facts.CheckedHost) -> check_rule.Violations:
    if view.facts.merges_pages and view.dedicated_cpus:
        yield check_rule.Violation(
            subject='kernel', message='kernel samepage merging is on',
            # 2 undoes what was merged.
            remediation=(commands.write('/sys/kernel/mm/ksm/run', 2),))


@check_rule.rule(
    'H213', check_rule.Severity.WARNING,
    'the kernel was not told what the plan has for it',
    why='guests wait for the kernel longer than they need to; the plan and '
        'what "nova-pinning host render" writes say what each setting brings '
        'and costs, and for which hosts it is not',
    advice=f'{_START}, or plan without what is not wanted (host plan '
           '--without-lever); tuned may set the same')
def lever_settings(view: facts.CheckedHost) -> check_rule.Violations:
    evidence, remediation, names = [], [], []
    for name, planned in view.plan.levers.items():
        lever = levers.LEVERS[name]
        wrong = {
            path: there for path in lever.paths(
                view.taken_cpus & view.online_cpus)
            if (there := view.facts.levers.get(path)) is not None
            and not lever.is_pulled(there, planned)}
        if not wrong:
            continue
        seen = ', '.join(sorted(set(wrong.values())))
        names.append(f'{name} is {seen}, planned is {planned}')
        evidence += [facts.HostEvidence(name=f'{path} {there}')
                     for path, there in wrong.items()]
        remediation += [commands.write(path, planned) for path in wrong]
    if names:
        yield check_rule.Violation(
            subject='kernel', message='; '.join(names),
            evidence=tuple(evidence), remediation=tuple(remediation))


@check_rule.rule(
    'H214', check_rule.Severity.WARNING,
    'time is not told by the time stamp counter',
    why='each look at the clock leaves the CPU for a device that all CPUs '
        'share, which takes a hundred times as long; KVM cannot have guests '
        'read kvm-clock without asking it, either. See '
        'Documentation/virt/kvm/x86/timekeeping.rst of the kernel',
    advice='look in the log of the kernel for why the counter was found '
           'unstable, and update the firmware; tsc=reliable on the kernel '
           'command line only where the vendor vouches for it, since clocks '
           'go wrong otherwise')
def clocksource(view: facts.CheckedHost) -> check_rule.Violations:
    # Other architectures have one that is good, and a virtual machine that
    # of its own host.
    there = view.facts.clocksource
    if there in ('hpet', 'acpi_pm', 'jiffies', 'refined-jiffies', 'pit'):
        yield check_rule.Violation(
            subject='kernel', message=f'the clock source is {there}',
            evidence=(facts.HostEvidence(name='current_clocksource'),))


@check_rule.rule(
    'H215', check_rule.Severity.ERROR,
    "guests' CPUs are not isolated as they are meant to be",
    why='the control group of guests was made an isolated partition, and the '
        'kernel has refused that or made it of other CPUs: the scheduler '
        'balances load over CPUs of guests, or guests float over CPUs over '
        'which it does not. See cpuset.cpus.partition in '
        'Documentation/admin-guide/cgroup-v2.rst of the kernel',
    advice='start the unit nova-pinning-partition that "nova-pinning host '
           'render --isolation partition" writes again, or disable it')
def partition(view: facts.CheckedHost) -> check_rule.Violations:
    there = view.facts.partition
    if not there.startswith(('isolated', 'root')):
        return
    cpus = view.facts.partition_cpus
    taken = view.dedicated_cpus & view.online_cpus
    evidence = (facts.HostEvidence(
        name='machine.slice', cpus=cpus, expected_cpus=taken),)
    if 'invalid' in there:
        yield check_rule.Violation(
            subject='machine.slice', message=f'its partition is {there}',
            evidence=evidence)
    elif there == 'isolated' and cpus != taken:
        yield check_rule.Violation(
            subject='machine.slice',
            message=f'its partition has {words.cpus(cpus)}, dedicated are '
                    f'{words.cpus(taken)}', evidence=evidence)
