# SPDX-License-Identifier: Apache-2.0
"""What nova-scheduler asks Placement for, read of a flavor and an image.

For where nova is not installed, or was not asked: as ResourceRequest in
nova/scheduler/utils.py does, and those of nova's request filters that look at
flavor and image only, with nova's options as they are by default.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import re

import os_resource_classes
import os_traits

from nova_pinning.admission import guest_request
from nova_pinning.admission import image_properties
from nova_pinning.admission import outcome
from nova_pinning.admission import pci_alias
from nova_pinning import model
from nova_pinning.model import flag
from nova_pinning.placement import inventory

_KEY = re.compile('(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)')
_ENCRYPTION_TRAITS = {
    'amd-sev': 'HW_CPU_X86_AMD_SEV', 'amd-sev-es': 'HW_CPU_X86_AMD_SEV_ES',
    'amd-sev-snp': 'HW_CPU_X86_AMD_SEV_SNP',
    'intel-tdx': 'HW_CPU_X86_INTEL_TDX'}
_ADDRESS_TRAITS = {
    'passthrough': 'COMPUTE_ADDRESS_SPACE_PASSTHROUGH',
    'emulate': 'COMPUTE_ADDRESS_SPACE_EMULATED'}


class _Groups:
    """Request groups that are filled one key after the other."""

    def __init__(self) -> None:
        self._resources: dict[str, dict[str, int]] = {}
        self._traits: dict[str, dict[str, set[str]]] = {}

    def add(self, suffix: str, name: str, amount: str | int) -> None:
        """Ask for so much instead; nova drops what is no amount or class."""
        if not name.startswith('CUSTOM_') and (
                name not in os_resource_classes.STANDARDS):
            return
        try:
            number = int(amount)
        except ValueError:
            return
        if number >= 0:
            self._resources.setdefault(suffix, {})[name] = number

    def add_trait(self, name: str, value: str = 'required',
                  suffix: str = '') -> None:
        if value in ('required', 'forbidden'):
            self._traits.setdefault(suffix, {}).setdefault(
                value, set()).add(name)

    def asks_for(self, name: str) -> bool:
        return any(name in amounts for amounts in self._resources.values())

    def made(self) -> Iterator[guest_request.RequestGroup]:
        for suffix in sorted(self._resources.keys() | self._traits.keys()):
            amounts = tuple(sorted(
                (name, amount) for name, amount
                in self._resources.get(suffix, {}).items() if amount))
            traits = self._traits.get(suffix, {})
            if amounts or traits:
                yield guest_request.RequestGroup(
                    suffix, amounts,
                    frozenset(traits.get('required', ())),
                    frozenset(traits.get('forbidden', ())))


class FlavorReader:
    """A flavor and an image, as nova-scheduler reads them.

    :param disk_gib: that nova counts on the host's own disks
    :param topology: what nova makes of both, None if the vCPUs float
    :param image: properties as Glance has them, None if they are not known
    """

    def __init__(
        self, vcpus: int, memory_mib: int, disk_gib: int,
        extra_specs: Mapping[str, str], image: guest_request.Pairs | None,
        topology: model.Guest | None,
    ) -> None:
        self._vcpus = vcpus
        self._memory_mib = memory_mib
        self._disk_gib = disk_gib
        self._specs = extra_specs
        self._image = image or ()
        self._properties = image_properties.read(self._image)
        self._topology = topology
        self._policy = self._setting('cpu_policy')
        if image is None and not self._policy and topology is not None and (
                not any(key.startswith('resources') and key.endswith(':PCPU')
                        for key in extra_specs)):
            # Nothing but an image can have said it.
            self._policy = topology.cpu_policy.value

    def queries(self) -> tuple[guest_request.CandidatesQuery, ...]:
        """All that nova would ask, PCPU before VCPU in its place."""
        first = self._query(True)
        if self._policy == model.CpuPolicy.DEDICATED:
            return first, self._query(False)
        return (first,)

    def doubts(self) -> Iterator[outcome.Doubt]:
        """What asks for more than is read here."""
        for key in ('accel:device_profile', pci_alias.KEY):
            if self._specs.get(key):
                yield outcome.Doubt(
                    outcome.DoubtKind.REQUEST,
                    f'what {key} {self._specs[key]} asks for is not known',
                    key)
        policy = self._specs.get('group_policy')
        suffixes = {match[2] for match in map(_KEY.fullmatch, self._specs)
                    if match and match[2]}
        if len(suffixes) > 1 and policy not in ('none', 'isolate'):
            yield outcome.Doubt(
                outcome.DoubtKind.REQUEST,
                'Placement refuses a query of several numbered groups '
                'without group_policy', 'group_policy')

    def _setting(self, name: str, prefix: str = 'hw') -> str:
        """What the flavor says, or else the image; '' for nothing."""
        return (self._specs.get(f'{prefix}:{name}')
                or self._properties.get(f'{prefix}_{name}') or '')

    def _is_set(self, name: str) -> bool:
        return bool(flag.parse(self._specs.get(f'hw:{name}', ''))
                    or self._properties.get(f'hw_{name}'))

    def _query(self, pins: bool) -> guest_request.CandidatesQuery:
        groups = _Groups()
        for key, value in self._specs.items():
            match = _KEY.fullmatch(key)
            if match and match[1] == 'resources':
                groups.add(match[2] or '', match[3], value)
            elif match:
                groups.add_trait(match[3], value, match[2] or '')
        for trait in image_properties.required_traits(self._image):
            groups.add_trait(trait)
        if pins:
            self._pin(groups)
        if not groups.asks_for(inventory.VCPU) and (
                not groups.asks_for(inventory.PCPU)):
            groups.add('', inventory.VCPU, self._vcpus)
        for name, amount in ((inventory.MEMORY_MB, self._memory_mib),
                             (inventory.DISK_GB, self._disk_gib)):
            if not groups.asks_for(name):
                groups.add('', name, amount)
        self._add_features(groups)
        policy = self._specs.get('group_policy', '')
        return guest_request.CandidatesQuery(
            groups=tuple(groups.made()),
            root_required=frozenset(self._root_required()),
            root_forbidden=frozenset({os_traits.COMPUTE_STATUS_DISABLED}),
            group_policy=policy if policy == 'isolate' else 'none')

    def _pin(self, groups: _Groups) -> None:
        """As _translate_pinning_policies."""
        dedicated = self._vcpus
        if self._policy == model.CpuPolicy.MIXED:
            dedicated = sum(
                demand.dedicated for demand in self._topology.demands
            ) if self._topology is not None else 0
            groups.add('', inventory.VCPU, self._vcpus - dedicated)
        if self._policy in (model.CpuPolicy.DEDICATED, model.CpuPolicy.MIXED):
            groups.add('', inventory.PCPU, dedicated + (
                self._specs.get('hw:emulator_threads_policy') == 'isolate'))
        policy = self._specs.get('hw:cpu_thread_policy')
        if policy in (None, '', 'prefer'):
            policy = policy or self._properties.get('hw_cpu_thread_policy')
        if policy in ('isolate', 'require'):
            groups.add_trait(inventory.THREADS, 'forbidden'
                             if policy == 'isolate' else 'required')

    def _add_features(self, groups: _Groups) -> None:
        """As ResourceRequest's other translations."""
        if self._is_set('mem_encryption'):
            groups.add('', 'MEM_ENCRYPTION_CONTEXT', 1)
            groups.add_trait(_ENCRYPTION_TRAITS.get(
                self._setting('mem_encryption_model'), 'HW_CPU_X86_AMD_SEV'))
        labels = [label.strip() for label
                  in self._specs.get('hw:pmem', '').split(',')
                  if label.strip()]
        for label in labels:
            groups.add('', os_resource_classes.normalize_name(
                f'PMEM_NAMESPACE_{label}'), labels.count(label))
        version = self._setting('tpm_version')
        if version:
            crb = self._setting('tpm_model') == 'tpm-crb'
            groups.add_trait(
                f'COMPUTE_SECURITY_TPM_{"CRB" if crb else "TIS"}')
            groups.add_trait(
                f'COMPUTE_SECURITY_TPM_{"2_0" if version == "2.0" else "1_2"}')
        if self._setting('pci_numa_affinity_policy') == 'socket':
            groups.add_trait('COMPUTE_SOCKET_PCI_NUMA_AFFINITY')
        if self._setting('secure_boot', 'os') == 'required':
            groups.add_trait('COMPUTE_SECURITY_UEFI_SECURE_BOOT')
        mode = self._setting('maxphysaddr_mode')
        if mode in _ADDRESS_TRAITS:
            groups.add_trait(_ADDRESS_TRAITS[mode])
        if self._properties.get('hw_firmware_stateless') and (
                self._properties.get('hw_firmware_type') == 'uefi'):
            groups.add_trait('COMPUTE_SECURITY_STATELESS_FIRMWARE')

    def _root_required(self) -> Iterator[str]:
        """As the functions of nova/scheduler/request_filter.py."""
        if self._specs.get('accel:device_profile'):
            yield 'COMPUTE_ACCELERATORS'
        if self._is_set('virtio_packed_ring'):
            yield 'COMPUTE_NET_VIRTIO_PACKED'
        if self._is_set('ephemeral_encryption'):
            yield 'COMPUTE_EPHEMERAL_ENCRYPTION'
            kind = self._setting('ephemeral_encryption_format')
            if kind:
                yield f'COMPUTE_EPHEMERAL_ENCRYPTION_{kind.upper()}'
        if self._setting('sound_model') == 'virtio':
            yield 'COMPUTE_SOUND_MODEL_VIRTIO'
        if self._setting('tpm_version'):
            security = self._specs.get('hw:tpm_secret_security') or 'user'
            yield f'COMPUTE_SECURITY_TPM_SECRET_SECURITY_{security.upper()}'
