# SPDX-License-Identifier: Apache-2.0
"""Properties of images, as nova's ImageMetaProps reads them."""

from collections.abc import Mapping

from nova_pinning.admission import guest_request
from nova_pinning.model import flag

#: Every property that nova keeps; it drops all others.
_FLAGS = frozenset('''
    hw_boot_menu hw_ephemeral_encryption hw_firmware_stateless hw_ipxe_boot
    hw_locked_memory hw_mem_encryption hw_pmu hw_qemu_guest_agent hw_time_hpet
    hw_vif_multiqueue_enabled hw_virtio_packed_ring img_bdm_v2 img_bittorrent
    img_cache_in_nova img_hide_hypervisor_id img_linked_clone img_use_agent
    os_require_quiesce os_skip_agent_inject_files_at_boot
    os_skip_agent_inject_ssh'''.split())
_NUMBERS = frozenset('''
    hw_cpu_cores hw_cpu_max_cores hw_cpu_max_sockets hw_cpu_max_threads
    hw_cpu_sockets hw_cpu_threads hw_device_id hw_maxphysaddr_bits
    hw_numa_nodes hw_redirected_usb_ports hw_serial_port_count hw_video_ram
    img_compression_level img_version'''.split())
_TEXTS = frozenset('''
    hw_architecture hw_auto_disk_config hw_cdrom_bus hw_cpu_policy
    hw_cpu_realtime_mask hw_cpu_thread_policy hw_disk_bus hw_disk_type
    hw_emulation_architecture hw_ephemeral_encryption_format
    hw_ephemeral_encryption_secret_uuid hw_firmware_type hw_floppy_bus
    hw_input_bus hw_machine_type hw_maxphysaddr_mode hw_mem_encryption_model
    hw_mem_page_size hw_pci_numa_affinity_policy hw_pointer_model
    hw_rescue_bus hw_rescue_device hw_rng_model hw_scsi_model hw_sound_model
    hw_tpm_model hw_tpm_version hw_usb_model hw_vif_model hw_video_model
    hw_viommu_model hw_vm_mode hw_watchdog_action img_config_drive
    img_hv_requested_version img_hv_type img_owner_id img_root_device_name
    img_signature img_signature_certificate_uuid img_signature_hash_method
    img_signature_key_type os_admin_user os_command_line os_distro
    os_secure_boot os_type'''.split())
#: Those that nova makes lists of, which nobody compares.
LISTS = frozenset('''
    hw_numa_cpus hw_numa_mem img_block_device_mapping img_mappings
    traits_required'''.split())
_FORMER_NAMES = {
    'architecture': 'hw_architecture', 'auto_disk_config':
    'hw_auto_disk_config', 'bdm_v2': 'img_bdm_v2', 'bittorrent':
    'img_bittorrent', 'cache_in_nova': 'img_cache_in_nova',
    'hypervisor_type': 'img_hv_type', 'hypervisor_version_requires':
    'img_hv_requested_version', 'ipxe_boot': 'hw_ipxe_boot', 'owner_id':
    'img_owner_id', 'root_device_name': 'img_root_device_name',
    'vm_mode': 'hw_vm_mode'}
_I686 = dict.fromkeys(('i386', 'i486', 'i586', 'x86_32', 'x86_32p'), 'i686')
#: What nova takes a value for, once it is in lower case.
_FORMER_VALUES: Mapping[str, Mapping[str, str]] = {
    'hw_architecture': _I686 | {'amd64': 'x86_64'},
    'hw_emulation_architecture': _I686 | {'amd64': 'x86_64'},
    'hw_scsi_model': {'lsilogicsas': 'lsisas1068', 'paravirtual': 'vmpvscsi'},
    'hw_vif_model': {},
    'hw_vm_mode': {'pv': 'xen', 'hv': 'hvm', 'baremetal': 'hvm'},
    'img_hv_type': {'xapi': 'xen'},
    'os_type': {},
}
_TRAIT = 'trait:'
# What flavor_reader reads, and fleet.moved_guest.
_PLACED = frozenset('''
    hw_cpu_policy hw_cpu_thread_policy hw_firmware_stateless hw_firmware_type
    hw_maxphysaddr_mode hw_mem_encryption hw_mem_encryption_model
    hw_mem_page_size hw_pci_numa_affinity_policy hw_tpm_model hw_tpm_version
    hw_virtio_packed_ring os_secure_boot'''.split())


def is_placed(name: str) -> bool:
    """Whether it tells what a guest asks Placement, or a claim, for."""
    return name in _PLACED or name.startswith(_TRAIT)


def read(image: guest_request.Pairs) -> dict[str, str]:
    """The properties that nova keeps, in the words in which it has them.

    Of LISTS there is none. '' stands for one that is false or 0, which nova
    takes for one that is not set.

    :param image: as Glance has them
    """
    given = dict(image)
    current = {new: given[old] for old, new in _FORMER_NAMES.items()
               if old in given} | given
    return {key: _value(key, text) for key, text in current.items()
            if is_kept(key) and key not in LISTS}


def is_kept(key: str) -> bool:
    """Whether nova keeps a property of that name."""
    return any(key in kept for kept in (_FLAGS, _NUMBERS, _TEXTS, LISTS))


def _value(key: str, text: str) -> str:
    if key in _FLAGS:
        return 'True' if flag.parse(text) else ''
    if key in _NUMBERS:
        return text.strip().lstrip('0') if text.strip().isdigit() else text
    if key in _FORMER_VALUES:
        return _FORMER_VALUES[key].get(text.lower(), text.lower())
    return text


def required_traits(image: guest_request.Pairs) -> frozenset[str]:
    """Traits that an image requires of the host."""
    return frozenset(
        key.removeprefix(_TRAIT) for key, value in image
        if key.startswith(_TRAIT) and value == 'required')
