#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""A fleet's host as drawings take it, with a guest on it."""

from nova_pinning import cpuset
from nova_pinning import drawing
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning.host import model as host_model
from nova_pinning import model


def description(host: fleet_model.FleetHost) -> host_model.HostDescription:
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
          host: fleet_model.FleetHost) -> host_model.Node:
    listed = cpuset.CpuSet(cpu for core in cell.cores for cpu in core)
    others = (cell.dedicated_cpus | cell.shared_cpus) - listed
    cores = [tuple(sorted(core)) for core in cell.cores if core]
    cores += [(cpu,) for cpu in others]
    cpus = listed | others
    return host_model.Node(
        id=cell.id, socket=cell.id if cell.socket is None else cell.socket,
        cores=tuple(sorted(cores)), memory_mib=cell.memory_mib,
        l3_domains=tuple(
            domain for domain in host.l3_domains if domain & cpus))


def placement(
    wanted: fleet_wanted.Wanted, outcome: model.Fit | model.Refusal,
) -> drawing.Placement:
    """Where a guest is, or that it is not there."""
    if isinstance(outcome, model.Refusal):
        return drawing.Placement(
            vcpu_cpus={}, name=wanted.name, refusal=str(outcome))
    return drawing.Placement(
        vcpu_cpus={vcpu: cpuset.CpuSet((cpu,)) for cell in outcome.cells
                   for vcpu, cpu in cell.pins},
        emulator_cpus=cpuset.CpuSet(
            cpu for cell in outcome.cells for cpu in cell.emulator_cpus),
        memory_nodes={number: cell.host_cell for number, cell
                      in enumerate(outcome.cells)},
        name=wanted.name)
