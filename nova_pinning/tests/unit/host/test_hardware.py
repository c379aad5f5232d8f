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

"""Tests of nova_pinning.host.hardware."""

import ddt

from nova_pinning.host import hardware
from nova_pinning.tests.unit import base


@ddt.ddt
class TestSystem(base.TestCase):

    @ddt.data(
        ('Not affected', False),
        ('Mitigation: PTI', False),
        ('Mitigation: Enhanced IBRS; BHI: Vulnerable', False),
        ('KVM: Mitigation: Split huge pages', False),
        ('KVM: Mitigation: VMX disabled', False),
        ('Unknown: No mitigations', False),
        ('Vulnerable', True),
        ('Vulnerable: No microcode', True),
        ('KVM: Vulnerable', True),
        ('Processor vulnerable', True))
    @ddt.unpack
    def test_vulnerable_to(self, state, is_vulnerable):
        system = hardware.System(mitigations={'mds': state})
        self.assertEqual(('mds',) if is_vulnerable else (),
                         system.vulnerable_to)
