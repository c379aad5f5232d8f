# SPDX-License-Identifier: Apache-2.0
"""A fleet's host as drawings take it, with a guest on it."""

from nova_pinning.admission import guest_request
from nova_pinning.admission import offered_host
from nova_pinning import cpuset
from nova_pinning.host import guest_affinity
from nova_pinning.host import host_model
from nova_pinning import model


def fleet_host_description(
        host: offered_host.OfferedHost) -> host_model.HostDescription:
    """A host as far as a snapshot tells.

    A cell of which the socket is not known counts as one of its own.
    """
    return host_model.HostDescription(
        name=host.name,
        nodes=tuple(_node(cell, host) for cell in sorted(
            host.cells, key=lambda cell: cell.id)),
        nova=host_model.NovaSettings(
            dedicated_cpus=host.dedicated_cpus or None,
            shared_cpus=host.shared_cpus or None))


def _node(cell: model.HostCell,
          host: offered_host.OfferedHost) -> host_model.NumaNode:
    listed = cpuset.CpuSet(cpu for core in cell.cores for cpu in core)
    others = (cell.dedicated_cpus | cell.shared_cpus) - listed
    cores = [tuple(sorted(core)) for core in cell.cores if core]
    cores += [(cpu,) for cpu in others]
    cpus = listed | others
    return host_model.NumaNode(
        id=cell.id, socket=cell.id if cell.socket is None else cell.socket,
        cores=tuple(sorted(cores)), memory_mib=cell.memory_mib,
        l3_domains=tuple(
            domain for domain in host.l3_domains if domain & cpus))


def guest_placement(
    request: guest_request.GuestRequest, outcome: model.Fit | model.Refusal,
) -> guest_affinity.GuestAffinity:
    """Where a guest is, or that it is not there."""
    if isinstance(outcome, model.Refusal):
        return guest_affinity.GuestAffinity(
            vcpu_cpus={}, name=request.name, refusal=str(outcome))
    return guest_affinity.GuestAffinity(
        vcpu_cpus={vcpu: cpuset.CpuSet((cpu,)) for cell in outcome.cells
                   for vcpu, cpu in cell.pins},
        emulator_cpus=cpuset.CpuSet(
            cpu for cell in outcome.cells for cpu in cell.emulator_cpus),
        memory_nodes={number: cell.host_cell for number, cell
                      in enumerate(outcome.cells)},
        name=request.name)
