# SPDX-License-Identifier: Apache-2.0
"""P3xx: PCI devices and their NUMA affinity, and virtual devices.

What nova does is in nova.pci.stats.PciDeviceStats and nova.virt.hardware
(get_vtpm_constraint, get_vif_multiqueue_constraint).
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from nova_pinning.admission import devices
from nova_pinning.admission import pci_alias
from nova_pinning.checks import check_rule
from nova_pinning.checks.check_rule import Severity
from nova_pinning.flavors.checks import checked
from nova_pinning.host import device_offer
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import words
from nova_pinning.model import flag
from nova_pinning import spelling
from nova_pinning import units

#: GiB of the largest BAR of GPUs, which is their memory rounded up to a power
#: of two, by vendor and product: see lspci -v.
_BARS_GIB = {
    '10de:20b0': 64, '10de:20f1': 64, '10de:20b2': 128, '10de:20b5': 128,
    '10de:2330': 128, '10de:2331': 128, '10de:2335': 256, '10de:26b9': 64,
    '1002:740f': 64, '1002:74a1': 256}
#: Bits of physical addresses that QEMU gives a guest unless it is told.
_ADDRESS_BITS = 40

_KEYS = ('hw:pci_numa_affinity_policy', 'hw_pci_numa_affinity_policy')


@check_rule.rule(
    'P301', Severity.NOTE, 'PCI affinity policy without a PCI device',
    why='the policy then matters for SR-IOV ports of networks only',
    advice='leave it out unless guests attach to such ports, or ask for the '
           f'device under {pci_alias.KEY}',
    in_catalogue=(
        'leave affinity out unless guests attach to such ports, or '
        'ask for the device under pci_devices'))
def policy_without_device(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    if subject.pci_policy and pci_alias.KEY not in subject.specs:
        yield subject.violation(
            f'{subject.shown("pci_numa_affinity_policy")}, but the flavor '
            'asks for no PCI device', _KEYS)


@check_rule.rule(
    'P302', Severity.WARNING, 'more NUMA cells than have a device near',
    why='with affinity required nova wants each device near one of the '
        "guest's cells, whichever; a cell without one of its own reaches "
        'devices through another, and few sets of host nodes will do',
    advice='ask for as many devices as there are NUMA cells, or for fewer '
           'cells, or say preferred')
def cells_without_device(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    cells = len(subject.cells)
    if subject.pci_policy != 'required' or cells < 2:
        return
    for alias, count in subject.devices:
        if 0 < count < cells:
            yield subject.violation(
                f'{cells} NUMA cells, but {count} of the devices "{alias}" '
                'with affinity required', (*_KEYS, pci_alias.KEY))
            continue
        most = max([len({pool.numa_node for pool in pools[alias]} - {None})
                    for pools in _pools(subject)], default=0)
        if 0 < most < cells:
            yield subject.violation(
                f'{cells} NUMA cells with affinity required, but no host '
                f'given has devices "{alias}" on more than '
                f'{words.count(most, "node")}', (*_KEYS, pci_alias.KEY))


@check_rule.rule(
    'P310', Severity.ERROR, 'devices that no host has',
    why='no host is given that has so many devices of the alias, be it that '
        'nobody calls them so, or that the group is smaller: nobody can start '
        'a guest of the flavor',
    advice='ask for fewer, or for an alias of the devices or of a group that '
           'the plans of hosts have')
def devices_nowhere(subject: checked.CheckedFlavor) -> check_rule.Violations:
    hosts = _pools(subject)
    for alias, count in _sums(subject).items():
        most = max([sum(pool.total for pool in pools[alias])
                    for pools in hosts], default=count)
        if most < count:
            known = {name for host in subject.candidates for name
                     in device_offer.aliases(host.description)}
            yield subject.violation(
                f'{count} of the devices "{alias}", and no host given has '
                f'more than {most}', (pci_alias.KEY,),
                '' if most else spelling.did_you_mean(alias, known))


@check_rule.rule(
    'P311', Severity.ERROR, 'devices of more nodes than the guest has cells',
    why='nova takes devices near the cells of the guest only, or such as '
        'belong to no node, with affinity legacy, which is the default, as '
        'well as required',
    advice='spread the guest over as many NUMA cells (hw:numa_nodes), or set '
           'hw:pci_numa_affinity_policy=preferred',
    in_catalogue='spread the guest over as many numa_nodes, or write '
                 'preferred for affinity')
def devices_of_other_nodes(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    cells, hosts = len(subject.cells), _pools(subject)
    if not cells or subject.pci_policy in ('preferred', 'socket'):
        return
    for alias, count in _sums(subject).items():
        near = max([_most_near(pools[alias], cells, subject.pci_policy)
                    for pools in hosts], default=0)
        if near < count <= max([sum(pool.total for pool in pools[alias])
                                for pools in hosts], default=0):
            yield subject.violation(
                f'{count} of the devices "{alias}" for '
                f'{words.count(cells, "NUMA cell")}, and no host given has '
                f'more than {near} on so many nodes',
                ('hw:numa_nodes', *_KEYS, pci_alias.KEY))


@check_rule.rule(
    'P312', Severity.NOTE, 'leaves devices unsold',
    why='when a host is filled with guests of this size, it has devices for '
        'more of them, and not the CPUs or the memory',
    advice='ask for no more CPUs and memory with each device than hosts have '
           'for each, or offer sizes next to it that fit into the rest')
def unsold_devices(subject: checked.CheckedFlavor) -> check_rule.Violations:
    sums = {alias: count for alias, count in _sums(subject).items() if count}
    for host in subject.hosts if sums else ():
        if host.refusal(subject.request):
            continue
        filled = host.fill(subject.request, (), 0)
        for alias, pools in host.pools(subject.request).items():
            total = sum(pool.total for pool in pools)
            left = total - filled.guests * sums.get(alias, total)
            if left >= sums.get(alias, total + 1):
                yield subject.violation(
                    f'{words.count(filled.guests, "guest")} on {host.title}, '
                    f'{left} of {total} devices "{alias}" stay unsold: '
                    f'{filled.why}', (pci_alias.KEY,))


def _pools(
    subject: checked.CheckedFlavor,
) -> list[Mapping[str, Sequence[devices.PciPool]]]:
    """What each host has for the aliases that the flavor asks for."""
    return [host.pools(subject.request) for host in subject.candidates]


def _sums(subject: checked.CheckedFlavor) -> dict[str, int]:
    """How many devices of each alias the flavor asks for in all."""
    sums: dict[str, int] = {}
    for alias, count in subject.devices:
        sums[alias] = sums.get(alias, 0) + count
    return sums


def _most_near(pools: Iterable[devices.PciPool], cells: int,
               policy: str) -> int:
    """The most devices on so many nodes of a host."""
    nodes: dict[int | None, int] = {}
    for pool in pools:
        nodes[pool.numa_node] = nodes.get(pool.numa_node, 0) + pool.total
    of_none = nodes.pop(None, 0)
    return sum(sorted(nodes.values(), reverse=True)[:cells]) + (
        of_none if policy != 'required' else 0)


@check_rule.rule(
    'P303', Severity.WARNING, 'PCI affinity without a NUMA topology',
    why='nova looks at the affinity of devices only for guests that have a '
        'NUMA topology, so this one gets any',
    advice='set hw:numa_nodes=1, or leave the policy out',
    in_catalogue='write numa_nodes: 1, or leave affinity out')
def affinity_without_numa(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    if (subject.pci_policy in ('required', 'socket', 'legacy') and
            subject.devices and subject.is_accepted and not subject.guest):
        yield subject.about(
            'pci_numa_affinity_policy',
            'does nothing for a guest without a NUMA topology')


@check_rule.rule(
    'P304', Severity.WARNING, 'TPM model without a version',
    why='nova gives the guest a TPM only if its version is said',
    advice='set hw:tpm_version=2.0')
def tpm_without_version(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    if subject.value('tpm_model') and not subject.value('tpm_version'):
        yield subject.about('tpm_model',
                            'does nothing without hw:tpm_version')


@check_rule.rule(
    'P305', Severity.NOTE, 'NIC queues for a single vCPU',
    why='nova makes as many queues as there are vCPUs, and ignores the '
        'setting for one',
    advice='leave hw:vif_multiqueue_enabled out',
    in_catalogue='leave nic_multiqueue out')
def queues_for_one(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if subject.flavor.vcpus == 1 and (
            checked.is_true(subject.value('vif_multiqueue_enabled'))):
        yield subject.about('vif_multiqueue_enabled',
                            'does nothing for 1 vCPU')


@check_rule.rule(
    'P306', Severity.ERROR, 'secure boot that the image cannot have',
    why='secure boot is for UEFI, on x86 with machine type q35: nova starts '
        'a BIOS guest without it and without a word, and refuses to start '
        'one of another machine type',
    advice='use images with hw_firmware_type=uefi and hw_machine_type=q35')
def no_secure_boot(subject: checked.CheckedFlavor) -> check_rule.Violations:
    keys = ('os:secure_boot', 'os_secure_boot')
    wanted = (subject.specs.get('os:secure_boot')
              or subject.image.get('os_secure_boot'))
    if wanted != 'required' or not subject.has_image or (
            subject.image.get('hw_architecture') == 'aarch64'):
        return
    what = 'os:secure_boot=required'
    if subject.image.get('hw_firmware_type') != 'uefi':
        yield subject.violation(
            f'{what}, but the image has no hw_firmware_type=uefi', keys)
    elif 'q35' not in subject.image.get('hw_machine_type', 'pc'):
        yield subject.violation(
            f'{what}, but the machine type is '
            f'{subject.image.get("hw_machine_type", "pc")}', keys)


@check_rule.rule(
    'P307', Severity.ERROR, 'PCI alias with count 0',
    why='guests get no such device, and nova refuses hosts all the same that '
        'have none, or none near enough',
    advice=f'leave the alias out of {pci_alias.KEY}, or ask for one or '
           'more')
def no_devices(subject: checked.CheckedFlavor) -> check_rule.Violations:
    for alias, count in subject.devices:
        if not count:
            yield subject.violation(f'0 of the devices "{alias}"',
                                    (pci_alias.KEY,))


@check_rule.rule(
    'P308', Severity.WARNING, 'limit of the random number device not read',
    why='nova writes the limit only if hw_rng:rate_bytes says how many bytes '
        'a period may have, and none at all without the device',
    advice='set hw_rng:rate_bytes, and leave hw_rng:allowed alone, or leave '
           'the limit out')
def unread_rng_limit(subject: checked.CheckedFlavor) -> check_rule.Violations:
    period, rate = 'hw_rng:rate_period', 'hw_rng:rate_bytes'
    specs = subject.specs
    if period in specs and not subject.number(rate):
        yield subject.about(period, f'does nothing without {rate}')
    elif rate in specs and flag.parse(
            specs.get('hw_rng:allowed', '')) is False:
        yield subject.about(rate, 'does nothing, since hw_rng:allowed is '
                            + specs['hw_rng:allowed'])


@check_rule.rule(
    'P309', Severity.WARNING, 'devices beyond the addresses of the guest',
    why='guests have 40 bits of addresses, which are 1 TiB, for their memory '
        'and that of their devices, unless hw:maxphysaddr_mode or [libvirt] '
        'cpu_mode=host-passthrough says otherwise; a device whose memory has '
        'no room there does not work in the guest',
    advice='set hw_maxphysaddr_mode=passthrough on the images, or '
           'hw:maxphysaddr_mode, which nova-api stores up to microversion '
           '2.85')
def beyond_addresses(subject: checked.CheckedFlavor) -> check_rule.Violations:
    mode = subject.value('maxphysaddr_mode')
    bits = mode and checked.whole_number(
        subject.value('maxphysaddr_bits')) or _ADDRESS_BITS
    if mode == 'passthrough':
        # Nova takes any of the hosts.
        bits = min(filter(None, _host_bits(subject)), default=0)
    if not bits or not subject.devices:
        return
    memory_gib = -(-subject.flavor.memory_mib // units.MIB_PER_GIB)
    bars_gib = unknown = 0
    for alias, count in subject.devices:
        sizes = {_bar_gib(device) for host in subject.candidates
                 for device in device_offer.by_alias(
                     host.description).get(alias, ())} or {None}
        unknown += count * (None in sizes)
        bars_gib += count * max(size or 0 for size in sizes)
    told = f'{memory_gib:,} GiB of memory, {bars_gib:,} GiB of known BARs'
    if memory_gib + bars_gib > 2 ** (bits - 30):
        yield subject.violation(
            f'{told}: too much for {bits} bits of addresses',
            (pci_alias.KEY,))
    # Memory besides which a few large BARs may have no room.
    elif unknown > 1 and memory_gib > 2 ** (bits - 32):
        yield subject.violation(
            f'{told}, and {unknown} devices of which it is not known: if '
            f'they are large GPUs, {bits} bits of addresses may not do',
            (pci_alias.KEY,), severity=Severity.NOTE)


@check_rule.rule(
    'P313', Severity.ERROR, 'more bits of addresses than hosts have',
    why='nova-scheduler takes only hosts whose CPUs have as many '
        '(ComputeCapabilitiesFilter, ImagePropertiesFilter)',
    advice='ask for as many as the hosts have, or for mode passthrough')
def more_bits_than_hosts(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    bits = checked.whole_number(subject.value('maxphysaddr_bits')) or 0
    hosts = _host_bits(subject)
    if hosts and all(0 < one < bits for one in hosts):
        yield subject.about(
            'maxphysaddr_bits', f'is more than any host has, {max(hosts)}')


def _host_bits(subject: checked.CheckedFlavor) -> list[int]:
    """Of physical addresses, 0 for hosts of which it is not known."""
    return [host.description.cpu_model.maxphysaddr_bits
            for host in subject.candidates]


def _bar_gib(device: host_model.PciDevice) -> int | None:
    """The size of its largest BAR, None if it is not known, 0 if small."""
    if device.bars_kib is not None:
        return max(device.bars_kib, default=0) // units.KIB_PER_GIB
    return _BARS_GIB.get(
        f'{device.vendor_id}:{device.product_id}', 0 if device.kind in (
            hardware.PciKind.NIC, hardware.PciKind.NVME) else None)
