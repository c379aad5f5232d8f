# SPDX-License-Identifier: Apache-2.0
"""A guest that is on a host, with what it uses there."""

from collections.abc import Mapping
import dataclasses
from typing import TypeAlias

from nova_pinning.admission import devices
from nova_pinning.admission import outcome
from nova_pinning.admission import written_forms
from nova_pinning.document import quantities
from nova_pinning.document import terms
from nova_pinning.model import hostclass

# The field devices hides the module of that name.
_PciUse: TypeAlias = devices.PciUse


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ResidentGuest:
    """A guest that holds room on a host, whether it runs or not.

    :param uuid: unique; that of the server
    :param flavor: its flavor's name, '' if not known
    :param host: name of its host
    :param disk_gib: on the host's own disks
    :param resources: what it has of its host's own provider beside vCPUs,
        memory and disk, by resource class
    :param allocations: what it has of other providers, by their index in
        ``OfferedHost.providers``
    :param topology: what it asked for, None if it has no NUMA topology: its
        vCPUs then float over all shared CPUs of the host
    :param fit: where that lies; given exactly if topology is
    :param asks_live_devices: whether all PCI devices that it was built to have
        are to be ``live_migratable``; None if it has none, or some are of
        ports, or it is not known
    :param device_policy: NUMA affinity policy with which it was built to have
        all its PCI devices, of its flavor or image; '' if each has that of its
        alias, None if it is not known
    :param is_movable: whether nova would migrate it now
    :param launched_at: when nova last built it: made it, resized it, rebuilt
        or unshelved it; a reboot does not count. ISO 8601, UTC; '' if not
        known
    :param vm_state: nova's, 'active', 'stopped' and so on; '' if not known
    :param project: UUID, '' if not known
    :param availability_zone: that it was asked for in; '' if in none, None
        if not known
    :param server_group: id of the one that it is in, '' for none
    :param cpu_model: that nova-compute gave it by name ([libvirt]
        cpu_models); '' if it has that of its host, or it is not known
    :param image: properties of the image that it was built from, as Glance
        has them: those by which nova asks Placement or a claim for something
    :param metadata: those of the server whose keys begin with ``pinning:``
    :param tags: of the server, sorted
    """

    uuid: terms.Word
    host: terms.Word
    vcpus: terms.Vcpus
    memory_mib: terms.Amount
    guest_class: hostclass.HostClass
    name: terms.ShownLine = ''
    flavor: terms.Line = ''
    disk_gib: terms.Amount = 0
    resources: Mapping[written_forms.ResourceClass, terms.Amount] = (
        dataclasses.field(default_factory=dict, hash=False))
    allocations: tuple[tuple[terms.Amount, outcome.Amounts], ...] = ()
    topology: written_forms.Topology | None = None
    fit: written_forms.Place | None = None
    devices: tuple[_PciUse, ...] = ()
    asks_live_devices: bool | None = None
    device_policy: terms.Line | None = ''
    is_movable: bool = True
    launched_at: terms.Time = ''
    vm_state: terms.Line = ''
    project: terms.Line = ''
    availability_zone: terms.Line | None = None
    server_group: terms.Line = ''
    cpu_model: terms.Line = ''
    image: written_forms.ShownTexts = dataclasses.field(default_factory=dict)
    metadata: written_forms.ShownTexts = dataclasses.field(
        default_factory=dict)
    tags: tuple[terms.Word, ...] = ()

    @property
    def shape(self) -> str:
        """What stands for a flavor that nobody has: '2 vCPUs x 4 GiB ...'."""
        policy = self.topology.cpu_policy if self.topology else 'shared'
        return (f'{self.vcpus} vCPU{"" if self.vcpus == 1 else "s"} x '
                f'{quantities.shown_memory(self.memory_mib)} {policy}')
