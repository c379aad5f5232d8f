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

"""H2xx: the machine and its kernel."""

from collections.abc import Iterator

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.host.check import commands
from nova_pinning.host.check import finding
from nova_pinning.host.check import rule
from nova_pinning.host import model
from nova_pinning.host import words

_PLAN_AGAIN = ('use the plan of this kind of host, or discover and plan this '
               'host again')
_START = ('start the unit nova-pinning-kernel that "nova-pinning host render" '
          'writes')
# What the firmware keeps differs a little from boot to boot.
_LEAST_MEMORY = 0.98


@rule.rule(
    'H200', finding.Severity.ERROR, 'the plan is for another machine',
    why='nothing that it says can be compared with this one',
    advice='give the plan of this kind of hosts')
def other_kind(view: rule.View) -> Iterator[rule.Problem]:
    if view.is_other_machine:
        there = view.facts.host
        yield rule.Problem(
            subject=there.name,
            message=f'it has {words.cpus(view.online_cpus)} on '
                    f'{len(there.nodes)} NUMA nodes, and the machine of plan '
                    f'{view.planned.name} {words.cpus(view.planned.cpus)} on '
                    f'{len(view.planned.nodes)}; nothing else was checked',
            evidence=(finding.Evidence(
                cpus=view.online_cpus, expected_cpus=view.planned.cpus),))


@rule.rule(
    'H201', finding.Severity.ERROR, 'planned CPUs are offline or missing',
    why='nova-compute does not start if a CPU of cpu_dedicated_set is not '
        'online, and guests that were pinned to it run elsewhere',
    advice='switch them on, or plan the host again without them')
def missing_cpus(view: rule.View) -> Iterator[rule.Problem]:
    missing = view.planned.cpus - view.online_cpus
    if missing:
        offline = missing & view.facts.host.offline_cpus
        state = 'are not there' if not offline else 'are offline'
        yield rule.Problem(
            subject='CPUs',
            message=f'{words.cpus(missing)} of the plan '
                    + (state if len(missing) > 1 else
                       state.replace('are', 'is')),
            evidence=(finding.Evidence(
                cpus=view.online_cpus, expected_cpus=view.planned.cpus),),
            mends=tuple(
                commands.write(f'/sys/devices/system/cpu/cpu{cpu}/online', 1)
                for cpu in offline))


@rule.rule(
    'H202', finding.Severity.WARNING, 'CPUs that the plan does not know',
    why='nobody has said what they are for: nova sells none of them, and host '
        'services that are confined leave them idle',
    advice=_PLAN_AGAIN)
def unplanned_cpus(view: rule.View) -> Iterator[rule.Problem]:
    unknown = view.online_cpus - view.planned.cpus
    if unknown:
        yield rule.Problem(
            subject='CPUs',
            message=f'the plan does not know {words.cpus(unknown)}',
            evidence=(finding.Evidence(
                cpus=unknown, expected_cpus=cpuset.CpuSet()),))


@rule.rule(
    'H203', finding.Severity.ERROR, 'the machine is not the planned one',
    why='CPUs that the plan takes for neighbours are none, so that cores are '
        'split between guests and the host, and guests are far from their '
        'memory or caches',
    advice=_PLAN_AGAIN)
def other_machine(view: rule.View) -> Iterator[rule.Problem]:
    planned, there = view.planned, view.facts.host
    # CPUs that one of the two lacks are another rule's.
    common = planned.cpus & there.cpus
    for what, wanted, found in (
            ('NUMA nodes', _nodes(planned, common), _nodes(there, common)),
            ('cores', _cores(planned, common), _cores(there, common)),
            ('L3 domains', _l3_domains(planned, common),
             _l3_domains(there, common))):
        # Not every host file tells of caches.
        if wanted == found or not wanted or not found:
            continue
        yield rule.Problem(
            subject='topology',
            message=f'the {what} are not those of the planned machine',
            evidence=(
                *(finding.Evidence(name=f'planned {what}', expected_cpus=cpus)
                  for cpus in sorted(wanted - found)),
                *(finding.Evidence(name=f'these {what}', cpus=cpus)
                  for cpus in sorted(found - wanted))))


_Groups = frozenset[cpuset.CpuSet]


def _nodes(host: model.HostDescription, common: cpuset.CpuSet) -> _Groups:
    return frozenset(node.cpus & common for node in host.nodes) - {
        cpuset.CpuSet()}


def _cores(host: model.HostDescription, common: cpuset.CpuSet) -> _Groups:
    return frozenset(
        cpuset.CpuSet(core) & common
        for node in host.nodes for core in node.cores) - {cpuset.CpuSet()}


def _l3_domains(host: model.HostDescription,
                common: cpuset.CpuSet) -> _Groups:
    return frozenset(
        domain & common for node in host.nodes
        for domain in node.l3_domains) - {cpuset.CpuSet()}


@rule.rule(
    'H204', finding.Severity.ERROR, 'isolcpus= contradicts the plan',
    why='the scheduler does not spread threads over isolated CPUs: host '
        'services and floating vCPUs that are confined to them all run on '
        'the first; and where only some dedicated CPUs are isolated, guests '
        'are not alike',
    advice='isolate dedicated and poll CPUs, all of them or none, as '
           '"nova-pinning host render" does, and boot the host again')
def isolated(view: rule.View) -> Iterator[rule.Problem]:
    yield from _kernel_set(
        view, 'isolcpus=', view.facts.host.system.isolated_cpus,
        finding.Severity.ERROR)


@rule.rule(
    'H205', finding.Severity.WARNING, 'nohz_full= contradicts the plan',
    why='the kernel spends more time on each of its entries on such CPUs, '
        'which pays off only where a single thread runs: on dedicated and '
        'poll CPUs',
    advice='name dedicated and poll CPUs, all of them or none, as '
           '"nova-pinning host render" does, and boot the host again')
def tickless(view: rule.View) -> Iterator[rule.Problem]:
    yield from _kernel_set(
        view, 'nohz_full=', view.facts.host.system.nohz_full_cpus,
        finding.Severity.WARNING)


def _kernel_set(
    view: rule.View, parameter: str, there: cpuset.CpuSet,
    severity: finding.Severity,
) -> Iterator[rule.Problem]:
    if not there:
        return
    taken = view.taken_cpus & view.online_cpus
    wrong = (there & view.planned.cpus) - taken
    left_out = taken - there
    evidence = finding.Evidence(
        name=parameter, cpus=there, expected_cpus=view.taken_cpus)
    if wrong:
        yield rule.Problem(
            subject='kernel command line',
            message=f'{parameter} has {words.cpus(wrong)}, neither dedicated '
                    'nor poll CPUs',
            evidence=(evidence,), severity=severity)
    if left_out and there & taken:
        yield rule.Problem(
            subject='kernel command line',
            message=f'{parameter} leaves out {words.cpus(left_out)} of the '
                    'dedicated and poll CPUs',
            evidence=(evidence,), severity=finding.Severity.WARNING)


@rule.rule(
    'H206', finding.Severity.WARNING,
    'dedicated CPUs whose governor is not performance',
    why='a vCPU that was idle for a moment finds its CPU at a low clock',
    advice=_START)
def governor(view: rule.View) -> Iterator[rule.Problem]:
    for name, cpus in sorted(view.facts.host.system.governors.items()):
        slow = cpus & view.taken_cpus
        if name != 'performance' and slow:
            yield rule.Problem(
                subject='cpufreq',
                message=f'the governor of {words.cpus(slow)} is {name}',
                evidence=(finding.Evidence(name=name, cpus=slow),),
                mends=(f'cpupower -c {slow} frequency-set -g performance',))


@rule.rule(
    'H207', finding.Severity.ERROR, 'SMT is not as planned',
    why='what the plan sells as a core is half a core, or the other way '
        'round',
    advice='set it in the firmware or by nosmt on the kernel command line, '
           'or plan the host again')
def smt(view: rule.View) -> Iterator[rule.Problem]:
    planned, there = view.planned.system.smt, view.facts.host.system.smt
    if planned and there and (planned == 'on') != (there == 'on'):
        mends = ('echo on > /sys/devices/system/cpu/smt/control',) if (
            there == 'off') else ()
        yield rule.Problem(
            subject='SMT', message=f'SMT is {there}, planned is {planned}',
            mends=mends)


@rule.rule(
    'H208', finding.Severity.ERROR, 'no IOMMU for passthrough',
    why='PCI devices cannot be passed through to guests',
    advice='switch it on in the firmware, and put intel_iommu=on iommu=pt or '
           'amd_iommu=on iommu=pt on the kernel command line')
def no_iommu(view: rule.View) -> Iterator[rule.Problem]:
    aliases = sorted({device.alias for device in view.planned.pci_devices
                      if device.alias})
    if aliases and view.facts.host.system.has_iommu is False:
        yield rule.Problem(
            subject='IOMMU',
            message='the kernel uses no IOMMU, but flavors ask for '
                    f'{words.listed(aliases)}')


@rule.rule(
    'H209', finding.Severity.WARNING, 'PCI device is not where it was planned',
    why='guests that ask for it find no host, or it is near other CPUs than '
        'those set aside for it',
    advice='look whether it is broken or was moved to another slot, and plan '
           'the host again')
def devices(view: rule.View) -> Iterator[rule.Problem]:
    there = {device.address: device for device in view.facts.host.pci_devices}
    served = {one.address for one in view.plan.interrupts}
    for device in view.planned.pci_devices:
        if not device.alias and device.address not in served:
            continue
        found = there.get(device.address)
        names = ', '.join((device.alias, *device.names)).strip(', ')
        subject = f'device {device.address}' + (f' ({names})' if names else '')
        product = f'{device.vendor_id}:{device.product_id}'
        if found is None:
            yield rule.Problem(subject=subject, message='it is not there')
        elif (found.vendor_id, found.product_id) != (
                device.vendor_id, device.product_id):
            yield rule.Problem(
                subject=subject,
                message=f'it is {found.vendor_id}:{found.product_id}, planned '
                        f'is {product}')
        elif found.numa_node != device.numa_node:
            yield rule.Problem(
                subject=subject,
                message=f'it is on {_node(found.numa_node)}, planned is '
                        f'{_node(device.numa_node)}',
                evidence=(finding.Evidence(node=found.numa_node),))


def _node(number: int | None) -> str:
    return 'no NUMA node' if number is None else f'NUMA node {number}'


@rule.rule(
    'H210', finding.Severity.WARNING, 'a node has less memory than planned',
    why='there is not enough for what the plan sells; a memory module may '
        'have failed',
    advice='look at what the firmware and the kernel say of memory modules')
def less_memory(view: rule.View) -> Iterator[rule.Problem]:
    there = {node.id: node.memory_mib for node in view.facts.host.nodes}
    for node in view.planned.nodes:
        memory_mib = there.get(node.id, 0)
        if memory_mib < node.memory_mib * _LEAST_MEMORY:
            found, planned = quantities.shown_alike(
                memory_mib, node.memory_mib)
            yield rule.Problem(
                subject=f'NUMA node {node.id}',
                message=f'it has {found} of memory, planned are {planned}',
                evidence=(finding.Evidence(node=node.id),))


@rule.rule(
    'H211', finding.Severity.NOTE, 'the kernel moves memory between nodes',
    why='automatic NUMA balancing takes pages of guests away for a moment to '
        'see who uses them, though where they belong is settled',
    advice=_START)
def numa_balancing(view: rule.View) -> Iterator[rule.Problem]:
    if (view.facts.numa_balancing and view.dedicated_cpus and
            len(view.facts.host.nodes) > 1):
        yield rule.Problem(
            subject='kernel', message='automatic NUMA balancing is on',
            mends=('sysctl kernel.numa_balancing=0',))


@rule.rule(
    'H212', finding.Severity.NOTE, 'the kernel merges equal pages',
    why='a guest that writes to a merged page waits for a copy of it, which '
        'may come from another node, and guests can learn of each other',
    advice=f'{_START}; ksmtuned, where it is installed, switches it on again')
def merged_pages(view: rule.View) -> Iterator[rule.Problem]:
    if view.facts.merges_pages and view.dedicated_cpus:
        yield rule.Problem(
            subject='kernel', message='kernel samepage merging is on',
            # 2 undoes what was merged.
            mends=(commands.write('/sys/kernel/mm/ksm/run', 2),))


RULES = (other_kind, missing_cpus, unplanned_cpus, other_machine, isolated,
         tickless, governor, smt, no_iommu, devices, less_memory,
         numa_balancing, merged_pages)
