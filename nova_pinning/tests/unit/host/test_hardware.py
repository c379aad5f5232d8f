# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_pinning.host.hardware."""

import ddt

from nova_pinning.host import hardware
from nova_pinning.tests.unit import unit_base


@ddt.ddt
class TestSystem(unit_base.TestCase):

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

    @ddt.data(
        ('Mitigation: Clear CPU buffers; SMT vulnerable', True),
        ('Mitigation: PTE Inversion; VMX: conditional cache flushes, SMT '
         'vulnerable', True),
        ('Mitigation: untrained return thunk; SMT vulnerable', True),
        ('Mitigation: Clear CPU buffers; SMT mitigated', False),
        ('Mitigation: Clear CPU buffers; SMT disabled', False),
        # That it is vulnerable at all is said already.
        ('Vulnerable: Clear CPU buffers attempted, no microcode; SMT '
         'vulnerable', False),
        ('Not affected', False))
    @ddt.unpack
    def test_vulnerable_by_smt(self, state, is_vulnerable):
        system = hardware.System(mitigations={'mds': state})
        self.assertEqual(('mds',) if is_vulnerable else (),
                         system.vulnerable_by_smt)
