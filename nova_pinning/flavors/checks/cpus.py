# SPDX-License-Identifier: Apache-2.0
"""P1xx: CPU policies, emulator threads and the guest's CPU topology.

What nova does is in nova.virt.hardware (numa_get_constraints,
_pack_instance_onto_cores, get_best_cpu_topology) and in
nova.virt.libvirt.driver.LibvirtDriver (_get_guest_numa_config).
"""

from nova_pinning.checks import check_rule
from nova_pinning.checks.check_rule import Severity
from nova_pinning import cpuset
from nova_pinning.flavors.checks import checked
from nova_pinning.flavors.checks import guest_topology
from nova_pinning.flavors import guest_cores
from nova_pinning.flavors import guest_machine
from nova_pinning.host import words
from nova_pinning.model import CpuPolicy
from nova_pinning.model import ThreadPolicy

#: The most that the kernel can be built for (CONFIG_KVM_MAX_NR_VCPUS, x86).
MAX_VCPUS = 4096

_EMULATOR_KEY = 'hw:emulator_threads_policy'


@check_rule.rule(
    'P101', Severity.ERROR, 'more vCPUs than KVM runs',
    why='KVM on x86 runs at most 4096 vCPUs in one guest, most kernels fewer',
    advice='offer fewer vCPUs')
def too_many_vcpus(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if subject.flavor.vcpus > MAX_VCPUS:
        yield subject.violation(f'{subject.flavor.vcpus} vCPUs are too many',
                                ('vcpus',))


@check_rule.rule(
    'P102', Severity.WARNING, 'thread policy isolate',
    why='nova never places it on a host with hardware threads and '
        'cpu_dedicated_set, and Placement is asked for hosts without '
        'hardware threads only',
    advice='use thread policy require, which gives the guest whole cores, or '
           'leave it only if some hosts have hardware threads switched off')
def isolate(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if not subject.is_pinned or not subject.is_accepted or (
            subject.thread_policy is not ThreadPolicy.ISOLATE):
        return
    if subject.hosts and not any(
            host.has_threads for host in subject.candidates):
        return
    if isolate_fits_nowhere(subject):
        yield subject.violation(
            'thread policy isolate fits none of the hosts given: all have '
            'hardware threads', subject.thread_keys,
            severity=Severity.ERROR)
    else:
        yield subject.violation(
            'thread policy isolate fits only hosts without hardware threads',
            subject.thread_keys)


def isolate_fits_nowhere(subject: checked.CheckedFlavor) -> bool:
    """Whether it is the thread policy that keeps it off all given hosts."""
    return bool(subject.hosts) and (
        subject.thread_policy is ThreadPolicy.ISOLATE) and all(
            host.has_threads and not host.is_legacy
            for host in subject.candidates)


@check_rule.rule(
    'P103', Severity.WARNING, 'isolated emulator threads strand a sibling',
    why='an odd number of host CPUs leaves one thread of a core over: no vCPU '
        'under thread policy require can have it, and whatever gets it, often '
        'the emulator threads of another guest, shares the core',
    advice='use hw:emulator_threads_policy=share with cpu_shared_set on the '
           'hosts, or an odd number of vCPUs',
    in_catalogue=(
        'write emulator_threads: share, with cpu_shared_set on the '
        'hosts, or offer an odd number of vCPUs'))
def stranded_sibling(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if (not subject.is_pinned or subject.emulator_policy != 'isolate' or
            subject.thread_policy is ThreadPolicy.ISOLATE):
        return
    if subject.hosts and not any(
            host.has_threads for host in subject.candidates):
        return
    count = (len(subject.cells[0].dedicated_vcpus) if subject.cells
             else subject.flavor.vcpus)
    if count and not count % 2:
        cell = ' of the first NUMA cell' if len(subject.cells) > 1 else ''
        yield subject.violation(
            f'{count} dedicated vCPUs{cell} and the emulator threads take '
            f'{count + 1} host CPUs and leave the sibling of one over',
            (_EMULATOR_KEY,))


@check_rule.rule(
    'P104', Severity.WARNING, 'emulator threads policy on a shared guest',
    why='without pinned vCPUs there is nothing to keep emulator threads '
        'away from: nova ignores the policy, and if the guest has a NUMA '
        'topology takes its emulator threads off the NUMA nodes that the '
        'guest is on',
    advice='leave hw:emulator_threads_policy out',
    in_catalogue='leave emulator_threads out')
def emulator_policy_on_shared(
    subject: checked.CheckedFlavor,
) -> check_rule.Violations:
    # Nova itself refuses isolate.
    if not subject.is_pinned and subject.emulator_policy == 'share':
        yield subject.violation(
            'emulator threads policy share does nothing for a guest whose '
            'vCPUs float', (_EMULATOR_KEY,))


@check_rule.rule(
    'P105', Severity.WARNING, 'pinned guest without a CPU topology',
    why='nova then shows the guest a socket for every vCPU, so it knows '
        'neither its sibling threads nor its shared cache, and software that '
        'is licensed or limited by socket may use only some of the vCPUs',
    advice='set hw:cpu_sockets, hw:cpu_cores and hw:cpu_threads, with two '
           'threads where hw:cpu_thread_policy=require pins siblings together',
    in_catalogue='write cpu_topology: match-host')
def no_topology(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if (subject.is_pinned and subject.flavor.vcpus > 1 and
            not guest_topology.topology_constraints(subject).keys):
        yield subject.violation(
            f'the guest sees {subject.flavor.vcpus} sockets with one core '
            'and one thread each', subject.policy_keys,
            guest_topology.interleaved_advice(subject))


@check_rule.rule(
    'P106', Severity.WARNING, 'thread policy require with odd vCPUs',
    why='the guest leaves one thread of its last core over, which no vCPU '
        'under thread policy require can have, and with which any other '
        'shares the core',
    advice='offer an even number of dedicated vCPUs in every NUMA cell')
def odd_vcpus(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if (not subject.is_pinned or
            subject.thread_policy is not ThreadPolicy.REQUIRE):
        return
    for number, cell in enumerate(subject.cells):
        count = len(cell.dedicated_vcpus)
        # Isolated emulator threads take the thread that is left.
        if number == 0 and subject.emulator_policy == 'isolate':
            continue
        if count % 2:
            what = f'NUMA cell {number} has ' if len(
                subject.cells) > 1 else ''
            yield subject.violation(
                f'{what}{words.count(count, "dedicated vCPU")} on cores of '
                'two threads', ('vcpus', f'hw:numa_cpus.{number}'))
            return


@check_rule.rule(
    'P107', Severity.WARNING, 'CPU topology that cannot be had',
    why='nova drops what does not come out at the number of vCPUs, or is '
        'above a limit, without a word',
    advice='sockets times cores times threads must be the number of vCPUs')
def topology_dropped(subject: checked.CheckedFlavor) -> check_rule.Violations:
    constraints = guest_topology.topology_constraints(subject)
    constrained = constraints.dropped or constraints.preferred
    if not any(constrained) or not subject.is_accepted:
        return
    got = guest_topology.choose(
        subject.flavor.vcpus, constraints.preferred, constraints.limits)
    if got and any(want not in (0, have)
                   for want, have in zip(constrained, got)):
        yield subject.violation(
            f'{constrained} cannot be had with '
            f'{words.count(subject.flavor.vcpus, "vCPU")}; the guest sees '
            f'{got}',
            constraints.keys)


@check_rule.rule(
    'P108', Severity.WARNING, 'guest threads that are not siblings',
    why="the guest's scheduler takes two vCPUs for threads of one core and "
        'loads one of them last, though they run on different cores',
    advice='set hw:cpu_threads=1, or pin siblings together with '
           'hw:cpu_thread_policy=require',
    in_catalogue=(
        'write cpu_topology: match-host, or pin siblings together '
        'with thread_policy: require'))
def false_threads(subject: checked.CheckedFlavor) -> check_rule.Violations:
    threads, keys = _seen_threads(subject)
    # Of hosts without threads P605 tells.
    if threads < 2 or subject.thread_policy is ThreadPolicy.REQUIRE or (
            subject.most_threads == 1):
        return
    severity = None
    if not subject.is_pinned:
        why = 'its vCPUs float'
    elif subject.thread_policy is ThreadPolicy.ISOLATE:
        why = 'thread policy isolate pins each vCPU to a core of its own'
    else:
        why = 'thread policy prefer also takes threads of different cores'
        severity = Severity.NOTE
    yield subject.violation(
        f'the guest sees {threads} threads a core, but {why}', keys,
        guest_topology.interleaved_advice(subject), severity)


@check_rule.rule(
    'P109', Severity.WARNING, 'sibling threads that the guest cannot see',
    why='thread policy require pins vCPUs to sibling threads in pairs, and a '
        'guest that does not know puts two busy tasks on one core while '
        'another is idle',
    advice='set hw:cpu_threads=2, with half as many cores',
    in_catalogue='write cpu_topology: match-host')
def hidden_threads(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if (not subject.is_pinned or subject.flavor.vcpus < 2 or
            subject.thread_policy is not ThreadPolicy.REQUIRE or
            not _is_in_pairs(subject)):
        return
    threads, keys = _seen_threads(subject)
    # Without any topology it is P105.
    if keys and threads == 1:
        yield subject.violation(
            'the guest sees one thread a core, but is pinned to pairs of '
            'threads', keys, guest_topology.interleaved_advice(subject))


def _is_in_pairs(subject: checked.CheckedFlavor) -> bool:
    """Whether the pairs that are pinned to siblings can be guest cores.

    Where they cannot, that is what other rules tell.
    """
    return all(
        not len(cell.dedicated_vcpus) % 2 and guest_cores.is_in_whole_cores(
            cpuset.CpuSet(cell.dedicated_vcpus), 2)
        for cell in subject.cells)


def _seen_threads(
    subject: checked.CheckedFlavor,
) -> tuple[int, tuple[str, ...]]:
    """How many threads a core the guest sees, and what makes it so."""
    got = guest_topology.seen(subject)
    if got is None:
        return 0, ()
    return got.threads, (
        'hw:cpu_threads', 'hw_cpu_threads',
        *guest_topology.topology_constraints(subject).keys)


@check_rule.rule(
    'P110', Severity.WARNING, 'realtime mask without realtime',
    why='nova reads the mask only if hw:cpu_realtime is yes',
    advice='set hw:cpu_realtime=yes, or leave the mask out',
    in_catalogue='write realtime: {vcpus: ...} in place of the extra spec')
def unread_realtime_mask(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    if subject.is_accepted and not subject.is_realtime and (
            subject.value('cpu_realtime_mask')):
        yield subject.about('cpu_realtime_mask', 'is not read')


@check_rule.rule(
    'P111', Severity.ERROR, 'NUMA cell without dedicated vCPUs',
    why='nova sets host CPUs aside, for isolated emulator threads or cores, '
        'only next to a vCPU that it pins, and so finds no host',
    advice='give each NUMA cell a dedicated vCPU, the first one above all')
def cell_without_dedicated(
    subject: checked.CheckedFlavor,
) -> check_rule.Violations:
    keys = ('hw:cpu_dedicated_mask', 'hw:cpu_realtime_mask',
            'hw_cpu_realtime_mask')
    if not subject.is_pinned:
        return
    for number, cell in enumerate(subject.cells):
        if cell.dedicated_vcpus:
            continue
        if subject.thread_policy is ThreadPolicy.ISOLATE:
            reason = 'thread policy isolate'
        elif not number and subject.emulator_policy == 'isolate':
            reason = 'emulator threads policy isolate'
        else:
            continue
        yield subject.violation(
            f'NUMA cell {number} has no dedicated vCPU, which {reason} '
            'needs', keys)
        return


@check_rule.rule(
    'P112', Severity.NOTE, 'realtime guest with a performance monitor',
    why='emulating the performance monitoring unit adds latency to realtime '
        'guests',
    advice='set hw:pmu=no',
    in_catalogue='write hw:pmu: false under extra_specs')
def realtime_pmu(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if subject.is_realtime and subject.is_pinned and (
            subject.specs.get('hw:pmu') is None and
            subject.image.get('hw_pmu') is None):
        yield subject.violation('hw:pmu is not set', ('hw:cpu_realtime',))


@check_rule.rule(
    'P113', Severity.WARNING, 'CPU policy left to the image',
    why='an image with hw_cpu_policy=dedicated, which any user can make, '
        'then turns a guest of a shared flavor into one with its own CPUs',
    advice='set hw:cpu_policy=shared',
    in_catalogue='write class: shared')
def policy_left_to_image(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    if not subject.specs.get('hw:cpu_policy') and (
            not any(key in subject.specs for key in subject.policy_keys)):
        yield subject.violation(
            'hw:cpu_policy is not set, so that images choose it',
            ('hw_cpu_policy',))


@check_rule.rule(
    'P114', Severity.NOTE, "image's CPU policy overruled by the flavor",
    why='a dedicated flavor pins all vCPUs whatever the image says',
    advice='use another flavor with this image, or leave hw_cpu_policy out')
def image_policy_overruled(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    image = subject.image.get('hw_cpu_policy')
    if subject.is_accepted and image and (
            subject.specs.get('hw:cpu_policy') == 'dedicated' != image):
        yield subject.violation(
            f'{checked.shown("hw_cpu_policy", image)} does nothing under '
            'hw:cpu_policy=dedicated', ('hw:cpu_policy',))


@check_rule.rule(
    'P115', Severity.WARNING, 'guest core or socket across NUMA cells',
    why='the guest takes the vCPUs for siblings, or for CPUs with one cache, '
        'while they are on different host nodes; Linux then ignores what it '
        'was told of caches, and places tasks badly',
    advice='have each NUMA cell hold vCPUs that follow each other, with a '
           'socket for each cell (hw:cpu_sockets)',
    in_catalogue=(
        'write cpu_topology: match-host, and give each NUMA cell vCPUs that '
        'follow each other'))
def split_by_cells(subject: checked.CheckedFlavor) -> check_rule.Violations:
    got = guest_topology.seen(subject)
    if got is None or len(subject.cells) < 2:
        return
    groups = [cpuset.CpuSet((*cell.dedicated_vcpus, *cell.shared_vcpus))
              for cell in subject.cells]
    keys = guest_topology.topology_constraints(subject).keys
    for kind, each in (('core', got.threads),
                       ('socket', got.cores * got.threads)):
        together = guest_cores.split_by_cells(groups, each)
        if together is None:
            continue
        # Cells that differ in size cannot have a socket each.
        is_uneven = kind == 'socket' and len(set(map(len, groups))) > 1
        yield subject.violation(
            f'vCPUs {together} are one {kind} of the guest, but are in '
            'different NUMA cells', (*keys, 'hw:numa_cpus.0'),
            'offer a number of vCPUs that the NUMA cells can share evenly, '
            'for a socket each' if is_uneven else '',
            severity=Severity.NOTE if is_uneven else None)
        return


@check_rule.rule(
    'P116', Severity.WARNING, 'mask of dedicated vCPUs that cuts cores',
    why='thread policy require pins dedicated vCPUs to sibling threads in '
        'pairs, in the order of their numbers; where the mask has only one '
        'vCPU of a guest core, the pairs are others than those the guest '
        'sees',
    advice='name vCPUs in pairs that begin with an even one, such as '
           'hw:cpu_dedicated_mask=2-7',
    in_catalogue=(
        "name vCPUs in pairs that begin with an even one, such as "
        "dedicated_vcpus: '2-7'"))
def cut_cores(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if subject.cpu_policy is not CpuPolicy.MIXED or (
            subject.thread_policy is not ThreadPolicy.REQUIRE):
        return
    for cell in subject.cells:
        pinned = cpuset.CpuSet(cell.dedicated_vcpus)
        # An odd number is told by P106.
        if not len(pinned) % 2 and (
                not guest_cores.is_in_whole_cores(pinned, 2)):
            yield subject.violation(
                f'dedicated vCPUs {pinned} are no pairs of threads of one '
                'guest core',
                ('hw:cpu_dedicated_mask', 'hw:cpu_realtime_mask',
                 'hw_cpu_realtime_mask'))
            return


@check_rule.rule(
    'P117', Severity.ERROR, 'more vCPUs than the machine type takes',
    why='libvirt refuses to start such a guest',
    advice='use images with hw_machine_type=q35 and set '
           'hw:viommu_model=intel, or offer fewer vCPUs')
def too_many_for_machine(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    named = subject.image.get('hw_machine_type', '')
    if not subject.has_image and not named:
        # Any image may come.
        refused = guest_machine.vcpu_refusal(
            subject.flavor.vcpus, 'q35', bool(subject.value('viommu_model')))
        if refused or subject.flavor.vcpus > guest_machine.MOST_VCPUS_PC:
            yield subject.violation(
                refused or f'{subject.flavor.vcpus} vCPUs need an image with '
                'hw_machine_type=q35', ('vcpus',),
                severity=None if refused else Severity.NOTE)
        return
    refused = guest_machine.vcpu_refusal(
        subject.flavor.vcpus, named or 'pc',
        bool(subject.value('viommu_model')))
    if refused:
        yield subject.violation(refused, ('vcpus', 'hw_machine_type'))
