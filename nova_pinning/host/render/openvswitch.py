# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch with DPDK, where a plan has CPUs for its polling threads."""

from collections.abc import Iterator
from collections.abc import Mapping

from nova_pinning.host.render import manifest
from nova_pinning.host.render import planned_host

SCRIPT = 'usr/local/sbin/nova-pinning-openvswitch'


def settings(layout: planned_host.PlannedHost) -> Mapping[str, str]:
    """Keys of other_config in the table Open_vSwitch.

    :returns: {} if the plan has no CPUs that poll
    """
    if not layout.poll_cpus:
        return {}
    other_config = {
        'dpdk-init': 'true',
        'dpdk-lcore-mask': planned_host.hexadecimal(layout.host_cpus),
        'pmd-cpu-mask': planned_host.hexadecimal(layout.poll_cpus)}
    memory = _socket_memory(layout)
    if memory:
        other_config['dpdk-socket-mem'] = memory
    return other_config


def _socket_memory(layout: planned_host.PlannedHost) -> str:
    """MiB for DPDK by node, in the order of all ids from 0 on."""
    plan = layout.plan
    mib = {node: pages * plan.page_size_kib // 1024
           for node, pages in plan.poll_pages.items() if pages}
    if not any(mib.values()):
        return ''
    last = max(node.id for node in layout.host.nodes)
    return ','.join(str(mib.get(node, 0)) for node in range(last + 1))


def files(layout: planned_host.PlannedHost) -> Iterator[manifest.RenderedFile]:
    """A script that hands the settings to ovs-vsctl."""
    other_config = settings(layout)
    if not other_config:
        return
    why = [
        f'Threads that poll run on CPUs {layout.poll_cpus}, all others of '
        f'DPDK on the CPUs for the host, {layout.host_cpus}.',
        "Guests' interfaces are vhost-user ports then. Their memory has to "
        'be shared with Open vSwitch, and that is memory in huge pages: '
        'flavors need hw:mem_page_size=large or a size. No kernel threads '
        '(vhost) carry their packets.']
    if 'dpdk-socket-mem' not in other_config:
        why.append('The plan has no huge pages for DPDK, so its memory is '
                   "left to dpdk-socket-mem's default.")
    pairs = ' \\\n'.join(f"    other_config:{key}='{value}'"
                         for key, value in sorted(other_config.items()))
    yield manifest.explained(layout.name, manifest.RenderedFile(
        SCRIPT, f'exec ovs-vsctl --no-wait set Open_vSwitch . \\\n{pairs}\n',
        'the CPUs and the memory of Open vSwitch with DPDK',
        'when it is run once; Open vSwitch keeps it, and has to be restarted '
        'for all but pmd-cpu-mask', executable=True,
        after_boot='Run nova-pinning-openvswitch once, and restart Open '
        'vSwitch.'), *why)
