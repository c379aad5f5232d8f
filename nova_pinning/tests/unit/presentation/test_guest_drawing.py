# SPDX-License-Identifier: Apache-2.0


import textwrap

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.host import guest_affinity
from nova_pinning.host import host_loader
from nova_pinning import presentation
from nova_pinning.presentation import guest_drawing
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit.host import test_host_loader
from nova_pinning.tests.unit import unit_base


def text(lines):
    return '\n'.join(map(presentation.plain, lines)) + '\n'


def cpus(cpu_list):
    return cpuset.CpuSet.parse(cpu_list)


class TestDraw(oslotest.BaseTestCase):

    def test_pinned_guest(self):
        host = host_samples.host(nova=host_samples.settings('1-3,5-7'))
        placement = guest_affinity.GuestAffinity(
            vcpu_cpus={10: cpus('2'), 11: cpus('6')},
            emulator_cpus=cpus('2,6'), memory_nodes={0: 1},
            name='dedicated')
        lines = guest_drawing.draw(host, cpus('1,5'), placement)
        self.assertEqual(textwrap.dedent("""\
            dedicated on small: 2 sockets, 2 NUMA nodes, 4 cores, 8 CPUs
              vCPUs 10-11 pinned to CPUs 2,6
              emulator threads on the same CPUs
            node 0 (socket 0, 8 GiB)
              CPUs 0-1  #  x
              CPUs 4-5  #  x
            node 1 (socket 1, 8 GiB)  guest cell 0: vCPUs 10-11
              CPUs 2-3 10  .
              CPUs 6-7 11  .
              10 vCPU of this guest, by number, pinned
               x taken by another guest: CPUs 1,5
               . free: CPUs 3,7
               # kept for the host: CPUs 0,4
            """), text(lines))
        marks = {span.text: span.mark for line in lines for span in line}
        self.assertEqual(
            ('guest:0', 'guest:0', 'taken', 'free', 'kept'),
            tuple(marks[symbol] for symbol in ('10', '11', ' x', ' .', ' #')))
        for mark in marks.values():
            self.assertTrue(guest_drawing.style(mark) or not mark, mark)

    def test_caches(self):
        host = host_loader.load(
            test_host_loader.EXAMPLES / 'epyc-256-nps4.yaml')
        lines = text(guest_drawing.draw(host, width=80)).splitlines()
        self.assertEqual(
            '  CPUs 0-15    # # : : . . . . | . . . . . . . .', lines[2])
        self.assertEqual(
            '  | between cores that do not share an L3 cache', lines[-1])

    def test_long_names_and_lists(self):
        host = host_samples.host(name='n' * 50)
        placement = guest_affinity.GuestAffinity(
            vcpu_cpus={0: cpus('1')}, name='a\x1b[31m' + 'b' * 100)
        lines = text(guest_drawing.draw(host, width=40)).splitlines()
        self.assertEqual(40, max(map(len, lines)))
        shown = text(guest_drawing.draw(host, cpus(''), placement, 60))
        self.assertNotIn('\x1b', shown)

    @unit_base.settings(max_examples=150)
    @hypothesis.given(strategies.data(), strategies.integers(40, 160))
    def test_any_guest_on_any_host(self, data, width):
        host = data.draw(host_samples.any_host())
        used, placement = data.draw(host_samples.any_placement(host))
        lines = guest_drawing.draw(host, used, placement, width)
        for line in lines:
            self.assertLessEqual(len(presentation.plain(line)), width)
        pinned = [span.text for line in lines for span in line
                  if span.mark.startswith('guest:')]
        # The legend shows one of them once more.
        numbers = sorted(map(int, pinned))
        if numbers:
            numbers.remove(int(pinned[-1]))
        self.assertEqual(
            [vcpu for vcpu, where in placement.vcpu_cpus.items()
             if len(where) == 1 and
             not where.issubset(shared_only(host))], numbers)

    def test_examples(self):
        for path in test_host_loader.EXAMPLES.iterdir():
            for width in (80, 120):
                lines = guest_drawing.draw(host_loader.load(path), width=width)
                drawn = sum(1 for line in lines for span in line
                            if span.mark in ('free', 'kept', 'shared'))
                # Each kind is in the legend as well.
                self.assertLessEqual(
                    max(len(presentation.plain(line)) for line in lines),
                    width)
                self.assertIn(
                    drawn - len(host_loader.load(path).cpus), (1, 2, 3), path)


def shared_only(host):
    if host.nova.shared_cpus is None:
        return cpuset.CpuSet()
    return host.nova.shared_cpus
