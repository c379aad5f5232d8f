# SPDX-License-Identifier: Apache-2.0
"""What nova's exceptions about a flavor and an image mean.

They are those of nova.virt.hardware and nova.pci.request, each with the keys
that it is about and with what to write instead.
"""

import dataclasses
import typing

from nova_pinning.admission import pci_alias
from nova_pinning.checks import check_rule
from nova_pinning.flavors.checks import nova_rules


@dataclasses.dataclass(frozen=True, slots=True)
class About:
    """What an exception of nova is about.

    :param rule: None for that of the function that raised it
    :param roots: of the keys that it concerns, the likely culprit first:
        'cpu_policy' for hw:cpu_policy and hw_cpu_policy; empty for those of
        the function
    :param advice: what to write instead, if the rule's own does not do
    """

    rule: check_rule.Rule[typing.Any] | None
    roots: tuple[str, ...] = ()
    advice: str = ''


_CPU_LIMITS = ('cpu_max_sockets cpu_max_cores cpu_max_threads cpu_sockets '
               'cpu_cores cpu_threads')
_ENCRYPTION = 'mem_encryption mem_encryption_model'
_ENCRYPTED = 'use images with {} for memory that is encrypted so'
_DEDICATED = 'set hw:cpu_policy=dedicated or mixed, or leave it out'
_AGREE = (
    'say the same in the flavor and in the image, or nothing in one of them')

#: By the class of the exception: the rule, the roots, and for each the advice.
_BY_CLASS = (
    (nova_rules.CPU_POLICY, 'cpu_policy', {
        'ImageCPUPinningForbidden':
            "an image cannot ask for more than the flavor's policy; use a "
            'dedicated flavor with it',
        'InvalidCPUAllocationPolicy': 'write dedicated, mixed or shared'}),
    (nova_rules.CPU_POLICY, 'cpu_thread_policy', {
        'CPUThreadPolicyConfigurationInvalid': _DEDICATED,
        'ImageCPUThreadPolicyForbidden':
            'leave the policy out of the flavor, or of the image',
        'InvalidCPUThreadAllocationPolicy':
            'write prefer, require or isolate'}),
    (nova_rules.CPU_POLICY, 'emulator_threads_policy', {
        'BadRequirementEmulatorThreadsPolicy': _DEDICATED,
        'InvalidEmulatorThreadsPolicy': 'write share or isolate'}),
    (nova_rules.CPU_POLICY, 'cpu_dedicated_mask', {
        'InvalidMixedInstanceDedicatedMask':
            'name some of the vCPUs, but not all',
        'RequiredMixedInstancePolicy':
            'set hw:cpu_policy=mixed, or leave the mask out'}),
    (nova_rules.CPU_POLICY,
     'cpu_dedicated_mask cpu_realtime_mask cpu_policy', {
         'RequiredMixedOrRealtimeCPUMask':
             'give a mixed guest either hw:cpu_dedicated_mask, or '
             'hw:cpu_realtime with hw:cpu_realtime_mask'}),
    (nova_rules.CPU_POLICY, 'cpu_realtime', {
        'RealtimeConfigurationInvalid': _DEDICATED}),
    (nova_rules.CPU_POLICY, 'cpu_realtime_mask cpu_realtime', {
        'RealtimeMaskNotFoundOrInvalid':
            'leave at least one vCPU out of hw:cpu_realtime_mask (^0), or set '
            'hw:emulator_threads_policy'}),
    (nova_rules.NUMA, 'numa_nodes', {
        'ImageNUMATopologyAsymmetric':
            'take a number of cells that divides vCPUs and memory, or give '
            'every cell its hw:numa_cpus.N and hw:numa_mem.N',
        'InvalidNUMANodesNumber': 'write a whole number of cells, 1 or more'}),
    (nova_rules.NUMA, 'numa_cpus', {
        'ImageNUMATopologyCPUDuplicates':
            'name each vCPU in one hw:numa_cpus.N only',
        'ImageNUMATopologyCPUOutOfRange':
            "name vCPUs from 0 up to one below the flavor's number of them",
        'ImageNUMATopologyCPUsUnassigned':
            'name the vCPUs that are missing in one of the hw:numa_cpus.N'}),
    (nova_rules.NUMA, 'numa_nodes numa_cpus numa_mem', {
        'ImageNUMATopologyForbidden':
            'leave the NUMA topology to the flavor or to the image, not to '
            'both'}),
    (nova_rules.NUMA, 'numa_cpus numa_mem numa_nodes', {
        'ImageNUMATopologyIncomplete':
            'give every cell, from 0 on, both hw:numa_cpus.N and '
            'hw:numa_mem.N'}),
    (nova_rules.NUMA, 'numa_mem', {
        'ImageNUMATopologyMemoryOutOfRange':
            "let the hw:numa_mem.N, in MiB, come to the flavor's memory"}),
    (nova_rules.MEMORY, 'locked_memory', {
        'FlavorImageLockedMemoryConflict': _AGREE,
        'LockMemoryForbidden': 'set hw:mem_page_size'}),
    (nova_rules.MEMORY, 'mem_page_size', {
        'MemoryPageSizeForbidden':
            'leave the page size out of the image, or have the flavor say '
            'large or any',
        'MemoryPageSizeInvalid':
            'write large, small, any, a number of KiB, or a size with a unit '
            'such as 2MB or 1GB'}),
    (nova_rules.MEMORY, _ENCRYPTION, {
        'InvalidMachineType': _ENCRYPTED.format('hw_machine_type=q35'),
        'InvalidVideoMode': _ENCRYPTED.format('hw_video_model=none'),
        'StatelessFirmwareRequired':
            _ENCRYPTED.format('hw_firmware_stateless=true')}),
    (nova_rules.TOPOLOGY, _CPU_LIMITS, {
        'ImageVCPULimitsRangeExceeded':
            "raise the flavor's hw:cpu_max_*, or lower the image's "
            'hw_cpu_max_*',
        'ImageVCPULimitsRangeImpossible':
            'let the largest numbers of sockets, cores and threads, '
            "multiplied, come to the flavor's vCPUs, with a divisor of them "
            'each',
        'ImageVCPUTopologyRangeExceeded':
            "raise the flavor's hw:cpu_max_*, or lower the image's hw_cpu_*"}),
    (nova_rules.PCI, 'pci_numa_affinity_policy', {
        'ImagePCINUMAPolicyForbidden':
            'leave the policy out of the flavor, or of the image',
        'InvalidPCINUMAAffinity':
            'write required, preferred, legacy or socket'}),
    (nova_rules.PCI, '', {
        'PciInvalidAlias':
            f'write {pci_alias.KEY} as name:count, such as nvme:1',
        'PciRequestAliasNotDefined':
            'define the alias under [pci] alias in nova.conf, for nova-api '
            'and for the hosts, or name one that is'}),
    (nova_rules.DEVICE, 'serial_port_count', {
        'ImageSerialPortNumberExceedFlavorValue':
            'raise hw:serial_port_count, or lower what the image asks for',
        'ImageSerialPortNumberInvalid': 'write a whole number'}),
    (None, '', {
        'FlavorImageConflict': _AGREE,
        'Invalid': 'write one of the values that nova names',
        'InvalidRequest': 'take one of the two away'}),
)
EXCEPTIONS = {
    name: About(rule, tuple(roots.split()), advice)
    for rule, roots, names in _BY_CLASS for name, advice in names.items()}

#: By what the message says, for exceptions that nova raises for more than one
#: reason; these go first.
MESSAGES = tuple((words, About(rule, tuple(roots.split()), advice))
                 for words, rule, roots, advice in (
    ('hw_firmware_type', nova_rules.MEMORY, _ENCRYPTION,
     _ENCRYPTED.format('hw_firmware_type=uefi')),
    ("'hw:cpu_policy' extra spec or 'hw_cpu_policy'", nova_rules.CPU_POLICY,
     'cpu_policy', 'leave out hw:cpu_policy, or resources:VCPU and '
     'resources:PCPU, for which nova then asks by itself'),
    ("both 'resources:VCPU' and 'resources:PCPU'", nova_rules.CPU_POLICY, '',
     'leave one of them out; for some of each set hw:cpu_policy=mixed with '
     'hw:cpu_dedicated_mask, and neither'),
    ('flavor.vcpus + 1 PCPUs', nova_rules.CPU_POLICY,
     'emulator_threads_policy',
     "ask for one resources:PCPU more than the flavor's vCPUs"),
    ('mismatch between the number of PCPUs', nova_rules.CPU_POLICY, '',
     'ask for as many resources:PCPU as the flavor has vCPUs'),
    ("use the 'trait:HW_CPU_HYPERTHREADING'", nova_rules.CPU_POLICY,
     'cpu_thread_policy',
     'leave the trait out: thread policy require asks for hosts with '
     'hardware threads by itself, isolate for those without'),
    ('expression', None, '', "write vCPUs like '0-3,8' or '^0'"),
    ('TPM model CRB', None, '', 'set hw:tpm_version=2.0, or '
     'hw:tpm_model=tpm-tis'),
    ('USB ports', None, '', 'write a number from 0 to 15'),
    ('not a valid integer', None, '', 'write a whole number')))


def about(name: str, message: str) -> About:
    """What an exception is about.

    :param name: of its class
    """
    for words, found in MESSAGES:
        if words in message:
            return found
    return EXCEPTIONS.get(name, About(None))
