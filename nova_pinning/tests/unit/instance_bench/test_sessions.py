# SPDX-License-Identifier: Apache-2.0

import dataclasses

import ddt

from nova_pinning.instance_bench import sessions
from nova_pinning.tests.unit.instance_bench import bench_fakes
from nova_pinning.tests.unit import unit_base

_BEFORE = dataclasses.replace(
    bench_fakes.CONDITIONS, layout={'shared': bench_fakes.cpus('0-1')},
    mitigations={'meltdown': 'PTI'}, versions={'runc': '1.8', 'python': '3'})


@ddt.ddt
class ChangesTest(unit_base.TestCase):

    def changes(self, *before, **now):
        return sessions.changes(before or (_BEFORE,),
                                dataclasses.replace(_BEFORE, **now))

    @ddt.data(
        ({'kernel': '6.9'}, 'kernel: 6.1, now 6.9'),
        ({'cpu_model': 'Fake 2'}, 'CPU model: Fake 1, now Fake 2'),
        ({'topology': '2 sockets'}, 'topology: 1 socket, now 2 sockets'),
        ({'governor': 'powersave'}, 'governor: none, now powersave'),
        ({'smt': 'on'}, 'SMT: off, now on'),
        ({'layout': {}}, 'shared CPUs: 0-1, now none'),
        ({'mitigations': {'meltdown': 'off'}},
         'mitigation of meltdown: PTI, now off'),
        ({'versions': {'runc': '1.9', 'python': '3'}}, 'runc: 1.8, now 1.9'))
    @ddt.unpack
    def test_what_counts(self, now, said):
        self.assertEqual((said,), self.changes(**now))

    @ddt.data({}, {'load': 9.0}, {'memory_mib': 1}, {'findings': ('odd',)},
              # Of platforms that only one of the sessions used.
              {'versions': {'python': '3', 'qemu': '7.2'}})
    def test_what_does_not(self, now):
        self.assertEqual((), self.changes(**now))

    def test_first_session(self):
        self.assertEqual((), sessions.changes((), _BEFORE))

    def test_versions_of_all_earlier_sessions_count(self):
        first = dataclasses.replace(_BEFORE, versions={'qemu': '7.2'})
        self.assertEqual(('qemu: 7.2, now 8.0',), self.changes(
            first, _BEFORE, versions={'qemu': '8.0'}))
