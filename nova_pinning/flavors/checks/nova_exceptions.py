# SPDX-License-Identifier: Apache-2.0
"""What nova's exceptions about a flavor and an image mean.

They are those of nova.virt.hardware and nova.pci.request, each with the keys
that it is about and with what to write instead.
"""

import dataclasses
import typing

from nova_pinning.checks import check_rule
from nova_pinning.flavors.checks import checked
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


_CPU_LIMITS = tuple(
    f'{prefix}{name}' for prefix in ('cpu_max_', 'cpu_')
    for name in ('sockets', 'cores', 'threads'))
_DEDICATED = 'set hw:cpu_policy=dedicated or mixed, or leave it out'
_AGREE = (
    'say the same in the flavor and in the image, or nothing in one of them')


def _image_for_encryption(properties: str) -> About:
    return About(
        nova_rules.MEMORY, ('mem_encryption', 'mem_encryption_model'),
        f'use images with {properties} for memory that is encrypted so')


#: By the class of the exception.
EXCEPTIONS = {
    **{name: About(rule, (root,), f'write {values}')
       for name, rule, root, values in (
           ('InvalidCPUAllocationPolicy', nova_rules.CPU_POLICY, 'cpu_policy',
            'dedicated, mixed or shared'),
           ('InvalidCPUThreadAllocationPolicy', nova_rules.CPU_POLICY,
            'cpu_thread_policy', 'prefer, require or isolate'),
           ('InvalidEmulatorThreadsPolicy', nova_rules.CPU_POLICY,
            'emulator_threads_policy', 'share or isolate'),
           ('InvalidPCINUMAAffinity', nova_rules.PCI,
            'pci_numa_affinity_policy',
            'required, preferred, legacy or socket'))},
    'InvalidMachineType': _image_for_encryption('hw_machine_type=q35'),
    'InvalidVideoMode': _image_for_encryption('hw_video_model=none'),
    'StatelessFirmwareRequired': _image_for_encryption(
        'hw_firmware_stateless=true'),
    'BadRequirementEmulatorThreadsPolicy': About(
        nova_rules.CPU_POLICY, ('emulator_threads_policy',), _DEDICATED),
    'CPUThreadPolicyConfigurationInvalid': About(
        nova_rules.CPU_POLICY, ('cpu_thread_policy',), _DEDICATED),
    'FlavorImageConflict': About(None, (), _AGREE),
    'FlavorImageLockedMemoryConflict': About(
        nova_rules.MEMORY, ('locked_memory',), _AGREE),
    'ImageCPUPinningForbidden': About(
        nova_rules.CPU_POLICY, ('cpu_policy',),
        "an image cannot ask for more than the flavor's policy; use a "
        'dedicated flavor with it'),
    'ImageCPUThreadPolicyForbidden': About(
        nova_rules.CPU_POLICY, ('cpu_thread_policy',),
        'leave the policy out of the flavor, or of the image'),
    'ImageNUMATopologyAsymmetric': About(
        nova_rules.NUMA, ('numa_nodes',),
        'take a number of cells that divides vCPUs and memory, or give every '
        'cell its hw:numa_cpus.N and hw:numa_mem.N'),
    'ImageNUMATopologyCPUDuplicates': About(
        nova_rules.NUMA, ('numa_cpus',),
        'name each vCPU in one hw:numa_cpus.N only'),
    'ImageNUMATopologyCPUOutOfRange': About(
        nova_rules.NUMA, ('numa_cpus',),
        "name vCPUs from 0 up to one below the flavor's number of them"),
    'ImageNUMATopologyCPUsUnassigned': About(
        nova_rules.NUMA, ('numa_cpus',),
        'name the vCPUs that are missing in one of the hw:numa_cpus.N'),
    'ImageNUMATopologyForbidden': About(
        nova_rules.NUMA, ('numa_nodes', 'numa_cpus', 'numa_mem'),
        'leave the NUMA topology to the flavor or to the image, not to both'),
    'ImageNUMATopologyIncomplete': About(
        nova_rules.NUMA, ('numa_cpus', 'numa_mem', 'numa_nodes'),
        'give every cell, from 0 on, both hw:numa_cpus.N and hw:numa_mem.N'),
    'ImageNUMATopologyMemoryOutOfRange': About(
        nova_rules.NUMA, ('numa_mem',),
        "let the hw:numa_mem.N, in MiB, come to the flavor's memory"),
    'ImagePCINUMAPolicyForbidden': About(
        nova_rules.PCI, ('pci_numa_affinity_policy',),
        'leave the policy out of the flavor, or of the image'),
    'ImageSerialPortNumberExceedFlavorValue': About(
        nova_rules.DEVICE, ('serial_port_count',),
        'raise hw:serial_port_count, or lower what the image asks for'),
    'ImageSerialPortNumberInvalid': About(
        nova_rules.DEVICE, ('serial_port_count',), 'write a whole number'),
    'ImageVCPULimitsRangeExceeded': About(
        nova_rules.TOPOLOGY, _CPU_LIMITS,
        "raise the flavor's hw:cpu_max_*, or lower the image's hw_cpu_max_*"),
    'ImageVCPULimitsRangeImpossible': About(
        nova_rules.TOPOLOGY, _CPU_LIMITS,
        'let the largest numbers of sockets, cores and threads, multiplied, '
        "come to the flavor's vCPUs, with a divisor of them each"),
    'ImageVCPUTopologyRangeExceeded': About(
        nova_rules.TOPOLOGY, _CPU_LIMITS,
        "raise the flavor's hw:cpu_max_*, or lower the image's hw_cpu_*"),
    'Invalid': About(None, (), 'write one of the values that nova names'),
    'InvalidMixedInstanceDedicatedMask': About(
        nova_rules.CPU_POLICY, ('cpu_dedicated_mask',),
        'name some of the vCPUs, but not all'),
    'InvalidNUMANodesNumber': About(
        nova_rules.NUMA, ('numa_nodes',),
        'write a whole number of cells, 1 or more'),
    'InvalidRequest': About(None, (), 'take one of the two away'),
    'LockMemoryForbidden': About(
        nova_rules.MEMORY, ('locked_memory',), 'set hw:mem_page_size'),
    'MemoryPageSizeForbidden': About(
        nova_rules.MEMORY, ('mem_page_size',),
        'leave the page size out of the image, or have the flavor say large '
        'or any'),
    'MemoryPageSizeInvalid': About(
        nova_rules.MEMORY, ('mem_page_size',),
        'write large, small, any, a number of KiB, or a size with a unit '
        'such as 2MB or 1GB'),
    'PciInvalidAlias': About(
        nova_rules.PCI, (),
        f'write {checked.ALIAS_KEY} as name:count, such as nvme:1'),
    'PciRequestAliasNotDefined': About(
        nova_rules.PCI, (),
        'define the alias under [pci] alias in nova.conf, for nova-api and '
        'for the hosts, or name one that is'),
    'RealtimeConfigurationInvalid': About(
        nova_rules.CPU_POLICY, ('cpu_realtime',), _DEDICATED),
    'RealtimeMaskNotFoundOrInvalid': About(
        nova_rules.CPU_POLICY, ('cpu_realtime_mask', 'cpu_realtime'),
        'leave at least one vCPU out of hw:cpu_realtime_mask (^0), or set '
        'hw:emulator_threads_policy'),
    'RequiredMixedInstancePolicy': About(
        nova_rules.CPU_POLICY, ('cpu_dedicated_mask',),
        'set hw:cpu_policy=mixed, or leave the mask out'),
    'RequiredMixedOrRealtimeCPUMask': About(
        nova_rules.CPU_POLICY, ('cpu_dedicated_mask', 'cpu_realtime_mask',
                                'cpu_policy'),
        'give a mixed guest either hw:cpu_dedicated_mask, or hw:cpu_realtime '
        'with hw:cpu_realtime_mask'),
}

#: By what the message says, for exceptions that nova raises for more than one
#: reason; these go first.
MESSAGES = (
    ('hw_firmware_type', _image_for_encryption('hw_firmware_type=uefi')),
    ("'hw:cpu_policy' extra spec or 'hw_cpu_policy'", About(
        nova_rules.CPU_POLICY, ('cpu_policy',),
        'leave out hw:cpu_policy, or resources:VCPU and resources:PCPU, for '
        'which nova then asks by itself')),
    ("both 'resources:VCPU' and 'resources:PCPU'", About(
        nova_rules.CPU_POLICY, (),
        'leave one of them out; for some of each set hw:cpu_policy=mixed '
        'with hw:cpu_dedicated_mask, and neither')),
    ('flavor.vcpus + 1 PCPUs', About(
        nova_rules.CPU_POLICY, ('emulator_threads_policy',),
        "ask for one resources:PCPU more than the flavor's vCPUs")),
    ('mismatch between the number of PCPUs', About(
        nova_rules.CPU_POLICY, (),
        "ask for as many resources:PCPU as the flavor has vCPUs")),
    ("use the 'trait:HW_CPU_HYPERTHREADING'", About(
        nova_rules.CPU_POLICY, ('cpu_thread_policy',),
        'leave the trait out: thread policy require asks for hosts with '
        'hardware threads by itself, isolate for those without')),
    ('expression', About(None, (), "write vCPUs like '0-3,8' or '^0'")),
    ('TPM model CRB', About(
        None, (), 'set hw:tpm_version=2.0, or hw:tpm_model=tpm-tis')),
    ('USB ports', About(None, (), 'write a number from 0 to 15')),
    ('not a valid integer', About(None, (), 'write a whole number')),
)


def about(name: str, message: str) -> About:
    """What an exception is about.

    :param name: of its class
    """
    for words, found in MESSAGES:
        if words in message:
            return found
    return EXCEPTIONS.get(name, About(None))
