# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch with DPDK, where a plan has CPUs for its polling threads."""

from collections.abc import Iterator

from nova_pinning.host.render import manifest
from nova_pinning.host.render import planned_host

SCRIPT = 'usr/local/sbin/nova-pinning-openvswitch'


def files(layout: planned_host.PlannedHost) -> Iterator[manifest.RenderedFile]:
    """A script that hands ovs-vsctl keys of other_config of Open_vSwitch."""
    if not layout.poll_cpus:
        return
    other_config = {
        'dpdk-init': 'true',
        'dpdk-lcore-mask': hex(layout.host_cpus.mask),
        'pmd-cpu-mask': hex(layout.poll_cpus.mask)}
    pages = layout.plan.poll_pages
    if any(pages.values()):
        # MiB by node, in the order of all ids from 0 on.
        last = max(node.id for node in layout.host.nodes)
        other_config['dpdk-socket-mem'] = ','.join(
            str(pages.get(node, 0) * layout.plan.page_size_kib // 1024)
            for node in range(last + 1))
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
