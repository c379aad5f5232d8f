# SPDX-License-Identifier: Apache-2.0
"""More rules, each with flavors that it is about, and some that it is not."""

import dataclasses

from nova_pinning import cpuset
from nova_pinning.flavors import host_separation
from nova_pinning.host import hardware
from nova_pinning.tests.unit.flavors import check_samples
from nova_pinning.tests.unit.flavors.rule_case import dedicated
from nova_pinning.tests.unit.flavors.rule_case import FLAT
from nova_pinning.tests.unit.flavors.rule_case import GIB
from nova_pinning.tests.unit.flavors.rule_case import mixed
from nova_pinning.tests.unit.flavors.rule_case import NEWEST
from nova_pinning.tests.unit.flavors.rule_case import NVME
from nova_pinning.tests.unit.flavors.rule_case import shared
from nova_pinning.tests.unit.flavors.rule_case import SHARED_HOST
from nova_pinning.tests.unit.flavors.rule_case import TOPOLOGY
from nova_pinning.tests.unit.flavors.rule_case import TWO_CELLS

_CELLS = {'hw:numa_nodes': '2', 'hw:numa_mem.0': '8192',
          'hw:numa_mem.1': '8192'}
_INTERLEAVED = {**_CELLS, 'hw:numa_cpus.0': '0,2,4,6',
                'hw:numa_cpus.1': '1,3,5,7'}
_UNEVEN = {**_CELLS, 'hw:numa_cpus.0': '0-5', 'hw:numa_cpus.1': '6-7'}
_BOOT = {'os:secure_boot': 'required'}
_Q35 = {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35'}
_GROUPS = {'resources1:CUSTOM_A': '1', 'resources2:CUSTOM_A': '1'}
_AGGREGATES = host_separation.Separation('aggregates')
_OWN_TRAIT = host_separation.Separation('traits', 'CUSTOM_MINE')
_IN_AGGREGATE = {'aggregate_instance_extra_specs:class': 'dedicated'}
_TRAIT = ('trait:CUSTOM_PINNING_DEDICATED',)
_IRONIC = {'resources:CUSTOM_GOLD': '1', 'resources:VCPU': '0',
           'resources:MEMORY_MB': '0', 'resources:DISK_GB': '0'}
_IOMMU = {'hw:viommu_model': 'intel'}
_FOUR_THREADS = {'hw:cpu_cores': '2', 'hw:cpu_threads': '4'}


def _ways(number):
    """Ways of a cache, with what Placement counts."""
    return {'pinning:l3_ways': number, 'resources:CUSTOM_L3_WAYS': number,
            'resources:CUSTOM_RESCTRL_GROUPS': '1',
            f'trait:CUSTOM_PINNING_L3_WAYS_{number}': 'required'}


def _dividing(*domains):
    """A host whose L3 caches, of 11 ways, can be divided."""
    return dataclasses.replace(check_samples.host(), resctrl=hardware.Resctrl(
        dict(enumerate(domains)),
        hardware.CacheAllocation(0x7ff, 1, 0x600, 16),
        hardware.BandwidthAllocation(10, 10, 16)))


def _of_kernel(release):
    return dataclasses.replace(check_samples.host(), system=hardware.System(
        kernel=release))


def _with_gpus(product):
    """A host with four GPUs."""
    plain = check_samples.host(memory_gib=400, devices=[('gpu', 0)] * 4)
    return dataclasses.replace(plain, pci_devices=tuple(
        dataclasses.replace(device, vendor_id='10de', product_id=product,
                            kind=hardware.PciKind.GPU)
        for device in plain.pci_devices))


def _with_bars():
    """GPUs that nobody knows, with large BARs."""
    plain = _with_gpus('ffff')
    return dataclasses.replace(plain, pci_devices=tuple(
        dataclasses.replace(device, bars_kib=(256 * GIB * 1024,))
        for device in plain.pci_devices))


def _of_bits(bits):
    """The same with CPUs that have so many bits of addresses."""
    plain = _with_gpus('2330')
    return dataclasses.replace(plain, cpu_model=dataclasses.replace(
        plain.cpu_model, maxphysaddr_bits=bits))


def _grouped():
    """Three GPUs of one switch, and one of another."""
    plain = _with_gpus('ffff')
    return dataclasses.replace(plain, pci_devices=tuple(
        dataclasses.replace(device, resource_class='CUSTOM_GPU',
                            traits=(f'CUSTOM_GPU_SWITCH_{number // 3}',))
        for number, device in enumerate(plain.pci_devices)))


def _on_two_nodes():
    return check_samples.host(devices=[('gpu', 0)] * 2 + [('gpu', 1)] * 2)


_PRIVATE = {'hw:mem_encryption': 'yes',
            'hw:mem_encryption_model': 'amd-sev-snp'}
_GPUS = {'pci_passthrough:alias': 'gpu:4'}
_NEAR = {'hw:pci_numa_affinity_policy': 'required'}
_LIMIT = {'pinning:memory_bandwidth': '50',
          'resources:CUSTOM_RESCTRL_GROUPS': '1',
          'trait:CUSTOM_PINNING_MEMORY_BANDWIDTH': 'required'}
_BARE = check_samples.host()
_EVEN = check_samples.host(cores=16)
_CACHES = _dividing(*(node.cpus for node in _BARE.nodes))
_ONE_THREAD = check_samples.host(cores=16, threads=1)
_SMALL_CACHES = _dividing(*(
    cpuset.CpuSet(cpu for core in node.cores[first:first + 2] for cpu in core)
    for node in _BARE.nodes for first in range(0, len(node.cores), 2)))

CASES = {
    'P115': (
        [dedicated(_INTERLEAVED),
         dedicated({**_INTERLEAVED, 'hw:cpu_sockets': '2', **FLAT,
                    'hw:cpu_cores': '4', 'hw:cpu_thread_policy': 'prefer'}),
         dedicated({'hw:numa_nodes': '2'}),
         dedicated(_UNEVEN, severity='note'),
         shared({**_INTERLEAVED, 'hw:cpu_threads': '2',
                 'hw:mem_page_size': 'small'}, also=('P108',))],
        [dedicated(TWO_CELLS), dedicated(),
         dedicated(_INTERLEAVED, without=TOPOLOGY)]),
    'P116': (
        [mixed('1-4'), mixed('3-6', FLAT),
         mixed('1-2,5-6', TWO_CELLS)],
        [mixed('2-7'), mixed('1-5'),
         mixed('1-4', {'hw:cpu_thread_policy': 'prefer'})]),
    'P117': (
        [dedicated(vcpus=256, without=TOPOLOGY, also=('P105',)),
         dedicated(vcpus=256, image={'hw_machine_type': 'pc'},
                   without=TOPOLOGY, also=('P105',)),
         shared(_IOMMU, vcpus=320, severity='note'),
         shared(_IOMMU, vcpus=320, image={'os_type': 'linux'}),
         shared(vcpus=320, image={'hw_machine_type': 'pc-q35-8.2'})],
        [shared(vcpus=255, image={'hw_machine_type': 'pc'}),
         shared(vcpus=255),
         shared(_IOMMU, vcpus=320, image={'hw_machine_type': 'q35'}),
         shared(vcpus=320, image={'hw_machine_type': 'virt'})]),
    'P211': (
        [dedicated(without=('hw:mem_page_size',)),
         mixed(without=('hw:mem_page_size',))],
        [dedicated(), shared(),
         dedicated(TWO_CELLS, without=('hw:mem_page_size',))]),
    'P212': (
        [dedicated(_PRIVATE, releases=NEWEST),
         dedicated({**_PRIVATE, 'hw:mem_encryption_model': 'intel-tdx'},
                   releases=NEWEST),
         dedicated(_PRIVATE, hosts=(_of_kernel('6.18.3'),), releases=NEWEST,
                   also=('P602', 'P606')),
         dedicated(_PRIVATE, hosts=(_of_kernel(''), _of_kernel('6.19.0')),
                   releases=NEWEST, also=('P602', 'P606'))],
        [shared(_PRIVATE, releases=NEWEST),
         dedicated({**_PRIVATE, 'hw:mem_encryption_model': 'amd-sev'},
                   releases=NEWEST),
         dedicated(_PRIVATE, hosts=(_of_kernel('6.19.0-1'),), releases=NEWEST,
                   also=('P602', 'P606'))]),
    'P306': (
        [shared(_BOOT, image={'hw_machine_type': 'q35'}),
         shared(_BOOT, image={'hw_firmware_type': 'uefi'}),
         shared(image={'os_secure_boot': 'required'}),
         shared(_BOOT, image={**_Q35, 'hw_machine_type': 'pc'})],
        [shared(_BOOT), shared(_BOOT, image=_Q35),
         shared({'os:secure_boot': 'disabled'},
                image={'hw_machine_type': 'pc'})]),
    'P307': (
        [dedicated({'pci_passthrough:alias': 'nvme:0'})],
        [dedicated(NVME)]),
    'P309': (
        [dedicated(_GPUS, memory_mib=512 * GIB, hosts=(_with_gpus('2335'),),
                   also=('P601',)),
         dedicated(_GPUS, memory_mib=512 * GIB, severity='note'),
         dedicated(_GPUS, memory_mib=512 * GIB, severity='note',
                   hosts=(_with_gpus('ffff'),), also=('P601',)),
         dedicated(_GPUS, memory_mib=2048 * GIB),
         # Alike but for what is known of their BARs.
         dedicated(_GPUS, memory_mib=512 * GIB, also=('P601',),
                   hosts=(_with_gpus('ffff'), _with_bars())),
         dedicated(_GPUS, memory_mib=512 * GIB, also=('P601',),
                   hosts=(_of_bits(46), _of_bits(39), _of_bits(0)),
                   image={'hw_maxphysaddr_mode': 'passthrough'})],
        [dedicated(_GPUS, memory_mib=240 * GIB),
         dedicated(_GPUS, memory_mib=512 * GIB, also=('P601',),
                   hosts=(_of_bits(46), _of_bits(0)),
                   image={'hw_maxphysaddr_mode': 'passthrough'}),
         dedicated(_GPUS, memory_mib=512 * GIB, hosts=(_with_gpus('2330'),),
                   also=('P601',)),
         dedicated(_GPUS, memory_mib=512 * GIB,
                   image={'hw_maxphysaddr_mode': 'passthrough'}),
         dedicated(_GPUS, memory_mib=512 * GIB, hosts=(_with_gpus('2335'),),
                   image={'hw_maxphysaddr_mode': 'emulate',
                          'hw_maxphysaddr_bits': '46'}, also=('P601',))]),
    'P310': (
        [dedicated(_GPUS, hosts=(check_samples.host(),),
                   also=('P601',)),
         dedicated({'pci_passthrough:alias': 'gpu:3,gpu:2'},
                   hosts=(_with_gpus('ffff'),), also=('P601',)),
         dedicated({'pci_passthrough:alias': 'gpu-switch-1:2', **_NEAR},
                   hosts=(_grouped(),), also=('P601',)),
         shared(_GPUS, hosts=(SHARED_HOST,), also=('P601',))],
        [dedicated(_GPUS),
         dedicated({'pci_passthrough:alias': 'gpu:2'},
                   hosts=(_with_gpus('ffff'),), also=('P602',)),
         dedicated({'pci_passthrough:alias': 'gpu-switch-0:3', **_NEAR},
                   hosts=(_grouped(),), also=('P602', 'P606'))]),
    'P312': (
        # Memory of its node for two, and for four.
        [dedicated({'pci_passthrough:alias': 'gpu:1'}, memory_mib=150 * GIB,
                   hosts=(_with_gpus('ffff'),), also=('P602',))],
        [dedicated({'pci_passthrough:alias': 'gpu:1'}, memory_mib=20 * GIB,
                   hosts=(_with_gpus('ffff'),), also=('P602',)),
         dedicated({'pci_passthrough:alias': 'gpu:3'}, memory_mib=150 * GIB,
                   hosts=(_with_gpus('ffff'),), also=('P602',)),
         dedicated({'pci_passthrough:alias': 'gpu:1'},
                   memory_mib=150 * GIB)]),
    'P313': (
        [dedicated({'hw:maxphysaddr_bits': '52'}, also=('N001', 'P602'),
                   hosts=(_of_bits(46), _of_bits(48))),
         dedicated(image={'hw_maxphysaddr_bits': '52'}, also=('P602',),
                   hosts=(_of_bits(46),))],
        # One host may have them, as far as is known.
        [dedicated(image={'hw_maxphysaddr_bits': '48'}, also=('P602',),
                   hosts=(_of_bits(46), _of_bits(48))),
         dedicated(image={'hw_maxphysaddr_bits': '52'}, also=('P602',),
                   hosts=(_of_bits(46), _of_bits(0)))]),
    'P311': (
        [dedicated(_GPUS, hosts=(_on_two_nodes(),), also=('P601',)),
         dedicated({**_GPUS, **_NEAR}, hosts=(_on_two_nodes(),),
                   also=('P601',))],
        [dedicated(_GPUS),
         dedicated({**_GPUS, 'hw:pci_numa_affinity_policy': 'preferred'},
                   hosts=(_on_two_nodes(),), also=('P602',)),
         dedicated({**TWO_CELLS, **_GPUS}, hosts=(_on_two_nodes(),),
                   also=('P202', 'P602')),
         shared(_GPUS, hosts=(dataclasses.replace(
             _on_two_nodes(), traits=SHARED_HOST.traits),), also=('P601',))]),
    'P308': (
        [shared({'hw_rng:rate_period': '1000'}),
         shared({'hw_rng:rate_bytes': '100', 'hw_rng:allowed': 'false'})],
        [shared({'hw_rng:rate_period': '1000', 'hw_rng:rate_bytes': '100'})]),
    'P408': (
        [shared({'quota:vif_inbound_average': '100',
                 'quota:vif_inbound_peak': '99'})],
        [shared({'quota:vif_inbound_average': '100',
                 'quota:vif_inbound_peak': '100'})]),
    'P409': (
        [shared({'quota:cpu_quota': '100001'}),
         shared({'quota:cpu_period': '20000', 'quota:cpu_quota': '20001'})],
        [shared({'quota:cpu_quota': '100000'}),
         shared({'quota:cpu_quota': '-1'})]),
    'P410': (
        [mixed(more={'quota:cpu_quota': '50000'})],
        [mixed(more={'quota:cpu_shares': '50'}),
         mixed(more={'quota:cpu_quota': '-1'})]),
    'P506': (
        [dedicated({'trait:CUSTOM_PINNING_DEDICATED': 'forbidden'},
                   also=('P502',)),
         shared({'trait:CUSTOM_PINNING_SHARED': 'forbidden'}),
         dedicated({'trait:CUSTOM_MINE': 'forbidden'}, also=('P502',),
                   separation=_OWN_TRAIT)],
        [dedicated({'trait:CUSTOM_PINNING_SHARED': 'forbidden'}), shared(),
         dedicated({'trait:CUSTOM_PINNING_DEDICATED': 'forbidden'},
                   separation=host_separation.Separation('none'))]),
    'P507': (
        [shared({'resources:MEMORY_MB': '0'}),
         shared({'resources:VCPU': '0'}),
         dedicated({'resources:PCPU': '0'})],
        [shared({'resources:DISK_GB': '0'}), shared(_IRONIC)]),
    'P508': (
        [shared({'trait1:CUSTOM_A': 'required'}),
         shared({'trait_A:CUSTOM_A': 'required',
                 'resources_A:CUSTOM_A': '0'}),
         shared({'resources:VCPU': '0', 'resources:MEMORY_MB': '0'},
                also=('P507',)),
         shared({'resources:VCPU': '0', 'resources:MEMORY_MB': '0',
                 'resources1:CUSTOM_A': '1'}, also=('P507',))],
        [shared({'trait1:CUSTOM_A': 'required', 'resources1:CUSTOM_B': '1'}),
         shared(_IRONIC), shared({'resources:VCPU': '0'}),
         # Then the group without a number is left out.
         shared({'resources:VCPU': '0', 'resources:MEMORY_MB': '0',
                 'resources1:CUSTOM_A': '1'}, without=_TRAIT, image={}),
         shared({'trait:CUSTOM_A': 'required'})]),
    'P509': (
        [shared(_GROUPS)],
        [shared({**_GROUPS, 'group_policy': 'none'}),
         shared({'resources1:CUSTOM_A': '1', 'resources:CUSTOM_B': '1'})]),
    'P510': (
        [dedicated({**_IN_AGGREGATE, name: 'true'},
                   separation=_AGGREGATES)
         for name in ('epa', 'hide_hypervisor_id')] + [
            dedicated({'class': 'dedicated', 'hide_hypervisor_id': 'true'},
                      separation=_AGGREGATES),
            dedicated({**_IN_AGGREGATE, 'group_policy': 'none'},
                      separation=_AGGREGATES)],
        [dedicated({'epa': 'true', 'hide_hypervisor_id': 'true'}),
         dedicated({'class': 'dedicated'}, separation=_AGGREGATES),
         dedicated({**_IN_AGGREGATE, 'hw:hide_hypervisor_id': 'true'},
                   separation=_AGGREGATES)]),
    'P511': (
        [dedicated({'capabilities:cpu_info:features': 'avx2'}),
         dedicated({'capabilities:cpu_info:features': 'avx2, aes'}),
         dedicated({'capabilities:cpu_info:vendor': 'intel'})],
        [dedicated({'capabilities:cpu_info:features': '<in> avx2'}),
         dedicated({'capabilities:cpu_info:features': '<all-in> avx2 aes'}),
         dedicated({'capabilities:cpu_info:vendor': 'Intel'}),
         dedicated({'capabilities:cpu_info:vendor': '<or> Intel <or> AMD'}),
         dedicated({'capabilities:cpu_info:vendor': 'odd'})]),
    'P606': (
        [dedicated({'resources:VGPU': '1'}, hosts=(_EVEN,),
                   severity='warning'),
         dedicated({'trait:HW_CPU_X86_AVX2': 'required'}, hosts=(_EVEN,),
                   severity='warning'),
         dedicated({'accel:device_profile': 'fpga'}, hosts=(_EVEN,),
                   severity='warning')],
        [dedicated(hosts=(_EVEN,)), dedicated({'resources:VGPU': '1'}),
         dedicated({'resources:VGPU': '1', 'resources:MEMORY_MB': '4194304'},
                   hosts=(_EVEN,), also=('P601',))]),
    'P605': (
        [dedicated(_FOUR_THREADS, hosts=(check_samples.host(cores=16),)),
         # Requiring siblings fits none of them, so P108 has nothing to say.
         dedicated({'hw:cpu_thread_policy': 'prefer'}, hosts=(_ONE_THREAD,)),
         shared({'hw:cpu_threads': '2'}, hosts=(check_samples.host(
             threads=1, dedicated=None, shared='0-31',
             traits=('CUSTOM_A',)),))],
        [dedicated({**FLAT, 'hw:cpu_thread_policy': 'prefer'},
                   hosts=(_ONE_THREAD,)),
         dedicated(hosts=(check_samples.host(cores=16),)),
         dedicated(_FOUR_THREADS, hosts=(
             check_samples.host(cores=16, threads=4),)),
         dedicated(_FOUR_THREADS)]),
    'P607': (
        [dedicated(hosts=(check_samples.host(cores=16, dedicated='0-30'),),
                   also=('P602',))],
        [dedicated(hosts=(check_samples.host(cores=16, dedicated='2-31'),),
                   also=('P602',)),
         shared(hosts=(check_samples.host(
             cores=16, dedicated='0-30', shared='31-63',
             traits=('CUSTOM_A',)),))]),
    'P610': (
        [dedicated(_ways('10'), hosts=(_CACHES,), also=('P601',)),
         dedicated(_ways('1'), hosts=(_BARE,), also=('P601',))],
        [dedicated(_ways('1'), hosts=(_CACHES,)), dedicated(_ways('10'))]),
    'P611': (
        [dedicated(_LIMIT, hosts=(_BARE,), also=('P601',))],
        [dedicated(_LIMIT, hosts=(_CACHES,)), dedicated(_LIMIT)]),
    'P612': (
        [dedicated({'pinning:l3_ways': '2'}),
         dedicated({'pinning:memory_bandwidth': '50'})],
        [dedicated(_ways('2')), dedicated(_LIMIT)]),
    'P613': (
        [shared(_ways('2'))],
        [dedicated(_ways('2')), shared(_LIMIT)]),
    'P614': (
        [dedicated(_ways('1'), hosts=(_SMALL_CACHES,), also=('P602',))],
        [dedicated(_ways('1'), hosts=(_CACHES,)),
         dedicated({**_ways('1'), 'resources:CUSTOM_L3_WAYS': '4'},
                   hosts=(_SMALL_CACHES,))]),
}

#: Findings of rules that know other ways of separation, by code.
SEPARATED = {
    'P501': (
        [shared(separation=_AGGREGATES, without=_TRAIT),
         shared(separation=_OWN_TRAIT)],
        [shared({'aggregate_instance_extra_specs:a': 'b'}, without=_TRAIT,
                separation=_AGGREGATES),
         shared({'pinning:class': 'shared'}, without=_TRAIT,
                separation=_AGGREGATES),
         shared({'rack': 'a'}, without=_TRAIT, separation=_AGGREGATES),
         shared(_IRONIC, without=_TRAIT),
         shared({'trait:CUSTOM_MINE': 'forbidden'}, separation=_OWN_TRAIT)]),
    'P502': (
        [dedicated(separation=_AGGREGATES, without=_TRAIT),
         dedicated(separation=_OWN_TRAIT)],
        [dedicated({'pinning:class': 'dedicated'}, without=_TRAIT,
                   separation=_AGGREGATES),
         dedicated({'trait:CUSTOM_MINE': 'required'},
                   separation=_OWN_TRAIT)]),
}
