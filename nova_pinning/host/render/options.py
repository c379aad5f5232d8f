# SPDX-License-Identifier: Apache-2.0
"""What is to be rendered."""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import enum
import re

from nova_pinning.admission import devices
from nova_pinning import errors

_UNIT = re.compile(r'[A-Za-z0-9:_.@\\-]{1,247}', re.ASCII)
_HOST = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}', re.ASCII)


class RenderFormat(enum.StrEnum):
    """What the files are for."""

    FILES = 'files'
    ANSIBLE = 'ansible'
    KOLLA = 'kolla'
    OPENSTACK_ANSIBLE = 'openstack-ansible'


class Confinement(enum.StrEnum):
    """How host services are kept on the CPUs for the host."""

    TUNED = 'tuned'  # its profile cpu-partitioning
    AFFINITY = 'affinity'  # systemd starts them with CPUAffinity=
    CGROUP = 'cgroup'  # AllowedCPUs= of the slices that they are in
    BOTH = 'both'


class Isolation(enum.StrEnum):
    """How far the kernel itself keeps off the CPUs of dedicated guests."""

    NONE = 'none'
    TICKLESS = 'tickless'  # no timer tick while one thread runs
    PARTITION = 'partition'  # a control group that can be changed any time
    FULL = 'full'  # out of the scheduler's load balancing as well


class DeviceType(enum.StrEnum):
    """The kinds of PCI devices that aliases may name.

    See nova.pci.request.
    """

    PCI = devices.STANDARD
    PF = devices.PHYSICAL  # whole, but could be split into virtual functions
    VF = devices.VIRTUAL


@dataclasses.dataclass(frozen=True, slots=True)
class RenderOptions:
    """What a plan does not say of the files.

    :param services: further systemd units of the host
    :param confinement: None for tuned, or on hosts without CPUs that are to
        be quiet, of which its profile would make nothing, affinity
    :param irqbalance: whether that places interrupts, instead of the unit
    :param device_types: by PCI alias; what the plan tells for those not named
    :param hosts: names in an Ansible inventory; () for variables of a group
    """

    format: RenderFormat = RenderFormat.FILES
    services: tuple[str, ...] = ()
    confinement: Confinement | None = None
    irqbalance: bool = False
    isolation: Isolation = Isolation.NONE
    device_types: Mapping[str, DeviceType] = dataclasses.field(
        default_factory=dict)
    hosts: tuple[str, ...] = ()


def service_unit(name: str) -> str:
    """A systemd service from what people call it.

    :raises errors.InputError: if no unit can have that name
    """
    unit = name if name.endswith('.service') else f'{name}.service'
    if not _UNIT.fullmatch(unit) or unit.startswith('.'):
        raise errors.InputError(
            f'{name!r} is not a name of a systemd service',
            errors.Location('--service'), 'write it like nova-compute')
    return unit


def device_types(items: Iterable[tuple[str, str]]) -> dict[str, DeviceType]:
    """Types by PCI alias.

    :raises errors.InputError: for a type that nova does not know
    """
    types = {}
    for alias, text in items:
        try:
            types[alias] = DeviceType(text)
        except ValueError:
            raise errors.InputError(
                f'{text!r} is not a type of PCI device',
                errors.Location('--device-type'),
                f'nova knows {", ".join(DeviceType)}') from None
    return types


def inventory_host(name: str) -> str:
    """A host's name in an inventory, which becomes one of a file.

    :raises errors.InputError: if it is none
    """
    if not _HOST.fullmatch(name):
        raise errors.InputError(f"{name!r} is no host's name",
                                errors.Location('--host'))
    return name
