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

"""A small outcome of the demo."""

from nova_pinning import cpuset
from nova_pinning.demo import outcome

_PINNED = """
<domain>
  <vcpu>2</vcpu>
  <cputune>
    <emulatorpin cpuset="1,5"/>
    <vcpupin vcpu="0" cpuset="1"/>
    <vcpupin vcpu="1" cpuset="5"/>
  </cputune>
  <numatune><memnode cellid="0" mode="strict" nodeset="0"/></numatune>
</domain>
"""
_FLOATING = '<domain><vcpu cpuset="0-7">2</vcpu></domain>'

_CELL = outcome.Cell(0, 0, 8192, ((0, 4), (1, 5), (2, 6), (3, 7)))


def small_outcome(held=True):
    """One guest of either kind, one refused."""
    return outcome.Outcome(
        hosts=(
            outcome.Host(
                'host-d', 'dedicated', (_CELL,), cpuset.CpuSet.parse(
                    '1-3,5-7'), cpuset.CpuSet(), 1.0),
            outcome.Host(
                'host-s', 'shared', (_CELL,), cpuset.CpuSet(),
                cpuset.CpuSet.parse('0-7'), 3.0)),
        guests=(
            outcome.Guest('pinned', 'dedicated', 'host-d', _PINNED),
            outcome.Guest('floating', 'shared', 'host-s', _FLOATING)),
        refused=(
            outcome.Refused('late', '8 CPUs', 'No valid host was found.', (
                outcome.Why('Placement', '4 left, 8 needed'),)),),
        checks=(outcome.Check('guests run', True),
                outcome.Check('one is refused', held)))
