# SPDX-License-Identifier: Apache-2.0
"""A small outcome of the demo."""

from demo import outcome
from nova_pinning import cpuset
from nova_pinning.host import host_model

_PINNED = """
<domain>
  <vcpu>2</vcpu>
  <cputune>
    <emulatorpin cpuset="1,5"/>
    <vcpupin vcpu="0" cpuset="1"/>
    <vcpupin vcpu="1" cpuset="5"/>
  </cputune>
  <numatune><memnode cellid="0" mode="strict" nodeset="0"/></numatune>
  <cpu><numa><cell id="0" cpus="0-1" memory="1048576"/></numa></cpu>
</domain>
"""
_FLOATING = '<domain><vcpu cpuset="0-7">2</vcpu></domain>'

_NODE = host_model.NumaNode(0, 0, ((0, 4), (1, 5), (2, 6), (3, 7)), 8192)


def _host(name, **nova):
    return host_model.HostDescription(
        name, (_NODE,), nova=host_model.NovaSettings(**nova))


def small_outcome(held=True):
    """One guest of either kind, one refused."""
    return outcome.Outcome(
        hosts=(
            _host('host-d', dedicated_cpus=cpuset.CpuSet.parse('1-3,5-7')),
            _host('host-s', shared_cpus=cpuset.CpuSet.parse('0-7'),
                  cpu_allocation_ratio=3.0)),
        guests=(
            outcome.Guest('pinned', 'dedicated', 'host-d', _PINNED),
            outcome.Guest('floating', 'shared', 'host-s', _FLOATING)),
        refused=(
            outcome.Refused('late', '8 CPUs', 'No valid host was found.', {
                'Placement': '4 left, 8 needed'}),),
        checks={'guests run': True, 'one is refused': held})
