# SPDX-License-Identifier: Apache-2.0
"""The kernel of a machine, how it was told to run, and what the CPUs are."""

from collections.abc import Mapping
import os
import re
import struct

from nova_pinning import cpuset
from nova_pinning.host.discover import processors
from nova_pinning.host.discover import text
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import machine_files

_CPU = processors.CPU
_NOT_AFFECTED = 'Not affected'
_MAX_COMMAND_LINE = 4096
# The words of /proc/cpuinfo for libvirt's (src/cpu_map/x86_vendors.xml).
_VENDORS = {'GenuineIntel': 'Intel', 'AuthenticAMD': 'AMD',
            'HygonGenuine': 'Hygon'}
_NO_NAME = re.compile(r'[^A-Za-z0-9._-]+')
_IOMMUS = '/sys/class/iommu'
_REGISTER = re.compile(r'[0-9a-f]{1,16}', re.ASCII)
# As the kernel writes module parameters of type bool, or once wrote int.
_TRUE = ('Y', '1')
_PHYSICAL = re.compile(r'(3[2-9]|[45]\d|6[0-4]) bits physical', re.ASCII)
_AT_PAGESZ = 6
_PAGE_SIZES_BYTES = 4096, 16384, 65536
_ARCH = re.compile(r'[a-z0-9_]+', re.ASCII)


def cpu_info(tree: machine_files.Tree) -> dict[str, str]:
    """What /proc/cpuinfo says of the first CPU.

    To be read once: kernels may wake up every CPU for it.
    """
    first, _blank, _others = (
        tree.text('/proc/cpuinfo') or '').partition('\n\n')
    pairs = (line.partition(':') for line in first.splitlines())
    return {key.strip(): value.strip() for key, _colon, value in pairs}


def read(tree: machine_files.Tree, machine: processors.Processors,
         info: Mapping[str, str], small_page_kib: int) -> hardware.System:
    """The kernel, and how it was told to run.

    :param info: what :func:`cpu_info` returns
    :param small_page_kib: the size of the smallest pages
    """
    online = machine.online
    governors: dict[str, cpuset.CpuSet] = {}
    drivers = []
    for cpu in online:
        path = f'{_CPU}/cpu{cpu}/cpufreq'
        governor = tree.text(f'{path}/scaling_governor')
        if governor:
            name = text.clean(governor)
            governors[name] = (
                governors.get(name, cpuset.CpuSet()) | cpuset.CpuSet([cpu]))
            drivers.append(tree.text(f'{path}/scaling_driver') or '')
    known = online | machine.offline
    return hardware.System(
        kernel=text.clean(tree.text('/proc/sys/kernel/osrelease') or ''),
        command_line=text.clean(
            tree.text('/proc/cmdline') or '', _MAX_COMMAND_LINE),
        isolated_cpus=_cpus(tree, 'isolated') & known,
        nohz_full_cpus=_cpus(tree, 'nohz_full') & known,
        smt=text.clean(tree.text(f'{_CPU}/smt/control') or ''),
        cpufreq_driver=text.clean(next(filter(None, drivers), '')),
        governors=governors,
        virtualization=_virtualization(info),
        has_iommu=_has_iommu(tree),
        posted_interrupts=_posted_interrupts(tree),
        mitigations=_mitigations(tree),
        page_size_kib=small_page_kib)


def cpu_model(tree: machine_files.Tree,
              info: Mapping[str, str]) -> host_model.CpuModel:
    """What the CPUs are; libvirt's name for the model is in no file.

    :param info: what :func:`cpu_info` returns
    """
    physical = _PHYSICAL.match(info.get('address sizes', ''))
    return host_model.CpuModel(
        arch=_arch(tree, info),
        maxphysaddr_bits=int(physical[1]) if physical else 0,
        vendor=_VENDORS.get(info.get('vendor_id', ''), ''))


def name(tree: machine_files.Tree) -> str:
    """The machine's host name, else that of the directory of its files."""
    host_name = (tree.text('/proc/sys/kernel/hostname')
                 or tree.text('/etc/hostname')
                 or tree.root.resolve().name)
    return _NO_NAME.sub('-', host_name).lstrip('._-')[:255] or 'host'


def _cpus(tree: machine_files.Tree, file: str) -> cpuset.CpuSet:
    # Kernels that have no nohz_full say '(null)', or a lone NUL.
    return tree.cpus(f'{_CPU}/{file}', until_nul=True) or cpuset.CpuSet()


def _mitigations(tree: machine_files.Tree) -> dict[str, str]:
    """Vulnerabilities that the CPUs do have."""
    path = f'{_CPU}/vulnerabilities'
    states = {name: tree.text(f'{path}/{name}') for name in tree.names(path)}
    return {text.clean(name): text.clean(said)
            for name, said in states.items() if said and said != _NOT_AFFECTED}


def small_page_kib(tree: machine_files.Tree) -> int | None:
    """Of the smallest pages, None if nothing tells it of a dump.

    The kernel gives it to each process (AT_PAGESZ, getauxval(3)), in the byte
    order of the machine.
    """
    if tree.is_live:
        return os.sysconf('SC_PAGE_SIZE') // 1024
    for pid in ('self', '1'):
        pairs = os.fsencode(tree.text(f'/proc/{pid}/auxv') or '')
        for order in '<>':
            for key, value in struct.iter_unpack(
                    f'{order}QQ', pairs[:len(pairs) // 16 * 16]):
                if key == _AT_PAGESZ and value in _PAGE_SIZES_BYTES:
                    return int(value) // 1024
    return None


def _has_iommu(tree: machine_files.Tree) -> bool | None:
    groups = '/sys/kernel/iommu_groups'
    if tree.names(groups):
        return True
    return False if tree.exists(groups) else None


def _posted_interrupts(tree: machine_files.Tree) -> bool | None:
    """Whether KVM and all IOMMUs have them, None if that does not show.

    Intel's are bit 59 of the capability register (VT-d specification, 11.4.2)
    and enable_apicv of kvm_intel; AMD's are bit 21 of the extended features
    (IOMMU specification, MMIO offset 30h, GAM: virtual APIC) and avic of
    kvm_amd. See sysfs-class-iommu-intel-iommu and
    sysfs-class-iommu-amd-iommu in Documentation/ABI/testing.
    """
    for parameter, file, bit in (
            ('kvm_intel/parameters/enable_apicv', 'intel-iommu/cap', 59),
            ('kvm_amd/parameters/avic', 'amd-iommu/features', 21)):
        switch = tree.text(f'/sys/module/{parameter}')
        if not switch:
            continue
        if switch not in _TRUE:
            return False
        # AMD's second register stands before the first since Linux 5.19.
        registers = [
            (tree.text(f'{_IOMMUS}/{name}/{file}') or '').rpartition(':')[2]
            for name in tree.names(_IOMMUS)]
        known = [int(register, 16) for register in registers
                 if _REGISTER.fullmatch(register)]
        if known:
            return all(register >> bit & 1 for register in known)
    return None


def _virtualization(info: Mapping[str, str]) -> str:
    flags = info.get('flags', '').split()
    return next((flag for flag in ('vmx', 'svm') if flag in flags), '')


def _arch(tree: machine_files.Tree, info: Mapping[str, str]) -> str:
    said = tree.text('/proc/sys/kernel/arch')
    if not said and tree.root == tree.root.parent:
        said = os.uname().machine
    if said and _ARCH.fullmatch(said):
        return said
    if 'CPU implementer' in info:
        return 'aarch64'
    if info.get('cpu', '').startswith('POWER'):
        return 'ppc64le'
    if info.get('vendor_id') == 'IBM/S390':
        return 's390x'
    return 'x86_64'
