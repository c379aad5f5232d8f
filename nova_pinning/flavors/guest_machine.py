# SPDX-License-Identifier: Apache-2.0
"""QEMU's machine types: of which architecture, and how many vCPUs they take.

libvirt checks it when a guest is defined or started
(qemuValidateDomainVCPUTopology and the maxCpus of its capabilities).
"""

import re

#: Of pc, which nova takes unless the image or [libvirt] hw_machine_type says
#: otherwise. More need interrupts remapped in extended mode, which only an
#: IOMMU of q35 has.
MOST_VCPUS_PC = 255

#: Which of them a QEMU has is in no description; these are the families, with
#: the versions and distributions that are appended to them.
_X86 = r'(pc|q35|microvm|isapc)|pc-(i440fx|q35)-[\w.-]+'
_ARM = r'virt(-[\w.-]+)?'
_OF_ARCHITECTURES = {
    'x86_64': _X86, 'i686': _X86, 'aarch64': f'sbsa-ref|{_ARM}',
    'armv7l': _ARM, 'ppc64le': r'(pseries|powernv)[\w.-]*',
    's390x': r's390-ccw-virtio(-[\w.-]+)?'}
_I440FX = re.compile(r'pc|pc-i440fx-.*|isapc')
_Q35 = re.compile(r'q35|pc-q35-.*')


def is_known(machine_type: str | None) -> bool:
    """Whether any of the architectures known here has a machine type."""
    return any(re.fullmatch(known, machine_type or '')
               for known in _OF_ARCHITECTURES.values())


def refusal(architecture: str, vcpus: int, machine_type: str,
            has_iommu: bool) -> str:
    """Why libvirt refuses a guest, '' if it does not; as vcpu_refusal."""
    known = _OF_ARCHITECTURES.get(architecture)
    if known and not re.fullmatch(known, machine_type):
        return (f'{machine_type!r} is not a machine type of {architecture} '
                'guests')
    return vcpu_refusal(vcpus, machine_type, has_iommu)


def vcpu_refusal(vcpus: int, machine_type: str, has_iommu: bool) -> str:
    """Why libvirt refuses so many vCPUs, '' if it does not.

    :param machine_type: as the image or the XML has it; '' or one that is
        not known refuses nothing
    :param has_iommu: whether the guest has an IOMMU (hw:viommu_model)
    """
    if vcpus <= MOST_VCPUS_PC:
        return ''
    if _I440FX.fullmatch(machine_type):
        return (f'machine type {machine_type} takes at most {MOST_VCPUS_PC} '
                f'vCPUs, not {vcpus}')
    if _Q35.fullmatch(machine_type) and not has_iommu:
        return (f'machine type {machine_type} takes more than '
                f'{MOST_VCPUS_PC} vCPUs only with an IOMMU, and {vcpus} are '
                'asked for')
    return ''
