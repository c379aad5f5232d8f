# SPDX-License-Identifier: Apache-2.0
"""How platforms are reached; what the command line says of them."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSettings:
    """Each platform takes what it needs.

    :param connect: libvirt's URI, for guests
    :param plan: of this host, which nova-pinning agent goes by; '' for none
    :param image: directory of the image, for guests
    :param accelerator: 'kvm' or 'tcg'; '' finds out by booting
    :param cloud: name in clouds.yaml; '' for the environment's
    :param server_image: name or ID of the image that servers boot
    :param hypervisor: command that is put before virsh to reach the libvirt
        of a compute host, {host} being its name; '' if that is this host
    :param boot_seconds: after which an instance that does not answer has
        failed
    """

    connect: str = 'qemu:///system'
    plan: str = ''
    image: str = ''
    accelerator: str = ''
    cloud: str = ''
    server_image: str = 'nova-pinning-bench'
    hypervisor: str = ''
    boot_seconds: float = 300.0
