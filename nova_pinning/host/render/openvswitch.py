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

"""Open vSwitch with DPDK, where a plan has CPUs for its polling threads."""

from collections.abc import Iterator
from collections.abc import Mapping

from nova_pinning.host.render import layout as layouts
from nova_pinning.host.render import options

SCRIPT = 'usr/local/sbin/nova-pinning-openvswitch'


def settings(layout: layouts.Layout) -> Mapping[str, str]:
    """Keys of other_config in the table Open_vSwitch.

    :returns: {} if the plan has no CPUs that poll
    """
    if not layout.poll_cpus:
        return {}
    found = {
        'dpdk-init': 'true',
        'dpdk-lcore-mask': layouts.hexadecimal(layout.host_cpus),
        'pmd-cpu-mask': layouts.hexadecimal(layout.poll_cpus),
    }
    memory = _socket_memory(layout)
    if memory:
        found['dpdk-socket-mem'] = memory
    return found


def _socket_memory(layout: layouts.Layout) -> str:
    """MiB for DPDK by node, in the order of all ids from 0 on."""
    plan = layout.plan
    mib = {node: pages * plan.page_size_kib // 1024
           for node, pages in plan.poll_pages.items() if pages}
    if not any(mib.values()):
        return ''
    last = max(node.id for node in layout.host.nodes)
    return ','.join(str(mib.get(node, 0)) for node in range(last + 1))


def files(layout: layouts.Layout) -> Iterator[options.File]:
    """A script that hands the settings to ovs-vsctl."""
    found = settings(layout)
    if not found:
        return
    summary = 'the CPUs and the memory of Open vSwitch with DPDK'
    takes_effect = ('when it is run once; Open vSwitch keeps it, and has to '
                    'be restarted for all but pmd-cpu-mask')
    why = [
        f'Threads that poll run on CPUs {layout.poll_cpus}, all others of '
        f'DPDK on the CPUs for the host, {layout.host_cpus}.',
        "Guests' interfaces are vhost-user ports then. Their memory has to "
        'be shared with Open vSwitch, and that is memory in huge pages: '
        'flavors need hw:mem_page_size=large or a size. No kernel threads '
        '(vhost) carry their packets.']
    if 'dpdk-socket-mem' not in found:
        why.append('The plan has no huge pages for DPDK, so its memory is '
                   "left to dpdk-socket-mem's default.")
    pairs = ' \\\n'.join(f"    other_config:{key}='{value}'"
                         for key, value in sorted(found.items()))
    yield options.File(
        SCRIPT, '#!/bin/sh\n' + options.head(
            layout.name, summary, takes_effect, *why)
        + f'exec ovs-vsctl --no-wait set Open_vSwitch . \\\n{pairs}\n',
        summary, takes_effect, executable=True)
