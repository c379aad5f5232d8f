# SPDX-License-Identifier: Apache-2.0
"""Topologies of which nova's walk reads plain attributes.

Nova walks permutations several times as fast with them: the getters of
oslo.versionedobjects are most of what that takes.
"""

from __future__ import annotations

import typing as ty

from nova import objects
from nova.objects import instance_numa
from nova.objects import numa


class _HostCell(numa.NUMACell):

    id: ty.Any = None

    @classmethod
    def obj_name(cls) -> str:
        return 'NUMACell'


class _GuestCell(instance_numa.InstanceNUMACell):

    id: ty.Any = None

    @classmethod
    def obj_name(cls) -> str:
        return 'InstanceNUMACell'


class _Guest(instance_numa.InstanceNUMATopology):

    cells: ty.Any = None


def plain_host(topology: objects.NUMATopology) -> objects.NUMATopology:
    """A host with the same values in plain cells; nova only reads it."""
    made = _shared(type(topology), topology)
    made._obj_cells = _cells(_HostCell, topology)
    return made


def plain_guest(
    topology: objects.InstanceNUMATopology,
) -> objects.InstanceNUMATopology:
    """A guest with the same values in plain cells, for nova to change."""
    made = _shared(_Guest, topology)
    made.cells = _cells(_GuestCell, topology)
    return made


def _cells(kind: type[ty.Any], topology: ty.Any) -> list[ty.Any]:
    made = []
    for cell in topology.cells:
        made.append(_shared(kind, cell))
        made[-1].id = cell.id
    return made


def _shared(kind: type[ty.Any], nova_object: ty.Any) -> ty.Any:
    """An object with the values of another."""
    made = object.__new__(kind)
    made.__dict__.update(nova_object.__dict__)
    made._changed_fields = set()
    return made
