# SPDX-License-Identifier: Apache-2.0
"""N0xx: what nova itself refuses.

The checks are nova's own, see :mod:`nova_pinning.bridge.nova_judgement`; here
is what each of them means and which keys it is about. Nothing here imports
nova.
"""

import dataclasses
import typing

from nova_pinning.checks import check_rule
from nova_pinning.checks.check_rule import Severity
from nova_pinning import model

EXTRA_SPEC = check_rule.Rule[typing.Any](
    'N001', Severity.ERROR, 'extra spec that nova-api refuses',
    'nova-api refuses to store it (from microversion 2.86 on), as its '
    'validators do not know the name or do not take the value',
    'correct the name or the value')

CPU_POLICY = check_rule.Rule[typing.Any](
    'N002', Severity.ERROR, 'CPU policies that nova refuses',
    'nova-api refuses every server with this flavor and image',
    'thread, emulator and realtime policies and masks go with '
    'hw:cpu_policy=dedicated or mixed; a mask of dedicated or realtime vCPUs '
    'goes with mixed')

NUMA = check_rule.Rule[typing.Any](
    'N003', Severity.ERROR, 'NUMA topology that nova refuses',
    'nova-api refuses every server with this flavor and image',
    'take a number of cells that divides vCPUs and memory, or give every '
    'cell its hw:numa_cpus.N and hw:numa_mem.N, which together are all vCPUs '
    'and all memory of the flavor')

MEMORY = check_rule.Rule[typing.Any](
    'N004', Severity.ERROR, 'memory settings that nova refuses',
    'nova-api refuses every server with this flavor and image',
    'locked memory needs a page size; an image may choose the page size only '
    'where the flavor says large or any')

TOPOLOGY = check_rule.Rule[typing.Any](
    'N005', Severity.ERROR, 'guest CPU topology that nova refuses',
    'nova refuses every server with this flavor and image, or fails to start '
    'it on the host',
    'raise the hw:cpu_max_* limits, or lower what the image asks for')

PCI = check_rule.Rule[typing.Any](
    'N006', Severity.ERROR, 'PCI request that nova refuses',
    'nova-api refuses every server with this flavor and image',
    'write pci_passthrough:alias as name:count, with names that stand under '
    '[pci] alias in nova.conf')

DEVICE = check_rule.Rule[typing.Any](
    'N007', Severity.ERROR, 'virtual device or feature that nova refuses',
    'nova refuses every server with this flavor and image, or fails to start '
    'it on the host',
    'correct the value, or make the image agree with the flavor')

FAILURE = check_rule.Rule[typing.Any](
    'N008', Severity.ERROR, 'value on which nova fails',
    'nova does not handle it, and answers with an internal error (status '
    '500) where it should say what is wrong',
    'correct the value')


@dataclasses.dataclass(frozen=True, slots=True)
class NovaRefusal:
    """Something that nova refuses in a flavor.

    :param keys: see checked.CheckedFlavor.violation
    :param advice: what to write instead, if the rule's own does not do
    """

    rule: check_rule.Rule[typing.Any]
    message: str
    keys: tuple[str, ...]
    advice: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """What nova makes of a flavor.

    :param guest: the NUMA topology that the guest gets; None if it has none,
        or is refused
    :param is_accepted: whether nova would create servers with it
    """

    refusals: tuple[NovaRefusal, ...]
    guest: model.Guest | None
    is_accepted: bool


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
_ENCRYPTION = ('mem_encryption', 'mem_encryption_model')
_DEDICATED = 'set hw:cpu_policy=dedicated or mixed, or leave it out'

#: By the class of the exception.
EXCEPTIONS = {
    'BadRequirementEmulatorThreadsPolicy': About(
        CPU_POLICY, ('emulator_threads_policy',), _DEDICATED),
    'CPUThreadPolicyConfigurationInvalid': About(
        CPU_POLICY, ('cpu_thread_policy',), _DEDICATED),
    'FlavorImageConflict': About(None),
    'FlavorImageLockedMemoryConflict': About(
        MEMORY, ('locked_memory',),
        'say the same in the flavor and in the image, or nothing in one'),
    'ImageCPUPinningForbidden': About(
        CPU_POLICY, ('cpu_policy',),
        "an image cannot ask for more than the flavor's policy; use a "
        'dedicated flavor with it'),
    'ImageCPUThreadPolicyForbidden': About(
        CPU_POLICY, ('cpu_thread_policy',),
        'leave the policy out of the flavor, or of the image'),
    'ImageNUMATopologyAsymmetric': About(NUMA, ('numa_nodes',)),
    'ImageNUMATopologyCPUDuplicates': About(NUMA, ('numa_cpus',)),
    'ImageNUMATopologyCPUOutOfRange': About(NUMA, ('numa_cpus',)),
    'ImageNUMATopologyCPUsUnassigned': About(NUMA, ('numa_cpus',)),
    'ImageNUMATopologyForbidden': About(
        NUMA, ('numa_nodes', 'numa_cpus', 'numa_mem'),
        'leave the NUMA topology to the flavor or to the image, not to both'),
    'ImageNUMATopologyIncomplete': About(
        NUMA, ('numa_cpus', 'numa_mem', 'numa_nodes')),
    'ImageNUMATopologyMemoryOutOfRange': About(NUMA, ('numa_mem',)),
    'ImagePCINUMAPolicyForbidden': About(
        PCI, ('pci_numa_affinity_policy',),
        'leave the policy out of the flavor, or of the image'),
    'ImageSerialPortNumberExceedFlavorValue': About(
        DEVICE, ('serial_port_count',)),
    'ImageSerialPortNumberInvalid': About(DEVICE, ('serial_port_count',)),
    'ImageVCPULimitsRangeExceeded': About(TOPOLOGY, _CPU_LIMITS),
    'ImageVCPULimitsRangeImpossible': About(TOPOLOGY, _CPU_LIMITS),
    'ImageVCPUTopologyRangeExceeded': About(TOPOLOGY, _CPU_LIMITS),
    'Invalid': About(None),
    'InvalidCPUAllocationPolicy': About(CPU_POLICY, ('cpu_policy',)),
    'InvalidCPUThreadAllocationPolicy': About(
        CPU_POLICY, ('cpu_thread_policy',)),
    'InvalidEmulatorThreadsPolicy': About(
        CPU_POLICY, ('emulator_threads_policy',)),
    'InvalidMachineType': About(MEMORY, _ENCRYPTION),
    'InvalidMixedInstanceDedicatedMask': About(
        CPU_POLICY, ('cpu_dedicated_mask',),
        'name some of the vCPUs, but not all'),
    'InvalidNUMANodesNumber': About(NUMA, ('numa_nodes',)),
    'InvalidPCINUMAAffinity': About(PCI, ('pci_numa_affinity_policy',)),
    'InvalidRequest': About(None),
    'InvalidVideoMode': About(MEMORY, _ENCRYPTION),
    'LockMemoryForbidden': About(
        MEMORY, ('locked_memory',), 'set hw:mem_page_size'),
    'MemoryPageSizeForbidden': About(MEMORY, ('mem_page_size',)),
    'MemoryPageSizeInvalid': About(MEMORY, ('mem_page_size',)),
    'PciInvalidAlias': About(PCI),
    'PciRequestAliasNotDefined': About(PCI),
    'RealtimeConfigurationInvalid': About(
        CPU_POLICY, ('cpu_realtime',), _DEDICATED),
    'RealtimeMaskNotFoundOrInvalid': About(
        CPU_POLICY, ('cpu_realtime_mask', 'cpu_realtime'),
        'leave at least one vCPU out of hw:cpu_realtime_mask (^0), or set '
        'hw:emulator_threads_policy'),
    'RequiredMixedInstancePolicy': About(
        CPU_POLICY, ('cpu_dedicated_mask',), 'set hw:cpu_policy=mixed'),
    'RequiredMixedOrRealtimeCPUMask': About(
        CPU_POLICY, ('cpu_dedicated_mask', 'cpu_realtime_mask',
                     'cpu_policy'),
        'give a mixed guest either hw:cpu_dedicated_mask, or hw:cpu_realtime '
        'with hw:cpu_realtime_mask'),
    'StatelessFirmwareRequired': About(MEMORY, _ENCRYPTION),
}
