# SPDX-License-Identifier: Apache-2.0
"""Each exception of nova about a flavor, with a flavor that it is about."""

import inspect
import re

import ddt
from nova.virt import hardware

from nova_pinning.bridge.offline import nova_judgement
from nova_pinning.flavors.checks import nova_exceptions
from nova_pinning.tests.unit.flavors.rule_case import dedicated
from nova_pinning.tests.unit.flavors.rule_case import mixed
from nova_pinning.tests.unit.flavors.rule_case import REALTIME
from nova_pinning.tests.unit.flavors.rule_case import shared
from nova_pinning.tests.unit import unit_base

_CELLS = {'hw:numa_nodes': '2', 'hw:numa_cpus.0': '0-3',
          'hw:numa_cpus.1': '4-7', 'hw:numa_mem.0': '8192',
          'hw:numa_mem.1': '8192'}
_ENCRYPTED = {'hw:mem_encryption': 'true'}
_UEFI = {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35'}
_LIMITS = {'hw:cpu_max_sockets': '1', 'hw:cpu_max_cores': '4',
           'hw:cpu_max_threads': '2'}
_POLICY = ('hw:cpu_policy',)
_THREADS = ('hw:cpu_thread_policy',)

#: By exception, or by the words of a message: a flavor, and words of the
#: advice.
CASES = {
    'BadRequirementEmulatorThreadsPolicy': (
        shared({'hw:emulator_threads_policy': 'isolate'}), 'cpu_policy='),
    'CPUThreadPolicyConfigurationInvalid': (
        shared({'hw:cpu_thread_policy': 'require'}), 'cpu_policy='),
    'FlavorImageConflict': (
        shared({'hw:pmu': 'yes'}, image={'hw_pmu': 'no'}), 'say the same'),
    'FlavorImageLockedMemoryConflict': (
        dedicated({'hw:locked_memory': 'yes'},
                  image={'hw_locked_memory': 'no'}), 'say the same'),
    'ImageCPUPinningForbidden': (
        shared(image={'hw_cpu_policy': 'dedicated'}), 'dedicated flavor'),
    'ImageCPUThreadPolicyForbidden': (
        dedicated(image={'hw_cpu_thread_policy': 'isolate'}), 'leave the'),
    'ImageNUMATopologyAsymmetric': (
        shared({'hw:numa_nodes': '3'}), 'divides'),
    'ImageNUMATopologyCPUDuplicates': (
        shared({**_CELLS, 'hw:numa_cpus.1': '3-7'}), 'in one'),
    'ImageNUMATopologyCPUOutOfRange': (
        shared({**_CELLS, 'hw:numa_cpus.1': '4-8'}), 'from 0 up to'),
    'ImageNUMATopologyCPUsUnassigned': (
        shared({**_CELLS, 'hw:numa_cpus.1': '4-6'}), 'missing'),
    'ImageNUMATopologyForbidden': (
        shared({'hw:numa_nodes': '2'}, image={'hw_numa_nodes': '4'}),
        'not to both'),
    'ImageNUMATopologyIncomplete': (
        shared({key: value for key, value in _CELLS.items()
                if key != 'hw:numa_mem.1'}), 'every cell'),
    'ImageNUMATopologyMemoryOutOfRange': (
        shared({**_CELLS, 'hw:numa_mem.1': '1'}), 'in MiB'),
    'ImagePCINUMAPolicyForbidden': (
        shared({'hw:pci_numa_affinity_policy': 'required'},
               image={'hw_pci_numa_affinity_policy': 'preferred'}),
        'leave the policy'),
    'ImageSerialPortNumberExceedFlavorValue': (
        shared({'hw:serial_port_count': '1'},
               image={'hw_serial_port_count': '2'}), 'raise'),
    'ImageSerialPortNumberInvalid': (
        shared({'hw:serial_port_count': 'x'}), 'whole number'),
    'ImageVCPULimitsRangeExceeded': (
        shared(_LIMITS, image={'hw_cpu_max_sockets': '2'}), 'lower'),
    'ImageVCPULimitsRangeImpossible': (
        shared({**_LIMITS, 'hw:cpu_max_cores': '2'}), 'multiplied'),
    'ImageVCPUTopologyRangeExceeded': (
        shared(_LIMITS, image={'hw_cpu_sockets': '2'}), 'lower'),
    'Invalid': (shared({'hw:tpm_version': '3'}), 'values that nova names'),
    'InvalidCPUAllocationPolicy': (
        shared({'hw:cpu_policy': 'x'}), 'dedicated, mixed or shared'),
    'InvalidCPUThreadAllocationPolicy': (
        dedicated({'hw:cpu_thread_policy': 'x'}), 'prefer'),
    'InvalidEmulatorThreadsPolicy': (
        dedicated({'hw:emulator_threads_policy': 'x'}), 'share'),
    'InvalidMachineType': (
        shared(_ENCRYPTED, image={'hw_firmware_type': 'uefi',
                                  'hw_machine_type': 'pc'}), 'q35'),
    'InvalidMixedInstanceDedicatedMask': (mixed('0-7'), 'not all'),
    'InvalidNUMANodesNumber': (
        shared({'hw:numa_nodes': '0'}), '1 or more'),
    'InvalidPCINUMAAffinity': (
        shared({'hw:pci_numa_affinity_policy': 'x'}), 'preferred'),
    'LockMemoryForbidden': (
        shared({'hw:locked_memory': 'yes'}), 'hw:mem_page_size'),
    'MemoryPageSizeForbidden': (
        dedicated({'hw:mem_page_size': '1GB'},
                  image={'hw_mem_page_size': '2MB'}), 'large or any'),
    'MemoryPageSizeInvalid': (
        dedicated({'hw:mem_page_size': '2M'}), 'number of KiB'),
    'PciInvalidAlias': (
        shared({'pci_passthrough:alias': 'nvme'}), 'name:count'),
    'PciRequestAliasNotDefined': (
        shared({'pci_passthrough:alias': 'nvme:1'}, aliases=('gpu',)),
        '[pci] alias'),
    'RealtimeConfigurationInvalid': (
        shared({'hw:cpu_realtime': 'yes', 'hw:cpu_realtime_mask': '^0'}),
        'cpu_policy='),
    'RealtimeMaskNotFoundOrInvalid': (
        dedicated({**REALTIME, 'hw:cpu_realtime_mask': '0-7'}), 'at least'),
    'RequiredMixedInstancePolicy': (
        dedicated({'hw:cpu_dedicated_mask': '0'}), 'mixed'),
    'RequiredMixedOrRealtimeCPUMask': (
        dedicated({'hw:cpu_policy': 'mixed'}), 'either'),
    "'hw:cpu_policy' extra spec or 'hw_cpu_policy'": (
        dedicated({'resources:PCPU': '8'}), 'resources:PCPU, for which'),
    "both 'resources:VCPU' and 'resources:PCPU'": (
        shared({'resources:PCPU': '4', 'resources:VCPU': '4'},
               without=_POLICY), 'mixed'),
    'flavor.vcpus + 1 PCPUs': (
        dedicated({'resources:PCPU': '8',
                   'hw:emulator_threads_policy': 'isolate'},
                  without=_POLICY), 'one resources:PCPU more'),
    'mismatch between the number of PCPUs': (
        dedicated({'resources:PCPU': '7'}, without=_POLICY), 'as many'),
    "use the 'trait:HW_CPU_HYPERTHREADING'": (
        dedicated({'trait:HW_CPU_HYPERTHREADING': 'forbidden'}),
        'leave the trait out'),
    'expression': (shared({'hw:numa_nodes': '1', 'hw:numa_cpus.0': '5-0',
                           'hw:numa_mem.0': '16384'}), '0-3,8'),
    'TPM model CRB': (
        shared({'hw:tpm_version': '1.2', 'hw:tpm_model': 'tpm-crb'}), '2.0'),
    'hw_firmware_type': (
        shared(_ENCRYPTED, image={'hw_machine_type': 'q35'}), 'uefi'),
}
#: What is said only where more is asked for than one of these has.
_REPLACED = {
    # Each of its messages has advice of its own.
    'InvalidRequest',
}
#: That only some releases raise.
_BY_RELEASE = {
    'StatelessFirmwareRequired': (
        'get_mem_encryption_constraint', shared(
            {**_ENCRYPTED, 'hw:mem_encryption_model': 'amd-sev-snp'},
            image={**_UEFI, 'hw_video_model': 'none'}), 'stateless'),
    'InvalidVideoMode': (
        'get_mem_encryption_constraint', shared(
            {**_ENCRYPTED, 'hw:mem_encryption_model': 'intel-tdx'},
            image={**_UEFI, 'hw_video_model': 'qxl',
                   'hw_firmware_stateless': 'true'}), 'hw_video_model'),
}


def raised():
    """The exceptions that the installed nova raises about a flavor."""
    source = inspect.getsource(hardware)
    asked = {constraint.name for constraint in nova_judgement.CONSTRAINTS}
    names = set()
    for part in re.split(r'\n(?=def |class )', source):
        name = re.match(r'(?:def|class) (\w+)', part)
        if name and (name[1] in asked or name[1].startswith(
                ('_get_', '_check_', 'MemEncryption', '_MemEncryption'))):
            names |= set(re.findall(r'raise exception\.(\w+)', part))
    return names


@ddt.ddt
class TestAdvice(unit_base.TestCase):

    @ddt.data(*sorted(CASES))
    def test_advice(self, name):
        case, words = CASES[name]
        # What nova-api's validators say of the value is told first.
        found = [one for one in case.findings() if one.code[:2] == 'N0']
        self.assertNotEqual([], found, case)
        expected = dict(nova_exceptions.MESSAGES).get(
            name) or nova_exceptions.EXCEPTIONS[name]
        self.assertIn(words, expected.advice)
        self.assertIn(expected.advice, [one.advice for one in found], found)

    @ddt.data(*sorted(_BY_RELEASE))
    def test_of_some_releases(self, name):
        _function, case, words = _BY_RELEASE[name]
        if name not in inspect.getsource(hardware):
            self.skipTest('this nova does not raise it')
        advice = [one.advice for one in case.findings()]
        self.assertIn(nova_exceptions.EXCEPTIONS[name].advice, advice)
        self.assertIn(words, nova_exceptions.EXCEPTIONS[name].advice)

    def test_each_exception_has_a_case(self):
        self.assertEqual(
            set(nova_exceptions.EXCEPTIONS),
            {*CASES, *_BY_RELEASE, *_REPLACED} - {
                words for words, _about in nova_exceptions.MESSAGES})

    def test_each_message_has_a_case(self):
        without = {'USB ports', 'not a valid integer'}
        self.assertEqual(
            {words for words, _about in nova_exceptions.MESSAGES} - without,
            {name for name in CASES
             if name not in nova_exceptions.EXCEPTIONS})

    def test_each_that_nova_raises_is_known(self):
        known = {*nova_exceptions.EXCEPTIONS,
                 'InvalidReservedMemoryPagesOption'}
        self.assertEqual(set(), raised() - known)

    def test_each_has_advice(self):
        for name, about in (*nova_exceptions.EXCEPTIONS.items(),
                            *nova_exceptions.MESSAGES):
            self.assertNotEqual('', about.advice, name)
