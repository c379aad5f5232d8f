# SPDX-License-Identifier: Apache-2.0
"""What is to be rendered, and what comes out."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import enum
import re
import textwrap

from nova_pinning import errors

#: What begins the names of files that lie beside those of others.
NAME = '50-nova-pinning'

_WIDTH = 77
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

    PCI = 'type-PCI'
    PF = 'type-PF'  # whole, but could be split into virtual functions
    VF = 'type-VF'


@dataclasses.dataclass(frozen=True, slots=True)
class RenderOptions:
    """What a plan does not say of the files.

    :param services: further systemd units of the host
    :param device_types: by PCI alias; what the plan tells for those not named
    :param hosts: names in an Ansible inventory; () for variables of a group
    """

    format: RenderFormat = RenderFormat.FILES
    services: tuple[str, ...] = ()
    confinement: Confinement = Confinement.AFFINITY
    isolation: Isolation = Isolation.NONE
    device_types: Mapping[str, DeviceType] = dataclasses.field(
        default_factory=dict)
    hosts: tuple[str, ...] = ()

    @property
    def with_affinity(self) -> bool:
        return self.confinement is not Confinement.CGROUP

    @property
    def with_cgroups(self) -> bool:
        return self.confinement is not Confinement.AFFINITY


@dataclasses.dataclass(frozen=True, slots=True)
class RenderedFile:
    """A file that was rendered.

    :param path: relative to the root of the host, or to what the format has
        in its place
    :param summary: what it is, a phrase
    :param takes_effect: how it comes into force on a running host
    """

    path: str
    text: str
    summary: str
    takes_effect: str
    executable: bool = False


def comment(*paragraphs: str) -> str:
    """Paragraphs as lines that begin with '#'."""
    return '#\n'.join(
        ''.join(f'# {line}\n' for line in textwrap.wrap(
            ' '.join(paragraph.split()), _WIDTH, break_long_words=False,
            break_on_hyphens=False))
        for paragraph in paragraphs)


def head(host: str, summary: str, takes_effect: str, *more: str) -> str:
    """The comment at the top of a file."""
    return comment(
        f'{summary[0].upper()}{summary[1:]}, of host {host}.',
        f'Written by: nova-pinning host render. Takes effect: {takes_effect}.',
        *more)


def script_with_unit(
    script: RenderedFile, unit: str, comments: str, conditions: str,
    wanted_by: str = 'multi-user.target',
) -> Iterator[RenderedFile]:
    """A script, and the unit that runs it when the host boots.

    :param comments: the top of the unit
    :param conditions: lines of its first section: Description=, After=
    """
    yield script
    yield dataclasses.replace(
        script, path=f'etc/systemd/system/{unit}', executable=False,
        text=f"""\
{comments}[Unit]
{conditions}
RequiresMountsFor=/{script.path}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/{script.path}

[Install]
WantedBy={wanted_by}
""")


def with_stop(file: RenderedFile, command: str) -> RenderedFile:
    """A unit that runs a command when it is stopped; a script as it is."""
    return file if file.executable else dataclasses.replace(
        file, text=file.text.replace(
            '\n\n[Install]', f'\nExecStop={command}\n\n[Install]'))


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
