# SPDX-License-Identifier: Apache-2.0
"""Whether guests with devices move live; nova moves all of them cold.

PCI devices of flavors move live from 2025.1 on, if each request of the guest
asks for ``live_migratable`` ones (nova.conductor.tasks.live_migrate,
_check_can_migrate_pci; InstancePCIRequest.is_live_migratable). Requests are
written down when a guest is built or resized, so that of a guest counts, and
that of its alias only where the guest's own is not known. In 2024.1 and 2024.2
none moves live. Those of ports depend on Neutron and on network drivers, of
which a snapshot tells nothing.

vGPUs move live with QEMU 8.1 on both hosts in all releases from 2024.1 on
(nova.virt.libvirt.driver, MIN_MDEV_LIVEMIG_QEMU_VERSION; the libvirt that is
needed beside it, 8.6, is older), and to the same type only
(check_source_migrate_data_at_dest). Which type a host has, traits of the
provider tell, or else nothing does: the class VGPU stands for any. A class of
the operator's own ([mdev_*] mdev_class) can be anything, and is left to
Placement.
"""

from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import pci_alias
from nova_pinning.admission import resident_guest
from nova_pinning.model import flag
from nova_pinning.model import nova_release

_LIVE_KEY = 'live_migratable'
_VGPU = 'VGPU'
_MIN_QEMU = 8_001_000

#: Why a guest does not move live, or what is not known of that.
Objection: TypeAlias = str | outcome.Doubt


def live_refusals(
    guest: resident_guest.ResidentGuest, extra_specs: Mapping[str, str],
    aliases: Mapping[str, pci_alias.PciAlias],
) -> Iterator[Objection]:
    """Why devices keep a guest from moving live to any host.

    :param extra_specs: of its flavor
    :param aliases: of the cloud, as far as they are known
    """
    names = pci_alias.names(extra_specs)
    if not guest.devices and not names:
        return
    if not names and guest.asks_live_devices is None:
        yield _unknown('has PCI devices that its flavor is not known to ask '
                       'for; those of ports may not move live')
        return
    for use in guest.devices:
        if flag.parse(dict(use.keys).get(_LIVE_KEY, '')) is not True:
            yield (f'has PCI devices {use.kind} that are not marked '
                   'live_migratable')
            return
    if guest.asks_live_devices is not None:
        if not guest.asks_live_devices:
            yield ('has PCI devices, and was not built to have those that '
                   'are live_migratable')
        return
    for name in names:
        alias = aliases.get(name)
        if alias is None:
            yield _unknown(f'has PCI devices of the alias {name}, which is '
                           'not known')
        elif not _are_live(map(dict, alias.specs)):
            yield (f'has PCI devices of the alias {name}, which does not ask '
                   'for live_migratable ones')


def cold_refusals(
        guest: resident_guest.ResidentGuest) -> Iterator[Objection]:
    """Why devices may keep a guest from moving cold to any host.

    nova-scheduler goes by the request that the guest was built with, in which
    the affinity policy of its flavor or image outweighs that of the alias.
    """
    if guest.device_policy is None:
        yield _unknown('with which affinity policy it was built to have its '
                       'PCI devices is not known')


def live_host_refusals(
    guest: resident_guest.ResidentGuest, extra_specs: Mapping[str, str],
    source: offered_host.OfferedHost, target: offered_host.OfferedHost,
    usual: nova_release.NovaRelease | None = None,
) -> Iterator[Objection]:
    """Why devices keep a guest from moving live to one host.

    :param usual: what hosts run of which it is not known; None for a release
        that moves devices
    """
    if guest.devices or pci_alias.names(extra_specs):
        for host in (source, target):
            release = (nova_release.of_name(host.nova_release)
                       if host.nova_release else usual)
            if release is not None and release < nova_release.MOVES_DEVICES:
                yield (f'the guest has PCI devices, which nova moves live '
                       f'from {nova_release.MOVES_DEVICES} on, and '
                       f'{host.name} runs {release}')
                return
    if not _has_vgpus(guest, extra_specs):
        return
    for host in (source, target):
        if not host.hypervisor_version:
            yield _unknown('the guest has vGPUs, which move live with QEMU '
                           f'8.1, and that of {host.name} is not known')
        elif host.hypervisor_version < _MIN_QEMU:
            yield ('the guest has vGPUs, which move live with QEMU 8.1, and '
                   f'that of {host.name} is older')
            return
    if not _has_type(extra_specs):
        yield _unknown('the guest has vGPUs, whose type its flavor does not '
                       'tell by a trait')


def _unknown(text: str) -> outcome.Doubt:
    return outcome.Doubt(outcome.DoubtKind.DEVICES, text)


def key(guest: resident_guest.ResidentGuest) -> Hashable:
    """All of a guest, but for its flavor, that these refusals read."""
    return (guest.devices, guest.asks_live_devices, _has_vgpus(guest, {}))


def asks_live_devices(
        requests: Sequence[Mapping[str, Any]]) -> bool | None:
    """What ``instance_extra.pci_requests`` says of devices of flavors.

    :param requests: of nova.objects.InstancePCIRequests, as JSON
    :returns: whether all ask for ``live_migratable`` ones; None if there are
        none, or some are of ports
    """
    asked = [request for request in requests if request.get('alias_name')]
    if not all(_are_live(request['spec']) for request in asked):
        return False
    return True if asked and len(asked) == len(requests) else None


def policy_of(requests: Sequence[Mapping[str, Any]]) -> str:
    """The affinity policy that a guest's devices of flavors have in common.

    :param requests: as for :func:`asks_live_devices`
    :returns: '' if they have none in common, and so each that of its alias
    """
    policies = {str(request.get('numa_policy') or '') for request in requests
                if request.get('alias_name')}
    return policies.pop() if len(policies) == 1 else ''


def _are_live(specs: Iterable[Mapping[str, Any]]) -> bool:
    """Whether what an alias, or a request, stands for moves live."""
    return all(spec.get(_LIVE_KEY) == 'true' for spec in specs)


def _has_vgpus(guest: resident_guest.ResidentGuest,
               extra_specs: Mapping[str, str]) -> bool:
    return bool(
        guest.resources.get(_VGPU) or [*_suffixes(extra_specs)]
        or any(name == _VGPU for _provider, amounts in guest.allocations
               for name, _amount in amounts))


def _has_type(extra_specs: Mapping[str, str]) -> bool:
    """Whether all vGPUs of a flavor are of hosts with a trait of theirs."""
    suffixes = list(_suffixes(extra_specs))
    return bool(suffixes) and all(any(
        value == 'required' and name.startswith(f'trait{suffix}:CUSTOM_')
        and not name.startswith(f'trait{suffix}:CUSTOM_PINNING_')
        for name, value in extra_specs.items()) for suffix in suffixes)


def _suffixes(extra_specs: Mapping[str, str]) -> Iterator[str]:
    """Those of the request groups with vGPUs: '' of ``resources:VGPU``."""
    for name in extra_specs:
        group, _colon, resource = name.partition(':')
        if resource == _VGPU and group.startswith('resources'):
            yield group.removeprefix('resources')
