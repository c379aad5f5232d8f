# SPDX-License-Identifier: Apache-2.0
"""How many vCPUs QEMU's machine types take, on x86.

libvirt checks it when a guest is defined or started
(qemuValidateDomainVCPUTopology and the maxCpus of its capabilities).
"""

import re

#: Of pc, which nova takes unless the image or [libvirt] hw_machine_type says
#: otherwise. More need interrupts remapped in extended mode, which only an
#: IOMMU of q35 has.
MOST_VCPUS_PC = 255

_I440FX = re.compile(r'pc|pc-i440fx-.*|isapc')
_Q35 = re.compile(r'q35|pc-q35-.*')


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
