# SPDX-License-Identifier: Apache-2.0
"""Each rule with a flavor that it is about, and one that it just is not.

Nova takes part in all of it.
"""

import contextlib

import ddt

from nova_pinning.flavors.checks import classes
from nova_pinning.flavors.checks import flavor_check_run
from nova_pinning.flavors.checks import nova_rules
from nova_pinning.flavors import release_support
from nova_pinning.model import nova_release
from nova_pinning.tests.unit.flavors import check_samples
from nova_pinning.tests.unit.flavors.check_samples import DEDICATED
from nova_pinning.tests.unit.flavors.check_samples import GIB
from nova_pinning.tests.unit.flavors.rule_case import dedicated
from nova_pinning.tests.unit.flavors.rule_case import EPOXY
from nova_pinning.tests.unit.flavors.rule_case import FLAT
from nova_pinning.tests.unit.flavors.rule_case import mixed
from nova_pinning.tests.unit.flavors.rule_case import NEWEST
from nova_pinning.tests.unit.flavors.rule_case import NVME
from nova_pinning.tests.unit.flavors.rule_case import REALTIME
from nova_pinning.tests.unit.flavors.rule_case import shared
from nova_pinning.tests.unit.flavors.rule_case import SHARED_HOST
from nova_pinning.tests.unit.flavors.rule_case import SMALL
from nova_pinning.tests.unit.flavors.rule_case import SNP
from nova_pinning.tests.unit.flavors.rule_case import SOUND
from nova_pinning.tests.unit.flavors.rule_case import TOPOLOGY
from nova_pinning.tests.unit.flavors.rule_case import TWO_CELLS
from nova_pinning.tests.unit.flavors import rule_cases_more
from nova_pinning.tests.unit import unit_base


#: By code: flavors in which it is found, then some in which it is not.
CASES = {
    'N001': (
        [dedicated({'hw:cpu_polcy': 'dedicated'}),
         dedicated({'pinning:clas': 'dedicated'}),
         dedicated({'pinning:class': 'mine'}),
         dedicated({'hw:numa_nodes': 'two'})],
        [dedicated({'hw:numa_nodes': '1', 'pinning:class': 'dedicated',
                    'pinning:family': 'a', 'pinning:catalogue': 'b'}),
         shared({'my:key': 'x'})]),
    'N002': (
        [shared({'hw:cpu_thread_policy': 'require'}),
         shared({'hw:emulator_threads_policy': 'isolate'}),
         dedicated({'hw:cpu_dedicated_mask': '0'}),
         shared(image={'hw_cpu_policy': 'dedicated'}),
         dedicated(image={'hw_cpu_thread_policy': 'isolate'}),
         dedicated({'hw:cpu_policy': 'mixed'}),
         dedicated({**REALTIME, 'hw:cpu_realtime_mask': '0-7'})],
        [dedicated({'hw:emulator_threads_policy': 'share'}),
         mixed()]),
    'N003': (
        [dedicated({'hw:numa_nodes': '3'}),
         dedicated({'hw:numa_nodes': '2', 'hw:numa_cpus.0': '0-3',
                    'hw:numa_cpus.1': '4-7'}),
         dedicated({'hw:numa_cpus.0': '0-6', 'hw:numa_mem.0': '16384'})],
        [dedicated(TWO_CELLS)]),
    'N004': (
        [dedicated({'hw:locked_memory': 'yes'}, without=('hw:mem_page_size',)),
         dedicated({'hw:mem_page_size': '1GB'},
                   image={'hw_mem_page_size': '2MB'}),
         shared({'hw:mem_encryption': 'yes'},
                image={'hw_machine_type': 'q35'})],
        [dedicated({'hw:locked_memory': 'yes'}),
         shared({'hw:mem_encryption': 'yes'}),
         dedicated(image={'hw_mem_page_size': '2MB'})]),
    'N005': (
        [dedicated({'hw:cpu_max_sockets': '1', 'hw:cpu_max_cores': '2',
                    'hw:cpu_max_threads': '2'}),
         dedicated({'hw:cpu_max_sockets': '1'},
                   image={'hw_cpu_sockets': '2'})],
        [dedicated({'hw:cpu_max_sockets': '1', 'hw:cpu_max_cores': '4',
                    'hw:cpu_max_threads': '2'})]),
    'N006': (
        [dedicated(NVME, aliases=('gpu',)),
         dedicated({**NVME, 'hw:pci_numa_affinity_policy': 'required'},
                   image={'hw_pci_numa_affinity_policy': 'preferred'})],
        [dedicated(NVME, aliases=('nvme',)), dedicated(NVME)]),
    'N007': (
        [dedicated({'hw:tpm_version': '1.2', 'hw:tpm_model': 'tpm-crb'}),
         dedicated({'hw:pmu': 'yes'}, image={'hw_pmu': 'no'}),
         dedicated({'hw:serial_port_count': '1'},
                   image={'hw_serial_port_count': '2'})],
        [dedicated({'hw:tpm_version': '2.0', 'hw:tpm_model': 'tpm-crb'}),
         dedicated({'hw:pmu': 'no'}, image={'hw_pmu': 'no'})]),
    'N008': (
        [mixed('0-99999999999'),
         mixed('0-1,65536')],
        [mixed('0-6')]),
    'N101': (
        [dedicated(SOUND, releases=EPOXY),
         dedicated(SOUND, releases=('2025.1', '2025.2'), severity='warning'),
         dedicated({'hw:sound_model': 'odd'}, releases=NEWEST),
         dedicated({'hw:redirected_usb_ports': '16'}, releases=NEWEST),
         dedicated({**SNP, 'hw:mem_encryption': 'yes'}, releases=('2026.1',),
                   also=('P212',)),
         dedicated({'hw:tpm_secret_security': 'host'}, releases=('2025.2',)),
         dedicated({'hw:max_cpu_cores': '4'}, releases=EPOXY),
         dedicated({'hw:max_cpu_cores': '4'}, releases=('2024.1',),
                   severity='warning'),
         dedicated({'hw:cpu_max_cores': '4'}, releases=('2024.1',))],
        [dedicated(SOUND, releases=('2025.2',)),
         dedicated({'hw:redirected_usb_ports': '15'}, releases=NEWEST),
         dedicated({'hw:cpu_max_cores': '4'}, releases=EPOXY),
         dedicated({**SNP, 'hw:mem_encryption': 'yes'}, releases=NEWEST,
                   also=('P212',)),
         # Which release it is is not known.
         dedicated(SOUND)]),
    'N102': (
        [dedicated(image={'hw_sound_model': 'virtio'}, releases=EPOXY),
         dedicated(image={'hw_firmware_stateless': 'true',
                          'hw_firmware_type': 'uefi'},
                   releases=('2024.1',)),
         dedicated(image={'hw_vif_model': 'igb'}, releases=('2024.2',),
                   severity='error'),
         dedicated(image={'hw_vif_model': 'igb'},
                   releases=('2024.2', '2025.1'), severity='warning'),
         dedicated(image={'hw_mem_encryption_model': 'intel-tdx'},
                   releases=('2026.1',), severity='error', also=('P209',))],
        [dedicated(image={'hw_sound_model': 'virtio'},
                   releases=('2025.2',)),
         dedicated(image={'hw_vif_model': 'virtio'}, releases=('2024.2',)),
         dedicated(image={'hw_vif_model': 'igb'}, releases=EPOXY)]),
    'N103': (
        [dedicated({'trait:OWNER_NOVA': 'required'}, releases=('2026.1',)),
         dedicated(image={'trait:COMPUTE_SOUND_MODEL_USB': 'required'},
                   releases=EPOXY),
         dedicated({'trait2:HW_PCI_ONE_TIME_USE': 'required',
                    'resources2:CUSTOM_A': '1'},
                   releases=('2025.1', '2025.2'), severity='warning')],
        [dedicated({'trait:OWNER_NOVA': 'required'}, releases=NEWEST),
         dedicated({'trait:OWNER_NOVA': 'forbidden'}, releases=EPOXY),
         dedicated({'trait:HW_CPU_X86_AVX2': 'required'}, releases=EPOXY)]),
    'N104': (
        [dedicated(NVME, releases=('2026.1',)),
         dedicated(NVME, releases=('2025.1', '2025.2'))],
        [dedicated(NVME, releases=NEWEST), dedicated(NVME),
         dedicated(releases=EPOXY)]),
    'P101': (
        [dedicated(vcpus=4098, without=TOPOLOGY, also=('P105', 'P117'))],
        [dedicated(vcpus=4096, without=TOPOLOGY)]),
    'P102': (
        [dedicated({'hw:cpu_thread_policy': 'isolate', **FLAT},
                   severity='warning'),
         dedicated({'trait:HW_CPU_HYPERTHREADING': 'forbidden', **FLAT},
                   without=('hw:cpu_thread_policy',)),
         dedicated({'hw:cpu_thread_policy': 'isolate', **FLAT},
                   severity='warning',
                   hosts=(SMALL,
                          check_samples.host('flat', threads=1, cores=32))),
         dedicated({'hw:cpu_thread_policy': 'isolate', **FLAT},
                   severity='error', hosts=(SMALL,))],
        [dedicated({'hw:cpu_thread_policy': 'prefer', **FLAT})]),
    'P103': (
        [dedicated({'hw:emulator_threads_policy': 'isolate'}),
         dedicated({'hw:emulator_threads_policy': 'isolate'},
                   hosts=(check_samples.host(cores=27, nodes=1),)),
         dedicated({'hw:emulator_threads_policy': 'isolate', **TWO_CELLS})],
        [dedicated({'hw:emulator_threads_policy': 'isolate'}, vcpus=7,
                   without=TOPOLOGY, also=('P105',)),
         dedicated({'hw:emulator_threads_policy': 'isolate',
                    'hw:cpu_thread_policy': 'prefer', **FLAT},
                   hosts=(check_samples.host(cores=27, nodes=1, threads=1),)),
         dedicated({'hw:emulator_threads_policy': 'share'})]),
    'P104': (
        [shared({'hw:emulator_threads_policy': 'share'}),
         shared({'hw:emulator_threads_policy': 'share', 'hw:numa_nodes': '2',
                 'hw:mem_page_size': 'large'})],
        [dedicated({'hw:emulator_threads_policy': 'share'})]),
    'P105': (
        [dedicated(without=TOPOLOGY),
         dedicated(without=(*TOPOLOGY, 'hw:cpu_thread_policy'),
                   more={'trait:HW_CPU_HYPERTHREADING': 'required'})],
        [dedicated(image={'hw_cpu_cores': '4', 'hw_cpu_threads': '2'},
                   without=TOPOLOGY),
         dedicated({'hw:cpu_thread_policy': 'prefer'}, vcpus=1,
                   without=TOPOLOGY),
         shared()]),
    'P106': (
        [dedicated(vcpus=7, without=TOPOLOGY, also=('P105',)),
         dedicated({**TWO_CELLS}, vcpus=6, without=TOPOLOGY,
                   also=('P105',))],
        [dedicated(TWO_CELLS, vcpus=8),
         dedicated({'hw:emulator_threads_policy': 'isolate'}, vcpus=7,
                   without=TOPOLOGY, also=('P105',))]),
    'P107': (
        [dedicated({'hw:cpu_cores': '3'}),
         dedicated({'hw:cpu_max_threads': '1'}, also=('P109',)),
         dedicated(image={'hw_cpu_cores': '3', 'hw_cpu_threads': '2'})],
        [dedicated({'hw:cpu_cores': '2', 'hw:cpu_sockets': '2'}),
         dedicated(without=('hw:cpu_cores', 'hw:cpu_sockets'))]),
    'P108': (
        [shared({'hw:cpu_threads': '2'}, severity='warning'),
         dedicated({'hw:cpu_thread_policy': 'prefer'}, severity='note')],
        [dedicated(),
         dedicated({**FLAT, 'hw:cpu_thread_policy': 'prefer'})]),
    'P109': (
        [dedicated(FLAT),
         dedicated(without=('hw:cpu_threads', 'hw:cpu_cores'))],
        [dedicated({**FLAT, 'hw:cpu_thread_policy': 'prefer'})]),
    'P110': (
        [dedicated({'hw:cpu_realtime_mask': '^0'}),
         dedicated(image={'hw_cpu_realtime_mask': '^0'})],
        [dedicated(REALTIME)]),
    'P111': (
        [mixed('2-7', {'hw:emulator_threads_policy': 'isolate',
                       'hw:numa_nodes': '4', 'hw:cpu_sockets': '4',
                       'hw:cpu_cores': '1'}),
         mixed('0-3', {'hw:cpu_thread_policy': 'isolate', **FLAT,
                       **TWO_CELLS, 'hw:cpu_cores': '4'}, also=('P102',))],
        [mixed('0-3', {'hw:emulator_threads_policy': 'isolate', **TWO_CELLS},
               also=('P103',)),
         mixed('4-7', TWO_CELLS)]),
    'P112': (
        [dedicated({key: value for key, value in REALTIME.items()
                    if key != 'hw:pmu'})],
        [dedicated(REALTIME),
         dedicated({key: value for key, value in REALTIME.items()
                    if key != 'hw:pmu'}, image={'hw_pmu': 'no'})]),
    'P113': (
        [shared(without=('hw:cpu_policy',))],
        [shared(),
         dedicated({'resources:PCPU': '8'}, without=('hw:cpu_policy',))]),
    'P114': (
        [dedicated(image={'hw_cpu_policy': 'shared'}),
         dedicated(image={'hw_cpu_policy': 'mixed'})],
        [dedicated(image={'hw_cpu_policy': 'dedicated'}),
         shared(image={'hw_cpu_policy': 'shared'})]),
    'P201': (
        [dedicated({'hw:mem_page_size': '1GB'}, memory_mib=16 * GIB + 512,
                   severity='error'),
         dedicated({'hw:mem_page_size': '1GB', **TWO_CELLS},
                   memory_mib=15 * GIB, severity='error'),
         dedicated(memory_mib=16 * GIB + 1, severity='warning')],
        [dedicated({'hw:mem_page_size': '1GB', **TWO_CELLS}),
         dedicated({'hw:mem_page_size': '2MB'}, memory_mib=16 * GIB + 2),
         dedicated({'hw:mem_page_size': 'small'}, memory_mib=16 * GIB + 1)]),
    'P202': (
        [dedicated(TWO_CELLS, without=('hw:mem_page_size',)),
         shared({'hw:numa_nodes': '2'})],
        [dedicated(TWO_CELLS), dedicated(without=('hw:mem_page_size',))]),
    'P203': (
        [shared({'hw:mem_page_size': 'large'})],
        [shared({'hw:mem_page_size': 'large', 'hw:numa_nodes': '1'}),
         shared({'hw:mem_page_size': 'large'}, image={'hw_numa_nodes': '1'}),
         dedicated()]),
    'P204': (
        [shared({'hw:numa_cpus.0': '0-7'}),
         shared(image={'hw_numa_mem.0': '1024'})],
        [shared({'hw:numa_cpus.0': '0-7', 'hw:numa_mem.0': '16384',
                 'hw:numa_nodes': '1', 'hw:mem_page_size': 'large'})]),
    'P205': (
        [dedicated({**TWO_CELLS, 'hw:numa_mem.3': '1024'}),
         dedicated({'hw:numa_cpus.1': '0'})],
        [dedicated({**TWO_CELLS,
                    'hw:numa_cpus.0': '0-3', 'hw:numa_cpus.1': '4-7',
                    'hw:numa_mem.0': '8192', 'hw:numa_mem.1': '8192'})]),
    'P206': (
        [dedicated({'hw:mem_page_size': '2'}),
         dedicated({'hw:mem_page_size': '1Gb'})],
        [dedicated({'hw:mem_page_size': '2048'}),
         dedicated({'hw:mem_page_size': '1GB'})]),
    'P207': (
        [dedicated({**REALTIME, 'hw:mem_page_size': 'small'}),
         dedicated({**REALTIME, 'hw:mem_page_size': '4'}),
         dedicated({**REALTIME, 'hw:locked_memory': 'no'},
                   also=('P208', 'P211'),
                   without=('hw:mem_page_size',))],
        [dedicated({**REALTIME, 'hw:mem_page_size': '1GB'})]),
    'P208': (
        [dedicated({key: value for key, value in REALTIME.items()
                    if key != 'hw:locked_memory'}, severity='note'),
         dedicated({**REALTIME, 'hw:locked_memory': 'no'},
                   severity='warning')],
        [dedicated(REALTIME), dedicated()]),
    'P209': (
        # Novas before 2025.2 refuse the key, so the release is said.
        [dedicated({'hw:mem_encryption_model': 'amd-sev'}, releases=NEWEST)],
        [dedicated({'hw:mem_encryption_model': 'amd-sev',
                    'hw:mem_encryption': 'yes'}, releases=NEWEST)]),
    'P210': (
        [shared(memory_mib=63)],
        [shared(memory_mib=64)]),
    'P301': (
        [dedicated({'hw:pci_numa_affinity_policy': 'required'})],
        [dedicated({'hw:pci_numa_affinity_policy': 'required', **NVME}),
         dedicated(NVME)]),
    'P302': (
        [dedicated({'hw:pci_numa_affinity_policy': 'required', **NVME,
                    **TWO_CELLS}),
         dedicated({'hw:pci_numa_affinity_policy': 'required', **TWO_CELLS,
                    'pci_passthrough:alias': 'nvme:2'},
                   hosts=(check_samples.host(devices=[('nvme', 0)] * 4),))],
        [dedicated({'hw:pci_numa_affinity_policy': 'preferred', **NVME,
                    **TWO_CELLS}),
         dedicated({'hw:pci_numa_affinity_policy': 'required', **TWO_CELLS,
                    'pci_passthrough:alias': 'nvme:2'},
                   hosts=(check_samples.host(
                       devices=[('nvme', 0), ('nvme', 1)]),))]),
    'P303': (
        [shared({'hw:pci_numa_affinity_policy': 'required', **NVME})],
        [shared({'hw:pci_numa_affinity_policy': 'preferred', **NVME}),
         shared({'hw:pci_numa_affinity_policy': 'required', **NVME,
                 'hw:numa_nodes': '1'})]),
    'P304': (
        [dedicated({'hw:tpm_model': 'tpm-crb'})],
        [dedicated({'hw:tpm_model': 'tpm-crb', 'hw:tpm_version': '2.0'})]),
    'P305': (
        [shared({'hw:vif_multiqueue_enabled': 'yes'}, vcpus=1)],
        [shared({'hw:vif_multiqueue_enabled': 'yes'}, vcpus=2),
         shared({'hw:vif_multiqueue_enabled': 'no'}, vcpus=1)]),
    'P401': (
        [shared({'quota:cpu_shares': '10001'}),
         shared({'quota:cpu_shares': '0'})],
        [shared({'quota:cpu_shares': '10000'}),
         shared({'quota:cpu_shares': '1'})]),
    'P402': (
        [shared({'quota:cpu_period': '999', 'quota:cpu_quota': '1000'},
                also=('P409',)),
         shared({'quota:cpu_period': '1000001', 'quota:cpu_quota': '1000'}),
         shared({'quota:cpu_quota': '999'})],
        [shared({'quota:cpu_period': '1000', 'quota:cpu_quota': '1000'}),
         shared({'quota:cpu_quota': '-1'})]),
    'P403': (
        [shared({'quota:cpu_period': '100000'})],
        [shared({'quota:cpu_period': '100000', 'quota:cpu_quota': '50000'}),
         shared({'quota:cpu_period': '0'})]),
    'P404': (
        [dedicated({'quota:cpu_shares': '100'}),
         dedicated({'quota:cpu_quota': '50000'})],
        [mixed(more={'quota:cpu_shares': '100'}),
         dedicated({'quota:cpu_quota': '-1'})]),
    'P405': (
        [shared({'quota:vif_inbound_burst': '10'}),
         shared({'quota:vif_outbound_peak': '10',
                 'quota:vif_inbound_average': '10'})],
        [shared({'quota:vif_outbound_peak': '10',
                 'quota:vif_outbound_average': '10'})]),
    'P406': (
        [shared({'quota:disk_total_iops_sec': '10',
                 'quota:disk_read_iops_sec': '10'}),
         shared({'quota:disk_total_bytes_sec': '10',
                 'quota:disk_write_bytes_sec': '10'})],
        [shared({'quota:disk_total_bytes_sec': '10',
                 'quota:disk_write_iops_sec': '10'}),
         shared({'quota:disk_read_iops_sec': '10',
                 'quota:disk_write_iops_sec': '10'})]),
    'P407': (
        [shared({'quota:cpu_limit': '1000'})],
        [shared({'quota:disk_total_iops_sec': '1000'})]),
    'P501': (
        [shared(without=('trait:CUSTOM_PINNING_DEDICATED',)),
         shared({'trait:CUSTOM_PINNING_DEDICATED': 'required'})],
        [shared(),
         shared({'trait:CUSTOM_PINNING_SHARED': 'required'},
                without=('trait:CUSTOM_PINNING_DEDICATED',)),
         shared({'pinning:class': 'dedicated',
                 'trait:CUSTOM_PINNING_DEDICATED': 'required'})]),
    'P502': (
        [dedicated(without=('trait:CUSTOM_PINNING_DEDICATED',)),
         mixed(without=('trait:CUSTOM_PINNING_DEDICATED',))],
        [dedicated(), mixed()]),
    'P503': (
        [dedicated({'trait:CUSTOM_PINNING_SHARED': 'required'}),
         shared({'trait:CUSTOM_A': 'forbidden'},
                image={'trait:CUSTOM_A': 'required'})],
        [dedicated({'trait:CUSTOM_PINNING_SHARED': 'forbidden'}),
         shared({'trait:CUSTOM_A': 'required'},
                image={'trait:CUSTOM_A': 'required'})]),
    'P504': (
        [dedicated({'pinning:class': 'shared',
                    'trait:CUSTOM_PINNING_DEDICATED': 'forbidden'})],
        [dedicated({'pinning:class': 'dedicated'}),
         shared({'pinning:class': 'shared'})]),
    'P505': (
        [shared({'hw_cpu_policy': 'shared'}),
         shared({'quotas:cpu_shares': '1'}), shared({'HW:x': '1'}),
         dedicated({'emulator_threads_policy': 'share'}),
         dedicated({'numa_mem.0': '1024'})],
        [shared({'rack': 'a', 'my:own': 'b', 'trait1:CUSTOM_A': 'required',
                 'aggregate_instance_extra_specs:ssd': 'true'})]),
    'P601': (
        [dedicated(hosts=(check_samples.host(cores=3),)),
         dedicated(memory_mib=400 * GIB, hosts=(SMALL,)),
         dedicated(hosts=(SHARED_HOST,)),
         dedicated({'trait:CUSTOM_A': 'forbidden'}, hosts=(check_samples.host(
             traits=('CUSTOM_A', 'CUSTOM_PINNING_DEDICATED')),)),
         dedicated(NVME, hosts=(SMALL,), also=('P310',)),
         dedicated({**NVME, 'hw:pci_numa_affinity_policy': 'required'},
                   hosts=(check_samples.host(
                       nodes=1, devices=[('nvme', None)]),), also=('P311',)),
         shared(hosts=(check_samples.host(cores=3, nodes=1, dedicated=None),)),
         shared(hosts=(check_samples.host(traits=()),)),
         # Without cpu_dedicated_set there is no PCPU, and for mixed guests
         # nova asks for nothing else.
         dedicated({'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0-1'},
                   hosts=(check_samples.host(dedicated=None, traits=()),)),
         shared(NVME, hosts=(check_samples.host(dedicated=None, traits=()),),
                also=('P310',))],
        [dedicated(hosts=(check_samples.host(cores=16), check_samples.host(
            'small', cores=3))),
         dedicated(NVME, hosts=(
             check_samples.host(cores=16, devices=[('nvme', None)]),)),
         # What its traits are is not known.
         dedicated(hosts=(check_samples.host(cores=16, traits=()),)),
         shared({'resources:VCPU': '4'}, without=('hw:cpu_policy',), hosts=(
             check_samples.host(cores=2, nodes=1, dedicated=None,
                                traits=()),)),
         shared(hosts=(check_samples.host(dedicated=None, traits=()),))]),
    'P602': (
        [dedicated(hosts=(SMALL,)),
         dedicated(hosts=(check_samples.host(cores=16, memory_gib=64),))],
        [dedicated(hosts=(check_samples.host(nodes=1, cores=22),)),
         dedicated(hosts=(check_samples.host(cores=16),)),
         # Two of four fit, but others can have the rest.
         dedicated(NVME, hosts=(
             check_samples.host(cores=16, devices=[('nvme', 0)]),))]),
    'P603': (
        [mixed('4-7', hosts=(check_samples.host(
            cores=16, dedicated='4-31,32-63', shared='0-1',
            cpu_allocation_ratio=16.0),))],
        [mixed('2-7', hosts=(check_samples.host(
            cores=16, nodes=1, dedicated='2-31', shared='0-1',
            cpu_allocation_ratio=16.0),))]),
    'P604': (
        [dedicated({'hw:emulator_threads_policy': 'share'},
                   hosts=(check_samples.host(cores=16),), severity='warning'),
         dedicated({'hw:emulator_threads_policy': 'share', **REALTIME},
                   hosts=(check_samples.host(cores=16),), severity='error'),
         dedicated({'hw:emulator_threads_policy': 'share', **REALTIME},
                   hosts=(check_samples.host(cores=16), check_samples.host(
                       'two', cores=17, nodes=1, shared='0-1',
                       dedicated='2-33')),
                   severity='error')],
        [dedicated({'hw:emulator_threads_policy': 'share'}, hosts=(
            check_samples.host(cores=17, nodes=1, shared='0-1',
                               dedicated='2-33'),)),
         # Shared hosts never get it.
         dedicated({'hw:emulator_threads_policy': 'share'}, hosts=(
             check_samples.host(cores=17, nodes=1, shared='0-1',
                                dedicated='2-33'), SHARED_HOST)),
         dedicated({'hw:emulator_threads_policy': 'isolate'}, vcpus=7,
                   without=TOPOLOGY, also=('P105',),
                   hosts=(check_samples.host(cores=16),))]),
} | rule_cases_more.CASES


@ddt.ddt
class RulesTest(unit_base.TestCase):

    @ddt.data(*sorted(CASES))
    def test_found(self, code):
        for case in CASES[code][0]:
            found = case.findings()
            self.assertEqual(
                {code, *case.also}, {one.code for one in found},
                (case, found))
            rule = flavor_check_run.RULES[code]
            one = next(one for one in found if one.code == code)
            self.assertEqual(case.severity or rule.severity, one.severity)
            self.assertIn(one.why, (rule.why, classes.MIXED_WHY))
            self.assertNotEqual('', one.message)
            self.assertNotEqual('.', one.message[-1])

    @ddt.data(*sorted(CASES))
    def test_near_miss(self, code):
        for case in CASES[code][1]:
            self.assertNotIn(
                code, [finding.code for finding in case.findings()], case)

    def test_no_rule_fails_where_all_is_known(self):
        for release in nova_release.RELEASES:
            found = dedicated(releases=(release.name,)).findings()
            self.assertEqual([], found)

    def test_an_older_nova_is_not_asked_of_what_it_does_not_know(self):
        """What the nova at hand does not know is not its to refuse."""
        cloud = release_support.CloudRelease(
            (nova_release.NEWEST,), '30.0.0')
        flavor = check_samples.flavor({**DEDICATED, **SOUND})
        asked = []

        @contextlib.contextmanager
        def judging(flavors, image, aliases):
            asked.append(image)
            yield lambda flavor: (
                asked.append(dict(flavor.extra_specs)),
                nova_rules.Judgement((), None, True))[1]

        found = flavor_check_run.check(
            [flavor], judging, image_properties={
                'hw_usb_model': 'qemu-xhci', 'hw_vif_model': 'virtio'},
            cloud=cloud)
        self.assertEqual([{'hw_vif_model': 'virtio'}, DEDICATED], asked)
        self.assertNotIn('N1', {one.code[:2] for one in found})

    @ddt.data(*rule_cases_more.SEPARATED)
    def test_separation(self, code):
        found, silent = rule_cases_more.SEPARATED[code]
        for case in found:
            self.assertEqual(
                [code], [one.code for one in case.findings()], case)
        for case in silent:
            self.assertEqual(
                [], [one for one in case.findings()
                     if one.code in (code, 'P507')], case)

    def test_every_rule_has_cases(self):
        # Those of a standard are asked for: see test_scs_rules.
        self.assertEqual({code for code in flavor_check_run.RULES
                          if not code.startswith('S')}, set(CASES))

    def test_nothing_is_wrong_with_the_samples(self):
        self.assertEqual([], dedicated().findings())
        self.assertEqual([], shared().findings())
