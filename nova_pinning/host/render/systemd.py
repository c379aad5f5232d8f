# SPDX-License-Identifier: Apache-2.0
"""Host services on the CPUs for the host: what systemd is told."""

from collections.abc import Iterator

from nova_pinning import cpuset
from nova_pinning.host.render import manifest
from nova_pinning.host.render import options
from nova_pinning.host.render import planned_host

MANAGER_PATH = f'etc/systemd/system.conf.d/{manifest.NAME}.conf'

_UNITS = 'etc/systemd/system'

#: What runs beside guests, under the names that distributions give it. A
#: drop-in of a unit that is not there does nothing.
SERVICES = (
    'libvirtd.service', 'virtqemud.service',
    'nova-compute.service', 'openstack-nova-compute.service',
    'neutron-l3-agent.service', 'neutron-openvswitch-agent.service',
    'openvswitch-switch.service', 'ovs-vswitchd.service',
    'ovsdb-server.service',
)

# What these start inherits the policy: guests have one of their own, which is
# for the memory that libvirt knows of only.
_PARENTS_OF_GUESTS = frozenset({'libvirtd.service', 'virtqemud.service'})
# DPDK says itself on which node it wants its memory.
_POLLING = frozenset({'ovs-vswitchd.service', 'openvswitch-switch.service'})

#: All that is not a guest, by the name of the unit.
SLICES = ('init.scope', 'system.slice', 'user.slice')

_BY_AFFINITY = options.Confinement.AFFINITY, options.Confinement.BOTH
_BY_CGROUPS = options.Confinement.CGROUP, options.Confinement.BOTH

_RELOAD = 'after systemctl daemon-reload and a restart of the service'


def files(layout: planned_host.PlannedHost,
          chosen: options.RenderOptions) -> Iterator[manifest.RenderedFile]:
    """What keeps host services off the CPUs of guests.

    :raises errors.InputError: for a service that cannot be one
    """
    if chosen.confinement in _BY_AFFINITY:
        yield _manager(layout)
    for unit in services(chosen):
        yield _drop_in(layout, unit)
    if chosen.confinement in _BY_CGROUPS:
        for unit in SLICES:
            yield _slice(layout, unit)


def services(chosen: options.RenderOptions) -> tuple[str, ...]:
    """The units that get a drop-in."""
    return tuple(dict.fromkeys((
        *(SERVICES if chosen.confinement in _BY_AFFINITY else ()),
        *map(options.service_unit, chosen.services))))


def allowed_cpus(layout: planned_host.PlannedHost, unit: str) -> cpuset.CpuSet:
    """The CPUs for all that is in a slice."""
    # A cgroup binds OVS's polling threads too, which systemd keeps in
    # system.slice.
    if unit == 'system.slice':
        return layout.host_cpus | layout.poll_cpus
    return layout.host_cpus


def policy_node(layout: planned_host.PlannedHost, unit: str) -> int | None:
    """The node whose memory a service is to prefer, None for no policy."""
    if unit in _PARENTS_OF_GUESTS or (layout.poll_cpus and unit in _POLLING):
        return None
    nodes = [node.id for node in layout.host.nodes
             if node.memory_mib and not node.cpus.isdisjoint(layout.host_cpus)]
    return nodes[0] if len(nodes) == 1 < len(layout.host.nodes) else None


def _manager(layout: planned_host.PlannedHost) -> manifest.RenderedFile:
    return manifest.explained(
        layout.name, manifest.RenderedFile(
            MANAGER_PATH, '[Manager]\nCPUAffinity=\n'
            f'CPUAffinity={layout.host_cpus}\n',
            'the CPUs of all that systemd starts',
            'after a reboot; after systemctl daemon-reexec for what is '
            'started from then on'),
        'Guests do not inherit this: libvirt gives every QEMU an affinity of '
        'its own once it has put it into machine.slice, be it what the domain '
        'says or all CPUs that are online. Containers do inherit it.',
        'A service can still ask for other CPUs, as the polling threads of '
        'OVS-DPDK do. AllowedCPUs= of system.slice (--confine cgroup) leaves '
        'no such way out.')


def _drop_in(layout: planned_host.PlannedHost,
             unit: str) -> manifest.RenderedFile:
    lines = ['[Service]', '# The empty line drops what the unit itself says.',
             'CPUAffinity=', f'CPUAffinity={layout.host_cpus}']
    why = []
    node = policy_node(layout, unit)
    if node is not None:
        lines += ['NUMAPolicy=preferred', f'NUMAMask={node}']
        why.append(f'All of these CPUs are on node {node}, and so the memory '
                   'is to be, as long as there is any.')
    elif unit in _PARENTS_OF_GUESTS:
        why.append(
            'Guests do not inherit the CPUs: libvirt gives every QEMU an '
            'affinity of its own. They would inherit a NUMA policy, so '
            'there is none.')
    elif layout.poll_cpus and unit in _POLLING:
        why.append('Polling threads go to the CPUs of pmd-cpu-mask '
                   'nevertheless: OVS moves them there itself. DPDK chooses '
                   'the nodes of its memory, so there is no NUMA policy.')
    return manifest.explained(layout.name, manifest.RenderedFile(
        f'{_UNITS}/{unit}.d/{manifest.NAME}.conf', '\n'.join(lines) + '\n',
        f'the CPUs of {unit.removesuffix(".service")}', _RELOAD,
        part=manifest.ManifestPart.SERVICE if unit in SERVICES
        else manifest.ManifestPart.HOST), *why)


def _slice(layout: planned_host.PlannedHost,
           unit: str) -> manifest.RenderedFile:
    cpus = allowed_cpus(layout, unit)
    why = ['It takes the unified cgroup hierarchy (v2); under v1 systemd '
           'leaves it out. Guests are not in here: libvirt has '
           'systemd-machined put them into machine.slice, for which nothing '
           'is set, so that it keeps all CPUs. Where guests run elsewhere, '
           'as in a container without the cgroups of the host, do not '
           'install this.']
    if cpus != layout.host_cpus:
        why.append(f'CPUs {layout.poll_cpus} are for polling threads of '
                   'OVS-DPDK; CPUAffinity= (--confine both) keeps the other '
                   'services off them.')
    kind = 'Scope' if unit.endswith('.scope') else 'Slice'
    return manifest.explained(layout.name, manifest.RenderedFile(
        f'{_UNITS}/{unit}.d/{manifest.NAME}.conf',
        f'[{kind}]\nAllowedCPUs=\nAllowedCPUs={cpus}\n',
        f'the CPUs of all that is in {unit}',
        'at once after systemctl daemon-reload'), *why)
