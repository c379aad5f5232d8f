# SPDX-License-Identifier: Apache-2.0
"""What is to be rendered."""

import dataclasses
import enum


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


class Isolation(enum.StrEnum):
    """How far the kernel itself keeps off the CPUs of dedicated guests."""

    NONE = 'none'
    TICKLESS = 'tickless'  # no timer tick while one thread runs
    PARTITION = 'partition'  # a control group that can be changed any time
    FULL = 'full'  # out of the scheduler's load balancing as well


@dataclasses.dataclass(frozen=True, slots=True)
class RenderOptions:
    """What a plan does not say of the files.

    :param services: systemd units that are told their CPUs by name
    :param confinement: None for tuned, or on hosts without CPUs that are to
        be quiet, of which its profile would make nothing, affinity
    :param hosts: names in an Ansible inventory
    :param group: a name in it, if there are no hosts
    """

    format: RenderFormat = RenderFormat.FILES
    services: tuple[str, ...] = ()
    confinement: Confinement | None = None
    isolation: Isolation = Isolation.NONE
    hosts: tuple[str, ...] = ()
    group: str = ''
